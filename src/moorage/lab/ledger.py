"""Capacity and usage of nodes, counted independently of the scheduler to detect its errors."""

from typing import Final, NamedTuple

import numpy as np

from moorage.common.arrays import NDArray
from moorage.kube.api.gpu_sharing import GPU_COUNT, GPU_DEVICES, GPU_MILLI, GPU_MODEL, WHOLE_GPU
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.lab.cluster import PRICE, WATTS_BUSY, WATTS_IDLE, read_number

RESOURCES: Final = ("cpu", "memory", GPU_MILLI)
CPU, MEMORY, GPU = range(len(RESOURCES))


class NodeAccount:
    """One node: capacity, usage, free parts of devices, and costs."""

    __slots__ = ("devices", "free", "model", "name", "pods", "price", "total", "watts_busy", "watts_idle")

    def __init__(self, node: Node) -> None:
        self.name = node.name
        self.total = [node.allocatable.get(name, 0) for name in RESOURCES]
        self.free = list(self.total)
        self.devices = [WHOLE_GPU] * (self.total[GPU] // WHOLE_GPU)
        self.model = node.labels.get(GPU_MODEL, "")
        self.price = read_number(node, PRICE)
        self.watts_idle = read_number(node, WATTS_IDLE)
        self.watts_busy = max(self.watts_idle, read_number(node, WATTS_BUSY))
        self.pods = 0

    @property
    def watts(self) -> float:
        """The current power consumption, between idle and busy by the requested CPU."""
        share = 1.0 - self.free[CPU] / self.total[CPU] if self.total[CPU] else 0.0
        return self.watts_idle + (self.watts_busy - self.watts_idle) * share


class PodUsage(NamedTuple):
    """The resources that a pod uses on a node."""

    node: NodeAccount
    amounts: list[int]
    devices: tuple[int, ...]
    milli: int


class UsageLedger:
    """All nodes and their usage. Sums are updated incrementally."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeAccount] = {}
        self.total = [0] * len(RESOURCES)
        self.free = [0] * len(RESOURCES)
        self.price = self.price_used = self.watts = self.watts_used = 0.0
        self.nodes_used = 0
        """Number of nodes with pods."""
        self.overcommitted = 0
        """Number of placements beyond the capacity of a node: 0, unless a policy lacks a filter."""
        self._usage: dict[str, PodUsage] = {}

    @property
    def running(self) -> int:
        """Number of pods with a node."""
        return len(self._usage)

    def add_node(self, node: Node) -> None:
        """Add a node."""
        account = self.nodes[node.name] = NodeAccount(node)
        for index, amount in enumerate(account.total):
            self.total[index] += amount
            self.free[index] += amount
        self.price += account.price
        self.watts += account.watts

    def remove_node(self, name: str) -> None:
        """Remove a node without pods."""
        account = self.nodes.pop(name)
        for index, amount in enumerate(account.total):
            self.total[index] -= amount
            self.free[index] -= account.free[index]
        self.price -= account.price
        self.watts -= account.watts

    def take(self, pod: Pod) -> None:
        """Count a pod that got a node."""
        account = self.nodes[pod.node_name]
        amounts = [pod.requests.get(name, 0) for name in RESOURCES]
        usage = self._usage[pod.uid] = PodUsage(account, amounts, *_find_devices(account, pod))
        self._add(usage, -1)
        if min(account.free) < 0 or any(account.devices[device] < 0 for device in usage.devices):
            self.overcommitted += 1

    def release(self, uid: str) -> None:
        """Free the resources of a pod."""
        self._add(self._usage.pop(uid), +1)

    def _add(self, usage: PodUsage, direction: int) -> None:
        account = usage.node
        before, was_used = account.watts, account.pods > 0
        for index, amount in enumerate(usage.amounts):
            account.free[index] += direction * amount
            self.free[index] += direction * amount
        for device in usage.devices:
            account.devices[device] += direction * usage.milli
        account.pods -= direction
        after, is_used = account.watts, account.pods > 0
        self.watts += after - before
        self.watts_used += (after if is_used else 0.0) - (before if was_used else 0.0)
        if is_used != was_used:
            self.price_used += account.price if is_used else -account.price
            self.nodes_used += 1 if is_used else -1

    def share(self, index: int) -> float:
        """Return the requested share of a resource."""
        return 1.0 - self.free[index] / self.total[index] if self.total[index] else 0.0

    def node_shares(self, index: int) -> NDArray[np.float64]:
        """Return the requested share of a resource on each node that has it."""
        accounts = [account for account in self.nodes.values() if account.total[index]]
        return np.array([1.0 - account.free[index] / account.total[index] for account in accounts], dtype=np.float64)


def _find_devices(account: NodeAccount, pod: Pod) -> tuple[tuple[int, ...], int]:
    """Return the devices of a pod and its part of each; without an annotation, the first ones with free capacity."""
    annotations = pod.annotations
    count, milli = int(annotations.get(GPU_COUNT, 0)), int(annotations.get(GPU_MILLI, 0))
    if not count:
        return (), 0
    if device_list := annotations.get(GPU_DEVICES):
        return tuple(int(text) for text in device_list.split(",")), milli
    return tuple([device for device, free in enumerate(account.devices) if free >= milli][:count]), milli
