"""The phases of an attempt. Observers may wrap them when a profile is built, to time or trace them."""

from collections.abc import Callable
from operator import attrgetter
from time import perf_counter
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from moorage.common.errors import MoorageError
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
    """Hooks into the phases of one profile. The base has none, and costs nothing."""

    on_totals: Callable[..., None] | None = None
    """Called with the totals of every choice; see ``AttemptObserver.totalled``."""

    def wrap(self, run: F, phase: Phase) -> F:
        """Wrap the function that runs a phase; the wrapper must return the same result."""
        return run


NO_HOOKS: Final = PhaseHooks()


def _read_pre_filter(result: Any) -> Code:
    return Code.SUCCESS if result.rejection is None else result.rejection.code


def _read_status(result: object) -> Code:
    return result.code if isinstance(result, Status) else Code.SUCCESS


def _read_permit(result: Status | dict[str, float]) -> Code:
    return result.code if isinstance(result, Status) else Code.WAIT


_read_code: Final = attrgetter("code")

PRE_FILTER_PHASE: Final = Phase(PRE_FILTER, read_code=_read_pre_filter)
FILTER_PHASE: Final = Phase(FILTER)
POST_FILTER_PHASE: Final = Phase(POST_FILTER, is_async=True, read_code=_read_code)
PRE_SCORE_PHASE: Final = Phase(PRE_SCORE)
SCORE_PHASE: Final = Phase(SCORE)
RESERVE_PHASE: Final = Phase(RESERVE, read_code=_read_code)
UNRESERVE_PHASE: Final = Phase(UNRESERVE)
PERMIT_PHASE: Final = Phase(PERMIT, read_code=_read_permit)
PLACEMENT_FEASIBLE_PHASE: Final = Phase(PLACEMENT_FEASIBLE, read_code=_read_status)
GENERATE_PLACEMENTS_PHASE: Final = Phase(PLACEMENT_GENERATE, read_code=_read_status)
SCORE_PLACEMENTS_PHASE: Final = Phase(PLACEMENT_SCORE)
GROUP_POST_FILTER_PHASE: Final = Phase(POD_GROUP_POST_FILTER, is_async=True, read_code=_read_code)
PRE_FLIGHT_PHASE: Final = Phase(PRE_BIND_PRE_FLIGHT, of_binding=True)
PERMIT_WAIT_PHASE: Final = Phase(Point("PermitWait"), of_binding=True, is_async=True, read_code=_read_code)
"""The wait on permit is no extension point, and has a separate metric."""
PRE_BIND_PHASE: Final = Phase(PRE_BIND, of_binding=True, is_async=True, read_code=_read_code)
BIND_PHASE: Final = Phase(BIND, of_binding=True, is_async=True, read_code=_read_code)
POST_BIND_PHASE: Final = Phase(POST_BIND, of_binding=True, is_async=True)


class Stopwatch(Protocol):
    """Records the durations of the phases of one profile, by extension point and code."""

    def cell(self, point: str, code: Code) -> Callable[[float], None]:
        """Return the function that records the seconds of a point that ended with a code."""
        ...

    def permit_wait(self, code: Code) -> Callable[[float], None]:
        """Return the function that records the seconds of a wait on permit that ended with a code."""
        ...


def time_phase(run: F, phase: Phase, stopwatch: Stopwatch) -> F:
    """Return the function with its duration recorded."""
    timed: Any
    if phase is PERMIT_WAIT_PHASE:
        timed = _time_wait(run, stopwatch)
    else:
        timed = (_time_async if phase.is_async else _time)(run, PhaseTimes(phase, stopwatch))
    return timed  # type: ignore[no-any-return]  # it has the signature of ``run``


class PhaseTimes:
    """Records the seconds of one phase by its code; the recorder of successes is looked up once."""

    def __init__(self, phase: Phase, stopwatch: Stopwatch) -> None:
        self._name = phase.point.name
        self._stopwatch = stopwatch
        self._read_code = phase.read_code
        self.record_success = stopwatch.cell(self._name, Code.SUCCESS)
        self.can_fail = phase.read_code is not None

    def ended(self, seconds: float, result: object) -> None:
        """Record the seconds of a phase whose result may be a failure."""
        code = self._read_code(result) if self._read_code is not None else Code.SUCCESS
        (self.record_success if code is Code.SUCCESS else self._stopwatch.cell(self._name, code))(seconds)

    def failed(self, seconds: float) -> None:
        """Record the seconds of a phase that raised."""
        self._stopwatch.cell(self._name, Code.ERROR)(seconds)


def _time(phase: Callable[..., Any], times: PhaseTimes) -> Callable[..., Any]:
    # A dozen of these run for every pod: success, the usual case, makes no calls but those of the clock.
    record_success, can_fail = times.record_success, times.can_fail

    def run(*arguments: Any, **keywords: Any) -> Any:
        began = perf_counter()
        try:
            result = phase(*arguments, **keywords)
        except MoorageError:
            times.failed(perf_counter() - began)
            raise
        if result is None or not can_fail:
            record_success(perf_counter() - began)
        else:
            times.ended(perf_counter() - began, result)
        return result

    return run


def _time_async(phase: Callable[..., Any], times: PhaseTimes) -> Callable[..., Any]:
    record_success, can_fail = times.record_success, times.can_fail

    async def run(*arguments: Any, **keywords: Any) -> Any:
        began = perf_counter()
        try:
            result = await phase(*arguments, **keywords)
        except MoorageError:
            times.failed(perf_counter() - began)
            raise
        if result is None or not can_fail:
            record_success(perf_counter() - began)
        else:
            times.ended(perf_counter() - began, result)
        return result

    return run


def _time_wait(phase: Callable[..., Any], stopwatch: Stopwatch) -> Callable[..., Any]:
    async def run(*arguments: Any) -> Any:
        began = perf_counter()
        status: Status | None = await phase(*arguments)
        stopwatch.permit_wait(Code.SUCCESS if status is None else status.code)(perf_counter() - began)
        return status

    return run
