from typing import Any

import pytest

from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod, PodStatus
from moorage.kube.api.volume import AWSElasticBlockStore, AzureDisk, GCEPersistentDisk, Present, Volume
from moorage.kube.features import FeatureGates
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.events import Action, QueueingHint, Resource
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.node_volume_limits import plugin
from moorage.scheduler.plugins.node_volume_limits.plugin import EXCEEDED, NodeVolumeLimits
from moorage.testing import make_node, make_pod
from moorage.testing.rig import FORMS, FilterForm, Rig, run_filter
from moorage.testing.storage import (
    claim_volume,
    ephemeral_volume,
    make_attachment,
    make_claim,
    make_class,
    make_csi_driver,
    make_csi_node,
    make_volume,
)

DRIVER, EBS_DRIVER = "csi.example.com", "ebs.csi.aws.com"


def disk(number: int, driver: str = DRIVER) -> tuple[KubeObject, KubeObject]:
    """A claim ``d1`` bound to a volume ``d1``, and so on."""
    return make_claim(f"d{number}", bound_to=f"d{number}"), make_volume(f"d{number}", driver=driver)


def user(*numbers: int, name: str = "there", **pod: Any) -> Pod:
    return make_pod(name, volumes=tuple(claim_volume(f"d{number}") for number in numbers), **pod)


def ebs(name: str = "vol-1") -> Volume:
    return Volume(name="ebs", aws_elastic_block_store=AWSElasticBlockStore(volume_id=name))


DISKS = tuple(obj for number in range(4) for obj in disk(number))
LATE = make_class("late", provisioner=DRIVER)
LATE_EBS = make_class("late-ebs", provisioner="kubernetes.io/aws-ebs")
NOT_INSTALLED = Status.unschedulable(f"{DRIVER} CSI driver is not installed on the node")


def limit(count: int | None, driver: str = DRIVER) -> KubeObject:
    return make_csi_node("n", limits={driver: count})


