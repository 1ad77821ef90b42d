"""Nodes that fail: they are tainted, their pods are marked and, when they tolerate it no longer, deleted."""

from collections.abc import Iterable, Iterator
from typing import Final

from moorage.cluster.controllers.actions import ControllerAction, Delete, Patch, RequeueAfter
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.ownership import is_ready
from moorage.common.clock import Clock
from moorage.kube.api.affinity import NO_EXECUTE, NO_SCHEDULE, Taint
from moorage.kube.api.meta import Condition, KubeObject, format_time, parse_time
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.records import Lease
from moorage.kube.api.struct import Data

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
PRESSURES: Final = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
"""Node conditions and their taints."""
OWN_TAINTS: Final = frozenset((NOT_READY, UNREACHABLE, UNSCHEDULABLE, *PRESSURES.values()))
LEASE_NAMESPACE: Final = "kube-node-lease"
DEFAULT_LEASE: Final = 40
GRACE: Final = 1.25
"""A node is given up after a quarter more than its lease: 50 seconds for kubelets whose lease lasts 40."""
STRAY_SECONDS: Final = 20.0
"""How long a pod may name a node that does not exist."""


class NodeController:
    """Taints nodes that do not report, or report that they are not ready."""

    name = "nodes"
    kinds = (Node, Lease)
    pause = 0.0

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        """Return the node of a changed node or lease."""
        if isinstance(obj, Node):
            return (obj.name,)
        return (obj.name,) if obj.namespace == LEASE_NAMESPACE else ()

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Set the condition and the taints a node should have."""
        node = cache[Node].get(key)
        if node is None:
            return ()
        return reconcile(node, cache[Lease].get(f"{LEASE_NAMESPACE}/{key}"), self._clock.now())


def reconcile(node: Node, lease: Lease | None, now: float) -> Iterator[ControllerAction]:
    """Return the actions for one node."""
    deadline = _deadline(node, lease)
    ready = _ready(node)
    if deadline <= now:
        if ready is None or ready.status != "Unknown":
            yield Patch(node, {"status": {"conditions": _unknown(node, now)}}, "status", if_unchanged=True)
    else:
        yield RequeueAfter(deadline - now + 0.1)
    status = "Unknown" if deadline <= now else (ready.status if ready is not None else "Unknown")
    desired = [*taints_for(status, cordoned=node.spec.unschedulable), *_pressures(node)]
    current = [taint for taint in node.taints if taint.key in OWN_TAINTS]
    if {(taint.key, taint.effect) for taint in current} != {(taint["key"], taint["effect"]) for taint in desired}:
        yield _with_taints(node, desired, now)


def taints_for(ready: str, *, cordoned: bool = False) -> list[dict[str, str]]:
    """Return the taints for the status of the Ready condition."""
    taints = [{"key": UNSCHEDULABLE, "effect": NO_SCHEDULE}] if cordoned else []
    if ready != "True":
        key = NOT_READY if ready == "False" else UNREACHABLE
        taints += [{"key": key, "effect": NO_SCHEDULE}, {"key": key, "effect": NO_EXECUTE}]
    return taints


def _pressures(node: Node) -> Iterator[dict[str, str]]:
    for condition in node.status.conditions:
        if condition.type in PRESSURES and condition.status == "True":
            yield {"key": PRESSURES[condition.type], "effect": NO_SCHEDULE}


def _deadline(node: Node, lease: Lease | None) -> float:
    """Return when a node becomes unreachable: some time after its last lease renewal or condition change."""
    ready = _ready(node)
    seconds = (lease.spec.lease_duration_seconds if lease is not None else None) or DEFAULT_LEASE
    texts = [node.metadata.creation_timestamp]
    if lease is not None:
        texts.append(lease.spec.renew_time)
    if ready is not None and ready.status != "Unknown":
        texts += [ready.last_transition_time]
    return max((parse_time(text) for text in texts if text), default=0.0) + seconds * GRACE


def _ready(node: Node) -> Condition | None:
    return next((condition for condition in node.status.conditions if condition.type == "Ready"), None)


def _unknown(node: Node, now: float) -> list[Data]:
    since = format_time(now)
    unknown = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status.", "status": "Unknown"}
    types = [condition.type for condition in node.status.conditions if condition.type != "Ready"]
    return [{"type": kind, **unknown, "lastTransitionTime": since} for kind in (*types, "Ready")]


def _with_taints(node: Node, desired: list[dict[str, str]], now: float) -> Patch:
    foreign = [
        {"key": taint.key, "effect": taint.effect, **({"value": taint.value} if taint.value else {})}
        for taint in node.taints
        if taint.key not in OWN_TAINTS
    ]
    own = [{**taint, "timeAdded": format_time(now)} for taint in desired]
    return Patch(node, {"spec": {"taints": [*foreign, *own] or None}}, if_unchanged=True)


class EvictionController:
    """Deletes pods that do not tolerate a NoExecute taint (any more), and pods whose node no longer exists."""

    name = "evictions"
    kinds = (Node, Pod)
    pause = 0.0

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: dict[str, float] = {}

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        """Return the key of a pod with a node, or of all pods of a node with NoExecute taints."""
        if isinstance(obj, Pod):
            return (obj.key,) if obj.node_name else ()
        node = cache[Node].get(obj.name)
        if node is not None and not any(taint.effect == NO_EXECUTE for taint in (*node.taints, *_taints(obj))):
            return ()
        return [pod.key for pod in cache[Pod].on_node(obj.name)]

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Delete a pod when its toleration expires."""
        pod = cache[Pod].get(key)
        if pod is None or not pod.node_name:
            return ()
        node = cache[Node].get(pod.node_name)
        if node is not None and not any(taint.effect == NO_EXECUTE for taint in node.taints):
            self._since.pop(pod.uid, None)
            return ()
        now = self._clock.now()
        since = self._since.setdefault(pod.uid, now)
        return delete_stray_pod(pod, since, now) if node is None else evict(pod, node, since, now)


