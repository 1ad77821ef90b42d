"""Measuring from outside: every phase of a profile is wrapped by one that takes its time, and nothing else changes."""

from collections.abc import Callable
from time import perf_counter
from typing import Any

from moorage.engine.binding.binder import BindingPhases
from moorage.engine.cycle.filter import PreFiltered
from moorage.engine.cycle.post_filter import PostFiltered
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
    GroupPostFiltered,
)
from moorage.engine.observing import Stopwatch
from moorage.errors import MoorageError
from moorage.framework.status import Code, Status

Phase = Callable[..., Any]


def time_phases(cycle: ProfileCycle, binding: BindingPhases, stopwatch: Stopwatch) -> None:
    """Have all extension points of a profile timed from now on."""
    filtering, scoring = cycle.filtering, cycle.scoring
    filtering.pre_filter = _timed(PRE_FILTER, filtering.pre_filter, stopwatch)  # type: ignore[method-assign]
    filtering.filter = _timed(FILTER, filtering.filter, stopwatch)  # type: ignore[method-assign]
    scoring.pre_score = _timed(PRE_SCORE, scoring.pre_score, stopwatch)  # type: ignore[method-assign]
    scoring.score = _timed(SCORE, scoring.score, stopwatch)  # type: ignore[method-assign]
    cycle.post_filter = _timed_waiting(POST_FILTER, cycle.post_filter, stopwatch)  # type: ignore[assignment]
    cycle.reserve = _timed(RESERVE, cycle.reserve, stopwatch)  # type: ignore[assignment]
    cycle.unreserve = _timed(UNRESERVE, cycle.unreserve, stopwatch)  # type: ignore[assignment]
    cycle.permit = _timed(PERMIT, cycle.permit, stopwatch)  # type: ignore[assignment]
    cycle.placement_feasible = _timed(PLACEMENT_FEASIBLE, cycle.placement_feasible, stopwatch)  # type: ignore[assignment]
    cycle.generate_placements = _timed(PLACEMENT_GENERATE, cycle.generate_placements, stopwatch)  # type: ignore[assignment]
    cycle.score_placements = _timed(PLACEMENT_SCORE, cycle.score_placements, stopwatch)  # type: ignore[assignment]
    post_filter_group = _timed_waiting(POD_GROUP_POST_FILTER, cycle.post_filter_group, stopwatch)
    cycle.post_filter_group = post_filter_group  # type: ignore[assignment]
    binding.wait_on_permit = _timed_wait(binding.wait_on_permit, stopwatch)  # type: ignore[method-assign]
    binding.pre_flight = _timed(PRE_BIND_PRE_FLIGHT, binding.pre_flight, stopwatch)  # type: ignore[method-assign]
    binding.pre_bind = _timed_waiting(PRE_BIND, binding.pre_bind, stopwatch)  # type: ignore[method-assign]
    binding.bind = _timed_waiting(BIND, binding.bind, stopwatch)  # type: ignore[method-assign]
    binding.post_bind = _timed_waiting(POST_BIND, binding.post_bind, stopwatch)  # type: ignore[method-assign]


def _timed(point: Point, phase: Phase, stopwatch: Stopwatch) -> Phase:
    times = PhaseTimes(point, stopwatch)

    def run(*arguments: Any, **named: Any) -> Any:
        began = perf_counter()
        try:
            result = phase(*arguments, **named)
        except MoorageError:
            times.failed(perf_counter() - began)
            raise
        times.ended(perf_counter() - began, result)
        return result

    return run


def _timed_waiting(point: Point, phase: Phase, stopwatch: Stopwatch) -> Phase:
    times = PhaseTimes(point, stopwatch)

    async def run(*arguments: Any, **named: Any) -> Any:
        began = perf_counter()
        try:
            result = await phase(*arguments, **named)
        except MoorageError:
            times.failed(perf_counter() - began)
            raise
        times.ended(perf_counter() - began, result)
        return result

    return run


class PhaseTimes:
    """Takes the seconds of one phase under the code with which it ended; the usual one is looked up once."""

    def __init__(self, point: Point, stopwatch: Stopwatch) -> None:
        self._name = point.name
        self._stopwatch = stopwatch
        self._take_success = stopwatch.cell(point.name, Code.SUCCESS)

    def ended(self, seconds: float, result: object) -> None:
        """Take the seconds of a phase that returned something."""
        code = code_of(result)
        take = self._take_success if code is Code.SUCCESS else self._stopwatch.cell(self._name, code)
        take(seconds)

    def failed(self, seconds: float) -> None:
        """Take the seconds of a phase that raised."""
        self._stopwatch.cell(self._name, Code.ERROR)(seconds)


def _timed_wait(phase: Phase, stopwatch: Stopwatch) -> Phase:
    async def run(*arguments: Any) -> Any:
        began = perf_counter()
        status = await phase(*arguments)
        stopwatch.permit_wait(code_of(status))(perf_counter() - began)
        return status

    return run


def code_of(result: object) -> Code:
    """Return the code with which a phase ended, from what it returned."""
    if result is None:
        return Code.SUCCESS
    if isinstance(result, Status):
        return result.code
    if isinstance(result, PreFiltered):
        return Code.SUCCESS if result.rejection is None else result.rejection.code
    if isinstance(result, PostFiltered | GroupPostFiltered):
        return result.code
    # Permit returns the plugins to wait for.
    return Code.WAIT if isinstance(result, dict) else Code.SUCCESS