CASES: dict[str, tuple[Pod, tuple[KubeObject, ...], Status | None]] = {
    "below the limit": (user(0), (limit(1),), None),
    "above the limit": (user(0), (limit(1), user(1, node="n")), EXCEEDED),
    "a limit of 0 means none": (user(0), (limit(0),), EXCEEDED),
    "a driver without a number has no limit": (user(0, 1, 2), (limit(None),), None),
    "another driver's limit is ignored": (user(0), (limit(0, "other.example.com"),), None),
    "without a CSINode there is no limit": (user(0, 1), (user(2, node="n"),), None),
    "all volumes of the pod count": (user(0, 1), (limit(1),), EXCEEDED),
    "a claim that the pod names twice counts once": (user(0, 0), (limit(1),), None),
    "an attached volume counts once": (user(0), (limit(1), user(0, node="n")), None),
    "a volume that two pods there share counts once": (
        user(1),
        (limit(2), user(0, node="n", name="x"), user(0, node="n", name="y")),
        None,
    ),
    "a claim that is missing": (
        user(9),
        (limit(1),),
        Status.unresolvable('looking up PVC default/d9: persistentvolumeclaim "d9" not found'),
    ),
    "a claim that is missing counts nothing on the node": (user(0), (limit(1), user(9, node="n")), None),
    "a claim without a name": (
        make_pod(volumes=(claim_volume(""),)),
        (limit(1),),
        Status.error("PersistentVolumeClaim had no name"),
    ),
    "a claim that waits counts for its class's driver": (
        user(8),
        (limit(0), LATE, make_claim("d8", storage_class="late")),
        EXCEEDED,
    ),
    "a claim without its volume does as well": (
        user(8),
        (limit(0), LATE, make_claim("d8", storage_class="late", bound_to="gone")),
        EXCEEDED,
    ),
    "two claims that wait are two volumes": (
        user(8),
        (
            limit(1),
            LATE,
            make_claim("d8", storage_class="late"),
            make_claim("d9", storage_class="late"),
            user(9, node="n"),
        ),
        EXCEEDED,
    ),
    "a claim without class or volume counts nothing": (user(8), (limit(0), make_claim("d8")), None),
    "a class that is missing counts nothing": (user(8), (limit(0), make_claim("d8", storage_class="gone")), None),
    "a volume that is not a CSI volume counts nothing": (
        user(8),
        (limit(0), make_claim("d8", bound_to="d8"), make_volume("d8")),
        None,
    ),
    "an in-tree volume counts for the driver that serves it": (
        user(8),
        (
            limit(0, EBS_DRIVER),
            make_claim("d8", bound_to="d8"),
            make_volume("d8", aws_elastic_block_store=AWSElasticBlockStore(volume_id="vol-1")),
        ),
        EXCEEDED,
    ),
    "an in-tree volume and a CSI volume may be the same": (
        user(8),
        (
            limit(1, EBS_DRIVER),
            make_claim("d8", bound_to="d8"),
            make_claim("d9", bound_to="d9"),
            make_volume("d8", aws_elastic_block_store=AWSElasticBlockStore(volume_id="vol-1")),
            make_volume("d9", driver=EBS_DRIVER, handle="vol-1"),
            user(9, node="n"),
        ),
        None,
    ),
    "an in-tree volume without a CSI name counts nothing": (
        user(8),
        (
            limit(0, EBS_DRIVER),
            make_claim("d8", bound_to="d8"),
            make_volume("d8", aws_elastic_block_store=AWSElasticBlockStore(volume_id="aws://z/x")),
        ),
        None,
    ),
    "an in-tree class counts for the driver that serves it": (
        user(8),
        (limit(0, EBS_DRIVER), LATE_EBS, make_claim("d8", storage_class="late-ebs")),
        EXCEEDED,
    ),
    "a class without migration counts nothing": (
        user(8),
        (
            limit(0, "file.csi.azure.com"),
            make_class("f", provisioner="kubernetes.io/azure-file"),
            make_claim("d8", storage_class="f"),
        ),
        None,
    ),
    "a disk named in line counts for the driver that serves it": (
        make_pod(volumes=(ebs(),)),
        (limit(0, EBS_DRIVER),),
        EXCEEDED,
    ),
    "not where there is no CSINode": (make_pod(volumes=(ebs(),)), (), None),
    "a disk named in line that has no CSI name": (
        make_pod(volumes=(Volume(name="az", azure_disk=AzureDisk(kind="Shared")),)),
        (limit(1),),
        Status.error("converting volume(az) from inline to csi: kind(Shared) is not supported in csi migration"),
    ),
    "such a disk on the node": (
        user(0),
        (limit(1), make_pod("x", node="n", volumes=(Volume(name="az", azure_disk=AzureDisk(kind="Shared")),))),
        Status.error("converting volume(az) from inline to csi: kind(Shared) is not supported in csi migration"),
    ),
    "such a disk on a node without limits": (
        user(0),
        (limit(None), make_pod("x", node="n", volumes=(Volume(name="az", azure_disk=AzureDisk(kind="Shared")),))),
        None,
    ),
    "an ephemeral volume counts": (
        pod := make_pod("eph", volumes=(ephemeral_volume("v"),)),
        (limit(0), LATE, make_claim("eph-v", storage_class="late", owner=pod)),
        EXCEEDED,
    ),
    "an ephemeral volume of another owner": (
        make_pod("eph", volumes=(ephemeral_volume("v"),)),
        (limit(1), make_claim("eph-v")),
        Status.error("PVC default/eph-v was not created for pod default/eph (pod is not owner)"),
    ),
    "attached volumes count, regardless of their pod": (
        user(0),
        (limit(1), make_attachment("a", node="n", volume="d1", attacher=DRIVER)),
        EXCEEDED,
    ),
    "what is attached for a pod there counts once": (
        user(0),
        (limit(2), user(1, node="n"), make_attachment("a", node="n", volume="d1", attacher=DRIVER)),
        None,
    ),
    "what is attached for the pod itself counts twice, as upstream counts it": (
        user(0),
        (limit(1), make_attachment("a", node="n", volume="d0", attacher=DRIVER)),
        EXCEEDED,
    ),
    "attached elsewhere": (user(0), (limit(1), make_attachment("a", node="m", volume="d1", attacher=DRIVER)), None),
    "attached without an attacher": (
        user(0),
        (limit(1), make_attachment("a", node="n", volume="d1", attacher="")),
        None,
    ),
    "attached without a name": (
        user(0),
        (limit(1), make_attachment("a", node="n", volume=None, attacher=DRIVER)),
        None,
    ),
    "attached and deleted": (user(0), (limit(1), make_attachment("a", node="n", volume="gone", attacher=DRIVER)), None),
    "a driver that must run does not": (user(0), (make_csi_driver(DRIVER, must_run=True),), NOT_INSTALLED),
    "a driver that must run is not on the CSINode": (
        user(0),
        (make_csi_driver(DRIVER, must_run=True), limit(1, "other.example.com")),
        NOT_INSTALLED,
    ),
    "a driver that must run does run": (user(0), (make_csi_driver(DRIVER, must_run=True), limit(None)), None),
    "a driver that may run anywhere": (user(0), (make_csi_driver(DRIVER, must_run=False),), None),
    "a missing driver is reported before its limit": (
        user(0, 7),
        (make_csi_driver(DRIVER, must_run=True), limit(0, "other.example.com"), *disk(7, "other.example.com")),
        NOT_INSTALLED,
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("pod", "objects", "want"), CASES.values(), ids=CASES)
def test_filter(form: FilterForm, pod: Pod, objects: tuple[KubeObject, ...], want: Status | None) -> None:
    rig = Rig(make_node("n"), *DISKS, *objects)
    assert run_filter(NodeVolumeLimits(handle=rig), rig, pod, form) == [want]


def test_gate_allows_nodes_without_the_driver() -> None:
    gates = FeatureGates({"VolumeLimitScaling": False})
    rig = Rig(make_node("n"), *DISKS, make_csi_driver(DRIVER, must_run=True), features=gates)
    for form in FORMS:
        assert run_filter(NodeVolumeLimits(handle=rig), rig, user(0), form) == [None]


@pytest.mark.parametrize("form", FORMS)
def test_counts_follow_any_change(form: FilterForm) -> None:
    rig = Rig(make_node("n"), make_node("m"), *DISKS, make_csi_node("n", limits={DRIVER: 1}), LATE)
    plugin = NodeVolumeLimits(handle=rig)
    pod = user(0, name="new")

    def verdict() -> list[Status | None]:
        return run_filter(plugin, rig, pod, form)

    assert verdict() == [None, None]
    first = user(1, name="first", node="n")
    rig.add(first)
    assert verdict() == [EXCEEDED, None]
    rig.add(make_csi_node("n", limits={DRIVER: 2}))
    assert verdict() == [None, None]
    attachment = make_attachment("a", node="n", volume="d2", attacher=DRIVER)
    rig.add(attachment)
    assert verdict() == [EXCEEDED, None]
    rig.add(make_attachment("a", node="m", volume="d2", attacher=DRIVER))
    assert verdict() == [None, None]
    rig.add(attachment, make_csi_node("m", limits={DRIVER: 0}))
    assert verdict() == [EXCEEDED, EXCEEDED]
    rig.cache.remove_pod(first)
    assert verdict() == [None, EXCEEDED]
    rig.add(user(3, name="third", node="n"), make_claim("d3"))
    assert verdict() == [None, EXCEEDED], "a claim that is bound to nothing counts nothing"
    rig.add(make_claim("d3", storage_class="late"))
    assert verdict() == [EXCEEDED, EXCEEDED]
    rig.cache.remove_node("n")
    assert verdict() == [EXCEEDED]
    rig.objects[type(LATE)].drop(LATE)
    rig.add(make_node("n"))
    assert verdict() == [EXCEEDED, None]


def test_pods_without_volumes_have_no_overhead() -> None:
    plugin, nodes = NodeVolumeLimits(handle=Rig()), Rig().nodes
    empty = make_pod(volumes=(Volume(name="e", empty_dir=Present()),))
    assert plugin.pre_filter(CycleState(), empty, nodes) == Status.skip()
    assert plugin.pre_filter(CycleState(), make_pod(), nodes) == Status.skip()
    assert plugin.sign(empty) == plugin.sign(make_pod()) == ()
    for volume in (claim_volume("c"), ephemeral_volume("v"), ebs(), Volume(azure_file=Present())):
        assert plugin.sign(make_pod(volumes=(volume,))) is None
        assert plugin.pre_filter(CycleState(), make_pod(volumes=(volume,)), nodes) is None


QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP
LIMIT_HINTS = {
    "a higher limit": ({DRIVER: 1}, {DRIVER: 2}, QUEUE),
    "the same limit": ({DRIVER: 2}, {DRIVER: 2}, SKIP),
    "a lower limit": ({DRIVER: 2}, {DRIVER: 1}, SKIP),
    "a new driver": ({}, {DRIVER: 1}, QUEUE),
    "a new driver without a number": ({}, {DRIVER: None}, SKIP),
    "a limit that is lifted is treated as 0": ({DRIVER: 2}, {DRIVER: None}, SKIP),
}


@pytest.mark.parametrize(("old", "new", "want"), LIMIT_HINTS.values(), ids=LIMIT_HINTS)
def test_hint_after_a_csi_node_changed(
    old: dict[str, int | None], new: dict[str, int | None], want: QueueingHint
) -> None:
    before, after = make_csi_node("n", limits=old), make_csi_node("n", limits=new)
    assert plugin.after_csi_node_updated(make_pod(), before, after) == want


POD_HINTS = {
    "a pod with a claim": (user(0, node="n"), QUEUE),
    "a pod with an ephemeral volume": (make_pod(node="n", volumes=(ephemeral_volume("v"),)), QUEUE),
    "a pod with a disk in line": (make_pod(node="n", volumes=(ebs(),)), QUEUE),
    "a pod that was promised a node": (user(0, status=PodStatus(nominated_node_name="n")), QUEUE),
    "a pod that never had one": (user(0), SKIP),
    "a pod without volumes": (make_pod(node="n"), SKIP),
    "a pod with other volumes": (make_pod(node="n", volumes=(Volume(empty_dir=Present()),)), SKIP),
}


@pytest.mark.parametrize(("deleted", "want"), POD_HINTS.values(), ids=POD_HINTS)
def test_hint_after_pod_deletion(deleted: Pod, want: QueueingHint) -> None:
    assert plugin.after_pod_deleted(make_pod(), deleted, None) == want


def test_other_hints() -> None:
    pod = make_pod("p", volumes=(claim_volume("c"), ephemeral_volume("v")))
    assert plugin.after_claim_added(pod, None, make_claim("c")) == QUEUE
    assert plugin.after_claim_added(pod, None, make_claim("p-v")) == QUEUE
    assert plugin.after_claim_added(pod, None, make_claim("x")) == SKIP
    assert plugin.after_claim_added(pod, None, make_claim("c", namespace="x")) == SKIP
    attachment = make_attachment("a", node="n", volume="v", attacher=EBS_DRIVER)
    assert plugin.after_attachment_deleted(pod, attachment, None) == QUEUE
    assert plugin.after_attachment_deleted(make_pod(volumes=(ebs(),)), attachment, None) == QUEUE
    google = make_pod(volumes=(Volume(gce_persistent_disk=GCEPersistentDisk(pd_name="d")),))
    assert plugin.after_attachment_deleted(google, attachment, None) == SKIP
    assert plugin.after_attachment_deleted(make_pod(volumes=(ephemeral_volume("v"),)), attachment, None) == SKIP


def test_events() -> None:
    registrations = NodeVolumeLimits(handle=Rig()).events_to_register()
    assert [(item.event.resource, item.event.action, item.hint is None) for item in registrations] == [
        (Resource.CSI_NODE, Action.ADD, True),
        (Resource.CSI_NODE, Action.UPDATE, False),
        (Resource.ASSIGNED_POD, Action.DELETE, False),
        (Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD, False),
        (Resource.VOLUME_ATTACHMENT, Action.DELETE, False),
    ]
