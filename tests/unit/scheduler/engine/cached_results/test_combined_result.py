"""Cached results follow all changes of a node that a plugin may depend on, labels of its pods included."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.engine import config_with, feasible_nodes, registry_with

from moorage.cluster.simulation.simulated_cluster import SimulatedCluster
from moorage.cluster.simulation.simulation import Simulation
from moorage.common.clock import VirtualClock
from moorage.kube.api.pod import Pod
from moorage.kube.features import FeatureGates
from moorage.scheduler.engine.scheduler import Scheduler
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import DependsOn, FilterPlugin
from moorage.scheduler.framework.status import Status
from moorage.scheduler.wiring.policy import Policy
from moorage.testing import make_node, make_pod

NOISY = Status.unschedulable("node(s) had noisy neighbours")


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
    scheduler.handlers.pod_added(make_pod("neighbour", node="n1"))
    return scheduler


def relabel(scheduler: Scheduler, **labels: str) -> None:
    before = scheduler.objects[Pod].get("neighbour", "default")
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
