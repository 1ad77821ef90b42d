"""Queueing hints of VolumeBinding."""

from moorage.kube.api.claims import uses_claim
from moorage.kube.api.csi_migration import plugins_migrated_on
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import CSIDriver, CSINode, CSIStorageCapacity, PersistentVolumeClaim, StorageClass
from moorage.scheduler.framework.events import QueueingHint, queue_if
from moorage.scheduler.plugins.volume_binding.provisioning import volume_limit


def after_class_changed(_pod: Pod, old: StorageClass | None, new: StorageClass) -> QueueingHint:
    """Queue if the class is new, or its allowed topologies changed."""
    return queue_if(old is None or old.allowed_topologies != new.allowed_topologies)


def after_claim_changed(pod: Pod, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> QueueingHint:
    """Queue if the pod uses the claim."""
    return queue_if(uses_claim(pod, new))


def after_csi_node_changed(_pod: Pod, old: CSINode | None, new: CSINode) -> QueueingHint:
    """Queue if the object is new, or its migrated plugins changed."""
    return queue_if(old is None or plugins_migrated_on(old) != plugins_migrated_on(new))


def after_driver_changed(pod: Pod, old: CSIDriver, new: CSIDriver) -> QueueingHint:
    """Queue if a driver of the pod's inline volumes no longer tracks storage capacity."""
    uses_driver = any(volume.csi is not None and volume.csi.driver == new.name for volume in pod.spec.volumes)
    return queue_if(uses_driver and bool(old.spec.storage_capacity) and not new.spec.storage_capacity)


def after_capacity_changed(_pod: Pod, old: CSIStorageCapacity | None, new: CSIStorageCapacity) -> QueueingHint:
    """Queue if the storage pool is new, or its volume limit was raised."""
    if old is None:
        return QueueingHint.QUEUE
    before, now = volume_limit(old), volume_limit(new)
    return queue_if(now is not None and (before is None or now > before))
