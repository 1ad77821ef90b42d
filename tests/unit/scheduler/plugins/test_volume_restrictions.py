import pytest

from moorage.kube.api.pod import Pod
from moorage.kube.api.volume import ISCSI, RBD, AWSElasticBlockStore, GCEPersistentDisk, Volume
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.events import Action, QueueingHint, Resource
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.volume_restrictions import (
    CLAIM_CONFLICT,
    DISK_CONFLICT,
    VolumeRestrictions,
    after_claim_added,
    after_pod_deleted,
)
from moorage.testing import make_node, make_pod
from moorage.testing.rig import FORMS, FilterForm, Rig, run_filter
from moorage.testing.storage import claim_volume, ephemeral_volume, make_claim

ONCE = ("ReadWriteOncePod",)


def gce(name: str, *, read_only: bool = False) -> Volume:
    return Volume(name="v", gce_persistent_disk=GCEPersistentDisk(pd_name=name, read_only=read_only))


def ebs(name: str, *, read_only: bool = False) -> Volume:
    return Volume(name="v", aws_elastic_block_store=AWSElasticBlockStore(volume_id=name, read_only=read_only))


def iscsi(iqn: str, *, read_only: bool = False) -> Volume:
    return Volume(name="v", iscsi=ISCSI(iqn=iqn, read_only=read_only))


def rbd(monitors: str, *, pool: str = "p", image: str = "i", read_only: bool = False) -> Volume:
    return Volume(name="v", rbd=RBD(monitors=tuple(monitors.split()), pool=pool, image=image, read_only=read_only))


DISKS = {
    "a Google disk is not shared": (gce("d"), gce("d"), True),
    "unless both pods only read it": (gce("d", read_only=True), gce("d", read_only=True), False),
    "one reader is not enough": (gce("d", read_only=True), gce("d"), True),
    "another Google disk is accepted": (gce("d"), gce("e"), False),
    "an Amazon disk is never shared": (ebs("v", read_only=True), ebs("v", read_only=True), True),
    "another Amazon disk is accepted": (ebs("v"), ebs("w"), False),
    "an iSCSI name is not shared": (iscsi("q"), iscsi("q", read_only=True), True),
    "unless both only read": (iscsi("q", read_only=True), iscsi("q", read_only=True), False),
    "a Ceph image on a common monitor is not shared": (rbd("a b"), rbd("b c"), True),
    "unless both only read the image": (rbd("a", read_only=True), rbd("a", read_only=True), False),
    "without a common monitor it is another image": (rbd("a b"), rbd("c d"), False),
    "in another pool, too": (rbd("a"), rbd("a", pool="other"), False),
    "under another name, too": (rbd("a"), rbd("a", image="other"), False),
    "kinds do not clash": (gce("same"), ebs("same"), False),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("mine", "upstream", "clash"), DISKS.values(), ids=DISKS)
def test_disks(form: FilterForm, mine: Volume, upstream: Volume, clash: bool) -> None:
    rig = Rig(make_node("free"), make_node("taken"), make_pod("there", node="taken", volumes=(upstream,)))
    plugin = VolumeRestrictions(handle=rig)
    assert run_filter(plugin, rig, make_pod(volumes=(mine,)), form) == [None, DISK_CONFLICT if clash else None]


def test_the_reasons_are_upstreams_and_preemption_may_help() -> None:
    assert Status.unschedulable("node(s) had no available disk") == DISK_CONFLICT
    text = (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
        "already in-use by another pod"
    )
    assert Status.unschedulable(text) == CLAIM_CONFLICT


@pytest.mark.parametrize("form", FORMS)
def test_a_claim_in_use_keeps_the_pod_off_every_node(form: FilterForm) -> None:
    rig = Rig(
        make_node("a"),
        make_node("b"),
        make_claim("data", access_modes=ONCE),
        make_pod("holder", node="a", volumes=(claim_volume("data"),)),
    )
    plugin = VolumeRestrictions(handle=rig)
    pod = make_pod(volumes=(claim_volume("data"),))
    assert run_filter(plugin, rig, pod, form) == [CLAIM_CONFLICT, CLAIM_CONFLICT]


@pytest.mark.parametrize("form", FORMS)
def test_a_disk_conflict_is_reported_before_a_claim_in_use(form: FilterForm) -> None:
    rig = Rig(
        make_node("a"),
        make_node("b"),
        make_claim("data", access_modes=ONCE),
        make_pod("holder", node="a", volumes=(claim_volume("data"), ebs("v"))),
    )
    plugin = VolumeRestrictions(handle=rig)
    pod = make_pod(volumes=(claim_volume("data"), ebs("v")))
    assert run_filter(plugin, rig, pod, form) == [DISK_CONFLICT, CLAIM_CONFLICT]


