"""Stateful sets: numbered pods with individual volumes, created and replaced in order."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec import to_builtins

from moorage.cluster.controllers.actions import ControllerAction, Create, Delete, Patch, status_actions
from moorage.cluster.controllers.base import PodSetController
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.ownership import (
    is_active,
    is_available,
    is_ready,
    managed_pods,
    owner_reference,
    pod_claims,
    pod_from_template,
    scaled,
)
from moorage.cluster.controllers.replicaset import BURST, wait_for_availability
from moorage.cluster.controllers.revisions import REVISION_LABEL, History
from moorage.kube.api.integers import to_int64
from moorage.kube.api.kinds import BY_TYPE
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import PersistentVolumeClaim
from moorage.kube.api.struct import Data
from moorage.kube.api.workloads import ControllerRevision, StatefulSet

NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"


class StatefulSetController(PodSetController):
    """Manages the pods of stateful sets."""

    name = "stateful sets"
    workload = StatefulSet
    kinds = (StatefulSet, Pod, PersistentVolumeClaim, ControllerRevision)

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        if not isinstance(obj, PersistentVolumeClaim):
            return super().affected(obj, cache)
        sets = cache[StatefulSet].in_namespace(obj.namespace)
        return [item.key for item in sets if any(obj.name.startswith(f"{n}-{item.name}-") for n in _templates(item))]

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Create, replace or delete the next pod, and update the status."""
        stateful_set = cache[StatefulSet].get(key)
        if stateful_set is None or stateful_set.is_terminating:
            return ()
        claimed = [patch for patch in pod_claims(stateful_set, cache) if is_member(patch.obj, stateful_set)]
        history = History.of(stateful_set, cache)
        if first := [*claimed, *history.record(cache)]:
            return first
        pods = {pod.name: pod for pod in managed_pods(stateful_set, cache)}
        claims = {claim.name: claim for claim in cache[PersistentVolumeClaim].in_namespace(stateful_set.namespace)}
        return Ordinals(stateful_set, pods, claims, self._clock.now(), history).actions()


