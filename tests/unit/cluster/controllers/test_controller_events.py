"""Events of controllers, with the reasons and messages of kube-controller-manager."""

from typing import Any

import pytest

from moorage.cluster.controllers.actions import NAME, ControllerAction, Create, Delete, Patch
from moorage.cluster.controllers.controller_events import add_event, rejection_event, state_event
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.kube.api.codec import convert
from moorage.kube.api.meta import KubeObject, ObjectMeta
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import PodGroup
from moorage.kube.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from moorage.kube.api.workloads import CronJob, DaemonSet, Deployment, Job, ReplicaSet, StatefulSet

META = ObjectMeta(name="web", namespace="default", uid="1")
REPLICAS = convert(ReplicaSet, {"metadata": {"name": "web-1"}, "spec": {"replicas": 3}})
POD = Pod(ObjectMeta(name="web-0", namespace="default"))
EVENTS: dict[str, tuple[type[KubeObject], ControllerAction, str, str]] = {
    "a new replica set": (
        Deployment,
        Create(ReplicaSet, {"spec": {"replicas": 3}}),
        "ScalingReplicaSet",
        "Scaled up replica set x from 0 to 3",
    ),
    "a smaller replica set": (
        Deployment,
        Patch(REPLICAS, {"spec": {"replicas": 1}}),
        "ScalingReplicaSet",
        "Scaled down replica set x from 3 to 1",
    ),
    "a pod of a replica set": (ReplicaSet, Create(Pod, {}), "SuccessfulCreate", "Created pod: x"),
    "a deleted pod of a daemon set": (DaemonSet, Delete(POD), "SuccessfulDelete", "Deleted pod: x"),
    "a pod of a stateful set": (
        StatefulSet,
        Create(Pod, {}),
        "SuccessfulCreate",
        "create Pod x in StatefulSet web successful",
    ),
    "a pod of a job": (Job, Create(Pod, {}), "SuccessfulCreate", "Created pod: x"),
    "a pod group of a job": (Job, Create(PodGroup, {}), "PodGroupCreated", "Created PodGroup x for Job web"),
    "a suspended job": (
        Job,
        Patch(Job(META), {"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}, "status"),
        "Suspended",
        "Job suspended",
    ),
    "a job": (CronJob, Create(Job, {}), "SuccessfulCreate", "Created job x"),
    "a silent node": (
        Node,
        Patch(Node(META), {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, "status"),
        "NodeNotReady",
        "Node web status is now: NodeNotReady",
    ),
    "a volume": (
        PersistentVolumeClaim,
        Create(PersistentVolume, {}),
        "ProvisioningSucceeded",
        "Successfully provisioned volume x",
    ),
}


@pytest.mark.parametrize(("kind", "action", "reason", "message"), EVENTS.values(), ids=EVENTS)
def test_event_after_an_action(kind: type[KubeObject], action: Any, reason: str, message: str) -> None:
    event = add_event(action, kind(META)).event
    assert event is not None
    assert (event.reason, event.note.replace(NAME, "x"), event.is_warning) == (reason, message, False)
    assert isinstance(event.regarding, kind)


def test_status_patch_has_no_event():
    action = Patch(REPLICAS, {"status": {"replicas": 1}}, "status")
    assert add_event(action, ReplicaSet(META)) is action
    ready = Patch(Node(META), {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "status")
    assert add_event(ready, Node(META)) is ready


def test_rejected_pods_are_a_warning():
    event = rejection_event(ReplicaSet(META), "exceeded quota: q")
    assert (event.reason, event.note, event.is_warning) == (
        "FailedCreate",
        "Error creating: exceeded quota: q",
        True,
    )


REJECTIONS = {
    "a pod": ('pods "web-1" is forbidden: exceeded quota: q', "create Pod web-1 in StatefulSet web failed error: "),
    "an invalid pod": ('Pod "web-0" is invalid: spec: no', "create Pod web-0 in StatefulSet web failed error: "),
    "a claim": (
        'persistentvolumeclaims "data-web-1" is forbidden: exceeded quota: q',
        "create Claim data-web-1 Pod web-1 in StatefulSet web failed error: ",
    ),
}


@pytest.mark.parametrize(("message", "head"), REJECTIONS.values(), ids=REJECTIONS)
def test_rejection_names_the_pod_of_a_stateful_set(message: str, head: str) -> None:
    assert rejection_event(StatefulSet(META), message).note == f"{head}{message}"


def test_new_claim_names_its_pod() -> None:
    event = add_event(Create(PersistentVolumeClaim, {"metadata": {"name": "data-web-1"}}), StatefulSet(META)).event
    assert event is not None
    assert event.note.replace(NAME, "data-web-1") == "create Claim data-web-1 Pod web-1 in StatefulSet web success"


WAITING = {
    "no class": ({}, "FailedBinding"),
    "an unknown class": ({"storageClassName": "gold"}, "ProvisioningFailed"),
    "a class that waits for a pod": ({"storageClassName": "late"}, "WaitForFirstConsumer"),
}


@pytest.mark.parametrize(("spec", "reason"), WAITING.values(), ids=WAITING)
def test_event_of_an_unbound_claim(spec: dict[str, str], reason: str) -> None:
    cache = InformerCache()
    late = {"metadata": {"name": "late"}, "provisioner": "x", "volumeBindingMode": "WaitForFirstConsumer"}
    cache[StorageClass].put(convert(StorageClass, late))
    claim = convert(PersistentVolumeClaim, {"metadata": {"name": "data", "namespace": "default"}, "spec": spec})
    event = state_event(claim, cache)
    assert event is not None
    assert event.reason == reason
    bound = convert(PersistentVolumeClaim, {"metadata": {"name": "data"}, "spec": {**spec, "volumeName": "v"}})
    assert state_event(bound, cache) is None
