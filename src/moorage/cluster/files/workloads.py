"""Workloads in cluster files: admitted as by the API server, and run by the controllers of the embedded cluster."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

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
from moorage.cluster.controllers.replicaset import ReplicaSetController, ReplicationManager
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
"""Kinds whose selectors the scheduler reads; without a valid template they are kept only for that."""
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
    return replace(obj, spec=replace(obj.spec, template_json=msgspec.Raw(b"{}")))


def selector_uids(objects: Iterable[KubeObject]) -> frozenset[str]:
    """Return the uids of workloads that only select pods; controllers would create or delete pods for them."""
    return frozenset(obj.uid for obj in objects if isinstance(obj, SELECTING) and not makes_pods(obj))


def find_template(obj: PodSource) -> Data:
    """Return the pod template of a workload; empty if the workload has only a selector."""
    if not isinstance(obj, CronJob):
        return obj.spec.template
    spec = obj.spec.job_template.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    return template if isinstance(template, dict) else {}


def makes_pods(obj: PodSource) -> bool:
    """Return whether a workload has a template for pods."""
    spec = find_template(obj).get("spec")
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
    """Return a pod of the template of a workload, to validate the template."""
    template = find_template(obj)
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
    for index, obj in enumerate(all_objects):
        if isinstance(obj, StatefulSet | DaemonSet) and obj.uid in owners:
            strategy = replace(obj.spec.update_strategy, type="OnDelete")
            all_objects[index] = replace(obj, spec=replace(obj.spec, update_strategy=strategy))
    return all_objects


class PatientCollector(GarbageCollector):
    """Garbage collector that ignores objects whose owner is missing in the input, which may be incomplete."""

    def __init__(self, clock: Clock, objects: Sequence[KubeObject]) -> None:
        super().__init__(clock)
        owners = {obj.uid for obj in objects} - selector_uids(objects)
        references = ((obj.uid, item) for obj in objects for item in obj.metadata.owner_references)
        self._without_owner = {uid for uid, item in references if item.kind in _OWNER_NAMES and item.uid not in owners}

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        """Skip objects whose owners never existed."""
        return () if obj.uid in self._without_owner else super().affected(obj, cache)


def controllers_for(objects: Iterable[KubeObject], clock: Clock) -> tuple[Controller, ...]:
    """Return the controllers that a cluster needs; none if it has only nodes and pods."""
    all_objects = list(objects)
    kinds = {type(obj) for obj in all_objects}
    has_workloads = any(isinstance(obj, WORKLOADS) and makes_pods(obj) for obj in all_objects)
    controllers: list[Controller] = []
    if has_workloads:
        controllers += [
            DeploymentController(clock),
            ReplicaSetController(clock),
            ReplicationManager(clock),
            StatefulSetController(clock),
            DaemonSetController(clock),
            JobController(clock),
            CronJobController(clock),
            PatientCollector(clock, all_objects),
        ]
    volumes = (volume for obj in all_objects if isinstance(obj, Pod) for volume in obj.spec.volumes)
    if has_workloads or PersistentVolumeClaim in kinds or any(volume.ephemeral is not None for volume in volumes):
        controllers += [ClaimController(clock), VolumeController(clock), EphemeralVolumeController(clock)]
    if has_workloads or kinds & {ResourceClaim, ResourceClaimTemplate}:
        controllers += [PodClaimController(clock), ClaimUseController(clock)]
    if has_workloads and PodDisruptionBudget in kinds:
        controllers.append(DisruptionController(clock))
    return tuple(controllers)
