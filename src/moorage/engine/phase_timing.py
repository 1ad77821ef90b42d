"""Measuring from outside: every phase of a profile is wrapped by one that takes its time, and nothing else changes."""

from collections.abc import Callable
from operator import attrgetter
from time import perf_counter
from typing import Any

from moorage.engine.binding.binder import BindingPhases
from moorage.engine.cycle.filter import PreFiltered
from moorage.engine.cycle.profile_cycle import ProfileCycle
from moorage.engine.extension_points import (
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
from moorage.engine.group_points import (
    PLACEMENT_FEASIBLE,
    PLACEMENT_GENERATE,
    PLACEMENT_SCORE,
    POD_GROUP_POST_FILTER,
)
from moorage.engine.observing import Stopwatch
from moorage.errors import MoorageError
from moorage.framework.status import Code, Status

Phase = Callable[..., Any]
CodeOf = Callable[[Any], Code]


def time_phases(cycle: ProfileCycle, binding: BindingPhases, stopwatch: Stopwatch) -> None:
    """Have all extension points of a profile timed from now on."""

    def timed(owner: object, name: str, point: Point, wrap: "Wrap", code_of: CodeOf | None = None) -> None:
        setattr(owner, name, wrap(getattr(owner, name), PhaseTimes(point, stopwatch, code_of)))

    timed(cycle.filtering, "pre_filter", PRE_FILTER, _timed, _code_of_pre_filter)
    timed(cycle.filtering, "filter", FILTER, _timed)
    timed(cycle.scoring, "pre_score", PRE_SCORE, _timed)
    timed(cycle.scoring, "score", SCORE, _timed)
    timed(cycle, "post_filter", POST_FILTER, _timed_waiting, attrgetter("code"))
    timed(cycle, "reserve", RESERVE, _timed, attrgetter("code"))
    timed(cycle, "unreserve", UNRESERVE, _timed)
    timed(cycle, "permit", PERMIT, _timed, _code_of_permit)
    timed(cycle, "placement_feasible", PLACEMENT_FEASIBLE, _timed, _code_of_status)
    timed(cycle, "generate_placements", PLACEMENT_GENERATE, _timed, _code_of_status)
    timed(cycle, "score_placements", PLACEMENT_SCORE, _timed)
    timed(cycle, "post_filter_group", POD_GROUP_POST_FILTER, _timed_waiting, attrgetter("code"))
    timed(binding, "pre_flight", PRE_BIND_PRE_FLIGHT, _timed)
    timed(binding, "pre_bind", PRE_BIND, _timed_waiting, attrgetter("code"))
    timed(binding, "bind", BIND, _timed_waiting, attrgetter("code"))
    timed(binding, "post_bind", POST_BIND, _timed_waiting)
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


Wrap = Callable[[Phase, PhaseTimes], Phase]


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
