"""Deployments: replica sets, one for each version of the template, scaled up and down against each other."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from moorage.cluster.controllers.actions import ControllerAction, Create, Delete, Patch, RequeueAfter, status_actions
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.ownership import (
    adopter_keys,
    adoptions,
    controller_of,
    managed_pods,
    owner_keys,
    owner_reference,
    scaled,
    template_hash,
    with_condition,
)
from moorage.cluster.controllers.replicaset import REPLICA_FAILURE
from moorage.common.clock import Clock
from moorage.kube.api.integers import to_int64
from moorage.kube.api.meta import KubeObject, format_time, parse_time
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import LabelSelector
from moorage.kube.api.struct import Data
from moorage.kube.api.workloads import Deployment, ReplicaSet, UpdateStrategy

HASH_LABEL: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
_OWN_NOTES: Final = frozenset(("kubectl.kubernetes.io/last-applied-configuration", REVISION))
"""Annotations of a deployment that its replica sets do not have; the others, such as a change's cause, they have."""


class DeploymentController:
    """Rolls deployments out."""

    name = "deployments"
    kinds = (Deployment, ReplicaSet, Pod)
    pause = 0.1

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        """Return the deployments that a changed deployment, replica set or pod affects."""
        if isinstance(obj, Deployment):
            return (obj.key,)
        if isinstance(obj, ReplicaSet):
            owners = cache[Deployment].in_namespace(obj.namespace)
            return owner_keys(obj, Deployment) or adopter_keys(obj, owners)
        owner = controller_of(obj, ReplicaSet)
        made_by = cache[ReplicaSet].get(f"{obj.namespace}/{owner.name}") if owner is not None else None
        return () if made_by is None else owner_keys(made_by, Deployment)

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Scale the replica sets of one deployment towards its spec."""
        deployment = cache[Deployment].get(key)
        if deployment is None or deployment.is_terminating:
            return ()
        if adopted := list(adoptions(deployment, cache[ReplicaSet].orphans_in(deployment.namespace))):
            return adopted
        owned = [item for item in cache[ReplicaSet].owned_by(deployment.uid) if not item.is_terminating]
        is_exact = deployment.spec.strategy.type == "Recreate"
        pods = {item.uid: _pods_of(item, cache, is_exact=is_exact) for item in owned}
        return Rollout(deployment, owned, pods, self._clock.now()).actions()


@dataclass(frozen=True, slots=True)
class Rollout:
    """One deployment at one moment: its replica sets, and how many pods each still has."""

    deployment: Deployment
    owned: list[ReplicaSet]
    pods: dict[str, int]
    now: float

    @property
    def new(self) -> ReplicaSet | None:
        """The replica set of the current template."""
        revision = template_hash(_without_hash(self.deployment.spec.template))
        alike = [item for item in self.owned if template_hash(_without_hash(item.spec.template)) == revision]
        return min(alike, key=lambda item: item.metadata.creation_timestamp or "", default=None)

    @property
    def old(self) -> list[ReplicaSet]:
        """The other replica sets, oldest first."""
        new = self.new
        old = (item for item in self.owned if new is None or item.uid != new.uid)
        return sorted(old, key=lambda item: (_revision(item), item.name))

    def actions(self) -> Iterator[ControllerAction]:
        """Return the actions for the current state."""
        new = self.new
        if self.deployment.spec.paused:
            yield from self._keep_scale()
        elif new is None:
            yield from self._create()
        else:
            yield from self._note_revision(new)
            yield from self._recreate(new) if self._strategy.type == "Recreate" else self._roll(new)
            yield from self._forget_history()
        yield from self._status(new)

    @property
    def _strategy(self) -> UpdateStrategy:
        return self.deployment.spec.strategy

    def _create(self) -> Iterator[ControllerAction]:
        spec, template = self.deployment.spec, self.deployment.spec.template
        hashed = template_hash(_without_hash(template))
        metadata = template.get("metadata") or {}
        labels = {**(metadata.get("labels") or {}), HASH_LABEL: hashed}
        selector = msgspec.to_builtins(spec.selector or LabelSelector())
        selector["matchLabels"] = {**selector.get("matchLabels", {}), HASH_LABEL: hashed}
        yield Create(
            ReplicaSet,
            {
                "metadata": {
                    "name": f"{self.deployment.name}-{hashed}",
                    "namespace": self.deployment.namespace,
                    "labels": labels,
                    "annotations": {**self._notes, REVISION: str(self._next_revision())},
                    "ownerReferences": [owner_reference(self.deployment)],
                },
                "spec": {
                    "replicas": self._replicas_to_begin_with(),
                    "minReadySeconds": spec.min_ready_seconds,
                    "selector": selector,
                    "template": {**template, "metadata": {**metadata, "labels": labels}},
                },
            },
        )

    def _replicas_to_begin_with(self) -> int:
        replicas = self.deployment.spec.replicas
        if self._strategy.type == "Recreate":
            return 0 if any(self.pods.values()) else replicas
        return max(0, min(replicas, replicas + self._surge - sum(item.spec.replicas for item in self.owned)))

    def _next_revision(self) -> int:
        return max(map(_revision, self.owned), default=0) + 1

    @property
    def _notes(self) -> dict[str, str]:
        return {key: text for key, text in self.deployment.annotations.items() if key not in _OWN_NOTES}

    def _note_revision(self, new: ReplicaSet) -> Iterator[ControllerAction]:
        """Give the current template the highest revision: it may be an old one that was restored."""
        revision = _revision(new)
        if any(_revision(item) >= revision for item in self.old):
            revision = self._next_revision()
        annotations = {**self._notes, REVISION: str(revision)}
        if changed := {key: text for key, text in annotations.items() if new.annotations.get(key) != text}:
            yield Patch(new, {"metadata": {"annotations": changed}})
        if self.deployment.annotations.get(REVISION) != str(revision):
            yield Patch(self.deployment, {"metadata": {"annotations": {REVISION: str(revision)}}})

    @property
    def _surge(self) -> int:
        rolling, replicas = self._strategy.rolling_update, self.deployment.spec.replicas
        return scaled("25%" if rolling.max_surge is None else rolling.max_surge, replicas, round_up=True)

    @property
    def _unavailable(self) -> int:
        rolling, replicas = self._strategy.rolling_update, self.deployment.spec.replicas
        max_unavailable = "25%" if rolling.max_unavailable is None else rolling.max_unavailable
        most = min(replicas, scaled(max_unavailable, replicas, round_up=False))
        # If both are zero, the rollout could never make progress.
        return 1 if most == 0 and self._surge == 0 else most

    def _roll(self, new: ReplicaSet) -> Iterator[ControllerAction]:
        replicas = self.deployment.spec.replicas
        total = sum(item.spec.replicas for item in self.owned)
        room = replicas + self._surge - total
        if new.spec.replicas > replicas:
            yield _scale(new, replicas)
        elif new.spec.replicas < replicas and room > 0:
            yield _scale(new, min(replicas, new.spec.replicas + room))
        else:
            yield from self._scale_old_down(new, total)

    def _scale_old_down(self, new: ReplicaSet, total: int) -> Iterator[ControllerAction]:
        """Scale down old replica sets: unavailable pods first, then within maxUnavailable."""
        least = self.deployment.spec.replicas - self._unavailable
        spare = total - least - (new.spec.replicas - count_of(new, "availableReplicas"))
        available = sum(count_of(item, "availableReplicas") for item in self.owned)
        for item in self.old:
            sick = max(0, item.spec.replicas - count_of(item, "availableReplicas"))
            healthy = max(0, min(available - least, item.spec.replicas - sick))
            fewer = min(spare, sick + healthy)
            if fewer > 0:
                spare, available = spare - fewer, available - max(0, fewer - sick)
                yield _scale(item, item.spec.replicas - fewer)

    def _recreate(self, new: ReplicaSet) -> Iterator[ControllerAction]:
        yield from (_scale(item, 0) for item in self.old if item.spec.replicas)
        if not any(self.pods[item.uid] for item in self.old) and new.spec.replicas != self.deployment.spec.replicas:
            yield _scale(new, self.deployment.spec.replicas)

    def _keep_scale(self) -> Iterator[ControllerAction]:
        """Heed only the number of replicas while a deployment is paused."""
        live = [item for item in self.owned if item.spec.replicas] or self.owned[-1:]
        if len(live) == 1 and live[0].spec.replicas != self.deployment.spec.replicas:
            yield _scale(live[0], self.deployment.spec.replicas)

    def _forget_history(self) -> Iterator[ControllerAction]:
        empty = [item for item in self.old if not item.spec.replicas and not self.pods[item.uid]]
        surplus = len(empty) - self.deployment.spec.revision_history_limit
        yield from (Delete(item) for item in empty[: max(0, surplus)])

    def _status(self, new: ReplicaSet | None) -> Iterator[ControllerAction]:
        counts = ReplicaCounts(
            total=sum(count_of(item, "replicas") for item in self.owned),
            updated=count_of(new, "replicas") if new is not None else 0,
            ready=sum(count_of(item, "readyReplicas") for item in self.owned),
            available=sum(count_of(item, "availableReplicas") for item in self.owned),
            least=self.deployment.spec.replicas - self._unavailable,
        )
        conditions = (item for owned in self.owned for item in owned.status.get("conditions") or ())
        failure = next((item for item in conditions if item.get("type") == REPLICA_FAILURE), None)
        return status_of(self.deployment, counts, new.name if new is not None else "", self.now, failure)


def _pods_of(replica_set: ReplicaSet, cache: InformerCache, *, is_exact: bool) -> int:
    """Count the pods of a replica set; its status is enough, except when new pods must wait for the last old pod."""
    if not is_exact:
        return count_of(replica_set, "replicas")
    return sum(not pod.is_finished for pod in managed_pods(replica_set, cache))


def _scale(replica_set: ReplicaSet, replicas: int) -> Patch:
    return Patch(replica_set, {"spec": {"replicas": replicas}})


def _revision(replica_set: ReplicaSet) -> int:
    return to_int64(replica_set.annotations.get(REVISION, "")) or 0


def _without_hash(template: Data) -> Data:
    metadata = template.get("metadata") or {}
    labels = {key: text for key, text in (metadata.get("labels") or {}).items() if key != HASH_LABEL}
    return {**template, "metadata": {**metadata, "labels": labels}}


PROGRESSING = "Progressing"


@dataclass(frozen=True, slots=True)
class ReplicaCounts:
    """The pods of a deployment, and how many must be available at ``least``."""

    total: int
    updated: int
    ready: int
    available: int
    least: int


def count_of(replica_set: ReplicaSet, field: str) -> int:
    """Return a count of a replica set's status."""
    return int(replica_set.status.get(field) or 0)


