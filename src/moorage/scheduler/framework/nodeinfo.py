"""One node and the pods on it: a row of the cluster, as plugin authors see it."""

from collections.abc import Collection, Iterable, KeysView, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, Never

from moorage.kube.api.affinity import Taint
from moorage.kube.api.node import Node
from moorage.kube.api.pod import ANY_ADDRESS, HostPort, Pod
from moorage.kube.api.requests import Amounts

NO_ROW: Final = -1


def _read(attribute: str) -> Any:
    """Return a read-only property with a getter in C: filters of a node read these for every node."""
    return property(attrgetter(attribute))


class NodeInfo:
    """A node, its pods, and the resources they use.

    ``node`` is ``None`` only inside the cache, for pods that arrived before their node. Plugins never see that.
    The object is read-only, because all plugins share it. Use a :meth:`copy` to add and remove pods without side
    effects. ``version`` increases with every change.
    """

    __slots__ = (
        "_allocatable",
        "_labels",
        "_name",
        "_node",
        "_nonzero_cpu",
        "_nonzero_memory",
        "_pods",
        "_pods_view",
        "_ports",
        "_requested",
        "_requested_view",
        "_row",
        "_version",
    )

    node: Node = _read("_node")
    """The node itself."""
    name: str = _read("_name")
    row: int = _read("_row")
    """The row in the columns, or ``NO_ROW`` if the node is not part of the cluster."""
    version: int = _read("_version")
    """Number of changes."""
    nonzero_cpu: int = _read("_nonzero_cpu")
    """The requested CPU of the pods, with a default for pods without a request."""
    nonzero_memory: int = _read("_nonzero_memory")
    """The same for memory."""
    pods: Mapping[str, Pod] = _read("_pods_view")
    """The pods, by uid."""
    requested: Mapping[str, int] = _read("_requested_view")
    """The sum of the pods' requests; 0 for an absent resource."""
    allocatable: Mapping[str, int] = _read("_allocatable")
    """The allocatable amounts: milli-CPU, bytes, and plain counts; 0 for an absent resource."""
    labels: Mapping[str, str] = _read("_labels")
    """The node's labels."""

    def __init__(self, node: Node | None, pods: Iterable[Pod] = ()) -> None:
        self._take(node)
        self._row = NO_ROW
        self._set_pods({}, Amounts(), {})
        self._nonzero_cpu = 0
        self._nonzero_memory = 0
        self._version = 0
        for pod in pods:
            NodeInfo.add_pod(self, pod)

    def _set_pods(self, pods: dict[str, Pod], requested: Amounts, ports: dict[HostPort, None]) -> None:
        self._pods, self._requested, self._ports = pods, requested, ports
        self._pods_view: Mapping[str, Pod] = MappingProxyType(pods)
        self._requested_view: Mapping[str, int] = MappingProxyType(requested)

    def __repr__(self) -> str:
        return f"NodeInfo({self._node.name if self._node else '?'}, {len(self.pods)} pods)"

    def replace_node(self, node: Node | None) -> None:
        """Replace the previous version of a node."""
        self._take(node)
        self._version += 1

    def move_to(self, row: int) -> None:
        """Set the row of the node."""
        self._row = row

    def _take(self, node: Node | None) -> None:
        # Parse quantities first: an invalid one must not leave a partial update.
        self._allocatable: Mapping[str, int] = MappingProxyType(Amounts() if node is None else node.allocatable)
        self._labels: Mapping[str, str] = MappingProxyType({} if node is None else node.labels)
        self._node = node
        self._name = "" if node is None else node.name

    @property
    def used_ports(self) -> KeysView[HostPort]:
        """The host ports that its pods use."""
        return self._ports.keys()

    @property
    def taints(self) -> tuple[Taint, ...]:
        """Return the node's taints."""
        return self.node.spec.taints

    def add_pod(self, pod: Pod) -> None:
        """Count a pod as running here."""
        self._version += 1
        self._pods[pod.metadata.uid] = pod
        requested = self._requested
        for name, amount in pod.requests_on_node.items():
            requested[name] = requested[name] + amount if name in requested else amount
        cpu, memory = pod.nonzero_requests
        self._nonzero_cpu += cpu
        self._nonzero_memory += memory
        if pod.host_ports:
            self._ports.update(dict.fromkeys(pod.host_ports))

    def remove_pod(self, pod: Pod) -> None:
        """Stop counting a pod. The pod that was added with this uid is removed."""
        self._version += 1
        pod = self._pods.pop(pod.uid)
        for name, amount in pod.requests_on_node.items():
            self._requested[name] -= amount
        cpu, memory = pod.nonzero_requests
        self._nonzero_cpu -= cpu
        self._nonzero_memory -= memory
        # A set, not a counter, as upstream: a port two pods share is free once either is deleted.
        for port in pod.host_ports:
            self._ports.pop(port, None)

    def replace_pod(self, pod: Pod) -> None:
        """Replace the previous version of a pod, which has the same requests."""
        self._version += 1
        self._pods[pod.metadata.uid] = pod

    def copy(self) -> "NodeInfo":
        """Return a row for what-ifs."""
        clone = NodeInfo.__new__(NodeInfo)
        clone._node = self._node
        clone._name = self.name
        clone._allocatable = self._allocatable
        clone._labels = self._labels
        clone._version = self.version
        clone._row = self.row
        clone._set_pods(dict(self._pods), Amounts(self._requested), dict(self._ports))
        clone._nonzero_cpu = self.nonzero_cpu
        clone._nonzero_memory = self.nonzero_memory
        return clone


class SharedNodeInfo(NodeInfo):
    """A row of the cluster itself, which only the cache changes: it calls the methods of :class:`NodeInfo`."""

    __slots__ = ()

    def add_pod(self, pod: object) -> Never:
        """Raise: a plugin must not change the shared node."""
        raise TypeError(f"node {self.name} is shared by all plugins: work on node.copy()")

    remove_pod = replace_pod = replace_node = move_to = add_pod  # type: ignore[assignment]


def ports_conflict(ports: Collection[HostPort], others: Collection[HostPort]) -> bool:
    """Return whether two pods or nodes use the same port: the wildcard address clashes with every address."""
    few, many = sorted((ports, others), key=len)
    return bool(few) and PortTest(few).conflicts(many)


class PortTest:
    """Compares some ports with those of many nodes, without comparing each port with each other."""

    __slots__ = ("_anywhere", "_exact", "_numbers")

    def __init__(self, ports: Iterable[HostPort]) -> None:
        self._exact = frozenset(ports)
        self._numbers = {port[1:] for port in self._exact}
        self._anywhere = {port[1:] for port in self._exact if port.ip == ANY_ADDRESS}

    def conflicts(self, others: Iterable[HostPort]) -> bool:
        """Return whether one of the other ports is among these."""
        exact, numbers, anywhere = self._exact, self._numbers, self._anywhere
        for port in others:
            number = port[1:]
            if number in numbers and (number in anywhere or port.ip == ANY_ADDRESS or port in exact):
                return True
        return False