def delete_stray_pod(pod: Pod, since: float, now: float) -> Iterator[ControllerAction]:
    """Delete a pod whose node no longer exists after a delay: no kubelet will report that it stopped."""
    remaining = since + STRAY_SECONDS - now
    yield RequeueAfter(remaining) if remaining > 0 else Delete(pod, grace=0)


def _taints(obj: KubeObject) -> tuple[Taint, ...]:
    return obj.taints if isinstance(obj, Node) else ()


def evict(pod: Pod, node: Node, since: float, now: float) -> Iterator[ControllerAction]:
    """Mark a pod on an unreachable node not ready, and delete it when its tolerations expire."""
    taints = [taint for taint in node.taints if taint.effect == NO_EXECUTE]
    if pod.is_finished or pod.is_terminating:
        return
    if is_ready(pod) and any(taint.key in (NOT_READY, UNREACHABLE) for taint in taints):
        condition = {"type": "Ready", "status": "False", "lastTransitionTime": format_time(now)}
        foreign = [_as_data(item) for item in pod.status.conditions if item.type != "Ready"]
        yield Patch(pod, {"status": {"conditions": [*foreign, condition]}}, "status", if_unchanged=True)
    seconds = tolerated_seconds(pod, taints)
    if seconds is not None:
        remaining = since + seconds - now
        yield RequeueAfter(remaining) if remaining > 0 else Delete(pod)


def tolerated_seconds(pod: Pod, taints: Iterable[Taint]) -> float | None:
    """Return how long a pod tolerates taints; ``None`` means forever."""
    limits: list[float] = []
    for taint in taints:
        tolerations = [toleration for toleration in pod.spec.tolerations if toleration.tolerates(taint)]
        if not tolerations:
            return 0.0
        limits += [max(0.0, t.toleration_seconds) for t in tolerations if t.toleration_seconds is not None]
    return min(limits, default=None)


def _as_data(condition: Condition) -> Data:
    return {
        "type": condition.type,
        "status": condition.status,
        **({"reason": condition.reason} if condition.reason else {}),
        **({"message": condition.message} if condition.message else {}),
        **({"lastTransitionTime": condition.last_transition_time} if condition.last_transition_time else {}),
    }
