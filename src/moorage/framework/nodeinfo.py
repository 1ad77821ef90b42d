"""One node and the pods on it: a row of the cluster, as plugin authors see it."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from moorage.api.affinity import Taint
from moorage.api.node import Node
from moorage.api.pod import ANY_ADDRESS, HostPort, Pod

NO_ROW: Final = -1


class NodeInfo:
    """A node, its pods, and what they take of it.

    ``node`` is ``None`` only inside the cache, for pods that arrived before their node; plugins never meet such a one.
    A what-if works on a :meth:`copy`, so adding and removing pods there changes nothing else. ``version`` grows with
    every change.
    """

    __slots__ = (
        "_node",
        "allocatable",
        "name",
        "nonzero_cpu",
        "nonzero_memory",
        "pods",
        "requested",
        "row",
        "used_ports",
        "version",
    )

    def __init__(self, node: Node | None, pods: Iterable[Pod] = ()) -> None:
        self._take(node)
        self.row = NO_ROW
        self.pods: dict[str, Pod] = {}
        self.requested: dict[str, int] = {}
        self.nonzero_cpu = 0
        self.nonzero_memory = 0
        self.used_ports: set[HostPort] = set()
        self.version = 0
        for pod in pods:
            self.add_pod(pod)

    def __repr__(self) -> str:
        return f"NodeInfo({self._node.name if self._node else '?'}, {len(self.pods)} pods)"

    @property
    def node(self) -> Node:
        """The node itself."""
        assert self._node is not None, "a node that is not there yet is never shown to plugins"
        return self._node

    @node.setter
    def node(self, node: Node | None) -> None:
        self._take(node)
        self.version += 1

    def _take(self, node: Node | None) -> None:
        self._node = node
        self.name = "" if node is None else node.name
        self.allocatable: Mapping[str, int] = {} if node is None else node.allocatable
        """What all pods together may take: milli-CPU, bytes, and plain counts."""

    @property
    def labels(self) -> dict[str, str]:
        """Return the node's labels."""
        return self.node.labels

    @property
    def taints(self) -> tuple[Taint, ...]:
        """Return the node's taints."""
        return self.node.spec.taints

    def add_pod(self, pod: Pod) -> None:
        """Count a pod as running here."""
        self.version += 1
        self.pods[pod.metadata.uid] = pod
        requested = self.requested
        for name, amount in pod.requests_on_node.items():
            requested[name] = requested[name] + amount if name in requested else amount
        cpu, memory = pod.nonzero_requests
        self.nonzero_cpu += cpu
        self.nonzero_memory += memory
        if pod.host_ports:
            self.used_ports.update(pod.host_ports)

    def remove_pod(self, pod: Pod) -> None:
        """Stop counting a pod; the pod that was added under this uid is the one taken away."""
        self.version += 1
        pod = self.pods.pop(pod.uid)
        for name, amount in pod.requests_on_node.items():
            self.requested[name] -= amount
        cpu, memory = pod.nonzero_requests
        self.nonzero_cpu -= cpu
        self.nonzero_memory -= memory
        # A set, not a counter, as upstream: a port two pods share is free once either is gone.
        self.used_ports.difference_update(pod.host_ports)

    def copy(self) -> "NodeInfo":
        """Return a row for what-ifs."""
        other = NodeInfo.__new__(NodeInfo)
        other._node = self._node
        other.name = self.name
        other.allocatable = self.allocatable
        other.version = self.version
        other.row = self.row
        other.pods = dict(self.pods)
        other.requested = dict(self.requested)
        other.nonzero_cpu = self.nonzero_cpu
        other.nonzero_memory = self.nonzero_memory
        other.used_ports = set(self.used_ports)
        return other


def ports_conflict(wanted: Iterable[HostPort], used: Collection[HostPort]) -> bool:
    """Tell whether a wanted port is taken: the wildcard address clashes with every address."""
    if not used:
        return False
    return any(
        port == taken_port and protocol == taken_protocol and (ip == taken_ip or ANY_ADDRESS in (ip, taken_ip))
        for ip, protocol, port in wanted
        for taken_ip, taken_protocol, taken_port in used
    )
