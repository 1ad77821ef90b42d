"""Workloads of a described cluster: taken in as the API server would, and run by the embedded cluster's controllers."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from moorage.cluster.apiserver.admission.chain import Admission
from moorage.cluster.apiserver.storage.store import Store
from moorage.cluster.apiserver.writing.writer import select_own_pods
from moorage.cluster.controllers.cronjob import CronJobController
from moorage.cluster.controllers.daemonset import DaemonSetController
from moorage.cluster.controllers.deployment import DeploymentController
from moorage.cluster.controllers.disruption import DisruptionController
from moorage.cluster.controllers.garbage_collector import OWNERS, GarbageCollector
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.job import JobController
from moorage.cluster.controllers.manager import Controller
from moorage.cluster.controllers.persistent_volumes import ClaimController, EphemeralVolumeController, VolumeController
from moorage.cluster.controllers.replicaset import ReplicaSetController
from moorage.cluster.controllers.resource_claims import ClaimUseController, PodClaimController
from moorage.cluster.controllers.statefulset import StatefulSetController
from moorage.common.clock import Clock
from moorage.common.errors import ApiError, InputError
from moorage.kube.api.cluster import PodDisruptionBudget
from moorage.kube.api.codec import convert, without_nulls
from moorage.kube.api.devices import ResourceClaim, ResourceClaimTemplate
from moorage.kube.api.kinds import BY_TYPE
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import PersistentVolumeClaim
from moorage.kube.api.struct import Data
from moorage.kube.api.workloads import (
    AppsWorkload,
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from moorage.kube.features import FeatureGates
from moorage.kube.resources import served

PodSource: TypeAlias = AppsWorkload | ReplicationController | Job | CronJob
WORKLOADS: Final = (Deployment, ReplicaSet, ReplicationController, StatefulSet, DaemonSet, Job, CronJob)
SELECTING: Final = (ReplicaSet, ReplicationController, StatefulSet)
"""Kinds that the scheduler itself reads, for their selectors: without a good template they are there for that alone."""
_OWNER_NAMES: Final = frozenset(BY_TYPE[kind].name for kind in OWNERS)


class WorkloadAdmission:
    """Completes and checks workloads as the API server does, but keeps their identity and their status."""

    def __init__(self, features: FeatureGates) -> None:
        self._admission = Admission(Store(), features)

    def admit(self, obj: PodSource, content: Mapping[str, Any], title: str) -> KubeObject:
        """Return a workload in its stored form; raise InputError if it is invalid."""
        kind = BY_TYPE[type(obj)]
        # A copy, because admission changes the data.
        data: Data = msgspec.json.decode(msgspec.json.encode(without_nulls(content)))
        metadata = obj.metadata
        data["metadata"] |= {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "uid": metadata.uid,
            "creationTimestamp": metadata.creation_timestamp,
            "resourceVersion": metadata.resource_version,
            "generation": metadata.generation or 1,
        }
        data |= {"apiVersion": kind.api_version, "kind": kind.name}
        try:
            data = self._admission.admit_new(served(kind), data)
        except ApiError as error:
            raise InputError(title, str(error)) from error
        if isinstance(obj, Job) and not data["spec"].get("selector"):
            select_own_pods(data)
        return convert(kind.type, data)


def selecting_only(obj: KubeObject) -> KubeObject:
    """Return a workload without a template: it creates no pods, and the scheduler reads only its selector."""
    assert isinstance(obj, SELECTING)
    spec = msgspec.structs.replace(obj.spec, template_json=msgspec.Raw(b"{}"))
    return msgspec.structs.replace(obj, spec=spec)


def selector_uids(objects: Iterable[KubeObject]) -> frozenset[str]:
    """Return the uids of workloads that only select pods; controllers that see them would create or delete pods."""
    return frozenset(obj.uid for obj in objects if isinstance(obj, SELECTING) and not makes_pods(obj))


def template_of(obj: PodSource) -> Data:
    """Return the pod template of a workload; empty if the workload has only a selector."""
    if not isinstance(obj, CronJob):
        return obj.spec.template
    spec = obj.spec.job_template.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    return template if isinstance(template, dict) else {}


def makes_pods(obj: PodSource) -> bool:
    """Return whether a workload has a template of which pods can be made."""
    spec = template_of(obj).get("spec")
    return isinstance(spec, dict) and bool(spec.get("containers"))


def pods_wanted(obj: PodSource, nodes: int) -> int:
    """Return the approximate number of pods that a workload requests."""
    match obj:
        case DaemonSet():
            return nodes
        case CronJob():
            return 1
        case Job():
            return obj.spec.completions or obj.spec.parallelism
        case _:
            return obj.spec.replicas


def example_pod(obj: PodSource) -> Pod:
    """Return a pod as its template has it, to be checked before any is made."""
    template = template_of(obj)
    labels = (template.get("metadata") or {}).get("labels") or {}
    identity = {"name": obj.name, "namespace": obj.namespace, "labels": labels}
    return convert(Pod, {"metadata": identity, "spec": template.get("spec") or {}})


def keep_as_given(objects: Iterable[KubeObject]) -> list[KubeObject]:
    """Let workloads in the input keep their pods.

    Pods refer to their revision by a hash that other controllers compute differently. Without this, all pods of a
    dumped cluster would be replaced.
    """
    all_objects = list(objects)
    owners = {owner.uid for pod in all_objects if isinstance(pod, Pod) for owner in pod.metadata.owner_references}
    return [_not_updating(obj) if _is_revised(obj) and obj.uid in owners else obj for obj in all_objects]


def _is_revised(obj: KubeObject) -> bool:
    return isinstance(obj, StatefulSet | DaemonSet)


def _not_updating(obj: KubeObject) -> KubeObject:
    assert isinstance(obj, StatefulSet | DaemonSet)
    strategy = msgspec.structs.replace(obj.spec.update_strategy, type="OnDelete")
    return msgspec.structs.replace(obj, spec=msgspec.structs.replace(obj.spec, update_strategy=strategy))


class PatientCollector(GarbageCollector):
    """Garbage collector that ignores objects whose owner is missing in the input, which may be incomplete."""

    def __init__(self, clock: Clock, described: Iterable[KubeObject]) -> None:
        super().__init__(clock)
        objects = list(described)
        there = {obj.uid for obj in objects} - selector_uids(objects)
        self._without_owner = {
            obj.uid
            for obj in objects
            if any(item.kind in _OWNER_NAMES and item.uid not in there for item in obj.metadata.owner_references)
        }

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        """Check objects with owners, unless the owners never existed."""
        return () if obj.uid in self._without_owner else super().affected(obj, cache)


def controllers_for(objects: Iterable[KubeObject], clock: Clock) -> tuple[Controller, ...]:
    """Return the controllers that have something to do in a cluster; none, if there are only nodes and pods."""
    all_objects = list(objects)
    kinds = {type(obj) for obj in all_objects}
    has_workloads = any(isinstance(obj, WORKLOADS) and makes_pods(obj) for obj in all_objects)
    controllers: list[Controller] = []
    if has_workloads:
        controllers += [
            DeploymentController(clock),
            ReplicaSetController(clock),
            ReplicaSetController(clock, ReplicationController),
            StatefulSetController(clock),
            DaemonSetController(clock),
            JobController(clock),
            CronJobController(clock),
            PatientCollector(clock, all_objects),
        ]
    if has_workloads or PersistentVolumeClaim in kinds or _any_ephemeral(all_objects):
        controllers += [ClaimController(), VolumeController(), EphemeralVolumeController()]
    if has_workloads or kinds & {ResourceClaim, ResourceClaimTemplate}:
        controllers += [PodClaimController(), ClaimUseController()]
    budgets = [obj for obj in all_objects if isinstance(obj, PodDisruptionBudget)]
    if has_workloads and budgets:
        controllers.append(DisruptionController(clock))
    return tuple(controllers)


def _any_ephemeral(objects: Iterable[KubeObject]) -> bool:
    pods = (obj for obj in objects if isinstance(obj, Pod))
    return any(volume.ephemeral is not None for pod in pods for volume in pod.spec.volumes)
