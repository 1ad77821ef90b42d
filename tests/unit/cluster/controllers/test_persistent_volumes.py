from typing import Any

import pytest
from tests.support.reconciling import describe, make, pod, status_in

from moorage.cluster.controllers.actions import Create
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.persistent_volumes import (
    PROVISIONED_BY,
    PROVISIONERS,
    AttributesClassController,
    ClaimController,
    VolumeController,
)
from moorage.common.clock import VirtualClock
from moorage.kube.api.claims import SELECTED_NODE
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttributesClass


def claim(
    name: str = "data", *, size: str = "5Gi", annotations: dict[str, str] | None = None, **spec: Any
) -> PersistentVolumeClaim:
    content = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    return make(PersistentVolumeClaim, name, metadata={"annotations": annotations or {}}, spec=content)


def volume(
    name: str, size: str = "10Gi", *, of: str = "manual", claimed_by: str = "", uid: str = "", **metadata: Any
) -> PersistentVolume:
    spec: dict[str, Any] = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": of}
    if claimed_by:
        spec["claimRef"] = {"namespace": "shop", "name": claimed_by, "uid": uid}
    return make(PersistentVolume, name, metadata=metadata, spec=spec)


def storage_class(
    name: str = "fast", *, mode: str = "Immediate", default: bool = False, **content: Any
) -> StorageClass:
    marks = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    content = {"provisioner": "disk.example.org", "volumeBindingMode": mode, **content}
    return make(StorageClass, name, metadata={"annotations": marks}, **content)


LATE = storage_class(mode="WaitForFirstConsumer")
ZONED = make(Node, "n1", metadata={"labels": {"topology.kubernetes.io/zone": "z1", "kubernetes.io/hostname": "n1"}})
TOLD = dict.fromkeys(PROVISIONERS, "disk.example.org")
MANUAL = claim(storageClassName="manual")
CASES: dict[str, tuple[list[KubeObject], list[str]]] = {
    "the smallest fitting volume is bound": (
        [MANUAL, volume("big", "20Gi"), volume("fit"), volume("small", "1Gi")],
        ["change fit"],
    ),
    "a volume of another class does not fit": ([MANUAL, volume("other", of="else")], []),
    "a volume of another claim is not bound": ([MANUAL, volume("taken", claimed_by="other")], []),
    "a reserved volume is bound": (
        [MANUAL, volume("mine", "99Gi", claimed_by="data"), volume("fit")],
        ["change mine"],
    ),
    "the claim refers to the volume after the volume is bound": (
        [MANUAL, volume("mine", claimed_by="data", uid="uid-of-data"), volume("fit")],
        ["change data"],
    ),
    "a volume is provisioned": (
        [claim(storageClassName="fast"), storage_class()],
        ["change data", "create PersistentVolume pvc-uid-of-data"],
    ),
    "the provisioner annotations are set once": (
        [claim(storageClassName="fast", annotations=TOLD), storage_class()],
        ["create PersistentVolume pvc-uid-of-data"],
    ),
    "WaitForFirstConsumer waits for a node": ([claim(storageClassName="fast"), LATE], []),
    "a volume is provisioned for the selected node": (
        [claim(storageClassName="fast", annotations={SELECTED_NODE: "n1"}), LATE, ZONED],
        ["change data", "create PersistentVolume pvc-uid-of-data"],
    ),
    "a class without a provisioner provisions nothing": (
        [claim(storageClassName="fast"), storage_class(provisioner="kubernetes.io/no-provisioner")],
        [],
    ),
    "a claim without a class gets the default one": ([claim(), storage_class(default=True)], ["change data"]),
    "a claim with an empty class gets no default": ([claim(storageClassName=""), storage_class(default=True)], []),
}


@pytest.mark.parametrize(("objects", "want"), CASES.values(), ids=CASES)
def test_volume_is_found_or_provisioned(objects: list[KubeObject], want: list[str]) -> None:
    assert describe(ClaimController(VirtualClock()).reconcile("shop/data", InformerCache(objects))) == want