PRE_FILTERS = {
    "no volumes": ((), Status.skip()),
    "an unused claim": ((claim_volume("once"),), Status.skip()),
    "a claim in use that may be shared": ((claim_volume("shared"),), Status.skip()),
    "a claim in use that may not": ((claim_volume("held"),), None),
    "a claim of that name in another namespace is ignored": ((claim_volume("elsewhere"),), Status.skip()),
    "a claim that is missing": (
        (claim_volume("gone"),),
        Status.unresolvable('persistentvolumeclaim "gone" not found'),
    ),
    "an ephemeral volume is never looked up": ((ephemeral_volume("x"),), Status.skip()),
    "a disk": ((ebs("v"),), None),
    "a disk and a claim that is missing": (
        (ebs("v"), claim_volume("gone")),
        Status.unresolvable('persistentvolumeclaim "gone" not found'),
    ),
}


@pytest.mark.parametrize(("volumes", "want"), PRE_FILTERS.values(), ids=PRE_FILTERS)
def test_pre_filter(volumes: tuple[Volume, ...], want: Status | None) -> None:
    rig = Rig(
        make_node("a"),
        make_claim("once", access_modes=ONCE),
        make_claim("shared"),
        make_claim("held", access_modes=ONCE),
        make_claim("elsewhere", access_modes=ONCE),
        make_pod("one", node="a", volumes=(claim_volume("shared"), claim_volume("held"))),
        make_pod("two", node="a", namespace="other", volumes=(claim_volume("elsewhere"),)),
    )
    assert VolumeRestrictions(handle=rig).pre_filter(CycleState(), make_pod(volumes=volumes), rig.nodes) == want


def test_only_evicting_the_holder_frees_the_claim() -> None:
    holder = make_pod("holder", node="a", volumes=(claim_volume("data"),))
    second = make_pod("other", node="a", volumes=(claim_volume("unrelated"), ephemeral_volume("data")))
    rig = Rig(make_node("a"), make_claim("data", access_modes=ONCE), holder, second)
    plugin = VolumeRestrictions(handle=rig)
    pod, cycle = make_pod(volumes=(claim_volume("data"),)), CycleState()
    assert plugin.pre_filter(cycle, pod, rig.nodes) is None
    node = rig.nodes[0].copy()
    what_if = cycle.clone()
    plugin.remove_pod(what_if, pod, second, node)
    assert plugin.filter(what_if, pod, node) == CLAIM_CONFLICT
    plugin.remove_pod(what_if, pod, holder, node)
    assert plugin.filter(what_if, pod, node) is None
    plugin.add_pod(what_if, pod, holder, node)
    assert plugin.filter(what_if, pod, node) == CLAIM_CONFLICT
    plugin.remove_pod(what_if, pod, make_pod(namespace="elsewhere", volumes=(claim_volume("data"),)), node)
    assert plugin.filter(what_if, pod, node) is None, "upstream compares no namespaces here"
    assert plugin.filter(cycle, pod, node) == CLAIM_CONFLICT, "the what-if is a copy"


WAITING = make_pod("waiting", volumes=(claim_volume("data"), gce("d")))
POD_HINTS = {
    "a pod with the same claim": (make_pod(node="n", volumes=(claim_volume("data"),)), QueueingHint.QUEUE),
    "a pod with the same disk": (make_pod(node="n", volumes=(gce("d"),)), QueueingHint.QUEUE),
    "a pod with other volumes": (make_pod(node="n", volumes=(claim_volume("x"), gce("e"))), QueueingHint.SKIP),
    "a pod of another namespace": (
        make_pod(namespace="other", node="n", volumes=(claim_volume("data"), gce("d"))),
        QueueingHint.SKIP,
    ),
}


@pytest.mark.parametrize(("deleted", "want"), POD_HINTS.values(), ids=POD_HINTS)
def test_hint_after_pod_deletion(deleted: Pod, want: QueueingHint) -> None:
    assert after_pod_deleted(WAITING, deleted, None) == want


def test_hint_after_a_claim_is_added() -> None:
    assert after_claim_added(WAITING, None, make_claim("data")) == QueueingHint.QUEUE
    assert after_claim_added(WAITING, None, make_claim("other")) == QueueingHint.SKIP
    assert after_claim_added(WAITING, None, make_claim("data", namespace="other")) == QueueingHint.SKIP
    owner = make_pod("p", volumes=(ephemeral_volume("v"),))
    assert after_claim_added(owner, None, make_claim("p-v")) == QueueingHint.SKIP, "not for ephemeral volumes"


def test_events() -> None:
    events = [item.event for item in VolumeRestrictions(handle=Rig()).events_to_register()]
    assert [(event.resource, event.action) for event in events] == [
        (Resource.ASSIGNED_POD, Action.DELETE),
        (Resource.NODE, Action.ADD),
        (Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD),
    ]


def test_only_pods_without_restricted_volumes_share_results() -> None:
    plugin = VolumeRestrictions(handle=Rig())
    assert plugin.sign(make_pod()) == plugin.sign(make_pod(volumes=(ephemeral_volume("v"),))) == ()
    assert plugin.sign(make_pod(volumes=(claim_volume("c"),))) is None
    assert plugin.sign(make_pod(volumes=(ebs("v"),))) is None
