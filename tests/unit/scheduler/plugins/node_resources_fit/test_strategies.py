import numpy as np
import pytest

from moorage.kube.api.container import Container, ResourceRequirements
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.args import (
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    REQUESTED_TO_CAPACITY_RATIO,
    NodeResourcesFitArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from moorage.scheduler.plugins.node_resources_fit.plugin import NodeResourcesFit
from moorage.scheduler.plugins.node_resources_fit.strategies import broken_linear, make_strategy
from moorage.scheduler.plugins.resource_amounts import measure_capacity, percentages
from moorage.testing import make_node, make_pod
from moorage.testing.rig import SCORE_FORMS, Rig, ScoreForm, run_score

GPU = "example.com/gpu"
BOTH = (ResourceSpec("cpu"), ResourceSpec("memory"))
RISING = RequestedToCapacityRatioParam((UtilizationShapePoint(0, 0), UtilizationShapePoint(100, 10)))

LEAST = ScoringStrategy(LEAST_ALLOCATED, BOTH)
MOST = ScoringStrategy(MOST_ALLOCATED, BOTH)
RATIO = ScoringStrategy(REQUESTED_TO_CAPACITY_RATIO, BOTH, RISING)


def with_gpu(kind: str, *, weight: int = 2) -> ScoringStrategy:
    return ScoringStrategy(kind, (ResourceSpec("cpu"), ResourceSpec(GPU, weight)), RISING)


SMALL = {"cpu": "100m", "memory": "500Mi"}
TAKEN = {"cpu": "1000m", "memory": "4Gi"}

CASES = {
    "least allocated is the mean of the free shares": (LEAST, TAKEN, make_pod(requests=SMALL), 78),
    "a pod without requests counts 100m and 200Mi": (LEAST, TAKEN, make_pod(), 79),
    "each container does": (LEAST, TAKEN, make_pod(containers=(Container("a"), Container("b"))), 78),
    "an explicit zero remains zero": (LEAST, {}, make_pod(requests={"cpu": 0, "memory": 0}), 100),
    "pod-level requests are not looked at": (
        LEAST,
        TAKEN,
        make_pod(resources=ResourceRequirements(requests={"cpu": 4, "memory": "32Gi"})),
        79,
    ),
    "overhead is": (LEAST, {}, make_pod(requests={"cpu": 0, "memory": 0}, overhead={"cpu": 2}), 75),
    "what does not fit counts nothing": (LEAST, {}, make_pod(requests={"cpu": 5, "memory": 0}), 50),
    "most allocated is the mean of the used shares": (MOST, TAKEN, make_pod(requests=SMALL), 20),
    "and stops at full": (MOST, {}, make_pod(requests={"cpu": 8, "memory": "64Gi"}), 100),
    "a ratio is rounded, halves up": (RATIO, TAKEN, make_pod(requests=SMALL), 21),
    "a ratio omits what scores nothing": (RATIO, {}, make_pod(requests={"cpu": 2, "memory": 1}), 50),
    "a ratio of nothing is nothing": (RATIO, {}, make_pod(requests={"cpu": 0, "memory": 0}), 0),
    "weights count": (with_gpu(MOST_ALLOCATED), {}, make_pod(requests={"cpu": 4, GPU: 2}), 66),
    "an extended resource without requests has no weight": (
        with_gpu(MOST_ALLOCATED),
        {GPU: 4},
        make_pod(requests={"cpu": 4}),
        100,
    ),
    "what runs there counts with its real requests": (
        with_gpu(MOST_ALLOCATED),
        {GPU: 2, "cpu": 4},
        make_pod(requests={"cpu": 0, GPU: 2}),
        100,
    ),
}


@pytest.mark.parametrize("form", SCORE_FORMS)
@pytest.mark.parametrize(("strategy", "occupied", "pod", "want"), CASES.values(), ids=CASES)
def test_score(form: ScoreForm, strategy: ScoringStrategy, occupied: dict[str, str], pod: Pod, want: int) -> None:
    there = make_pod("there", node="node", requests={"cpu": 0, "memory": 0, **occupied})
    rig = Rig(make_node(allocatable={GPU: 4}), there)
    plugin = NodeResourcesFit(args=NodeResourcesFitArgs(scoring_strategy=strategy), handle=rig)
    assert run_score(plugin, rig, pod, form) == [want]


@pytest.mark.parametrize("form", SCORE_FORMS)
def test_running_pods_without_requests_count_with_defaults(form: ScoreForm) -> None:
    rig = Rig(make_node(allocatable={"cpu": 1, "memory": "1000Mi"}), make_pod("there", node="node"))
    assert run_score(NodeResourcesFit(handle=rig), rig, make_pod(), form) == [(80 + 60) // 2]


@pytest.mark.parametrize("form", SCORE_FORMS)
@pytest.mark.parametrize("kind", [LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO])
def test_a_resource_the_node_lacks_has_no_weight(form: ScoreForm, kind: str) -> None:
    rig = Rig(
        make_node("both", allocatable={GPU: 4}),
        make_node("cpu"),
        make_node("gpu", allocatable={"cpu": 0, GPU: 4}),
        make_node("none", allocatable={"cpu": 0}),
    )
    plugin = NodeResourcesFit(args=NodeResourcesFitArgs(scoring_strategy=with_gpu(kind, weight=1)), handle=rig)
    want = [50, 25, 75, 0] if kind == LEAST_ALLOCATED else [50, 75, 25, 0]
    assert run_score(plugin, rig, make_pod(requests={"cpu": 3, GPU: 1}), form) == want


@pytest.mark.parametrize("form", SCORE_FORMS)
def test_the_number_of_pods_is_not_scored(form: ScoreForm) -> None:
    rig = Rig(make_node())
    strategy = ScoringStrategy(LEAST_ALLOCATED, (ResourceSpec("cpu"), ResourceSpec("pods")))
    plugin = NodeResourcesFit(args=NodeResourcesFitArgs(scoring_strategy=strategy), handle=rig)
    assert run_score(plugin, rig, make_pod(requests={"cpu": 1}), form) == [75]


LINES = {
    "before the first point the line is level": ([(20, 30), (80, 90)], 10, 30),
    "at a point it is there": ([(20, 30), (80, 90)], 20, 30),
    "between points it rises": ([(20, 30), (80, 90)], 50, 60),
    "after the last it is level": ([(20, 30), (80, 90)], 81, 90),
    "rising, it is cut": ([(0, 0), (3, 100)], 1, 33),
    "falling, it is cut toward zero": ([(0, 100), (3, 0)], 1, 67),
    "a single point is a level line": ([(50, 70)], 90, 70),
}


@pytest.mark.parametrize(("points", "x", "want"), LINES.values(), ids=LINES)
def test_broken_line(points: list[tuple[int, int]], x: int, want: int) -> None:
    assert broken_linear(points, x) == want


def test_percentages_are_exact_for_any_capacity() -> None:
    for capacity in (1, 3, 7, 2**46 - 1, 2**46, 2**50 + 1):
        capacities = np.full(101, capacity, dtype=np.int64)
        parts = np.array([capacity * share // 100 for share in range(101)], dtype=np.int64)
        for shift in (-1, 0, 1):
            moved = np.clip(parts + shift, 0, capacity) * 100
            assert percentages(moved, measure_capacity(capacities)).tolist() == [
                int(part) // capacity for part in moved
            ]


def test_an_unknown_strategy_is_rejected() -> None:
    with pytest.raises(ValueError, match="scoring strategy Best is not supported"):
        make_strategy(ScoringStrategy("Best"))
