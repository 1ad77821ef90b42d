"""The rows of benchmarks/goals.yaml, compared with raw data."""

import argparse
from pathlib import Path
from typing import Any, cast

import pytest
from benchmarks.engine_workloads import WORKLOADS
from benchmarks.live import goal_run, workload
from benchmarks.live.goals import GoalRow, judged, load
from benchmarks.live.plane import Plane
from benchmarks.live.session import turns

from moorage.common.errors import InputError


def turn(scheduler: str, number: int, **figures: Any) -> dict[str, Any]:
    about = {"workload": "basic", "nodes": 5, "pods": 10, "expected": 10, "bound": 10}
    return {**about, "scheduler": scheduler, "number": number, **figures}


def rounds(actual: list[float], upstream: list[float], figure: str, **more: Any) -> dict[str, Any]:
    pairs = enumerate(zip(actual, upstream, strict=True), 1)
    turns = [
        row
        for number, (a, b) in pairs
        for row in (turn("moorage", number, **{figure: a}), turn("kube-scheduler", number, **{figure: b}, **more))
    ]
    return {"drain": turns}


def test_every_row_is_of_something_that_can_be_measured() -> None:
    rows = load()
    assert all(row.engine in WORKLOADS if row.engine else row.workload in workload.names() for row in rows)
    assert len(rows) == len({(row.name, row.nodes) for row in rows})


@pytest.mark.parametrize(("goal", "is_met"), [(5.0, True), (5.1, False)])
def test_less_cpu_is_upstream_divided_by_moorage(goal: float, is_met: bool) -> None:
    row = GoalRow(nodes=5, pods=10, workload="basic", goals={"less_cpu": goal})
    (verdict,) = judged(row, rounds([2.0, 1.0, 4.0], [10.0, 10.0, 8.0], "cpu_seconds"))
    assert (verdict.ours, verdict.theirs, verdict.ratio) == (2.0, 10.0, 5.0)
    assert (verdict.ratios, verdict.is_met, verdict.is_bound_only) == ([5.0, 10.0, 2.0], is_met, False)


@pytest.mark.parametrize(("goal", "is_met"), [(0.25, True), (0.2, False)])
def test_share_is_moorage_divided_by_upstream(goal: float, is_met: bool) -> None:
    row = GoalRow(nodes=5, pods=10, workload="basic", goals={"memory": goal})
    (verdict,) = judged(row, rounds([100.0], [400.0], "peak_mib"))
    assert (verdict.ratio, verdict.is_met) == (0.25, is_met)


def test_incomplete_round_gives_a_lower_bound() -> None:
    row = GoalRow(nodes=5, pods=10, workload="basic", goals={"less_cpu": 2.0})
    (verdict,) = judged(row, rounds([1.0], [3.0], "cpu_seconds", bound=4))
    assert (verdict.is_bound_only, verdict.ratio) == (True, 3.0)


def test_only_rounds_of_both_are_compared() -> None:
    row = GoalRow(nodes=5, pods=10, workload="basic", goals={"less_cpu": 2.0})
    assert judged(row, {"drain": [turn("moorage", 1, cpu_seconds=1.0)]}) == []
    other_row = GoalRow(nodes=6, pods=10, workload="basic", goals={"less_cpu": 2.0})
    assert judged(other_row, rounds([1.0], [2.0], "cpu_seconds")) == []


@pytest.mark.parametrize(
    "text",
    ["- {nodes: 5}", "- {nodes: 5, workload: a, engine: b, goals: {}}", "- {nodes: 5, workload: a, goals: {x: 1}}"],
)
def test_meaningless_row_is_rejected(text: str, tmp_path: Path) -> None:
    file = tmp_path / "goals.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=r"goals\.yaml"):
        load(file)


def test_scheduler_with_one_round_runs_last() -> None:
    class Restored:
        times = 0

        def restore(self) -> None:
            self.times += 1

    plane = Restored()
    options = argparse.Namespace(rounds=2, schedulers=["a", "b"], once=["c"])
    assert list(turns(options, cast("Plane", plane))) == [(1, "a"), (1, "b"), (2, "b"), (2, "a"), (1, "c")]
    assert plane.times == 5


@pytest.mark.parametrize("flags", [["--only", "nothing"], ["--only", "own-shape"], ["--before", "nowhere"]])
def test_invalid_measurement_is_rejected_before_the_start(
    flags: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["goal_run", *flags])
    with pytest.raises(SystemExit, match="2"):
        goal_run.main()
    assert ("nothing" if "nothing" in flags else "--before") in capsys.readouterr().err.splitlines()[-1]
