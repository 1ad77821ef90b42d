"""Holds: placeholders for something other than a pod, in the cache and in a running scheduler."""

from collections.abc import Iterable
from typing import Any

import pytest

from moorage.common.errors import MoorageError
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.plugin import Hold, ReservePlugin
from moorage.scheduler.framework.status import Status
from moorage.scheduler.state.cache import Cache
from moorage.scheduler.state.holds import Holds
from moorage.testing import Cluster, in_virtual_time, make_node


def cpu_on(cache: Cache, name: str = "n") -> int:
    node = cache.node(name)
    assert node is not None
    return node.requested.get("cpu", 0)


def make_holds() -> tuple[Cache, Holds, list[str]]:
    cache, released = Cache(), list[str]()
    cache.add_node(make_node("n", allocatable={"cpu": "8", "pods": "10"}))
    return cache, Holds(cache, lambda pod: released.append(pod.name)), released


def test_a_hold_uses_resources_until_it_is_released() -> None:
    cache, holds, released = make_holds()
    hold = holds.add(None, "Reservations", "n", {"cpu": "2500m", "example.com/fpga": 1})
    assert (cpu_on(cache), hold.node_name, len(holds)) == (2500, "n", 1)
    hold.release()
    hold.release()
    assert (cpu_on(cache), len(holds), released) == (0, 0, ["reservations-1"])


def test_lifted_holds_return_unless_they_were_released() -> None:
    cache, holds, _ = make_holds()
    used, unused, other = (holds.add(None, "R", "n", {"cpu": amount}) for amount in ("1", "2", "4"))
    with holds.lifted([used, unused]):
        assert cpu_on(cache) == 4000
        used.release()
    assert cpu_on(cache) == 6000
    with holds.lifted([used, other]):
        assert cpu_on(cache) == 2000
    assert cpu_on(cache) == 6000


def test_a_hold_survives_its_node() -> None:
    cache, holds, _ = make_holds()
    hold = holds.add(None, "R", "n", {"cpu": "1"})
    cache.remove_node("n")
    cache.add_node(make_node("n"))
    assert cpu_on(cache) == 1000
    cache.remove_node("n")
    hold.release()
    cache.add_node(make_node("n"))
    assert cpu_on(cache) == 0


@pytest.mark.parametrize("amount", ["-1", "much", -2])
def test_invalid_amounts_are_rejected_without_effect(amount: Any) -> None:
    cache, holds, _ = make_holds()
    with pytest.raises(ValueError, match=r"negative|is not a quantity"):
        holds.add(None, "R", "n", {"cpu": amount})
    assert (cpu_on(cache), len(holds)) == (0, 0)


URGENT = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "urgent"},
    "value": 1_000_000,
}


def pod(name: str, cpu: str, priority_class: str = "", **labels: str) -> dict[str, Any]:
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], "priorityClassName": priority_class}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


class Reservations(ReservePlugin):
    """Holds three cores for the pod with the label owner; after its placement the remainder."""

    fails: Exception | None = None

    def __init__(self, *, handle: Handle) -> None:
        self.handle = handle
        self.holds: list[Hold] = []

    async def start(self) -> None:
        self.holds = [self.handle.hold("node-1", {"cpu": "3"})]

    def usable_holds(self, pod: Pod) -> Iterable[Hold]:
        if self.fails is not None:
            raise self.fails
        return self.holds if "owner" in pod.labels else ()

    def reserve(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        if "owner" in pod.labels:
            for hold in self.holds:
                hold.release()
        return None

    def unreserve(self, cycle: CycleState, pod: Pod, node_name: str) -> None: ...


@in_virtual_time
async def test_only_its_owner_uses_a_hold() -> None:
    async with Cluster(nodes=1, shape="cpu=4", plugins=[Reservations]) as cluster:
        await cluster.apply(URGENT, pod("stranger", "2", "urgent"))
        await cluster.wait_for(lambda: "Insufficient cpu" in cluster.why_pending("stranger"))
        await cluster.apply(pod("owner", "3", "urgent", owner="yes"))
        await cluster.wait_for(lambda: [pod.name for pod in cluster.running()] == ["owner"], seconds=5)
        assert "Insufficient cpu" in cluster.why_pending("stranger")
        await cluster.delete(pod("owner", "3"))
        await cluster.wait_for(lambda: [pod.name for pod in cluster.running()] == ["stranger"])


@in_virtual_time
async def test_a_hold_returns_after_an_attempt_that_does_not_use_it() -> None:
    async with Cluster(nodes=1, shape="cpu=4", plugins=[Reservations]) as cluster:
        await cluster.apply(pod("owner", "5", owner="yes"), pod("stranger", "2"))
        await cluster.wait_for(lambda: "Insufficient cpu" in cluster.why_pending("owner"))
        await cluster.wait_for(lambda: "Insufficient cpu" in cluster.why_pending("stranger"))


@in_virtual_time
async def test_releasing_a_hold_retries_pods_that_may_fit() -> None:
    async with Cluster(nodes=1, shape="cpu=4", plugins=[Reservations]) as cluster:
        await cluster.apply(pod("stranger", "2"))
        await cluster.wait_for(lambda: "Insufficient cpu" in cluster.why_pending("stranger"))
        await cluster.sleep(30)
        cluster.plugin(Reservations).holds[0].release()
        await cluster.wait_for(lambda: len(cluster.running()) == 1, seconds=5)


@in_virtual_time
async def test_holds_end_with_their_plugin() -> None:
    async with Cluster(nodes=1, shape="cpu=4", plugins=[Reservations]) as cluster:
        plugin = cluster.plugin(Reservations)
        await cluster.apply(pod("stranger", "2"))
        await cluster.wait_for(lambda: "Insufficient cpu" in cluster.why_pending("stranger"))
        await cluster.reload()
        await cluster.wait_for(lambda: len(cluster.running()) == 1)
        with pytest.raises(MoorageError, match="Reservations is not running"):
            plugin.handle.hold("node-1", {"cpu": "1"})


@in_virtual_time
async def test_an_exception_in_usable_holds_fails_the_attempt() -> None:
    async with Cluster(nodes=1, plugins=[Reservations], raise_plugin_exceptions=False) as cluster:
        cluster.plugin(Reservations).fails = KeyError("gone")
        await cluster.apply(pod("p", "1"))
        await cluster.wait_for(lambda: "Reservations.usable_holds raised KeyError" in cluster.why_pending("p"))


@in_virtual_time
async def test_other_results_of_usable_holds_fail_the_attempt() -> None:
    async with Cluster(nodes=1, plugins=[Reservations], raise_plugin_exceptions=False) as cluster:
        cluster.plugin(Reservations).holds = ["node-1"]  # type: ignore[list-item]
        await cluster.apply(pod("p", "1", owner="yes"))
        await cluster.wait_for(lambda: "not a result of handle.hold" in cluster.why_pending("p"))
