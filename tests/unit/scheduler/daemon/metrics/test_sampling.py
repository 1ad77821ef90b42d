"""Timing of phases, and of single plugins in sampled cycles."""

import asyncio
from collections.abc import Iterator
from contextlib import nullcontext
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.support.simulated_metrics import read_buckets

from moorage.common.errors import MoorageError
from moorage.scheduler.daemon.metrics import sampling
from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.daemon.metrics.sampling import RUN, SAMPLED, SHARE, PluginSampler, read_status, time_phase
from moorage.scheduler.engine.extension_points import FILTER, SCORE, Point
from moorage.scheduler.engine.phases import BIND_PHASE, PERMIT_WAIT_PHASE, POST_BIND_PHASE, Phase
from moorage.scheduler.framework.plugin import Plugin
from moorage.scheduler.framework.status import Code, Status, Verdict

NAME = "scheduler_plugin_execution_duration_seconds"
UPSTREAM = {
    *("PreFilter", "Filter", "PreFilterExtensionAddPod", "PreFilterExtensionRemovePod", "PostFilter"),
    *("PreScore", "Score", "ScoreExtensionNormalize", "Reserve", "Permit", "PreBind", "Bind", "PostBind"),
}


class Draws(Random):
    """Draws the given numbers."""

    def __init__(self, *numbers: float) -> None:
        self.numbers = list(numbers)

    def random(self) -> float:
        return self.numbers.pop(0)


def test_points_equal_the_points_sampled_upstream() -> None:
    assert SAMPLED == UPSTREAM


def test_runs_of_cycles_are_sampled_by_chance() -> None:
    draws = Draws(SHARE, SHARE / 2, 0.0, 1.0)
    sampler, timed = PluginSampler(CellRegistry(), draws), []
    for _ in range(4 * RUN):
        sampler.cycle_begins()
        timed.append(sampler.is_sampling)
    assert timed == [False] * RUN + [True] * RUN * 2 + [False] * RUN
    assert not draws.numbers, "each run draws once"


class Watched:
    """A profile with one plugin."""

    def __init__(self) -> None:
        self.plugin = Plugin()
        self.plugins = {"Watched": self.plugin}


def test_watched_plugins_have_a_timer_in_sampled_cycles_only() -> None:
    first, second = Watched(), Watched()
    sampler = PluginSampler(CellRegistry(), Draws(0.0, 1.0, 0.0))
    sampler.watch([first])  # type: ignore[list-item]
    assert first.plugin._timer is None
    sampler.cycle_begins()
    assert first.plugin._timer is sampler
    sampler.watch([second])  # type: ignore[list-item]
    assert (first.plugin._timer, second.plugin._timer, sampler.is_sampling) == (None, None, False)
    sampler.cycle_begins()
    assert second.plugin._timer is None, "a new run began with the new plugins"


def test_another_timer_takes_precedence_until_it_is_removed() -> None:
    watched, sampler = Watched(), PluginSampler(CellRegistry(), Draws(0.0))
    sampler.watch([watched])  # type: ignore[list-item]
    sampler.cycle_begins()
    other = PluginSampler(CellRegistry(), Draws())
    sampler.override_timer(other)
    assert watched.plugin._timer is other
    sampler.override_timer(None)
    assert watched.plugin._timer is sampler


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the time of the sampler, which tests advance."""
    now = [0.0]
    monkeypatch.setattr(sampling, "perf_counter", lambda: now[0])
    return now


def test_calls_are_timed_by_plugin_point_and_status(seconds: list[float]) -> None:
    cells = CellRegistry()
    sampler = PluginSampler(cells, Draws())

    def call(result: object) -> object:
        seconds[0] += 0.5
        return result

    def fail() -> None:
        seconds[0] += 2.0
        raise KeyError("cpu")

    async def wait() -> Status:
        seconds[0] += 4.0
        return Status.unschedulable("no")

    assert sampler.call(FILTER, "Fit", call, (None,)) is None
    assert sampler.call(FILTER, "Fit", call, (7,)) == 7
    assert sampler.call(SCORE, "Fit", call, (Status.unschedulable("no"),)) == Status.unschedulable("no")
    with pytest.raises(KeyError):
        sampler.call(FILTER, "Fit", fail, ())
    assert asyncio.run(sampler.wait(Point("Bind"), "Binder", wait, ())) == Status.unschedulable("no")
    assert sampler.call(Point("PreEnqueue"), "Fit", call, ("not sampled",)) == "not sampled"
    assert {labels: total for labels, (_, total) in read_buckets(cells, NAME).items()} == {
        ("Fit", "Filter", "Success"): 1.0,
        ("Fit", "Score", "Unschedulable"): 0.5,
        ("Fit", "Filter", "Error"): 2.0,
        ("Binder", "Bind", "Unschedulable"): 4.0,
    }


def test_calls_that_wait_and_fail_are_errors(seconds: list[float]) -> None:
    cells = CellRegistry()

    async def fail() -> None:
        seconds[0] += 1.0
        raise KeyError("cpu")

    with pytest.raises(KeyError):
        asyncio.run(PluginSampler(cells, Draws()).wait(Point("PreBind"), "Volumes", fail, ()))
    assert {labels: total for labels, (_, total) in read_buckets(cells, NAME).items()} == {
        ("Volumes", "PreBind", "Error"): 1.0
    }


REJECTIONS = Verdict.reject(where=np.array([True]), because=Status.unschedulable("no"))
STATUSES = {
    "no result": (None, "Success"),
    "a number": (3, "Success"),
    "a status": (Status.error("broken"), "Error"),
    "a verdict that accepts all nodes": (Verdict.accept(1), "Success"),
    "a verdict that rejects nodes": (REJECTIONS, "Unschedulable"),
}


@pytest.mark.parametrize(("result", "status"), STATUSES.values(), ids=STATUSES)
def test_status_of_a_result(result: object, status: str) -> None:
    assert read_status(result) == status


DURATIONS = "scheduler_framework_extension_point_duration_seconds"
PERMIT_WAITS = "scheduler_permit_wait_duration_seconds"
SYNCHRONOUS = BIND_PHASE._replace(is_async=False, read_code=lambda status: status.code)


@pytest.fixture
def _quarter_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every reading of the clock be a quarter of a second later."""

    def readings() -> Iterator[float]:
        number = 100.0
        while True:
            yield (number := number + 0.25)

    clock = readings()
    monkeypatch.setattr(sampling, "perf_counter", lambda: next(clock))


