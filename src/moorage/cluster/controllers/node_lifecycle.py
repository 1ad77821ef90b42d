"""Failed nodes are tainted. Their pods are marked not ready and deleted when their tolerations expire."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from moorage.cluster.controllers.actions import ControllerAction, Delete, Patch, RequeueAfter
from moorage.cluster.controllers.base import BaseController
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.ownership import is_ready
from moorage.common.clock import Clock
from moorage.kube.api.affinity import NO_EXECUTE, NO_SCHEDULE, Taint
from moorage.kube.api.meta import Condition, KubeObject, format_time, parse_time
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.records import Lease

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
"""Nodes become unreachable after a quarter more than their lease duration: 50 seconds for a lease of 40."""
STRAY_SECONDS: Final = 20.0
"""Grace period of pods on a node that does not exist."""


class NodeController(BaseController):
    """Taints nodes that do not report, or report that they are not ready."""

    name = "nodes"
    kinds = (Node, Lease)

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        return (obj.name,) if isinstance(obj, Node) or obj.namespace == LEASE_NAMESPACE else ()

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Set the conditions and the taints that a node should have."""
        node, lease, now = cache[Node].get(key), cache[Lease].get(f"{LEASE_NAMESPACE}/{key}"), self._clock.now()
        if node is None:
            return
        conditions = {condition.type: condition for condition in node.status.conditions}
        ready = conditions.get("Ready", Condition("Ready"))
        deadline, moment = _deadline(node, lease, ready), format_time(now)
        if deadline > now:
            yield RequeueAfter(deadline - now + 0.1)
        elif ready.status != "Unknown":
            message = "Kubelet stopped posting node status."
            unknown = {"status": "Unknown", "reason": "NodeStatusUnknown", "message": message}
            kinds = (*(kind for kind in conditions if kind != "Ready"), "Ready")
            content = [{"type": kind, **unknown, "lastTransitionTime": moment} for kind in kinds]
            yield Patch(node, {"status": {"conditions": content}}, "status", if_unchanged=True)
        desired = [(UNSCHEDULABLE, NO_SCHEDULE)] if node.spec.unschedulable else []
        if deadline <= now or ready.status != "True":
            taint_key = NOT_READY if ready.status == "False" and deadline > now else UNREACHABLE
            desired += [(taint_key, NO_SCHEDULE), (taint_key, NO_EXECUTE)]
        pressures = (kind for kind in conditions if kind in PRESSURES and conditions[kind].status == "True")
        desired += [(PRESSURES[kind], NO_SCHEDULE) for kind in pressures]
        if {(taint.key, taint.effect) for taint in node.taints if taint.key in OWN_TAINTS} != set(desired):
            foreign = [msgspec.to_builtins(taint) for taint in node.taints if taint.key not in OWN_TAINTS]
            own = [{"key": taint_key, "effect": effect, "timeAdded": moment} for taint_key, effect in desired]
            yield Patch(node, {"spec": {"taints": [*foreign, *own] or None}}, if_unchanged=True)


def _deadline(node: Node, lease: Lease | None, ready: Condition) -> float:
    """Return when a node becomes unreachable: some time after its last lease renewal or condition change."""
    seconds = (lease.spec.lease_duration_seconds if lease is not None else None) or DEFAULT_LEASE
    texts = [node.metadata.creation_timestamp, lease.spec.renew_time if lease is not None else None]
    if ready.status != "Unknown":
        texts.append(ready.last_transition_time)
    return max((parse_time(text) for text in texts if text), default=0.0) + seconds * GRACE


class EvictionController(BaseController):
    """Deletes pods that do not tolerate a NoExecute taint (any more), and pods of nodes that no longer exist."""

    name = "evictions"
    kinds = (Node, Pod)

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._since: dict[str, float] = {}

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        if isinstance(obj, Pod):
            return (obj.key,) if obj.node_name else ()
        node = cache[Node].get(obj.name)
        taints = (*node.taints, *obj.taints) if node is not None and isinstance(obj, Node) else ()
        if node is not None and not any(taint.effect == NO_EXECUTE for taint in taints):
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
        tainted_at = self._since.setdefault(pod.uid, now)
        if node is not None:
            return evict(pod, node, tainted_at, now)
        # No kubelet will report that the pod has stopped.
        remaining_seconds = tainted_at + STRAY_SECONDS - now
        return [RequeueAfter(remaining_seconds) if remaining_seconds > 0 else Delete(pod, grace=0)]


def evict(pod: Pod, node: Node, tainted_at: float, now: float) -> Iterator[ControllerAction]:
    """Mark a pod on an unreachable node not ready, and delete it when its tolerations expire."""
    taints = [taint for taint in node.taints if taint.effect == NO_EXECUTE]
    if pod.is_finished or pod.is_terminating:
        return
    if is_ready(pod) and any(taint.key in (NOT_READY, UNREACHABLE) for taint in taints):
        condition = {"type": "Ready", "status": "False", "lastTransitionTime": format_time(now)}
        foreign = [msgspec.to_builtins(item) for item in pod.status.conditions if item.type != "Ready"]
        yield Patch(pod, {"status": {"conditions": [*foreign, condition]}}, "status", if_unchanged=True)
    seconds = tolerated_seconds(pod, taints)
    if seconds is not None:
        remaining_seconds = tainted_at + seconds - now
        yield RequeueAfter(remaining_seconds) if remaining_seconds > 0 else Delete(pod)


def tolerated_seconds(pod: Pod, taints: Iterable[Taint]) -> float | None:
    """Return how long a pod tolerates taints. ``None`` means forever."""
    limits: list[float] = []
    for taint in taints:
        tolerations = [toleration for toleration in pod.spec.tolerations if toleration.tolerates(taint)]
        if not tolerations:
            return 0.0
        limits += [max(0.0, t.toleration_seconds) for t in tolerations if t.toleration_seconds is not None]
    return min(limits, default=None)
