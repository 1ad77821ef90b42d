"""The binding cycle in virtual time: permit, pre-bind, bind, and the way back."""

import asyncio
from collections.abc import Iterable
from typing import Any, ClassVar

import pytest
from tests.support.engine import config_with, registry_with

from moorage.cluster.simulation.simulated_cluster import SimulatedCluster
from moorage.cluster.simulation.simulation import Simulation
from moorage.common.clock import VirtualClock
from moorage.common.errors import ApiError
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.features import FeatureGates
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.plugin import (
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PreBindPlugin,
    PreFilterPlugin,
    ReservePlugin,
    Wait,
)
from moorage.scheduler.framework.status import Status
from moorage.scheduler.wiring.policy import Policy
from moorage.testing import make_node, make_pod

STORY: list[str] = []


@pytest.fixture(autouse=True)
def _fresh_story() -> None:
    STORY.clear()


class WaitsForever(PermitPlugin):
    def permit(self, *_: Any) -> Wait:
        return Wait(300.0)


class WaitsForFriend(PermitPlugin):
    """Delays the first pod until the second arrives."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def permit(self, _cycle: object, _pod: Pod, _node: str) -> Wait | None:
        waiting = self._handle.waiting_pods()
        for waiting_pod in waiting:
            waiting_pod.allow(self.name)
        return None if waiting else Wait(60.0)


class Refuses(PermitPlugin):
    def permit(self, *_: Any) -> Status:
        return Status.unschedulable("over quota")


class Books(ReservePlugin):
    def reserve(self, _cycle: object, pod: Pod, _node: str) -> None:
        STORY.append(f"reserve {pod.name}")

    def unreserve(self, _cycle: object, pod: Pod, _node: str) -> None:
        STORY.append(f"unreserve {pod.name}")


class Slow(PreBindPlugin):
    allows_parallel = True
    seconds: ClassVar[float] = 5.0

    def pre_bind_pre_flight(self, *_: Any) -> None:
        return None

    async def pre_bind(self, *_: Any) -> None:
        STORY.append(f"{self.name} starts")
        await asyncio.sleep(self.seconds)
        STORY.append(f"{self.name} ends")


class AlsoSlow(Slow):
    pass


class Prepares(PreFilterPlugin, ReservePlugin, PreBindPlugin):
    """Skips all pods but the first, without declaring that its other methods depend on that."""

    def pre_filter(self, _cycle: object, pod: Pod, _nodes: object) -> Status | None:
        return None if pod.name == "p0" else Status.skip()

    def reserve(self, _cycle: object, pod: Pod, _node: str) -> None:
        STORY.append(f"reserve {pod.name}")

    def unreserve(self, *_: Any) -> None:
        return None

    def pre_bind_pre_flight(self, _cycle: object, pod: Pod, _node: str) -> Status:
        STORY.append(f"pre-flight {pod.name}")
        return Status.skip()

    async def pre_bind(self, *_: Any) -> None:
        return None


class Rests(Prepares):
    _idle_when_skipped = True


class FailsPreBind(PreBindPlugin):
    def pre_bind_pre_flight(self, *_: Any) -> None:
        return None

    async def pre_bind(self, *_: Any) -> None:
        raise RuntimeError("volume is gone")


class Tells(PostBindPlugin):
    async def post_bind(self, _cycle: object, pod: Pod, node_name: str) -> None:
        STORY.append(f"{pod.name} on {node_name}")


def simulate(
    *plugins: type[Plugin], pods: int = 1, seconds: float = 1000.0, faults: Iterable[ApiError] = (), gates: str = ""
) -> tuple[SimulatedCluster, Simulation]:
    """Place pods on one node with more plugins, for so long."""
    clock, errors = VirtualClock(), list(faults)

    def fault(verb: str, obj: KubeObject) -> ApiError | None:
        return errors.pop() if verb == "bind" and errors else None

    async def run() -> tuple[SimulatedCluster, Simulation]:
        world = SimulatedCluster(clock, fault=fault)
        simulation = Simulation(
            world, Policy(config_with(*plugins), registry_with(*plugins), FeatureGates.parse(gates)), cross_check=True
        )
        simulation.load([make_node("a"), *(make_pod(f"p{i}") for i in range(pods))])
        await simulation.run_until_quiet(max_seconds=seconds)
        return world, simulation

    return run_virtual(run(), clock)


def pod(world: SimulatedCluster, name: str = "p0") -> Pod:
    stored = world.store.get(Pod, name, "default")
    assert stored is not None
    return stored


def reasons(world: SimulatedCluster) -> list[str]:
    return [f"{event.reason}: {event.note}" for event in world.events]


def test_pod_is_bound_and_observers_are_notified() -> None:
    world, _ = simulate(Books, Tells)
    assert pod(world).node_name == "a"
    assert STORY == ["reserve p0", "p0 on a"]
    assert reasons(world) == ["Scheduled: Successfully assigned default/p0 to a"]


@pytest.mark.parametrize(("gates", "announced"), [("", "a"), ("NominatedNodeNameForExpectation=false", "")])
def test_the_expected_node_is_announced_unless_its_gate_is_off(gates: str, announced: str) -> None:
    world, _ = simulate(WaitsForever, seconds=100.0, gates=gates)
    assert pod(world).nominated_node_name == announced


def test_pod_is_requeued_after_the_permit_timeout() -> None:
    world, _ = simulate(Books, WaitsForever, seconds=310.0)
    note = "rejected due to timeout after waiting 5m0s at plugin WaitsForever"
    assert reasons(world)[0] == f"FailedScheduling: 0/1 nodes are available: 1 {note}."
    assert STORY[:2] == ["reserve p0", "unreserve p0"]
    assert pod(world).node_name == ""
    condition = pod(world).condition("PodScheduled")
    assert condition is not None
    assert condition.reason == "Unschedulable"


def test_permit_waits_until_allowed() -> None:
    world, _ = simulate(WaitsForFriend, pods=2)
    assert {pod(world, "p0").node_name, pod(world, "p1").node_name} == {"a"}


def test_permit_rejects() -> None:
    world, simulation = simulate(Books, Refuses)
    # The pod's own condition is an event that activates plugins without registered events: one retry follows.
    assert reasons(world) == ["FailedScheduling: 0/1 nodes are available: 1 over quota."] * 2
    assert STORY == ["reserve p0", "unreserve p0"] * 2
    assert simulation.scheduler.cache.pod_count == 0


def test_parallel_pre_bind_plugins_run_concurrently() -> None:
    simulate(Slow, AlsoSlow)
    assert STORY[:2] == ["Slow starts", "AlsoSlow starts"]
    assert sorted(STORY[2:]) == ["AlsoSlow ends", "Slow ends"], "both end at the same moment"


def test_the_expected_node_is_announced_before_pre_bind() -> None:
    world, _ = simulate(Slow, seconds=2.0)
    assert pod(world).nominated_node_name == "a"


def test_a_failed_pre_bind_is_undone_and_retried() -> None:
    world, _ = simulate(Books, FailsPreBind, seconds=3.0)
    assert STORY[:3] == ["reserve p0", "unreserve p0", "reserve p0"]
    message = "FailsPreBind.pre_bind raised RuntimeError: volume is gone (test_binder.py:117)"
    assert reasons(world)[0] == f'FailedScheduling: running PreBind plugin "FailsPreBind": {message}'
    condition = pod(world).condition("PodScheduled")
    assert condition is not None
    assert condition.reason == "SchedulerError"


def test_a_failed_bind_is_undone_and_retried() -> None:
    world, simulation = simulate(Books, faults=[ApiError("the server is not well")])
    assert STORY == ["reserve p0", "unreserve p0", "reserve p0"]
    assert pod(world).node_name == "a"
    assert simulation.scheduler.cache.assumed_count == 0


SKIPPED = {
    "a plugin that returns skip is called once": (Rests, ["p0"], ["p0"]),
    "any other is": (Prepares, ["p0", "p1"], ["p0", "p1"]),
}


@pytest.mark.parametrize(("plugin", "reserved", "flew"), SKIPPED.values(), ids=SKIPPED)
def test_a_plugin_that_skipped_a_pod(plugin: type[Plugin], reserved: list[str], flew: list[str]) -> None:
    simulate(plugin, pods=2)
    assert sorted(STORY) == [f"pre-flight {name}" for name in flew] + [f"reserve {name}" for name in reserved]
