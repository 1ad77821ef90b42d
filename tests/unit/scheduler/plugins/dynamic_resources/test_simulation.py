"""Pods with claims in a simulated cluster: even with faults, no device is allocated twice."""

import pytest
from tests.unit.scheduler.plugins.dynamic_resources.device_builders import (
    claiming,
    device,
    make_claim,
    make_class,
    make_slice,
)

from moorage.cluster.simulation.simulated_cluster import Fault, SimulatedCluster, no_faults
from moorage.cluster.simulation.simulation import Simulation
from moorage.common.clock import VirtualClock
from moorage.common.errors import ApiError, Conflict
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.devices import ResourceClaim
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import default_config
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.plugins.included_plugins import IN_TREE
from moorage.scheduler.wiring.policy import Policy
from moorage.testing import make_node, make_pod

NODES = [f"n{i}" for i in range(3)]


class Every:
    """A fault of every nth write of a kind."""

    def __init__(self, nth: int, verb: str, error: ApiError) -> None:
        self.nth, self.verb, self.error, self.count = nth, verb, error, 0

    def __call__(self, verb: str, _obj: KubeObject) -> ApiError | None:
        self.count += verb == self.verb
        return self.error if verb == self.verb and self.count % self.nth == 0 else None


FAULTS: dict[str, Fault] = {
    "nothing fails": no_faults,
    "claims change concurrently": Every(3, "update", Conflict("changed")),
    "claims cannot be written": Every(4, "update", ApiError("broken")),
    "pods cannot be bound": Every(3, "bind", ApiError("broken")),
}


def simulate(fault: Fault, *pods: KubeObject) -> SimulatedCluster:
    """Let a scheduler work until nothing more happens."""
    clock = VirtualClock()

    async def work() -> SimulatedCluster:
        world = SimulatedCluster(clock, fault=fault)
        simulation = Simulation(world, Policy(default_config(), Registry(IN_TREE), FeatureGates()))
        slices = [make_slice(device("a"), device("b"), name=f"s-{n}", pool=f"p-{n}", node=n) for n in NODES]
        simulation.load([*map(make_node, NODES), make_class("gpu", resource="example.com/gpu"), *slices, *pods])
        await simulation.run_until_quiet()
        return world

    return run_virtual(work(), clock)


def check(world: SimulatedCluster) -> tuple[int, int]:
    """Return how many pods run and how many devices are held; no device may be held twice, nor on another node."""
    bound = {pod.uid: pod for pod in world.store.list(Pod) if pod.node_name}
    allocation = []
    for claim in world.store.list(ResourceClaim):
        if claim.status.allocation is not None:
            results = claim.status.allocation.devices.results
            allocation += [(result.pool, result.device) for result in results]
            for consumer in claim.status.reserved_for:
                assert {result.pool for result in results} == {f"p-{bound[consumer.uid].node_name}"}
    assert len(allocation) == len(set(allocation))
    return len(bound), len(allocation)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_every_device_is_allocated_to_one_pod(fault: Fault) -> None:
    pods = [claiming(f"c{i}", name=f"pod{i}", uid=f"uid{i}") for i in range(8)]
    claims = [make_claim(name=f"c{i}") for i in range(8)]
    assert check(simulate(fault, *claims, *pods)) == (6, 6)


def test_pods_with_extended_resources_get_devices() -> None:
    pods = [make_pod(f"pod{i}", uid=f"uid{i}", requests={"example.com/gpu": 1}) for i in range(8)]
    assert check(simulate(no_faults, *pods)) == (6, 6)


def test_a_claim_may_be_shared() -> None:
    pods = [claiming("shared", name=f"pod{i}", uid=f"uid{i}") for i in range(4)]
    world = simulate(no_faults, make_claim(name="shared"), *pods)
    assert check(world) == (4, 1)
    assert len({pod.node_name for pod in world.store.list(Pod)}) == 1
