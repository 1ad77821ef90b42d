"""Stateful sets: numbered pods with volumes of their own, made and replaced one after the other."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from moorage.api.meta import KubeObject
from moorage.api.pod import Pod
from moorage.api.storage import PersistentVolumeClaim
from moorage.clock import Clock
from moorage.controllers.actions import Action, Create, Delete, status_actions
from moorage.controllers.objects import Data, StatefulSet
from moorage.controllers.ownership import (
    is_active,
    is_available,
    is_ready,
    managed_pods,
    owner_keys,
    pod_of,
    revision_of,
)
from moorage.controllers.replicaset import wait_for_availability
from moorage.controllers.view import View

NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"
REVISION_LABEL: Final = "controller-revision-hash"


class StatefulSetController:
    """Keeps the pods of stateful sets."""

    name = "stateful sets"
    kinds = (StatefulSet, Pod, PersistentVolumeClaim)
    pause = 0.1

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def affected(self, thing: KubeObject, view: View) -> Iterable[str]:
        """Look at a stateful set when it changes, or one of its pods."""
        return (thing.key,) if isinstance(thing, StatefulSet) else owner_keys(thing, StatefulSet)

    def reconcile(self, key: str, view: View) -> Iterable[Action]:
        """Make, replace or remove the next pod, and count."""
        stateful_set = view[StatefulSet].get(key)
        if stateful_set is None or stateful_set.is_terminating:
            return ()
        pods = {pod.name: pod for pod in managed_pods(stateful_set, view)}
        claims = {claim.name for claim in view[PersistentVolumeClaim].in_namespace(stateful_set.namespace)}
        return Ordinals(stateful_set, pods, claims, self._clock.now()).actions()


@dataclass(frozen=True, slots=True)
class Ordinals:
    """One stateful set at one moment: its pods, and the claims of its namespace, by name."""

    stateful_set: StatefulSet
    pods: dict[str, Pod]
    claims: set[str]
    now: float

    @property
    def names(self) -> list[str]:
        """The pods there should be, in order."""
        spec = self.stateful_set.spec
        start = spec.ordinals.start
        return [f"{self.stateful_set.name}-{number}" for number in range(start, start + spec.replicas)]

    @property
    def revision(self) -> str:
        """The name of the current template."""
        return f"{self.stateful_set.name}-{revision_of(self.stateful_set.spec.template)}"

    @property
    def current_revision(self) -> str:
        """The name of the template before, while it is still being replaced; else of the current one."""
        return str(self.stateful_set.status.get("currentRevision") or self.revision)

    def actions(self) -> Iterator[Action]:
        """Decide what is to be done now."""
        yield from self._keep() or self._remove_surplus() or self._update()
        yield from self._status()
        yield from wait_for_availability(self.pods.values(), self.stateful_set.spec.min_ready_seconds, self.now)

    def _keep(self) -> list[Action]:
        """Make the pods that are missing; in order, each waits until those before it are there."""
        in_order = self.stateful_set.spec.pod_management_policy != "Parallel"
        actions: list[Action] = []
        for name in self.names:
            pod = self.pods.get(name)
            if pod is None:
                actions += self._create(name)
            elif pod.is_finished and not pod.is_terminating:
                actions.append(Delete(pod))
            elif is_active(pod) and self._is_available(pod):
                continue
            if in_order:
                return actions
        return actions

    def _create(self, name: str) -> Iterator[Action]:
        spec, ordinal = self.stateful_set.spec, name.rpartition("-")[2]
        labels = {NAME_LABEL: name, INDEX_LABEL: ordinal, REVISION_LABEL: self._revision_for(int(ordinal))}
        data = pod_of(self.stateful_set, spec.template, name=name, labels=labels)
        volumes = [volume for volume in data["spec"].get("volumes") or () if volume["name"] not in self._templates]
        for template in self._templates:
            claim = f"{template}-{name}"
            volumes.append({"name": template, "persistentVolumeClaim": {"claimName": claim}})
            if claim not in self.claims:
                yield Create(PersistentVolumeClaim, self._claim(template, claim))
        data["spec"] = {**data["spec"], "volumes": volumes, "hostname": name, "subdomain": spec.service_name}
        yield Create(Pod, data)

    def _revision_for(self, ordinal: int) -> str:
        """Name the revision of a pod to be made; below the partition that is the one before."""
        partition = self.stateful_set.spec.update_strategy.rolling_update.partition or 0
        return self.revision if ordinal >= partition else self.current_revision

    @property
    def _templates(self) -> dict[str, Data]:
        given = self.stateful_set.spec.volume_claim_templates
        return {(template.get("metadata") or {}).get("name", ""): template for template in given}

    def _claim(self, template: str, name: str) -> Data:
        given = self._templates[template]
        metadata = given.get("metadata") or {}
        selector = self.stateful_set.spec.selector
        labels = {**(metadata.get("labels") or {}), **((selector.match_labels or {}) if selector else {})}
        own = {**metadata, "name": name, "namespace": self.stateful_set.namespace, "labels": labels}
        return {"metadata": own, "spec": given.get("spec") or {}}

    def _remove_surplus(self) -> list[Action]:
        """Remove pods with numbers that are too high: the highest first, and in order one at a time."""
        surplus = [pod for name, pod in self.pods.items() if name not in self.names]
        doomed = sorted(surplus, key=lambda pod: -_ordinal(pod))
        if self.stateful_set.spec.pod_management_policy != "Parallel":
            doomed = doomed[:1]
        return [Delete(pod) for pod in doomed if not pod.is_terminating]

    def _update(self) -> list[Action]:
        """Replace the highest pod that is not up to date, once all others are there."""
        strategy = self.stateful_set.spec.update_strategy
        if strategy.type == "OnDelete":
            return []
        for name in reversed(self.names):
            pod = self.pods.get(name)
            if pod is None or pod.is_terminating:
                return []
            if pod.labels.get(REVISION_LABEL) != self._revision_for(_ordinal(pod)):
                return [Delete(pod)]
            if not self._is_available(pod):
                return []
        return []

    def _is_available(self, pod: Pod) -> bool:
        return is_available(pod, self.stateful_set.spec.min_ready_seconds, self.now)

    def _status(self) -> Iterator[Action]:
        stateful_set, update, current = self.stateful_set, self.revision, self.current_revision
        pods = [pod for pod in self.pods.values() if not pod.is_finished]
        updated = sum(1 for pod in pods if pod.labels.get(REVISION_LABEL) == update and is_active(pod))
        is_done = updated == len(pods) == stateful_set.spec.replicas and all(map(is_ready, pods))
        current = update if is_done else current
        status: Data = {
            "observedGeneration": stateful_set.metadata.generation,
            "replicas": len(pods),
            "readyReplicas": sum(map(is_ready, pods)),
            "availableReplicas": sum(map(self._is_available, pods)),
            "currentReplicas": sum(1 for pod in pods if pod.labels.get(REVISION_LABEL) == current),
            "updatedReplicas": updated,
            "currentRevision": current,
            "updateRevision": update,
            "collisionCount": 0,
        }
        yield from status_actions(stateful_set, stateful_set.status, status)


def _ordinal(pod: Pod) -> int:
    number = pod.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else 0