def status_of(
    deployment: Deployment, counts: ReplicaCounts, newest: str, now: float, failure: Data | None = None
) -> Iterator[ControllerAction]:
    """Update the status of a deployment, and requeue at its progress deadline.

    ``newest`` is the name of the replica set that is rolled out, ``failure`` the condition of one
    that does not get its pods.
    """
    replicas = deployment.spec.replicas
    status: Data = {
        "observedGeneration": deployment.metadata.generation,
        "replicas": counts.total,
        "updatedReplicas": counts.updated,
        "readyReplicas": counts.ready,
        "availableReplicas": counts.available,
        "unavailableReplicas": max(0, max(counts.total, replicas) - counts.available),
    }
    moved = any((deployment.status.get(key) or 0) != count for key, count in status.items())
    is_complete = counts.updated == replicas == counts.total == counts.available
    existing = list(deployment.status.get("conditions") or ())
    conditions = with_condition(existing, format_time(now), **_availability(counts.available >= counts.least))
    if failure is not None:
        copied = {key: failure[key] for key in ("type", "status", "reason", "message")}
        conditions = with_condition(conditions, format_time(now), **copied)
    else:
        conditions = [condition for condition in conditions if condition.get("type") != REPLICA_FAILURE]
    progress = RolloutProgress(deployment, newest, moved=moved, is_complete=is_complete)
    conditions = progress.update_conditions(conditions, now)
    yield from status_actions(deployment, deployment.status, {**status, "conditions": conditions})
    deadline = deployment.spec.progress_deadline_seconds
    if deadline is not None and not is_complete:
        yield RequeueAfter(float(deadline) + 1.0)


