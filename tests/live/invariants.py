"""Invariants after any fault: every pod is bound exactly once or reported, no node is overcommitted, nothing is stuck.

Some hold at any time, and a short violation is a failure; others become true once controllers have finished, and tests
wait for them.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.records import Event
from tests.live.cluster import NAMESPACE, PATIENCE, SCHEDULED, LiveCluster
from tests.live.devices import device_claims, device_problems, doubled
from tests.live.storage import storage

FOR_WANT_OF_ROOM: Final = ("Insufficient", "Too many pods")


@dataclass(frozen=True)
class Room:
    """A node and the pods on it."""

    node: Node
    pods: list[Pod]

    def used(self, resource: str) -> int:
        """Return the amount of a resource that its pods request."""
        return sum(pod.requests.get(resource, 0) for pod in self.pods)

    def overfull(self) -> list[str]:
        """Return the resources of the node that are allocated more than once."""
        resources = {resource for pod in self.pods for resource in pod.requests}
        limits = {resource: self.node.allocatable.get(resource, 0) for resource in resources}
        remaining = [
            f"{self.node.name} has {limit} {what}, given away: {self.used(what)}"
            for what, limit in limits.items()
            if self.used(what) > limit
        ]
        if len(self.pods) > self.node.allocatable["pods"]:
            remaining.append(f"{self.node.name} may have {self.node.allocatable['pods']} pods and has {len(self.pods)}")
        return remaining

    def has_room_for(self, pod: Pod) -> bool:
        """Return whether the pod's requests would fit."""
        fits = all(
            self.used(resource) + request <= self.node.allocatable.get(resource, 0)
            for resource, request in pod.requests.items()
        )
        return fits and len(self.pods) < self.node.allocatable["pods"]


async def check(cluster: LiveCluster, seconds: float = PATIENCE) -> None:
    """Check all invariants; some get time to become true."""
    deadline = time.monotonic() + seconds
    while unsettled := await _unsettled(cluster):
        await check_any_time(cluster)
        assert time.monotonic() < deadline, f"invariants still violated: {unsettled}"
        await asyncio.sleep(0.5)
    await check_any_time(cluster)
    assert not (twice := await _told_twice(cluster)), f"reported as bound more than once: {twice}"


async def check_any_time(cluster: LiveCluster, *, nodes_leave: bool = False) -> None:
    """Check the invariants that hold at any time, even during faults.

    If nodes leave, a scheduler with stale data may bind a pod to a deleted node: the pods there are collected.
    """
    pods = await cluster.pods()  # read first: objects of a bound pod may not appear later
    rooms = await _rooms(cluster, pods.values())
    broken = [*cluster.witness.moved(), *([] if nodes_leave else _misplaced(pods.values(), rooms))]
    broken += [problem for room in rooms.values() for problem in room.overfull()]
    broken += [f"{location} was allocated twice" for location in doubled([*(await device_claims(cluster)).values()])]
    reachable = await storage(cluster)
    # The objects of a pod are deleted soon after it: missing objects are an error for existing pods only.
    remaining = {pod.uid for pod in (await cluster.pods()).values() if not pod.is_terminating}
    broken += reachable.out_of_reach({name: pod for name, pod in pods.items() if pod.uid in remaining})
    assert not broken, f"invariants violated: {broken[:20]}"


async def _rooms(cluster: LiveCluster, pods: Iterable[Pod]) -> dict[str, Room]:
    rooms = {node.name: Room(node, []) for node in await cluster.client.list(Node)}
    for pod in pods:
        if pod.node_name in rooms and not pod.is_finished:
            rooms[pod.node_name].pods.append(pod)
    return rooms


def _misplaced(pods: Iterable[Pod], rooms: dict[str, Room]) -> list[str]:
    return [
        f"{pod.name} is on {pod.node_name}, which is not there"
        for pod in pods
        if pod.node_name and pod.node_name not in rooms
    ]


async def _unsettled(cluster: LiveCluster) -> list[str]:
    """Return pods without a reason, pods that are pending despite free space, and partial bindings."""
    pods = await cluster.pods()
    rooms = await _rooms(cluster, pods.values())
    selected = [problem for pod in pods.values() for problem in _untold_or_stuck(pod, rooms)]
    selected += (await storage(cluster)).problems(pods)
    selected += device_problems(await device_claims(cluster), pods)
    return selected[:20]


def _untold_or_stuck(pod: Pod, rooms: dict[str, Room]) -> list[str]:
    condition = pod.condition(SCHEDULED)
    if condition is None:
        return [f"{pod.name} was neither bound nor reported"]
    if (condition.status == "True") != bool(pod.node_name):
        return [f"{pod.name} is on {pod.node_name!r}, and is told {condition.status}: {condition.message}"]
    reasons = condition.message.partition(": ")[2].partition(". ")[0]
    only_room = all(any(word in part for word in FOR_WANT_OF_ROOM) for part in reasons.split(", "))
    if not pod.node_name and only_room and any(room.has_room_for(pod) for room in rooms.values()):
        return [f"{pod.name} waits, although there is room: {condition.message}"]
    return [f"{pod.name} is never deleted"] if pod.is_terminating else []


async def _told_twice(cluster: LiveCluster) -> list[str]:
    events = [event for event in await cluster.client.list(Event, NAMESPACE) if event.reason == "Scheduled"]
    counts = Counter(event.regarding.uid for event in events)
    counts.update(event.regarding.uid for event in events if event.series is not None)
    return [uid for uid, times in counts.items() if times > 1]
