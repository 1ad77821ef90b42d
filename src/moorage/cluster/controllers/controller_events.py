"""The events of kube-controller-manager, derived from the actions of the controllers and the state of their objects."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, TypeVar

from moorage.cluster.controllers.actions import NAME, ControllerAction, Create, Delete, Patch
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.kube.api import claims
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import PodGroup, Workload
from moorage.kube.api.records import EventNote
from moorage.kube.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from moorage.kube.api.workloads import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)

A = TypeVar("A", bound=ControllerAction)
SOURCES: Final[Mapping[type[KubeObject], str]] = {
    CronJob: "cronjob-controller",
    DaemonSet: "daemonset-controller",
    Deployment: "deployment-controller",
    Job: "job-controller",
    Node: "node-controller",
    PersistentVolumeClaim: "persistentvolume-controller",
    ReplicaSet: "replicaset-controller",
    ReplicationController: "replication-controller",
    StatefulSet: "statefulset-controller",
}
"""The kinds with events, and the component that reports them."""

_CREATED: Final[Mapping[tuple[type[KubeObject], type[KubeObject]], tuple[str, str]]] = {
    (CronJob, Job): ("SuccessfulCreate", "Created job {name}"),
    (Deployment, ReplicaSet): ("ScalingReplicaSet", "Scaled up replica set {name} from 0 to {replicas}"),
    (Job, PodGroup): ("PodGroupCreated", "Created PodGroup {name} for Job {owner}"),
    (Job, Workload): ("WorkloadCreated", "Created Workload {name} for Job {owner}"),
    (KubeObject, Pod): ("SuccessfulCreate", "Created pod: {name}"),
    (PersistentVolumeClaim, PersistentVolume): ("ProvisioningSucceeded", "Successfully provisioned volume {name}"),
    (StatefulSet, PersistentVolumeClaim): (
        "SuccessfulCreate",
        "create Claim {name} Pod {pod} in StatefulSet {owner} success",
    ),
    (StatefulSet, Pod): ("SuccessfulCreate", "create Pod {name} in StatefulSet {owner} successful"),
}
"""The reason and message for a new object, by the kinds of its owner and of the object."""

REJECTED: Final = re.compile(r'(pods|persistentvolumeclaims|Pod|PersistentVolumeClaim) "([^"]+)" is ')
"""The object of a rejection by the API server."""
_CONDITIONS: Final[Mapping[tuple[str, str], tuple[str, str]]] = {
    ("Suspended", "True"): ("Suspended", "Job suspended"),
    ("Suspended", "False"): ("Resumed", "Job resumed"),
    ("Complete", "True"): ("Completed", "Job completed"),
}
"""The reason and message for a new condition of a job, by its type and status."""


def add_event(action: A, owner: KubeObject) -> A:
    """Return an action of the controller of an object with the event to record after it, if any."""
    if not isinstance(action, Create | Delete | Patch) or action.event is not None:
        return action
    if (description := _describe(action, owner)) is None:
        return action
    return replace(action, event=_event(owner, *description))


def _event(owner: KubeObject, reason: str, message: str, is_warning: bool = False) -> EventNote:
    return EventNote(owner, reason, "", message, SOURCES[type(owner)], is_warning)


def _describe(action: Create | Delete | Patch, owner: KubeObject) -> tuple[str, str, bool] | None:
    match owner, action:
        case _, Create(kind=kind, data=data):
            reason, message = _CREATED.get((type(owner), kind)) or _CREATED.get((KubeObject, kind), ("", ""))
            replicas = (data.get("spec") or {}).get("replicas", 0)
            pod = _find_pod_name(owner, str((data.get("metadata") or {}).get("name")))
            text = message.format(name=NAME, owner=owner.name, replicas=replicas, pod=pod)
            return (reason, text, False) if reason else None
        case StatefulSet(), Delete(obj=Pod()):
            return "SuccessfulDelete", f"delete Pod {NAME} in StatefulSet {owner.name} successful", False
        case _, Delete(obj=Pod()):
            return "SuccessfulDelete", f"Deleted pod: {NAME}", False
        case Deployment(), Patch(obj=ReplicaSet() as scaled, patch={"spec": {"replicas": int(replicas)}}):
            before = scaled.spec.replicas
            direction = "up" if replicas > before else "down"
            return "ScalingReplicaSet", f"Scaled {direction} replica set {NAME} from {before} to {replicas}", False
        case Node(), Patch(patch={"status": {"conditions": [{"status": "Unknown"}, *_]}}):
            return "NodeNotReady", f"Node {owner.name} status is now: NodeNotReady", False
        case Job(), Patch(obj=Job(), patch={"status": {"conditions": conditions}}):
            statuses = {item.get("type"): item.get("status") for item in owner.status.get("conditions") or ()}
            for item in conditions:
                condition = item["type"], item["status"]
                if statuses.get(condition[0]) != condition[1] and condition in _CONDITIONS:
                    return *_CONDITIONS[condition], False
                if statuses.get("Failed") != "True" and condition == ("Failed", "True"):
                    return item["reason"], item["message"], True
    return None


def rejection_event(owner: KubeObject, message: str) -> EventNote:
    """Return the event about pods that the server does not accept, because of a quota for example."""
    text = f"Error creating: {message}"
    match = REJECTED.match(message) if isinstance(owner, StatefulSet) else None
    if match is not None:
        pod = _find_pod_name(owner, match[2])
        created = f"Pod {pod}" if match[1].casefold().startswith("pod") else f"Claim {match[2]} Pod {pod}"
        text = f"create {created} in StatefulSet {owner.name} failed error: {message}"
    return _event(owner, "FailedCreate", text, is_warning=True)


def _find_pod_name(owner: KubeObject, name: str) -> str:
    """Return the pod of a stateful set that a claim belongs to: the claim's name ends with it."""
    match = re.search(rf"{re.escape(owner.name)}-\d+$", name)
    return match[0] if match else name


def state_event(owner: KubeObject, cache: InformerCache) -> EventNote | None:
    """Return the event about a claim that cannot be bound yet."""
    if not isinstance(owner, PersistentVolumeClaim) or owner.spec.volume_name or owner.is_terminating:
        return None
    name = claims.storage_class_name(owner)
    storage_class = cache[StorageClass].get(name)
    if name and storage_class is None:
        return _event(owner, "ProvisioningFailed", f'storageclass.storage.k8s.io "{name}" not found', is_warning=True)
    if storage_class is None:
        message = "no persistent volumes available for this claim and no storage class is set"
        return _event(owner, "FailedBinding", message)
    waits = storage_class.volume_binding_mode == claims.WAIT_FOR_FIRST_CONSUMER
    if waits and claims.SELECTED_NODE not in owner.annotations:
        return _event(owner, "WaitForFirstConsumer", "waiting for first consumer to be created before binding")
    return None
