"""Durations of phases: under which labels, for which results, and how long."""

import asyncio
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from moorage.common.errors import MoorageError
from moorage.scheduler.daemon.metrics import phase_timing
from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.daemon.metrics.phase_timing import time_phase
from moorage.scheduler.engine.phases import BIND_PHASE, PERMIT_WAIT_PHASE, POST_BIND_PHASE, Phase
from moorage.scheduler.framework.status import Code, Status

DURATIONS = "scheduler_framework_extension_point_duration_seconds"
PERMIT_WAITS = "scheduler_permit_wait_duration_seconds"
SYNCHRONOUS = BIND_PHASE._replace(is_async=False, read_code=lambda status: status.code)


@pytest.fixture(autouse=True)
def _quarter_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every reading of the clock be a quarter of a second after the one before."""

    def readings() -> Iterator[float]:
        number = 100.0
        while True:
            yield (number := number + 0.25)

    clock = readings()
    monkeypatch.setattr(phase_timing, "perf_counter", lambda: next(clock))


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


@pytest.mark.parametrize(("result", "label"), RESULTS.values(), ids=RESULTS)
@pytest.mark.parametrize("phase", [BIND_PHASE, SYNCHRONOUS], ids=["async", "sync"])
def test_duration_is_recorded_by_point_result_and_profile(phase: Phase, result: Any, label: str) -> None:
    phase = phase._replace(read_code=lambda status: status.code)
    assert run_phase(phase, result) == {(DURATIONS, ("Bind", label, "default-scheduler")): (1.0, 0.25)}


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
