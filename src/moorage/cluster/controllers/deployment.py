"""Deployments: replica sets, one for each version of the template, scaled up and down against each other."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Final

import msgspec

from moorage.cluster.controllers.actions import ControllerAction, Create, Delete, Patch, RequeueAfter, status_actions
from moorage.cluster.controllers.base import PodSetController
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.ownership import (
    adoptions,
    managed_pods,
    owner_keys,
    owner_reference,
    scaled,
    template_hash,
    with_condition,
)
from moorage.cluster.controllers.replicaset import REPLICA_FAILURE
from moorage.kube.api.integers import to_int64
from moorage.kube.api.meta import KubeObject, format_time, parse_time
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import LabelSelector
from moorage.kube.api.struct import Data
from moorage.kube.api.workloads import Deployment, ReplicaSet, UpdateStrategy

PROGRESSING: Final = "Progressing"
HASH_LABEL: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
_NOT_COPIED: Final = frozenset(("kubectl.kubernetes.io/last-applied-configuration", REVISION))
"""Annotations of a deployment that are not copied to its replica sets, unlike the cause of a change, for example."""


class DeploymentController(PodSetController):
    """Rolls deployments out."""

    name = "deployments"
    workload = Deployment
    kinds = (Deployment, ReplicaSet, Pod)

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        if not isinstance(obj, Pod):
            return super().affected(obj, cache)
        replica_sets = (cache[ReplicaSet].get(key) for key in owner_keys(obj, ReplicaSet))
        return [key for item in replica_sets if item is not None for key in owner_keys(item, Deployment)]

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Scale the replica sets of a deployment toward its spec."""
        deployment = cache[Deployment].get(key)
        if deployment is None or deployment.is_terminating:
            return ()
        if adopted := list(adoptions(deployment, cache[ReplicaSet].list_orphans(deployment.namespace))):
            return adopted
        owned = [item for item in cache[ReplicaSet].owned_by(deployment.uid) if not item.is_terminating]
        # The status of a replica set is sufficient, except if new pods must wait for the end of the last old pod.
        if deployment.spec.strategy.type == "Recreate":
            pods = {item.uid: sum(not pod.is_finished for pod in managed_pods(item, cache)) for item in owned}
        else:
            pods = {item.uid: count_replicas(item, "replicas") for item in owned}
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
        room = spec.replicas + self._surge - sum(item.spec.replicas for item in self.owned)
        if self._strategy.type == "Recreate":
            room = 0 if any(self.pods.values()) else spec.replicas
        yield Create(
            ReplicaSet,
            {
                "metadata": {
                    "name": f"{self.deployment.name}-{hashed}",
                    "namespace": self.deployment.namespace,
                    "labels": labels,
                    "annotations": {**self._annotations, REVISION: str(self._next_revision())},
                    "ownerReferences": [owner_reference(self.deployment)],
                },
                "spec": {
                    "replicas": max(0, min(spec.replicas, room)),
                    "minReadySeconds": spec.min_ready_seconds,
                    "selector": selector,
                    "template": {**template, "metadata": {**metadata, "labels": labels}},
                },
            },
        )

    def _next_revision(self) -> int:
        return max(map(_revision, self.owned), default=0) + 1

    @property
    def _annotations(self) -> dict[str, str]:
        return {key: text for key, text in self.deployment.annotations.items() if key not in _NOT_COPIED}

    def _note_revision(self, new: ReplicaSet) -> Iterator[ControllerAction]:
        """Give the current template the highest revision: it may be an old one that was restored."""
        revision = _revision(new)
        if any(_revision(item) >= revision for item in self.old):
            revision = self._next_revision()
        annotations = {**self._annotations, REVISION: str(revision)}
        if new_annotations := {key: text for key, text in annotations.items() if new.annotations.get(key) != text}:
            yield Patch(new, {"metadata": {"annotations": new_annotations}})
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
        spare = total - least - (new.spec.replicas - count_replicas(new, "availableReplicas"))
        available = sum(count_replicas(item, "availableReplicas") for item in self.owned)
        for item in self.old:
            unavailable = max(0, item.spec.replicas - count_replicas(item, "availableReplicas"))
            healthy = max(0, min(available - least, item.spec.replicas - unavailable))
            fewer = min(spare, unavailable + healthy)
            if fewer > 0:
                spare, available = spare - fewer, available - max(0, fewer - unavailable)
                yield _scale(item, item.spec.replicas - fewer)

    def _recreate(self, new: ReplicaSet) -> Iterator[ControllerAction]:
        yield from (_scale(item, 0) for item in self.old if item.spec.replicas)
        if not any(self.pods[item.uid] for item in self.old) and new.spec.replicas != self.deployment.spec.replicas:
            yield _scale(new, self.deployment.spec.replicas)

    def _keep_scale(self) -> Iterator[ControllerAction]:
        """Update only the number of replicas while a deployment is paused."""
        live = [item for item in self.owned if item.spec.replicas] or self.owned[-1:]
        if len(live) == 1 and live[0].spec.replicas != self.deployment.spec.replicas:
            yield _scale(live[0], self.deployment.spec.replicas)

    def _forget_history(self) -> Iterator[ControllerAction]:
        empty = [item for item in self.old if not item.spec.replicas and not self.pods[item.uid]]
        surplus = len(empty) - self.deployment.spec.revision_history_limit
        yield from (Delete(item) for item in empty[: max(0, surplus)])

    def _status(self, new: ReplicaSet | None) -> Iterator[ControllerAction]:
        """Update the status, and requeue at the progress deadline."""
        deployment, replicas, now = self.deployment, self.deployment.spec.replicas, format_time(self.now)
        fields = ("replicas", "readyReplicas", "availableReplicas")
        total, ready, available = (sum(count_replicas(item, field) for item in self.owned) for field in fields)
        updated = count_replicas(new, "replicas") if new is not None else 0
        status: Data = {
            "observedGeneration": deployment.metadata.generation,
            "replicas": total,
            "updatedReplicas": updated,
            "readyReplicas": ready,
            "availableReplicas": available,
            "unavailableReplicas": max(0, max(total, replicas) - available),
        }
        has_progressed = any((deployment.status.get(key) or 0) != count for key, count in status.items())
        is_complete = updated == replicas == total == available
        is_up = available >= replicas - self._unavailable
        availability = {
            "type": "Available",
            "status": "True" if is_up else "False",
            "reason": "MinimumReplicasAvailable" if is_up else "MinimumReplicasUnavailable",
            "message": f"Deployment {'has' if is_up else 'does not have'} minimum availability.",
        }
        conditions = with_condition(deployment.status.get("conditions") or (), now, **availability)
        if failure := _find_condition(REPLICA_FAILURE, *(item.status.get("conditions") or () for item in self.owned)):
            copied = {key: failure[key] for key in ("type", "status", "reason", "message")}
            conditions = with_condition(conditions, now, **copied)
        else:
            conditions = [condition for condition in conditions if condition.get("type") != REPLICA_FAILURE]
        if progress := self._progress(
            new, _find_condition(PROGRESSING, conditions), moved=has_progressed, is_done=is_complete
        ):
            conditions = with_condition(conditions, now, type=PROGRESSING, **progress)
            current = _find_condition(PROGRESSING, conditions)
            assert current is not None
            # The update time is that of the last change of the counts, from which the deadline is computed.
            if has_progressed or "lastUpdateTime" not in current:
                current["lastUpdateTime"] = now
        yield from status_actions(deployment, deployment.status, {**status, "conditions": conditions})
        deadline = deployment.spec.progress_deadline_seconds
        if deadline is not None and not is_complete:
            yield RequeueAfter(float(deadline) + 1.0)

    def _progress(
        self, new: ReplicaSet | None, current: Data | None, *, moved: bool, is_done: bool
    ) -> dict[str, str] | None:
        """Return the new condition about progress, or ``None`` without a change."""
        subject = f'ReplicaSet "{new.name}"' if new is not None else f'Deployment "{self.deployment.name}"'
        reason, updated_at = (current or {}).get("reason"), (current or {}).get("lastUpdateTime")
        if self.deployment.spec.paused:
            return {"status": "Unknown", "reason": "DeploymentPaused", "message": "Deployment is paused"}
        if reason == "DeploymentPaused":
            return {"status": "Unknown", "reason": "DeploymentResumed", "message": "Deployment is resumed"}
        if is_done:
            message = f"{subject} has successfully progressed."
            return {"status": "True", "reason": "NewReplicaSetAvailable", "message": message}
        if moved or current is None:
            return {"status": "True", "reason": "ReplicaSetUpdated", "message": f"{subject} is progressing."}
        seconds = self.deployment.spec.progress_deadline_seconds
        deadline = parse_time(updated_at) + seconds if updated_at and seconds is not None else inf
        if deadline <= self.now and reason != "NewReplicaSetAvailable":
            message = f"{subject} has timed out progressing."
            return {"status": "False", "reason": "ProgressDeadlineExceeded", "message": message}
        return None


def _scale(replica_set: ReplicaSet, replicas: int) -> Patch:
    return Patch(replica_set, {"spec": {"replicas": replicas}})


def _revision(replica_set: ReplicaSet) -> int:
    return to_int64(replica_set.annotations.get(REVISION, "")) or 0


def _without_hash(template: Data) -> Data:
    metadata = template.get("metadata") or {}
    labels = {key: text for key, text in (metadata.get("labels") or {}).items() if key != HASH_LABEL}
    return {**template, "metadata": {**metadata, "labels": labels}}


def _find_condition(kind: str, *lists: Iterable[Data]) -> Data | None:
    return next((condition for conditions in lists for condition in conditions if condition.get("type") == kind), None)


def count_replicas(replica_set: ReplicaSet, field: str) -> int:
    """Return a count of a replica set's status."""
    return int(replica_set.status.get(field) or 0)