def _availability(is_up: bool) -> dict[str, str]:
    if is_up:
        message = "Deployment has minimum availability."
        return {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": message}
    message = "Deployment does not have minimum availability."
    return {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable", "message": message}


@dataclass(frozen=True, slots=True)
class RolloutProgress:
    """Whether a deployment makes progress: it changed since the last check, or it is complete."""

    deployment: Deployment
    newest: str
    moved: bool
    is_complete: bool

    def update_conditions(self, conditions: list[Data], now: float) -> list[Data]:
        """Return conditions with the one about progress; its update time is that of the last move."""
        progressing = _progress_in(conditions)
        condition = self._progress_condition(progressing, now)
        if condition is None:
            return conditions
        updated = with_condition(conditions, format_time(now), **condition)
        current = _progress_in(updated)
        assert current is not None
        if self.moved or "lastUpdateTime" not in current:
            current["lastUpdateTime"] = format_time(now)
        return updated

    def _progress_condition(self, progressing: Data | None, now: float) -> dict[str, str] | None:
        subject = f'ReplicaSet "{self.newest}"' if self.newest else f'Deployment "{self.deployment.name}"'
        if self.deployment.spec.paused:
            return _progressing("Unknown", "DeploymentPaused", "Deployment is paused")
        if progressing is not None and progressing.get("reason") == "DeploymentPaused":
            return _progressing("Unknown", "DeploymentResumed", "Deployment is resumed")
        if self.is_complete:
            return _progressing("True", "NewReplicaSetAvailable", f"{subject} has successfully progressed.")
        if self.moved or progressing is None:
            return _progressing("True", "ReplicaSetUpdated", f"{subject} is progressing.")
        if _is_late(self.deployment, progressing, now):
            return _progressing("False", "ProgressDeadlineExceeded", f"{subject} has timed out progressing.")
        return None


def _is_late(deployment: Deployment, progressing: Data, now: float) -> bool:
    deadline, since = deployment.spec.progress_deadline_seconds, progressing.get("lastUpdateTime")
    if deadline is None or not since or progressing.get("reason") == "NewReplicaSetAvailable":
        return False
    return parse_time(since) + deadline <= now


def _progress_in(conditions: list[Data]) -> Data | None:
    return next((condition for condition in conditions if condition.get("type") == PROGRESSING), None)


def _progressing(status: str, reason: str, message: str) -> dict[str, str]:
    return {"type": PROGRESSING, "status": status, "reason": reason, "message": message}
