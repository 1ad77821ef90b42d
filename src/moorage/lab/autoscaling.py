"""The autoscaler of a trial: adds nodes for unschedulable pods and removes nodes that are not needed.

It decides by requests, node selectors, node affinity and taints, before the scheduler places the pods.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from moorage.kube.api.node import HOSTNAME_LABEL, Node
from moorage.kube.api.pod import Pod
from moorage.lab.cluster import PRICE, ScaledPool, read_number
from moorage.scheduler.plugins.node_affinity import read_demands
from moorage.scheduler.plugins.taint_toleration import repels

Amounts = dict[str, int]


class RequestedNode(NamedTuple):
    """A node and its startup time."""

    node: Node
    seconds: float


class Template(NamedTuple):
    """A node that a pool can add."""

    node: Node
    capacity: Amounts
    price: float


class PoolState:
    """The added and requested nodes of an autoscaled pool."""

    def __init__(self, pool: ScaledPool) -> None:
        self.pool = pool
        self.templates = [Template(node, dict(node.allocatable), read_number(node, PRICE)) for node in pool.templates]
        self.nodes: dict[str, Node] = {}
        self.starting: dict[str, Amounts] = {}
        """Requested nodes and their remaining capacity for pending pods."""
        self.prices: dict[str, float] = {}
        self.added = 0
        """Number of nodes that have been requested."""

    @property
    def available(self) -> int:
        """Number of nodes that may be added."""
        return self.pool.most_added - len(self.nodes) - len(self.starting)

    @property
    def consolidates(self) -> bool:
        """Whether nodes with pods may be removed."""
        return self.pool.scaling.consolidation == "underused"

    def request(self, template: Template) -> Node:
        """Request another node of the pool."""
        name = f"{self.pool.name}-added-{self.added}"
        self.added += 1
        node = template.node
        labels = {**node.labels, HOSTNAME_LABEL: name}
        self.starting[name], self.prices[name] = dict(template.capacity), template.price
        return replace(node, metadata=replace(node.metadata, name=name, uid=f"node/{name}", labels=labels))

    def cheapest(self, templates: Sequence[Template]) -> Template:
        """Return the cheapest template. Equal ones, such as those of several zones, are used in turn."""
        price = min(template.price for template in templates)
        equal = [template for template in templates if template.price == price]
        return equal[self.added % len(equal)]


class PlannedNode:
    """A node to request: its pods, and the templates with enough capacity for all of them."""

    def __init__(self, state: PoolState) -> None:
        self.state = state
        self.templates: list[Template] = state.templates
        self.requests: Amounts = {}
        self.pods: list[Pod] = []

    def add(self, pod: Pod) -> bool:
        """Add a pod. Return whether it fits."""
        requests = dict(self.requests)
        for name, amount in _requests(pod).items():
            requests[name] = requests.get(name, 0) + amount
        templates = [
            template
            for template in self.templates
            if _fits(requests, template.capacity) and _accepts(template.node, pod)
        ]
        if templates:
            self.templates, self.requests = templates, requests
            self.pods.append(pod)
        return bool(templates)


class NodeUse:
    """The free capacity and the pods of a node."""

    __slots__ = ("changed", "free", "node", "pods")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.free: Amounts = dict(node.allocatable)
        self.pods: dict[str, tuple[Pod, str]] = {}
        """Pods with their class, by uid."""
        self.changed = 0.0
        """The last time at which a pod was added or removed."""


class NodeRemoval(NamedTuple):
    """A node to drain: immediately, or when its cheaper replacement has started."""

    drained: str
    replacement: RequestedNode | None


class Autoscaler:
    """Requests nodes for rejected pods: by their requests, first fit, in the order of the pools."""

    def __init__(self, pools: Sequence[ScaledPool]) -> None:
        self._pools = [PoolState(pool) for pool in pools]
        self._pool_of: dict[str, PoolState] = {}
        self._waiting: dict[str, Pod] = {}
        self._served: dict[str, str] = {}
        """The requested node of each pod."""
        self._empty_since: dict[str, float] = {}
        self._uses: dict[str, NodeUse] = {}
        """All nodes of the cluster, if a pool consolidates."""
        self._replaces: dict[str, str] = {}
        """The node that a starting one replaces."""
        self.batch_seconds = max((pool.scaling.batch_seconds for pool in pools), default=0.0)
        self.check_seconds = min(
            (state.pool.scaling.idle_seconds for state in self._pools if state.consolidates), default=0.0
        )
        self.consolidates = any(state.consolidates for state in self._pools)

    @property
    def added(self) -> int:
        """Number of nodes that have been requested."""
        return sum(state.added for state in self._pools)

    def add_pending(self, pods: Iterable[Pod]) -> bool:
        """Record unschedulable pods. Return whether a pod needs a node that has not been requested."""
        if not self._pools:
            return False
        self._waiting.update((pod.uid, pod) for pod in pods)
        return len(self._served) < len(self._waiting)

    def request_nodes(self) -> list[RequestedNode]:
        """Return the nodes to request for pending pods that no requested node covers. Large pods are packed first."""
        planned: list[PlannedNode] = []
        pending = [pod for pod in self._waiting.values() if pod.uid not in self._served]
        for pod in sorted(pending, key=lambda pod: (-pod.requests.get("cpu", 0), -pod.requests.get("memory", 0))):
            if not self._use_starting(pod) and not any(node.add(pod) for node in planned):
                for state in self._pools:
                    opened, node = sum(node.state is state for node in planned), PlannedNode(state)
                    if opened < state.available and node.add(pod):
                        planned.append(node)
                        break
        return [self._request(node) for node in planned]

    def _use_starting(self, pod: Pod) -> bool:
        """Return whether a requested node has space for the pod, and reserve it."""
        requests = _requests(pod)
        for state in self._pools:
            for name, free in state.starting.items():
                if name not in self._replaces and _fits(requests, free) and _accepts(state.templates[0].node, pod):
                    _take(requests, free)
                    self._served[pod.uid] = name
                    return True
        return False

    def _request(self, planned: PlannedNode) -> RequestedNode:
        state = planned.state
        node = state.request(state.cheapest(planned.templates))
        _take(planned.requests, state.starting[node.name])
        self._pool_of[node.name] = state
        self._served.update((pod.uid, node.name) for pod in planned.pods)
        return RequestedNode(node, state.pool.scaling.startup_seconds)

    def add_node(self, node: Node) -> str:
        """Add a started node. Return the node that it replaces.

        Pods that still do not fit request another node at their next rejection.
        """
        if self.consolidates:
            self._uses[node.name] = NodeUse(node)
        state = self._pool_of.get(node.name)
        if state is not None and node.name in state.starting:
            del state.starting[node.name]
            state.nodes[node.name] = node
            self._served = {uid: name for uid, name in self._served.items() if name != node.name}
        return self._replaces.pop(node.name, "")

    def remove_node(self, name: str) -> None:
        """Remove a node that failed, was drained, or was empty for long enough."""
        self._uses.pop(name, None)
        state = self._pool_of.pop(name, None)
        if state is not None:
            state.nodes.pop(name, None)

    def take(self, pod: Pod, kind: str, now: float) -> None:
        """Count a pod that got a node."""
        self._waiting.pop(pod.uid, None)
        self._served.pop(pod.uid, None)
        if (use := self._uses.get(pod.node_name)) is not None:
            use.pods[pod.uid] = pod, kind
            use.changed = now
            _take(_requests(pod), use.free)

    def release(self, pod: Pod, now: float) -> None:
        """Free the resources of a pod that left its node."""
        use = self._uses.get(pod.node_name)
        if use is not None and use.pods.pop(pod.uid, None) is not None:
            use.changed = now
            _take({name: -amount for name, amount in _requests(pod).items()}, use.free)

    def start_idle(self, name: str, now: float) -> float | None:
        """Record that a node is empty. Return the time of its removal, or ``None`` for a permanent node."""
        state = self._pool_of.get(name)
        if state is None:
            return None
        self._empty_since[name] = now
        return now + state.pool.scaling.idle_seconds

    def is_idle(self, name: str, now: float) -> bool:
        """Return whether an empty node has been empty for long enough to be removed."""
        state = self._pool_of.get(name)
        if state is None or name not in state.nodes:
            return False
        return now >= self._empty_since[name] + state.pool.scaling.idle_seconds

    def consolidate(self, now: float) -> NodeRemoval | None:
        """Return a node if its pods fit on other nodes, or on these and a cheaper one; nodes with few pods first."""
        for state in self._pools:
            if not state.consolidates:
                continue
            scaling, replaced = state.pool.scaling, set(self._replaces.values())
            uses = [self._uses[name] for name in state.nodes if name not in replaced]
            for use in sorted(uses, key=lambda use: (len(use.pods), use.node.name)):
                is_stable = use.pods and now >= use.changed + scaling.idle_seconds
                if not is_stable or any(kind in scaling.keeps for _, kind in use.pods.values()):
                    continue
                if (decision := self._plan_removal(state, use)) is not None:
                    return decision
        return None

    def _plan_removal(self, state: PoolState, removed: NodeUse) -> NodeRemoval | None:
        pods = sorted((pod for pod, _ in removed.pods.values()), key=lambda pod: -pod.requests.get("cpu", 0))
        remaining = [(use.node, dict(use.free)) for use in self._uses.values() if use is not removed and use.pods]
        planned = PlannedNode(state)
        for pod in pods:
            requests = _requests(pod)
            target = next((free for node, free in remaining if _fits(requests, free) and _accepts(node, pod)), None)
            if target is not None:
                _take(requests, target)
            elif not planned.add(pod):
                return None
        name = removed.node.name
        if not planned.pods:
            return NodeRemoval(name, None)
        template = state.cheapest(planned.templates)
        if template.price >= state.prices[name]:
            return None
        node = state.request(template)
        self._pool_of[node.name] = state
        self._replaces[node.name] = name
        return NodeRemoval(name, RequestedNode(node, state.pool.scaling.startup_seconds))


def _requests(pod: Pod) -> Amounts:
    return {**pod.requests, "pods": 1}


def _accepts(node: Node, pod: Pod) -> bool:
    """Return whether selectors, affinity and taints allow the pod on the node."""
    return read_demands(pod).accepts(node) and not repels(node.taints, pod)


def _fits(requests: Mapping[str, int], free: Mapping[str, int]) -> bool:
    return all(free.get(name, 0) >= amount for name, amount in requests.items() if amount)


def _take(requests: Mapping[str, int], free: Amounts) -> None:
    for name, amount in requests.items():
        free[name] = free.get(name, 0) - amount