def run_phase(phase: Phase, result: Any) -> dict[tuple[str, tuple[str, ...]], tuple[float, float]]:
    """Run a phase that returns or raises a result; return the count and sum of each histogram."""

    def run() -> Any:
        if isinstance(result, Exception):
            raise result
        return result

    async def run_async() -> Any:
        return run()

    registry = CellRegistry()
    timed: Any = time_phase(run_async if phase.is_async else run, phase, "default-scheduler", registry)
    with pytest.raises(type(result)) if isinstance(result, Exception) else nullcontext():
        assert (asyncio.run(timed()) if phase.is_async else timed()) is result
    registry.fold()
    sums: dict[tuple[str, tuple[str, ...]], tuple[float, float]] = {}
    for name in (DURATIONS, PERMIT_WAITS):
        family = registry[name].family()
        for sample in [] if family is None else family.samples:
            labels = (name, tuple(sample.labels.values()))
            count, total = sums.get(labels, (0.0, 0.0))
            if sample.name.endswith("_count"):
                sums[labels] = (sample.value, total)
            elif sample.name.endswith("_sum"):
                sums[labels] = (count, sample.value)
    return {labels: numbers for labels, numbers in sums.items() if numbers[0]}


RESULTS = {
    "no result is a success": (None, "Success"),
    "a rejection has its code": (Status.unschedulable("no"), "Unschedulable"),
    "an error of ours is an error": (MoorageError("no"), "Error"),
}


@pytest.mark.usefixtures("_quarter_seconds")
@pytest.mark.parametrize(("result", "label"), RESULTS.values(), ids=RESULTS)
@pytest.mark.parametrize("phase", [BIND_PHASE, SYNCHRONOUS], ids=["async", "sync"])
def test_duration_is_recorded_by_point_result_and_profile(phase: Phase, result: Any, label: str) -> None:
    phase = phase._replace(read_code=lambda status: status.code)
    assert run_phase(phase, result) == {(DURATIONS, ("Bind", label, "default-scheduler")): (1.0, 0.25)}


@pytest.mark.usefixtures("_quarter_seconds")
@pytest.mark.parametrize(("result", "label"), RESULTS.values(), ids=RESULTS)
def test_wait_on_permit_has_its_own_metric(result: Any, label: str) -> None:
    if isinstance(result, Status):
        label = PERMIT_WAIT_PHASE.read_code(result).label  # type: ignore[misc]
    assert run_phase(PERMIT_WAIT_PHASE, result) == {(PERMIT_WAITS, (label,)): (1.0, 0.25)}


def test_phase_that_reports_no_status_succeeds() -> None:
    (labels,) = run_phase(POST_BIND_PHASE, Status(Code.ERROR))
    assert labels == (DURATIONS, ("PostBind", "Success", "default-scheduler"))


def test_unexpected_exception_is_not_recorded_as_a_result() -> None:
    assert run_phase(BIND_PHASE, KeyError("x")) == {}
