"""Observers wrap the phases of a profile that is being built, and follow totals only on request."""

from collections.abc import Callable
from typing import Any

from moorage.scheduler.engine.observing import AttemptObserver, ObserverHooks, TotalsObserver
from moorage.scheduler.engine.phases import FILTER_PHASE, Phase


class Doubling(AttemptObserver):
    def __init__(self) -> None:
        self.phases: list[tuple[str, str]] = []

    def wrap_phase(self, run: Any, phase: Phase, profile: str) -> Any:
        self.phases.append((phase.point.name, profile))
        return lambda value: 2 * run(value)


class Totals(TotalsObserver):
    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def on_totals(self, *values: Any) -> None:
        self.calls.append(values)


def increment(value: int) -> int:
    return value + 1


def test_observers_wrap_a_phase_of_their_profile() -> None:
    first, second = Doubling(), Doubling()
    wrapped: Callable[[int], int] = ObserverHooks((first, Totals(), second), "gpu").wrap(increment, FILTER_PHASE)
    assert wrapped(4) == 20
    assert first.phases == second.phases == [("Filter", "gpu")]


def test_phases_are_not_wrapped_without_observers_of_attempts() -> None:
    assert ObserverHooks((Totals(),), "gpu").wrap(increment, FILTER_PHASE) is increment


def test_totals_are_collected_only_for_their_observers() -> None:
    totals = Totals()
    hooks = ObserverHooks((Doubling(), totals), "gpu")
    assert hooks.on_totals is not None
    hooks.on_totals(1, 2, 3)
    assert totals.calls == [(1, 2, 3)]
    assert ObserverHooks((Doubling(),), "gpu").on_totals is None
