"""Autoscaled pools: nodes are added while pods are unschedulable, and removed after they were empty for a while."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from moorage.kube.api.node import HOSTNAME_LABEL, Node
from moorage.kube.api.pod import Pod
from moorage.lab.cluster import ScaledPool


class RequestedNode(NamedTuple):
    """A node and its startup time."""

    node: Node
    seconds: float


class PoolState:
    """The added and requested nodes of an autoscaled pool."""

    def __init__(self, pool: ScaledPool) -> None:
        self.pool = pool
        self.nodes: dict[str, Node] = {}
        self.starting: dict[str, dict[str, int]] = {}
        """Requested nodes and their remaining capacity for pending pods."""
        self._added = 0

    @property
    def is_full(self) -> bool:
        """Whether the pool has reached its limit."""
        return len(self.nodes) + len(self.starting) >= self.pool.most_added

    def next_node(self) -> Node:
        """Build another node of the pool."""
        name = f"{self.pool.name}-added-{self._added}"
        self._added += 1
        template = self.pool.template
        labels = {**template.labels, HOSTNAME_LABEL: name}
        return replace(template, metadata=replace(template.metadata, name=name, uid=f"node/{name}", labels=labels))


class Autoscaler:
    """Requests nodes for rejected pods: by their requests, first fit, in the order of the pools."""

    def __init__(self, pools: Sequence[ScaledPool]) -> None:
        self._pools = [PoolState(pool) for pool in pools]
        self._pool_of: dict[str, PoolState] = {}
        self._waiting: dict[str, Pod] = {}
        self._served: dict[str, str] = {}
        """The requested node of each pod."""
        self._empty_since: dict[str, float] = {}

    def request_nodes(self, pods: Iterable[Pod]) -> list[RequestedNode]:
        """Return the nodes to request for unschedulable pods that no requested node covers."""
        if not self._pools:
            return []
        self._waiting.update((pod.uid, pod) for pod in pods)
        return [node for pod in self._waiting.values() if (node := self._serve(pod)) is not None]

    def forget_pod(self, uid: str) -> None:
        """Remove a pod that got a node."""
        self._waiting.pop(uid, None)
        self._served.pop(uid, None)

    def _serve(self, pod: Pod) -> RequestedNode | None:
        if pod.uid in self._served:
            return None
        requests = {**pod.requests, "pods": 1}
        for state in self._pools:
            for name, free in state.starting.items():
                if _fits(requests, free):
                    _take(requests, free)
                    self._served[pod.uid] = name
                    return None
            free = dict(state.pool.template.allocatable)
            if not state.is_full and _fits(requests, free):
                _take(requests, free)
                node = state.next_node()
                state.starting[node.name] = free
                self._pool_of[node.name] = state
                self._served[pod.uid] = node.name
                return RequestedNode(node, state.pool.scaling.startup_seconds)
        return None

    def add_node(self, node: Node) -> None:
        """Add a started node; pods that still do not fit request another node at their next rejection."""
        state = self._pool_of.get(node.name)
        if state is not None:
            del state.starting[node.name]
            state.nodes[node.name] = node
            self._served = {uid: name for uid, name in self._served.items() if name != node.name}

    def start_idle(self, name: str, now: float) -> float | None:
        """Record that a node is empty; return the time of its removal, or ``None`` for a permanent node."""
        state = self._pool_of.get(name)
        if state is None:
            return None
        self._empty_since[name] = now
        return now + state.pool.scaling.idle_seconds

    def remove_idle(self, name: str, now: float) -> Node | None:
        """Remove and return a node that has been empty for long enough."""
        state = self._pool_of.get(name)
        if state is None or name not in state.nodes:
            return None
        if now < self._empty_since[name] + state.pool.scaling.idle_seconds:
            return None
        del self._pool_of[name]
        return state.nodes.pop(name)


def _fits(requests: dict[str, int], free: dict[str, int]) -> bool:
    return all(free.get(name, 0) >= amount for name, amount in requests.items())


def _take(requests: dict[str, int], free: dict[str, int]) -> None:
    for name, amount in requests.items():
        free[name] -= amount
