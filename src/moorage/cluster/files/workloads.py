"""Workloads in cluster files, admitted as by the API server."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from moorage.cluster.apiserver.admission.chain import Admission
from moorage.cluster.apiserver.storage.store import Store
from moorage.common.errors import ApiError, InputError
from moorage.kube.api.codec import convert, without_nulls
from moorage.kube.api.kinds import BY_TYPE
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
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
"""Kinds with selectors that the scheduler reads; without a valid template they are kept only for that."""


class WorkloadAdmission:
    """Completes and checks workloads as the API server does, but keeps their identity and their status."""

    def __init__(self, features: FeatureGates) -> None:
        self._admission = Admission(Store(), features)

    def admit(self, obj: PodSource, content: Mapping[str, Any], title: str) -> KubeObject:
        """Return a workload in its stored form. Raise InputError if it is invalid."""
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
            # Only the API server needs the rest of the module: without jobs, it is not imported.
            from moorage.cluster.apiserver.writing.writer import select_own_pods

            select_own_pods(data)
        return convert(kind.type, data)


def selecting_only(obj: KubeObject) -> KubeObject:
    """Return a workload without a template: it creates no pods, and the scheduler reads only its selector."""
    assert isinstance(obj, SELECTING)
    return replace(obj, spec=replace(obj.spec, template_json=msgspec.Raw(b"{}")))


def selector_uids(objects: Iterable[KubeObject]) -> frozenset[str]:
    """Return the uids of workloads that only select pods. Controllers would create or delete pods for them."""
    return frozenset(obj.uid for obj in objects if isinstance(obj, SELECTING) and not makes_pods(obj))


def find_template(obj: PodSource) -> Data:
    """Return the pod template of a workload, or empty if the workload has only a selector."""
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
