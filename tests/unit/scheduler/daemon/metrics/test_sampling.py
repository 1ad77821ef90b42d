"""Timing of single plugins in sampled cycles."""

import asyncio
from random import Random

import numpy as np
import pytest
from tests.support.simulated_metrics import read_buckets

from moorage.scheduler.daemon.metrics import sampling
from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.daemon.metrics.sampling import RUN, SAMPLED, SHARE, PluginSampler, read_status
from moorage.scheduler.engine.extension_points import FILTER, SCORE, Point
from moorage.scheduler.framework.plugin import Plugin
from moorage.scheduler.framework.status import Status, Verdict

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
    sampler.put_over(other)
    assert watched.plugin._timer is other
    sampler.put_over(None)
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
