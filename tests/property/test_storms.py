"""Preemption storms in virtual time: every preemptor is placed, and no pod is evicted unnecessarily."""

from random import Random
from typing import cast

import pytest
from tests.support.latencies import RandomPace
from tests.support.stranded import stranded

from moorage.cluster.simulation.simulated_cluster import Pace, SimulatedCluster
from moorage.cluster.simulation.simulation import Simulation
from moorage.common.clock import VirtualClock
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.pod import Pod, PodStatus
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import default_config
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.plugins.included_plugins import IN_TREE
from moorage.scheduler.wiring.policy import Policy
from moorage.testing import make_node, make_pod

STORMS = 200
BATCHES = 10

RUNNING = PodStatus(phase="Running", start_time="2025-12-31T00:00:00Z")


async def weather(seed: int, clock: VirtualClock) -> None:
    """Let preemptors arrive on full nodes, each in need of one victim; sizes are random.

    In some storms the victims are still starting. A start makes a pod more important than pods that have not started,
    even if it is being evicted already: then the next preemptor chooses others, as with upstream, and more than are
    needed may go.
    """
    chance = Random(seed)
    nodes, per_node = chance.choice((1, 2, 5, 12)), chance.choice((1, 2, 4))
    preemptors = chance.randint(1, nodes * per_node)
    grace = chance.choice((0, 0, 1, 30))
    are_running = chance.random() < 0.8
    world = SimulatedCluster(clock, pace=cast(Pace, RandomPace(chance, chance.choice((0.001, 0.02, 0.3, 1.0)))))
    simulation = Simulation(world, Policy(default_config(), Registry(IN_TREE), FeatureGates()))
    names = [f"node-{number}" for number in range(nodes)]
    victims = [
        make_pod(
            f"low-{name}-{number}",
            node=name,
            requests={"cpu": 1},
            termination_grace_period_seconds=grace,
            status=RUNNING if are_running else None,
        )
        for name in names
        for number in range(per_node)
    ]
    simulation.load([*(make_node(name, allocatable={"cpu": per_node}) for name in names), *victims])
    for number in range(preemptors):
        world.add(make_pod(f"high-{number}", priority=100, requests={"cpu": 1}))
        if chance.random() < 0.2:
            await simulation.run_until_quiet(max_seconds=chance.choice((0.01, 1.0)))
    await simulation.run_until_quiet(max_seconds=250)  # no pod is flushed yet: every one was woken
    waiting = [pod.key for pod in world.store.list(Pod) if not pod.node_name]
    assert not waiting, f"pending: {waiting}"
    assert simulation.scheduler.unexpected is None
    assert not stranded(simulation.scheduler)
    if are_running:
        assert len(world.evicted) == preemptors, f"{preemptors} preemptors, but {len(world.evicted)} were evicted"


@pytest.mark.parametrize("batch", range(BATCHES))
def test_preemptors_are_bound_without_unnecessary_evictions(batch: int) -> None:
    for seed in range(batch, STORMS, BATCHES):
        clock = VirtualClock()
        try:
            run_virtual(weather(seed, clock), clock)
        except Exception as error:
            error.add_note(f"storm {seed}")
            raise
