from moorage.kube.api.volume import CSIVolume, Volume
from moorage.scheduler.framework.events import Action, QueueingHint, Resource
from moorage.scheduler.plugins.volume_binding import hints
from moorage.scheduler.plugins.volume_binding.plugin import VolumeBinding
from moorage.testing import make_pod
from moorage.testing.rig import Rig
from moorage.testing.storage import (
    claim_volume,
    ephemeral_volume,
    make_claim,
    make_class,
    make_csi_driver,
    make_csi_node,
    make_pool,
)

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP
POD = make_pod("p", volumes=(claim_volume("c"), ephemeral_volume("v")))


def test_classes() -> None:
    here = make_class(topologies=[{"zone": "a"}])
    assert hints.after_class_changed(POD, None, here) == QUEUE
    assert hints.after_class_changed(POD, here, make_class(topologies=[{"zone": "a,b"}])) == QUEUE
    assert hints.after_class_changed(POD, here, make_class(provisioner="x", topologies=[{"zone": "a"}])) == SKIP


def test_claims() -> None:
    assert hints.after_claim_changed(POD, None, make_claim("c")) == QUEUE
    assert hints.after_claim_changed(POD, make_claim("p-v"), make_claim("p-v")) == QUEUE
    assert hints.after_claim_changed(POD, None, make_claim("x")) == SKIP
    assert hints.after_claim_changed(POD, None, make_claim("c", namespace="x")) == SKIP


def test_csi_nodes() -> None:
    plain, migrated = make_csi_node("n"), make_csi_node("n", migrated="kubernetes.io/aws-ebs")
    assert hints.after_csi_node_changed(POD, None, plain) == QUEUE
    assert hints.after_csi_node_changed(POD, plain, migrated) == QUEUE
    assert hints.after_csi_node_changed(POD, plain, make_csi_node("n", limits={"d": 1})) == SKIP


def test_drivers() -> None:
    user = make_pod(volumes=(Volume(csi=CSIVolume(driver="d")),))
    on, off, unset = (make_csi_driver("d", watches_capacity=value) for value in (True, False, None))
    assert hints.after_driver_changed(user, on, off) == QUEUE
    assert hints.after_driver_changed(user, on, unset) == QUEUE
    assert hints.after_driver_changed(user, off, on) == SKIP
    assert hints.after_driver_changed(user, on, on) == SKIP
    assert hints.after_driver_changed(POD, on, off) == SKIP


def test_pools() -> None:
    small, large, silent = make_pool(capacity="1Gi"), make_pool(capacity="2Gi"), make_pool()
    assert hints.after_capacity_changed(POD, None, silent) == QUEUE
    assert hints.after_capacity_changed(POD, small, large) == QUEUE
    assert hints.after_capacity_changed(POD, silent, small) == QUEUE
    assert hints.after_capacity_changed(POD, large, small) == SKIP
    assert hints.after_capacity_changed(POD, small, small) == SKIP
    assert hints.after_capacity_changed(POD, small, silent) == SKIP
    assert hints.after_capacity_changed(POD, large, make_pool(capacity="9Gi", largest="1Gi")) == SKIP


def test_events() -> None:
    changed = Action.ADD | Action.UPDATE
    registrations = VolumeBinding(handle=Rig()).events_to_register()
    assert [(item.event.resource, item.event.action, item.hint is None) for item in registrations] == [
        (Resource.STORAGE_CLASS, changed, False),
        (Resource.PERSISTENT_VOLUME_CLAIM, changed, False),
        (Resource.PERSISTENT_VOLUME, changed, True),
        (Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL, True),
        (Resource.CSI_NODE, changed, False),
        (Resource.CSI_DRIVER, Action.UPDATE, False),
        (Resource.CSI_STORAGE_CAPACITY, changed, False),
    ]
