"""The embedded cluster in virtual time: writes by the API's rules, latencies, faults and kubelets."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from moorage.cluster.simulation.simulated_cluster import Fault, Pace, SimulatedCluster, no_faults
from moorage.cluster.simulation.simulation import Simulation
from moorage.common.clock import VirtualClock
from moorage.common.errors import ApiError, Conflict, NotFound
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.scheduler.wiring.policy import collect_plugins, load_policy
from moorage.testing import make_node, make_pod

POLICY = load_policy(collect_plugins())


def live(
    story: Callable[[SimulatedCluster, Simulation], Awaitable[None]], pace: Pace | None = None, fault: Fault = no_faults
) -> None:
    """Let something happen in a cluster of one node."""
    clock = VirtualClock()

    async def run() -> None:
        world = SimulatedCluster(clock, pace=pace, fault=fault)
        simulation = Simulation(world, POLICY, cross_check=True)
        simulation.load([make_node("n")])
        await story(world, simulation)

    run_virtual(run(), clock)


def pod_of(world: SimulatedCluster) -> Pod:
    return next(world.store.list(Pod))


def test_a_pod_is_bound_and_run_by_the_kubelet() -> None:
    async def story(world: SimulatedCluster, simulation: Simulation) -> None:
        world.add(make_pod("p"))
        began = world.clock.now()
        await simulation.run_until_quiet()
        pod = pod_of(world)
        assert (pod.node_name, pod.status.phase) == ("n", "Running")
        assert {kind.type: kind.status for kind in pod.status.conditions}["PodScheduled"] == "True"
        assert world.bindings == {pod.uid: "n"}
        assert 3.0 < world.clock.now() - began < 5.0, "containers take three seconds to start"

    live(story, pace=Pace(start_container=3.0))


def test_a_pod_that_runs_gets_its_grace() -> None:
    async def story(world: SimulatedCluster, simulation: Simulation) -> None:
        world.add(make_pod("p"))
        await simulation.run_until_quiet()
        world.remove(pod_of(world))
        assert pod_of(world).metadata.deletion_grace_period_seconds == 30
        await simulation.run_until_quiet()
        assert list(world.store.list(Pod)) == []
        assert simulation.scheduler.cache.pod_count == 0

    live(story)


def test_writes_follow_the_rules_of_the_api() -> None:
    async def story(world: SimulatedCluster, simulation: Simulation) -> None:
        world.add(make_pod("p", scheduler_name="somebody-else"))
        pod, node = pod_of(world), next(world.store.list(Node))
        await world.cluster.bind(pod, "n")
        with pytest.raises(Conflict, match="already assigned"):
            await world.cluster.bind(pod, "other")
        labelled = replace(node, metadata=replace(node.metadata, labels={"x": "1"}))
        await world.cluster.update(labelled)
        with pytest.raises(Conflict):
            await world.cluster.update(replace(node, metadata=replace(node.metadata, labels={"x": "2"})))
        with pytest.raises(NotFound):
            await world.cluster.patch_status(make_pod("gone", uid="gone"), {"nominatedNodeName": "n"})

    live(story)


def test_fault_is_raised_to_the_writer() -> None:
    writes: list[tuple[str, str]] = []

    def fault(verb: str, obj: KubeObject) -> ApiError | None:
        writes.append((verb, obj.key))
        return ApiError("not now") if len(writes) == 1 else None

    async def story(world: SimulatedCluster, simulation: Simulation) -> None:
        world.add(make_pod("p"))
        await simulation.run_until_quiet()
        assert pod_of(world).node_name == "n", "it is tried again"
        assert [event.reason for event in world.events] == ["FailedScheduling", "Scheduled"]

    live(story, fault=fault)
    assert writes[0] == ("bind", "default/p")
    assert ("patch", "default/p") in writes


def test_writes_take_their_time() -> None:
    async def story(world: SimulatedCluster, simulation: Simulation) -> None:
        world.add(make_pod("p", scheduler_name="somebody-else"))
        began = world.clock.now()
        binding = asyncio.ensure_future(world.cluster.bind(pod_of(world), "n"))
        await asyncio.sleep(6.9)
        assert not binding.done()
        await binding
        assert world.clock.now() - began == pytest.approx(7.0)

    live(story, pace=Pace(bind=7.0))


def test_changes_missed_by_cut_watches_are_found_by_listing() -> None:
    async def story(world: SimulatedCluster, simulation: Simulation) -> None:
        world.add(make_pod("stays"), make_pod("goes"), make_pod("is-replaced", uid="old"))
        await simulation.run_until_quiet()
        world.add(make_pod("was-on-its-way"))
        world.cut_watches(5.0)
        for pod in list(world.store.list(Pod)):
            if pod.name in ("goes", "is-replaced"):
                world.store.remove(pod)
        world.add(make_pod("is-replaced", uid="new"), make_pod("comes"), make_node("m"))
        await simulation.run_until_quiet()
        assert all(pod.node_name for pod in world.store.list(Pod))
        assert simulation.scheduler.cache.pod_count == 4
        assert {pod.uid for node in simulation.scheduler.cache.nodes for pod in node.pods.values()} == {
            pod.uid for pod in world.store.list(Pod)
        }
        assert len(simulation.scheduler.cache) == 2

    live(story)