@dataclass(frozen=True, slots=True)
class Ordinals:
    """One stateful set at one moment: its pods, and the claims of its namespace, by name."""

    stateful_set: StatefulSet
    pods: dict[str, Pod]
    claims: Mapping[str, PersistentVolumeClaim]
    now: float
    history: History

    @property
    def numbers(self) -> range:
        """The ordinals of the desired pods. There may be two billion."""
        spec = self.stateful_set.spec
        return range(spec.ordinals.start, spec.ordinals.start + spec.replicas)

    def _name(self, number: int) -> str:
        return f"{self.stateful_set.name}-{number}"

    def _is_wanted(self, name: str) -> bool:
        number = to_int64(name.rpartition("-")[2])
        return number is not None and number in self.numbers and name == self._name(number)

    @property
    def revision(self) -> str:
        """The name of the current template."""
        return self.history.name

    @property
    def current_revision(self) -> str:
        """The name of the previous template during an update, otherwise of the current one."""
        return str(self.stateful_set.status.get("currentRevision") or self.revision)

    def actions(self) -> Iterator[ControllerAction]:
        """Return the actions for the current state."""
        yield from self._retention()
        yield from self._keep() or self._remove_surplus() or self._update()
        yield from self._status()
        yield from self.history.forget({self.current_revision, *map(_revision, self.pods.values())})
        yield from wait_for_availability(self.pods.values(), self.stateful_set.spec.min_ready_seconds, self.now)

    def _retention(self) -> Iterator[ControllerAction]:
        """Update the owners of the claims of all existing and previous pods."""
        own, templates = self.stateful_set.name, _templates(self.stateful_set)
        names = {name.removeprefix(f"{item}-") for item in templates for name in self.claims if name.startswith(item)}
        for name in sorted({*self.pods, *names}):
            claims = [self.claims[f"{item}-{name}"] for item in templates if f"{item}-{name}" in self.claims]
            if claims and re.fullmatch(rf"{re.escape(own)}-\d+", name):
                surplus = not self._is_wanted(name)
                yield from claim_owners(self.stateful_set, self.pods.get(name), claims, is_surplus=surplus)

    def _keep(self) -> list[ControllerAction]:
        """Create missing pods; with ordered management, each waits for its predecessors."""
        in_order = self.stateful_set.spec.pod_management_policy != "Parallel"
        actions: list[ControllerAction] = []
        missing_count = 0
        for name in map(self._name, self.numbers):
            pod = self.pods.get(name)
            if pod is None:
                actions += self._create(name)
                missing_count += 1
            elif pod.is_finished and not pod.is_terminating:
                actions.append(Delete(pod))
            elif is_active(pod) and self._is_available(pod):
                continue
            if in_order or missing_count >= BURST:
                return actions
        return actions

    def _create(self, name: str) -> Iterator[ControllerAction]:
        spec, ordinal, templates = self.stateful_set.spec, name.rpartition("-")[2], _templates(self.stateful_set)
        claims = {template: f"{template}-{name}" for template in templates}
        if any(claim in self.claims and self.claims[claim].is_terminating for claim in claims.values()):
            # The remains of a predecessor must be deleted first.
            return
        revision = self._find_revision(int(ordinal))
        labels = {NAME_LABEL: name, INDEX_LABEL: ordinal, REVISION_LABEL: revision}
        data = pod_from_template(self.stateful_set, self.history.template(revision), name=name, labels=labels)
        volumes = [volume for volume in data["spec"].get("volumes") or () if volume["name"] not in templates]
        selected = (spec.selector.match_labels or {}) if spec.selector else {}
        for template, claim in claims.items():
            volumes.append({"name": template, "persistentVolumeClaim": {"claimName": claim}})
            if claim not in self.claims:
                metadata = templates[template].get("metadata") or {}
                labels = {**(metadata.get("labels") or {}), **selected}
                own = {**metadata, "name": claim, "namespace": self.stateful_set.namespace, "labels": labels}
                content = {"metadata": own, "spec": templates[template].get("spec") or {}}
                yield Create(PersistentVolumeClaim, content)
        data["spec"] = {**data["spec"], "volumes": volumes, "hostname": name, "subdomain": spec.service_name}
        yield Create(Pod, data)

    def _find_revision(self, ordinal: int) -> str:
        """Return the revision of a new pod: the previous one for ordinals below the partition."""
        spec = self.stateful_set.spec
        first = spec.ordinals.start + (spec.update_strategy.rolling_update.partition or 0)
        return self.revision if ordinal >= first else self.current_revision

    def _remove_surplus(self) -> list[ControllerAction]:
        """Remove pods with too high ordinals: the highest first and, with ordered management, one at a time."""
        surplus = [pod for name, pod in self.pods.items() if not self._is_wanted(name)]
        doomed = sorted(surplus, key=lambda pod: -_ordinal(pod))
        if self.stateful_set.spec.pod_management_policy != "Parallel":
            doomed = doomed[:1]
        return [Delete(pod) for pod in doomed if not pod.is_terminating]

    def _update(self) -> list[ControllerAction]:
        """Replace outdated pods from the highest ordinal, within maxUnavailable."""
        strategy = self.stateful_set.spec.update_strategy
        if strategy.type == "OnDelete":
            return []
        max_unavailable = strategy.rolling_update.max_unavailable
        room = max(
            1, scaled(1 if max_unavailable is None else max_unavailable, self.stateful_set.spec.replicas, round_up=True)
        )
        actions: list[ControllerAction] = []
        for name in map(self._name, reversed(self.numbers)):
            pod = self.pods.get(name)
            if pod is None or pod.is_terminating or not self._is_available(pod):
                room -= 1
            if pod is not None and is_active(pod) and _revision(pod) != self._find_revision(_ordinal(pod)):
                room -= self._is_available(pod)
                actions.append(Delete(pod))
            if room <= 0:
                break
        return actions

    def _is_available(self, pod: Pod) -> bool:
        return is_available(pod, self.stateful_set.spec.min_ready_seconds, self.now)

    def _status(self) -> Iterator[ControllerAction]:
        stateful_set, update, current = self.stateful_set, self.revision, self.current_revision
        pods = [pod for pod in self.pods.values() if not pod.is_finished]
        updated = sum(1 for pod in pods if _revision(pod) == update and is_active(pod))
        is_done = updated == len(pods) == stateful_set.spec.replicas and all(map(is_ready, pods))
        current = update if is_done else current
        status: Data = {
            "observedGeneration": stateful_set.metadata.generation,
            "replicas": len(pods),
            "readyReplicas": sum(map(is_ready, pods)),
            "availableReplicas": sum(map(self._is_available, pods)),
            "currentReplicas": sum(1 for pod in pods if _revision(pod) == current),
            "updatedReplicas": updated,
            "currentRevision": current,
            "updateRevision": update,
            "collisionCount": 0,
        }
        yield from status_actions(stateful_set, stateful_set.status, status)


def is_member(obj: KubeObject, stateful_set: StatefulSet) -> bool:
    """Return whether an object has the name of one of a stateful set's pods."""
    return re.fullmatch(rf"{re.escape(stateful_set.name)}-\d+", obj.name) is not None


def _templates(stateful_set: StatefulSet) -> dict[str, Data]:
    """Return the volume claim templates by name."""
    templates = stateful_set.spec.volume_claim_templates
    return {(template.get("metadata") or {}).get("name", ""): template for template in templates}


def _revision(pod: Pod) -> str:
    return pod.labels.get(REVISION_LABEL, "")


def _ordinal(pod: Pod) -> int:
    return to_int64(pod.name.rpartition("-")[2]) or 0


def claim_owners(
    stateful_set: StatefulSet, pod: Pod | None, claims: Iterable[PersistentVolumeClaim], *, is_surplus: bool
) -> Iterator[ControllerAction]:
    """Set the owner of the claims of an ordinal by the retention policy; ``is_surplus`` if it was scaled down."""
    policy = stateful_set.spec.persistent_volume_claim_retention_policy
    owner: KubeObject | None = None
    if is_surplus and policy.when_scaled == "Delete":
        if pod is None:
            return
        owner = pod
    elif policy.when_deleted == "Delete":
        owner = stateful_set
    for claim in claims:
        current = [item for item in claim.metadata.owner_references if item.kind in _KINDS]
        if [item.uid for item in current] == ([owner.uid] if owner is not None else []):
            continue
        foreign = [to_builtins(item) for item in claim.metadata.owner_references if item.kind not in _KINDS]
        references = [*foreign, *([owner_reference(owner)] if owner is not None else [])]
        yield Patch(claim, {"metadata": {"ownerReferences": references}}, if_unchanged=True)


_KINDS = frozenset(BY_TYPE[kind].name for kind in (StatefulSet, Pod))
