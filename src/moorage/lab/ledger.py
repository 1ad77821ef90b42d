"""Capacity and usage of nodes, counted independently of the scheduler, so that its errors show."""

from typing import Final

import numpy as np

from moorage.common.arrays import NDArray
from moorage.common.errors import InputError
from moorage.kube.api.gpu_sharing import GPU_COUNT, GPU_DEVICES, GPU_MILLI, GPU_MODEL, WHOLE_GPU
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.lab.cluster import PRICE, WATTS_BUSY, WATTS_IDLE

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
        self.price = number_of(node, PRICE)
        self.watts_idle = number_of(node, WATTS_IDLE)
        self.watts_busy = max(self.watts_idle, number_of(node, WATTS_BUSY))
        self.pods = 0

    @property
    def watts(self) -> float:
        """The current power consumption, between idle and busy by the requested CPU."""
        share = 1.0 - self.free[CPU] / self.total[CPU] if self.total[CPU] else 0.0
        return self.watts_idle + (self.watts_busy - self.watts_idle) * share


def number_of(node: Node, annotation: str) -> float:
    """Return a number from an annotation of a node; 0 if it is missing."""
    text = node.annotations.get(annotation, "0")
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0.0 <= number < float("inf"):
        problem = f"{text!r} is not a number of at least 0"
        raise InputError(f"node {node.name}, annotation {annotation}", problem, hint="write one, such as 1.25")
    return number


class Holding:
    """The resources that a pod uses on a node."""

    __slots__ = ("amounts", "devices", "milli", "node")

    def __init__(self, node: NodeAccount, amounts: list[int], devices: tuple[int, ...], milli: int) -> None:
        self.node, self.amounts, self.devices, self.milli = node, amounts, devices, milli


class UsageLedger:
    """All nodes and their usage; sums are updated incrementally."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeAccount] = {}
        self.total = [0] * len(RESOURCES)
        self.free = [0] * len(RESOURCES)
        self.price = self.price_used = self.watts = self.watts_used = 0.0
        self.overcommitted = 0
        """How often a node had less than it gave away; anything but 0 is a mistake of the policy or ours."""
        self._held: dict[str, Holding] = {}

    @property
    def running(self) -> int:
        """Number of pods with a node."""
        return len(self._held)

    def add_node(self, node: Node) -> None:
        """Count a node that has come."""
        account = self.nodes[node.name] = NodeAccount(node)
        for index, amount in enumerate(account.total):
            self.total[index] += amount
            self.free[index] += amount
        self.price += account.price
        self.watts += account.watts

    def remove_node(self, name: str) -> None:
        """Remove a node and its usage."""
        account = self.nodes.pop(name)
        for index, amount in enumerate(account.total):
            self.total[index] -= amount
            self.free[index] -= account.free[index]
        self.price -= account.price
        self.watts -= account.watts

    def take(self, pod: Pod) -> None:
        """Count a pod that was given a node."""
        account = self.nodes[pod.node_name]
        requests = pod.requests
        amounts = [requests.get(name, 0) for name in RESOURCES]
        devices, milli = self._devices(account, pod)
        self._held[pod.uid] = Holding(account, amounts, devices, milli)
        self._move(account, amounts, devices, milli, -1)
        if min(account.free) < 0 or any(account.devices[device] < 0 for device in devices):
            self.overcommitted += 1

    def release(self, uid: str) -> None:
        """Give back what a pod held."""
        usage = self._held.pop(uid)
        self._move(usage.node, usage.amounts, usage.devices, usage.milli, +1)

    def _move(
        self, account: NodeAccount, amounts: list[int], devices: tuple[int, ...], milli: int, direction: int
    ) -> None:
        before, was_used = account.watts, account.pods > 0
        for index, amount in enumerate(amounts):
            account.free[index] += direction * amount
            self.free[index] += direction * amount
        for device in devices:
            account.devices[device] += direction * milli
        account.pods -= direction
        after, is_used = account.watts, account.pods > 0
        self.watts += after - before
        self.watts_used += (after if is_used else 0.0) - (before if was_used else 0.0)
        if is_used != was_used:
            self.price_used += account.price if is_used else -account.price

    def _devices(self, account: NodeAccount, pod: Pod) -> tuple[tuple[int, ...], int]:
        """Return the devices of a pod; without an annotation, the first devices with free capacity."""
        annotations = pod.annotations
        count, milli = int(annotations.get(GPU_COUNT, 0)), int(annotations.get(GPU_MILLI, 0))
        if not count:
            return (), 0
        if device_list := annotations.get(GPU_DEVICES):
            return tuple(int(text) for text in device_list.split(",")), milli
        fitting = [device for device, free in enumerate(account.devices) if free >= milli][:count]
        return tuple(fitting), milli

    def share(self, index: int) -> float:
        """Return which part of a resource is given away."""
        return 1.0 - self.free[index] / self.total[index] if self.total[index] else 0.0

    def node_shares(self, index: int) -> NDArray[np.float64]:
        """Return which part of a resource is given away on each node that has it."""
        having = [account for account in self.nodes.values() if account.total[index]]
        return np.array([1.0 - account.free[index] / account.total[index] for account in having], dtype=np.float64)

    @property
    def nodes_used(self) -> int:
        """Number of nodes with pods."""
        return sum(1 for account in self.nodes.values() if account.pods)
