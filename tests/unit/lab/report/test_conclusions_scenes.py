"""Rows of a report by scene: verdicts, intervals, curves and classes."""

import pytest

from moorage.lab.report.conclusions import Finding, Scene, group_by_scene
from moorage.lab.report.measures import MEASURES, Interval
from moorage.lab.trial import PointRow, TrialResult, TrialRow

BY_KEY = {measure.key: measure for measure in MEASURES}
COST, ALLOCATION, IMBALANCE = BY_KEY["cost"], BY_KEY["allocation.cpu"], BY_KEY["spread.cpu"]
STATE = {"nodes": 1, "running": 0, "waiting": 0, "memory": 0.0, "gpu": 0.0}


def make_result(name: str, seed: int, measures: dict[str, float], *cpu: float, unplaced: int = 0) -> TrialResult:
    points = tuple(
        PointRow("t", "c", name, seed, at=3600.0 * index, asked=index / 10, cpu=share, **STATE)
        for index, share in enumerate(cpu)
    )
    return TrialResult(TrialRow("t", "c", name, seed, 9, 9 - unplaced, unplaced, measures), points)


VERDICTS: dict[str, tuple[object, Interval | None, int]] = {
    "more allocation is better": (ALLOCATION, Interval(0.2, 0.1, 0.3, 6), 1),
    "less allocation is worse": (ALLOCATION, Interval(-0.2, -0.3, -0.1, 6), -1),
    "more cost is worse": (COST, Interval(2.0, 1.0, 3.0, 6), -1),
    "less cost is better": (COST, Interval(-2.0, -3.0, -1.0, 6), 1),
    "imbalance is neither": (IMBALANCE, Interval(0.2, 0.1, 0.3, 6), 0),
    "an interval with 0 is not significant": (COST, Interval(2.0, -1.0, 3.0, 6), 0),
    "one seed is not significant": (COST, Interval(2.0, 2.0, 2.0, 1), 0),
    "five seeds agree by chance": (COST, Interval(2.0, 1.0, 3.0, 5), 0),
    "an invisible difference is not significant": (ALLOCATION, Interval(0.0001, 0.0001, 0.0001, 6), 0),
    "no baseline": (COST, None, 0),
}


@pytest.mark.parametrize(("measure", "difference", "verdict"), VERDICTS.values(), ids=VERDICTS)
def test_verdict(measure: object, difference: Interval | None, verdict: int) -> None:
    assert Finding(measure, "p", Interval(1.0, 1.0, 1.0, 3), difference).verdict == verdict  # type: ignore[arg-type]


def make_scene() -> Scene:
    results = [
        make_result("a", 1, {"cost": 1.0, "wait.p95.web": 1.0}, 0.0, 0.2, 0.4, unplaced=2),
        make_result("a", 2, {"cost": 3.0}, 0.2, 0.4, 0.6),
        make_result("a", 3, {"cost": 8.0, "wait.p95.batch": 1.0}, 0.4, 0.6),
        make_result("b", 1, {"cost": 2.0, "energy": 0.0}),
    ]
    return Scene("t", "c", ["a", "missing", "b"], results)


def test_measures_with_values_are_listed() -> None:
    assert [measure.key for measure in make_scene().measures()] == ["unplaced", "cost"]


def test_finding_has_the_interval_and_the_difference_from_the_baseline() -> None:
    scene = make_scene()
    finding = scene.find(COST, "a", "b")
    assert finding is not None
    assert (finding.value.median, finding.value.count) == (3.0, 3)
    assert finding.difference is not None
    assert (finding.difference.median, finding.difference.count) == (-1.0, 1)
    unplaced = scene.find(BY_KEY["unplaced"], "a", "a")
    assert unplaced is not None
    assert (unplaced.value.median, unplaced.difference) == (0.0, None)
    assert scene.find(COST, "a", "missing").difference is None  # type: ignore[union-attr]
    assert scene.find(ALLOCATION, "a", "b") is None
    assert {name: interval.median for name, interval in scene.intervals(COST).items()} == {"a": 3.0, "b": 2.0}
    assert scene.intervals(ALLOCATION) == {}


def test_curve_is_the_median_of_all_seeds_until_the_end_of_the_shortest() -> None:
    scene = make_scene()
    assert scene.counts_arrivals
    (line,) = scene.lines("cpu")
    assert line.name == "a"
    assert (line.x[0], line.x[-1], len(line.x)) == (0.0, pytest.approx(10.0), 120)
    assert (line.low[0], line.y[0], line.high[0]) == pytest.approx((0.0, 0.2, 0.4))
    assert (line.low[-1], line.y[-1], line.high[-1]) == pytest.approx((0.2, 0.4, 0.6))
    assert scene.lines("fragmentation") == []


def test_trials_with_waiting_times_have_curves_over_time() -> None:
    waiting, failed = make_result("a", 1, {"wait.mean": 1.0}), make_result("a", 2, {})
    assert not Scene("t", "c", ["a"], [waiting, failed]).counts_arrivals


def test_curve_needs_two_points() -> None:
    assert Scene("t", "c", ["a"], [make_result("a", 1, {}, 0.5)]).lines("cpu") == []
    assert len(Scene("t", "c", ["a"], [make_result("a", 1, {}, 0.5, 0.6)]).lines("cpu")) == 1


def test_curve_over_time_is_in_seconds() -> None:
    scene = Scene("t", "c", ["a"], [make_result("a", 1, {"wait.mean": 1.0}, 0.0, 0.5, 1.0)])
    assert not scene.counts_arrivals
    assert scene.lines("cpu")[0].x[-1] == pytest.approx(7200.0)


def test_classes_of_waiting_times_are_listed() -> None:
    assert make_scene().classes() == ["web", "batch"]


def test_results_are_grouped_by_trace_and_cluster_without_failures() -> None:
    rows = [TrialRow("t", "c", "a", 1), TrialRow("u", "c", "a", 1), TrialRow("t", "c", "b", 1, error="failed")]
    scenes = group_by_scene(["a", "b"], [TrialResult(row) for row in rows])
    assert [result.trial.trace for scene in scenes for result in scene.by_name["a"]] == ["t", "u"]
    assert [(scene.trace, scene.cluster, scene.names) for scene in scenes] == [("t", "c", ["a"]), ("u", "c", ["a"])]