def test_both_sides_of_a_binding_are_written() -> None:
    bound_volume = volume("fit", claimed_by="data", uid="uid-of-data")
    status = status_in(ClaimController(VirtualClock()).reconcile("shop/data", InformerCache([MANUAL, bound_volume])))
    assert status == {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"}}


REACH = {
    "a volume of the node's zone": ({}, {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1"]}),
    "a volume of the node": (
        {"moorage.io/topology": "host"},
        {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]},
    ),
}


@pytest.mark.parametrize(("parameters", "want"), REACH.values(), ids=REACH)
def test_provisioned_volume_is_accessible_from_the_selected_node(
    parameters: dict[str, str], want: dict[str, Any]
) -> None:
    late = storage_class(mode="WaitForFirstConsumer", parameters=parameters)
    objects = [claim(storageClassName="fast", annotations={SELECTED_NODE: "n1", **TOLD}), late, ZONED]
    (create,) = ClaimController(VirtualClock()).reconcile("shop/data", InformerCache(objects))
    assert isinstance(create, Create)
    (term,) = create.data["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [want]


def test_claim_in_use_is_kept_until_its_last_pod_finishes() -> None:
    metadata = {"finalizers": ["kubernetes.io/pvc-protection"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    dying = make(PersistentVolumeClaim, "data", metadata=metadata)
    uses = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
    controller = ClaimController(VirtualClock())
    using = pod(**uses)
    assert describe(controller.reconcile(dying.key, InformerCache([dying, using]))) == []
    for unused in (pod(node="", **uses), pod(phase="Succeeded", **uses)):
        assert describe(controller.reconcile(dying.key, InformerCache([dying, unused]))) == ["change data"]


def test_attributes_class_in_use_is_kept() -> None:
    metadata = {"finalizers": ["kubernetes.io/vac-protection"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    dying = make(VolumeAttributesClass, "gold", metadata=metadata)
    used, other = claim(volumeAttributesClassName="gold"), claim(volumeAttributesClassName="silver")
    controller = AttributesClassController(VirtualClock())
    assert describe(controller.reconcile("gold", InformerCache([dying, used]))) == []
    cache = InformerCache([dying, other])
    assert [*controller.affected(other, cache)] == ["gold"]
    assert describe(controller.reconcile("gold", cache)) == ["change gold"]


def bound(policy: str, **annotations: str) -> PersistentVolume:
    reference = {"namespace": "shop", "name": "data", "uid": "uid-of-data"}
    spec = {"claimRef": reference, "persistentVolumeReclaimPolicy": policy}
    return make(PersistentVolume, "pv", metadata={"annotations": annotations}, spec=spec, status={"phase": "Bound"})


AFTERWARDS: dict[str, tuple[PersistentVolume, PersistentVolumeClaim | None, list[str], str]] = {
    "a volume with its claim remains bound": (bound("Delete"), claim(), [], ""),
    "a provisioned volume is deleted after its claim": (
        bound("Delete", **{PROVISIONED_BY: "x"}),
        None,
        ["delete pv"],
        "",
    ),
    "a retained volume is released": (bound("Retain", **{PROVISIONED_BY: "x"}), None, [], "Released"),
    "a volume without a claim is available": (volume("pv"), None, [], "Available"),
}


@pytest.mark.parametrize(("obj", "its_claim", "want", "phase"), AFTERWARDS.values(), ids=AFTERWARDS)
def test_volumes_after_their_claims(
    obj: PersistentVolume, its_claim: PersistentVolumeClaim | None, want: list[str], phase: str
) -> None:
    cache = InformerCache([obj, *([its_claim] if its_claim is not None else [])])
    actions = list(VolumeController(VirtualClock()).reconcile(obj.name, cache))
    assert describe(actions) == want
    assert status_in(actions).get("phase", "") == phase
