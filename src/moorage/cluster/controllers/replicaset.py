"""Replica sets and replication controllers: keep the desired number of pods."""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from moorage.cluster.controllers.actions import ControllerAction, Create, Delete, RequeueAfter, status_actions
from moorage.cluster.controllers.base import PodSetController
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.ownership import (
    find_ready_time,
    is_active,
    is_available,
    is_ready,
    managed_pods,
    pod_claims,
    pod_from_template,
    with_condition,
)
from moorage.common.clock import Clock
from moorage.kube.api.integers import to_int64
from moorage.kube.api.kinds import BY_TYPE
from moorage.kube.api.meta import format_time
from moorage.kube.api.pod import Pod
from moorage.kube.api.struct import Data
from moorage.kube.api.workloads import ReplicaSet, ReplicationController

Replicas: TypeAlias = ReplicaSet | ReplicationController
REPLICA_FAILURE: Final = "ReplicaFailure"
BURST: Final = 500
"""The number of pods created or deleted in one reconciliation."""


class ReplicaSetController(PodSetController):
    """Manages the pods of replica sets."""

    workload: type[Replicas] = ReplicaSet

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.name = BY_TYPE[self.workload].plural
        self.kinds = (self.workload, Pod)

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Create missing pods, delete surplus pods, and update the status."""
        replica_set = cache[self.workload].get(key)
        if replica_set is None:
            return ()
        if claimed := pod_claims(replica_set, cache):
            return claimed
        rejection = cache.rejections.get((self.name, key), "")
        return reconcile(replica_set, managed_pods(replica_set, cache), self._clock.now(), rejection)


class ReplicationManager(ReplicaSetController):
    """Manages the pods of replication controllers."""

    workload = ReplicationController


def reconcile(
    replica_set: Replicas, pods: Iterable[Pod], now: float, rejection: str = ""
) -> Iterator[ControllerAction]:
    """Yield the actions for one replica set. ``rejection`` is the server's reason for rejecting its last pods."""
    active = [pod for pod in pods if is_active(pod)]
    missing_count = 0 if replica_set.is_terminating else replica_set.spec.replicas - len(active)
    labels = (replica_set.spec.template.get("metadata") or {}).get("labels") or {}
    min_ready = replica_set.spec.min_ready_seconds
    status = {
        "replicas": len(active),
        "fullyLabeledReplicas": sum(1 for pod in active if labels.items() <= pod.labels.items()),
        "readyReplicas": sum(map(is_ready, active)),
        "availableReplicas": sum(1 for pod in active if is_available(pod, min_ready, now)),
        "observedGeneration": replica_set.metadata.generation,
        "conditions": _conditions(replica_set, rejection if missing_count > 0 else "", now),
    }
    if rejection:
        # Before the next attempt: if it is rejected too, later actions are not executed.
        yield from status_actions(replica_set, replica_set.status, status)
    template = replica_set.spec.template if missing_count > 0 else {}
    for _ in range(min(missing_count, BURST)):
        yield Create(Pod, pod_from_template(replica_set, template, generateName=f"{replica_set.name}-"))
    if missing_count < 0:
        surplus = sorted(active, key=_deletion_rank)[: min(-missing_count, BURST)]
        yield from (Delete(pod) for pod in surplus)
    if not rejection:
        yield from status_actions(replica_set, replica_set.status, status)
    yield from wait_for_availability(active, min_ready, now)


def _conditions(replica_set: Replicas, rejection: str, now: float) -> list[Data]:
    """Return the conditions with ReplicaFailure set while the server rejects pods."""
    conditions = list(replica_set.status.get("conditions") or ())
    if not rejection:
        return [condition for condition in conditions if condition.get("type") != REPLICA_FAILURE]
    if any(condition.get("type") == REPLICA_FAILURE for condition in conditions):
        # The message contains a generated pod name, new each time: updating it would cause endless writes.
        return conditions
    failure = {"type": REPLICA_FAILURE, "status": "True", "reason": "FailedCreate", "message": rejection}
    return with_condition(conditions, format_time(now), **failure)


def wait_for_availability(pods: Iterable[Pod], min_ready: int, now: float) -> Iterator[ControllerAction]:
    """Requeue when the next pod becomes available."""
    if min_ready:
        waits = [find_ready_time(pod) + min_ready - now for pod in pods if is_ready(pod)]
        yield from (RequeueAfter(seconds) for seconds in waits if seconds > 0)


def _deletion_rank(pod: Pod) -> tuple[bool, bool, bool, int, str]:
    """Rank pods for deletion: first those without a node, not running, not ready, of low cost, and young ones."""
    cost = to_int64(pod.annotations.get("controller.kubernetes.io/pod-deletion-cost", "0")) or 0
    young_first = "".join(chr(0x10FFFF - ord(char)) for char in pod.metadata.creation_timestamp or "")
    return bool(pod.node_name), pod.status.phase == "Running", is_ready(pod), cost, young_first
