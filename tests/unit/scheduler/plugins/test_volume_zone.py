import pytest

from moorage.kube.api.storage import PersistentVolumeClaim
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.events import Action, QueueingHint, Resource
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.volume_zone import (
    WRONG_ZONE,
    VolumeZone,
    after_claim_changed,
    after_class_added,
    after_volume_changed,
)
from moorage.testing import make_node, make_pod
from moorage.testing.rig import FORMS, FilterForm, Rig, run_filter
from moorage.testing.storage import claim_volume, ephemeral_volume, make_claim, make_class, make_volume

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"

CASES = {
    "the same zone": ({ZONE: "a"}, {ZONE: "a"}, None),
    "another zone": ({ZONE: "a"}, {ZONE: "b"}, WRONG_ZONE),
    "one of several zones": ({ZONE: "a__b"}, {ZONE: "b"}, None),
    "none of several zones": ({ZONE: "a__b"}, {ZONE: "c"}, WRONG_ZONE),
    "spaces around a zone do not count": ({ZONE: "a__ b "}, {ZONE: "b"}, None),
    "a list with an empty element is ignored": ({ZONE: "a__", REGION: "r"}, {ZONE: "c", REGION: "r"}, None),
    "a node without any of the labels passes": ({ZONE: "a"}, {"other": "x"}, None),
    "a node with a zone lacks the region": ({ZONE: "a", REGION: "r"}, {ZONE: "a"}, WRONG_ZONE),
    "an old label of the volume may be a new one of the node": ({BETA_ZONE: "a"}, {ZONE: "a"}, None),
    "and must then be the same": ({BETA_ZONE: "a"}, {ZONE: "b"}, WRONG_ZONE),
    "the node's old label counts before its new one": ({BETA_ZONE: "a"}, {BETA_ZONE: "b", ZONE: "a"}, WRONG_ZONE),
    "an old region may be a new one, too": ({BETA_REGION: "r"}, {REGION: "r"}, None),
    "a new label of the volume is never an old one of the node": ({ZONE: "a"}, {BETA_ZONE: "a"}, WRONG_ZONE),
    "every label must be right": ({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "s"}, WRONG_ZONE),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("volume", "node", "want"), CASES.values(), ids=CASES)
def test_filter(form: FilterForm, volume: dict[str, str], node: dict[str, str], want: Status | None) -> None:
    claim = make_claim("data", bound_to="disk")
    rig = Rig(make_node("n", labels=node), make_node("bare"), claim, make_volume("disk", labels=volume))
    plugin = VolumeZone(handle=rig)
    assert run_filter(plugin, rig, make_pod(volumes=(claim_volume("data"),)), form) == [want, None]


@pytest.mark.parametrize("form", FORMS)
def test_every_volume_must_be_in_the_zone(form: FilterForm) -> None:
    rig = Rig(
        *(make_node(zone, zone=zone) for zone in "abc"),
        make_claim("one", bound_to="one"),
        make_claim("two", bound_to="two"),
        make_volume("one", labels={ZONE: "a__b"}),
        make_volume("two", labels={ZONE: "b__c"}),
    )
    pod = make_pod(volumes=(claim_volume("one"), claim_volume("two")))
    assert run_filter(VolumeZone(handle=rig), rig, pod, form) == [WRONG_ZONE, None, WRONG_ZONE]


def test_the_reason_is_upstreams_and_preemption_cannot_help() -> None:
    assert Status.unresolvable("node(s) had no available volume zone") == WRONG_ZONE


PRE_FILTERS = {
    "a volume without labels": (make_claim("c", bound_to="bare"), Status.skip()),
    "a volume with a zone": (make_claim("c", bound_to="zoned"), None),
    "a claim that is missing": (None, Status.unresolvable('persistentvolumeclaim "c" not found')),
    "a volume that is missing": (
        make_claim("c", bound_to="gone"),
        Status.unresolvable('persistentvolume "gone" not found'),
    ),
    "neither volume nor class": (
        make_claim("c"),
        Status.unresolvable("PersistentVolumeClaim had no pv name and storageClass name"),
    ),
    "a class that is missing": (
        make_claim("c", storage_class="gone"),
        Status.unresolvable('storageclass.storage.k8s.io "gone" not found'),
    ),
    "a class without a binding mode": (
        make_claim("c", storage_class="modeless"),
        Status.unresolvable('VolumeBindingMode not set for StorageClass "modeless"'),
    ),
    "a claim that waits for its pod": (make_claim("c", storage_class="late"), Status.skip()),
    "the old annotation names the class": (
        make_claim("c", storage_class="early", annotations={"volume.beta.kubernetes.io/storage-class": "late"}),
        Status.skip(),
    ),
    "an unbound claim that should be bound": (
        make_claim("c", storage_class="early"),
        Status.unresolvable("PersistentVolume had no name"),
    ),
    "a claim that names its volume is treated as bound": (make_claim("c", volume_name="zoned"), None),
}


@pytest.mark.parametrize(("claim", "want"), PRE_FILTERS.values(), ids=PRE_FILTERS)
def test_pre_filter(claim: PersistentVolumeClaim | None, want: Status | None) -> None:
    rig = Rig(
        make_volume("bare"),
        make_volume("zoned", labels={ZONE: "a"}),
        make_class("late"),
        make_class("early", mode="Immediate"),
        make_class("modeless", mode=None),
        *((claim,) if claim else ()),
    )
    pod = make_pod(volumes=(claim_volume("c"),))
    assert VolumeZone(handle=rig).pre_filter(CycleState(), pod, rig.nodes) == want


def test_a_claim_without_a_name_and_pods_without_claims() -> None:
    plugin, nodes = VolumeZone(handle=Rig()), Rig().nodes
    nameless = make_pod(volumes=(claim_volume(""),))
    assert plugin.pre_filter(CycleState(), nameless, nodes) == Status.unresolvable("PersistentVolumeClaim had no name")
    assert plugin.pre_filter(CycleState(), make_pod(), nodes) == Status.skip()
    assert plugin.pre_filter(CycleState(), make_pod(volumes=(ephemeral_volume("v"),)), nodes) == Status.skip()
    assert plugin.sign(make_pod()) == ()
    assert plugin.sign(nameless) is None


def test_hints() -> None:
    pod = make_pod("p", volumes=(claim_volume("data"), ephemeral_volume("v")))
    queue, skip = QueueingHint.QUEUE, QueueingHint.SKIP
    assert after_class_added(pod, None, make_class()) == queue
    assert after_class_added(pod, None, make_class(mode="Immediate")) == skip
    assert after_class_added(pod, None, make_class(mode=None)) == skip
    assert after_claim_changed(pod, None, make_claim("data")) == queue
    assert after_claim_changed(pod, make_claim("data"), make_claim("data", bound_to="x")) == queue
    assert after_claim_changed(pod, None, make_claim("p-v")) == skip
    assert after_claim_changed(pod, None, make_claim("data", namespace="other")) == skip
    zoned = make_volume(labels={ZONE: "a"})
    assert after_volume_changed(pod, None, make_volume()) == queue
    assert after_volume_changed(pod, make_volume(), zoned) == queue
    assert after_volume_changed(pod, zoned, make_volume(labels={ZONE: "a", "else": "b"})) == skip


def test_events() -> None:
    events = [item.event for item in VolumeZone(handle=Rig()).events_to_register()]
    assert [(event.resource, event.action) for event in events] == [
        (Resource.STORAGE_CLASS, Action.ADD),
        (Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
        (Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD | Action.UPDATE),
        (Resource.PERSISTENT_VOLUME, Action.ADD | Action.UPDATE),
    ]
