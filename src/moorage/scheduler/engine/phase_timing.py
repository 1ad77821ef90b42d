"""Measuring from outside: every phase of a profile is wrapped by one that takes its time, and nothing else changes."""

from collections.abc import Callable
from operator import attrgetter
from time import perf_counter
from typing import Any, Final, NamedTuple

from moorage.common.errors import MoorageError
from moorage.scheduler.engine.binding.binder import BindingPhases
from moorage.scheduler.engine.cycle.filter import PreFiltered
from moorage.scheduler.engine.cycle.profile_cycle import ProfileCycle
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
from moorage.scheduler.engine.observing import Stopwatch
from moorage.scheduler.framework.status import Code, Status

Phase = Callable[..., Any]
CodeOf = Callable[[Any], Code]


class PhaseSpec(NamedTuple):
    """One phase of a profile: where it is an attribute, its extension point, and how to read what it returns.

    ``code_of`` reads the code from what the phase returned; a phase without one succeeds unless it raises.
    """

    name: str
    point: Point
    of_binding: bool = False
    waits: bool = False
    code_of: CodeOf | None = None


Wrapper = Callable[[Phase, PhaseSpec], Phase]


def wrap_phases(cycle: ProfileCycle, binding: BindingPhases, wrap: Wrapper) -> None:
    """Have all extension points of a profile called through wrappers from now on."""
    for spec in PHASES:
        owner: object = binding if spec.of_binding else cycle
        *way, name = spec.name.split(".")
        for part in way:
            owner = getattr(owner, part)
        setattr(owner, name, wrap(getattr(owner, name), spec))


def time_phases(cycle: ProfileCycle, binding: BindingPhases, stopwatch: Stopwatch) -> None:
    """Have all extension points of a profile timed from now on."""

    def timed(phase: Phase, spec: PhaseSpec) -> Phase:
        return (_timed_waiting if spec.waits else _timed)(phase, PhaseTimes(spec.point, stopwatch, spec.code_of))

    wrap_phases(cycle, binding, timed)
    binding.wait_on_permit = _timed_wait(binding.wait_on_permit, stopwatch)  # type: ignore[method-assign]


class PhaseTimes:
    """Takes the seconds of one phase under the code with which it ended; the usual one is looked up once.

    ``code_of`` reads the code from what the phase returned; a phase without one succeeds unless it raises.
    """

    def __init__(self, point: Point, stopwatch: Stopwatch, code_of: CodeOf | None) -> None:
        self._name = point.name
        self._stopwatch = stopwatch
        self._code_of = code_of
        self.take_success = stopwatch.cell(point.name, Code.SUCCESS)
        self.can_fail = code_of is not None

    def ended(self, seconds: float, result: object) -> None:
        """Take the seconds of a phase that returned something which may tell of a failure."""
        code = self._code_of(result) if self._code_of is not None else Code.SUCCESS
        (self.take_success if code is Code.SUCCESS else self._stopwatch.cell(self._name, code))(seconds)

    def failed(self, seconds: float) -> None:
        """Take the seconds of a phase that raised."""
        self._stopwatch.cell(self._name, Code.ERROR)(seconds)


def _timed(phase: Phase, times: PhaseTimes) -> Phase:
    # A dozen of these run for every pod: what succeeds, as nearly all do, costs no call but those of the clock.
    take_success, can_fail = times.take_success, times.can_fail

    def run(*arguments: Any, **named: Any) -> Any:
        began = perf_counter()
        try:
            result = phase(*arguments, **named)
        except MoorageError:
            times.failed(perf_counter() - began)
            raise
        if result is None or not can_fail:
            take_success(perf_counter() - began)
        else:
            times.ended(perf_counter() - began, result)
        return result

    return run


def _timed_waiting(phase: Phase, times: PhaseTimes) -> Phase:
    take_success, can_fail = times.take_success, times.can_fail

    async def run(*arguments: Any, **named: Any) -> Any:
        began = perf_counter()
        try:
            result = await phase(*arguments, **named)
        except MoorageError:
            times.failed(perf_counter() - began)
            raise
        if result is None or not can_fail:
            take_success(perf_counter() - began)
        else:
            times.ended(perf_counter() - began, result)
        return result

    return run


def _timed_wait(phase: Phase, stopwatch: Stopwatch) -> Phase:
    async def run(*arguments: Any) -> Any:
        began = perf_counter()
        status: Status | None = await phase(*arguments)
        stopwatch.permit_wait(Code.SUCCESS if status is None else status.code)(perf_counter() - began)
        return status

    return run


def _code_of_pre_filter(result: PreFiltered) -> Code:
    return Code.SUCCESS if result.rejection is None else result.rejection.code


def _code_of_status(result: object) -> Code:
    """Read the code of what may be a status, or anything else that is good."""
    return result.code if isinstance(result, Status) else Code.SUCCESS


def _code_of_permit(result: Status | dict[str, float]) -> Code:
    """Tell a rejection from the plugins to wait for."""
    return result.code if isinstance(result, Status) else Code.WAIT


PHASES: Final = (
    PhaseSpec("filtering.pre_filter", PRE_FILTER, code_of=_code_of_pre_filter),
    PhaseSpec("filtering.filter", FILTER),
    PhaseSpec("scoring.pre_score", PRE_SCORE),
    PhaseSpec("scoring.score", SCORE),
    PhaseSpec("post_filter", POST_FILTER, waits=True, code_of=attrgetter("code")),
    PhaseSpec("reserve", RESERVE, code_of=attrgetter("code")),
    PhaseSpec("unreserve", UNRESERVE),
    PhaseSpec("permit", PERMIT, code_of=_code_of_permit),
    PhaseSpec("placement_feasible", PLACEMENT_FEASIBLE, code_of=_code_of_status),
    PhaseSpec("generate_placements", PLACEMENT_GENERATE, code_of=_code_of_status),
    PhaseSpec("score_placements", PLACEMENT_SCORE),
    PhaseSpec("post_filter_group", POD_GROUP_POST_FILTER, waits=True, code_of=attrgetter("code")),
    PhaseSpec("pre_flight", PRE_BIND_PRE_FLIGHT, of_binding=True),
    PhaseSpec("pre_bind", PRE_BIND, of_binding=True, waits=True, code_of=attrgetter("code")),
    PhaseSpec("bind", BIND, of_binding=True, waits=True, code_of=attrgetter("code")),
    PhaseSpec("post_bind", POST_BIND, of_binding=True, waits=True),
)
"""Every phase that can be wrapped, in the order of an attempt."""
