"""Cached results follow all changes of a node that a plugin may depend on, labels of its pods included."""

import heapq
import random
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from tests.support.engine import config_with, feasible_nodes, registry_with

from moorage.cluster.simulation.simulated_cluster import SimulatedCluster
from moorage.cluster.simulation.simulation import Simulation
from moorage.common.clock import VirtualClock
from moorage.kube.api.pod import Pod
from moorage.kube.features import FeatureGates
from moorage.scheduler.engine.cached_results.combined_result import HeapOrder
from moorage.scheduler.engine.scheduler import Scheduler
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import DependsOn, FilterPlugin
from moorage.scheduler.framework.status import Status
from moorage.scheduler.wiring.policy import Policy
from moorage.testing import make_node, make_pod

NOISY = Status.unschedulable("node(s) had noisy neighbors")


class KeepsAway(FilterPlugin):
    """Rejects nodes that have a pod labeled noisy; the result is the same for all pods."""

    def sign(self, pod: Pod) -> tuple[()]:
        return ()

    def filter(self, _cycle: Any, _pod: Pod, node: NodeInfo) -> Status | None:
        return NOISY if any("noisy" in pod.labels for pod in node.pods.values()) else None


class Counts(KeepsAway):
    """Declares that it depends on the requests of pods only, and counts its calls."""

    depends_on = DependsOn.REQUESTS

    def __init__(self) -> None:
        self.asked = 0

    def filter(self, cycle: Any, pod: Pod, node: NodeInfo) -> Status | None:
        self.asked += 1
        return super().filter(cycle, pod, node)


def scheduler_with(plugin: type[FilterPlugin]) -> Scheduler:
    world = SimulatedCluster(VirtualClock())
    scheduler = Simulation(world, Policy(config_with(plugin), registry_with(plugin), FeatureGates())).scheduler
    scheduler.handlers.apply(None, make_node("n1"))
    scheduler.handlers.pod_added(make_pod("neighbor", node="n1"))
    return scheduler


def relabel(scheduler: Scheduler, **labels: str) -> None:
    before = scheduler.objects[Pod].get("neighbor", "default")
    assert before is not None
    scheduler.handlers.pod_updated(before, replace(before, metadata=replace(before.metadata, labels=labels)))


@pytest.mark.parametrize(
    "newcomer", [make_pod("a"), make_pod("b", requests={"cpu": "1"})], ids=["plain", "with requests"]
)
def test_another_label_of_a_pod_on_the_node_is_noticed(newcomer: Pod) -> None:
    scheduler = scheduler_with(KeepsAway)
    runner = scheduler.runners["default-scheduler"]
    assert len(feasible_nodes(runner, runner.find(newcomer))) == 1
    relabel(scheduler, noisy="very")
    assert len(feasible_nodes(runner, runner.find(newcomer))) == 0
    relabel(scheduler)
    assert len(feasible_nodes(runner, runner.find(newcomer))) == 1


def test_pod_changes_do_not_invalidate_plugins_that_ignore_pods() -> None:
    scheduler = scheduler_with(Counts)
    runner = scheduler.runners["default-scheduler"]
    plugin = runner.profile.plugins["Counts"]
    assert isinstance(plugin, Counts)
    runner.find(make_pod("a"))
    before = plugin.asked
    relabel(scheduler, noisy="very")
    runner.find(make_pod("b"))
    assert plugin.asked == before
    scheduler.handlers.pod_added(make_pod("another", node="n1"))
    runner.find(make_pod("c"))
    assert plugin.asked == before + 1


def root_after_init(scores: list[int]) -> int:
    """Sift down as upstream's heap does: right only if strictly better than left, swap only if strictly better."""
    heap = list(range(len(scores)))
    for start in range(len(scores) // 2 - 1, -1, -1):
        parent = start
        while (child := 2 * parent + 1) < len(scores):
            if child + 1 < len(scores) and scores[heap[child + 1]] > scores[heap[child]]:
                child += 1
            if scores[heap[child]] <= scores[heap[parent]]:
                break
            heap[parent], heap[child] = heap[child], heap[parent]
            parent = child
    return heap[0]


def chosen(scores: list[int]) -> int:
    ties = np.flatnonzero(np.array(scores) == max(scores))
    return int(ties[HeapOrder().ranks(len(scores))[ties].argmin()])


@pytest.mark.parametrize("size", range(1, 11))
def test_among_equals_the_first_found_wins(size: int) -> None:
    assert chosen([7] * size) == 0


CASES = {
    "a single best": ([1, 5, 3], 1),
    "left subtree before right": ([0, 0, 9, 0, 9], 4),
    "a parent before its child": ([0, 9, 0, 9], 1),
    "deep on the left before shallow on the right": ([0, 0, 9, 0, 0, 0, 0, 9], 7),
}


@pytest.mark.parametrize(("scores", "winner"), CASES.values(), ids=CASES)
def test_preorder(scores: list[int], winner: int) -> None:
    assert chosen(scores) == winner == root_after_init(scores)


def test_random_scores_choose_as_the_heap_does() -> None:
    dice = random.Random(4)
    for _ in range(2_000):
        scores = [dice.randint(0, 3) for _ in range(dice.randint(1, 40))]
        assert chosen(scores) == root_after_init(scores)


def test_ranks_remain_true_when_the_heap_outgrows_them() -> None:
    order = HeapOrder()
    few = order.ranks(10).argsort().tolist()
    order.ranks(20_000)
    assert order.ranks(10).argsort().tolist() == few
    assert order.ranks(20_000).max() < order.size


def test_the_reference_heap_is_a_heap() -> None:
    scores = [3, 1, 4, 1, 5, 9, 2, 6]
    assert scores[root_after_init(scores)] == heapq.nlargest(1, scores)[0]


@pytest.mark.parametrize(("plugin", "changed_rows"), [(Counts, 0), (KeepsAway, 1)])
def test_relabeled_pods_change_rows_only_for_plugins_that_depend_on_them(
    plugin: type[FilterPlugin], changed_rows: int
) -> None:
    scheduler = scheduler_with(plugin)
    runner = scheduler.runners["default-scheduler"]
    runner.find(make_pod("a"))
    cached = runner.filtering.results.find(make_pod("b"))
    before = cached.layout.log.position
    relabel(scheduler, noisy="very")
    assert cached.layout.log.position - before == changed_rows
