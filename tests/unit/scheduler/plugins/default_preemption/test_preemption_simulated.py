"""Preemption as part of a whole scheduler, in virtual time."""

import pytest

from moorage.cluster.simulation.simulation import Simulation
from moorage.cluster.simulation.world import World
from moorage.cluster.virtual_time import run_virtual
from moorage.common.clock import VirtualClock
from moorage.kube.api.pod import Pod
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import default_config
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.plugins.catalogue import IN_TREE
from moorage.testing import make_node, make_pod

NODES = 3


@pytest.mark.parametrize("in_background", [True, False])
def test_important_pods_take_the_place_of_others(in_background: bool) -> None:
    features = FeatureGates({"SchedulerAsyncPreemption": in_background})
    clock = VirtualClock()
    world = World(clock)
    nodes = [make_node(f"n{i}", allocatable={"cpu": 4}) for i in range(NODES)]
    low = [make_pod(f"low-{i}", priority=0, requests={"cpu": 2}) for i in range(2 * NODES)]
    high = [make_pod(f"high-{i}", priority=9, requests={"cpu": 3}) for i in range(NODES)]

    async def live() -> None:
        simulation = Simulation(world, default_config(), Registry(IN_TREE), features=features, cross_check=True)
        simulation.load([*nodes, *low])
        await simulation.run_until_quiet()
        assert all(pod.node_name for pod in world.store.list(Pod)), "the cluster is full now"
        world.add(*high)
        await simulation.run_until_quiet()

    run_virtual(live(), clock)
    placed = {pod.name: pod.node_name for pod in world.store.list(Pod)}
    assert sorted(placed[pod.name] for pod in high) == [node.name for node in nodes]
    assert not [name for name in placed if name.startswith("low")], "every other pod had to go"
    assert sorted(e.regarding.name for e in world.events if e.reason == "Preempted") == [pod.name for pod in low]
