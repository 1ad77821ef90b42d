"""The phases of an attempt. Observers may wrap them when a profile is built, to time or trace them."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar

from moorage.scheduler.engine.extension_points import (
    BIND,
    FILTER,
    PERMIT,
    POST_BIND,
    POST_FILTER,
    PRE_BIND,
    PRE_BIND_PRE_FLIGHT,
    PRE_FILTER,
    PRE_SCORE,
    RESERVE,
    SCORE,
    UNRESERVE,
    Point,
)
from moorage.scheduler.engine.group_points import (
    PLACEMENT_FEASIBLE,
    PLACEMENT_GENERATE,
    PLACEMENT_SCORE,
    POD_GROUP_POST_FILTER,
)
from moorage.scheduler.framework.status import Code, Status

F = TypeVar("F", bound=Callable[..., Any])


class Phase(NamedTuple):
    """One phase: its extension point, and how to read its result.

    ``read_code`` reads the code from a result other than ``None``; a phase without it succeeds unless it raises.
    """

    point: Point
    of_binding: bool = False
    is_async: bool = False
    read_code: Callable[[Any], Code] | None = None


class PhaseHooks:
    """Hooks into the phases of a profile. The base has none, and costs nothing."""

    on_totals: Callable[..., None] | None = None
    """Called with the totals of every choice. See ``TotalsObserver.totalled``."""

    def wrap(self, run: F, phase: Phase) -> F:
        """Wrap the function that runs a phase. The wrapper must return the same result."""
        return run


NO_HOOKS: Final = PhaseHooks()


def _read_status(result: object) -> Code:
    return result.code if isinstance(result, Status) else Code.SUCCESS


_read_code: Final = attrgetter("code")

PRE_FILTER_PHASE: Final = Phase(PRE_FILTER, read_code=lambda pre: pre.rejection.code if pre.rejection else Code.SUCCESS)
FILTER_PHASE: Final = Phase(FILTER)
POST_FILTER_PHASE: Final = Phase(POST_FILTER, is_async=True, read_code=_read_code)
PRE_SCORE_PHASE: Final = Phase(PRE_SCORE)
SCORE_PHASE: Final = Phase(SCORE)
RESERVE_PHASE: Final = Phase(RESERVE, read_code=_read_code)
UNRESERVE_PHASE: Final = Phase(UNRESERVE)
PERMIT_PHASE: Final = Phase(PERMIT, read_code=lambda result: result.code if isinstance(result, Status) else Code.WAIT)
PLACEMENT_FEASIBLE_PHASE: Final = Phase(PLACEMENT_FEASIBLE, read_code=_read_status)
GENERATE_PLACEMENTS_PHASE: Final = Phase(PLACEMENT_GENERATE, read_code=_read_status)
SCORE_PLACEMENTS_PHASE: Final = Phase(PLACEMENT_SCORE)
GROUP_POST_FILTER_PHASE: Final = Phase(POD_GROUP_POST_FILTER, is_async=True, read_code=_read_code)
PRE_FLIGHT_PHASE: Final = Phase(PRE_BIND_PRE_FLIGHT, of_binding=True)
PERMIT_WAIT_PHASE: Final = Phase(Point("PermitWait"), of_binding=True, is_async=True, read_code=_read_code)
"""The wait on permit is not an extension point, and has a separate metric."""
PRE_BIND_PHASE: Final = Phase(PRE_BIND, of_binding=True, is_async=True, read_code=_read_code)
BIND_PHASE: Final = Phase(BIND, of_binding=True, is_async=True, read_code=_read_code)
POST_BIND_PHASE: Final = Phase(POST_BIND, of_binding=True, is_async=True)
