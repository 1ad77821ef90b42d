"""Queueing hints of NodeVolumeLimits."""

from moorage.kube.api.claims import uses_claim
from moorage.kube.api.csi_migration import in_line_driver
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import CSINode, PersistentVolumeClaim, VolumeAttachment
from moorage.scheduler.framework.events import QueueingHint
from moorage.scheduler.plugins.node_volume_limits.attachable import attaches_anything


def after_csi_node_updated(_pod: Pod, old: CSINode, new: CSINode) -> QueueingHint:
    """Queue if the limit of a driver was raised; a missing limit counts as 0, as upstream."""
    before = _counts(old)
    raised = any(count > before.get(name, 0) for name, count in _counts(new).items())
    return QueueingHint.QUEUE if raised else QueueingHint.SKIP


def after_pod_deleted(_pod: Pod, old: Pod, _new: None) -> QueueingHint:
    """Queue if the deleted pod was assigned or nominated and had volumes that count."""
    had_node = bool(old.node_name or old.nominated_node_name)
    return QueueingHint.QUEUE if had_node and attaches_anything(old) else QueueingHint.SKIP


def after_claim_added(pod: Pod, _old: None, new: PersistentVolumeClaim) -> QueueingHint:
    """Queue if the pod uses the claim."""
    return QueueingHint.QUEUE if uses_claim(pod, new) else QueueingHint.SKIP


def after_attachment_deleted(pod: Pod, old: VolumeAttachment, _new: None) -> QueueingHint:
    """Queue if the pod uses a claim, or a disk that the attachment's driver serves."""
    concerned = any(
        volume.persistent_volume_claim is not None or in_line_driver(volume) == old.spec.attacher
        for volume in pod.spec.volumes
    )
    return QueueingHint.QUEUE if concerned else QueueingHint.SKIP


def _counts(csi_node: CSINode) -> dict[str, int]:
    return {
        driver.name: (driver.allocatable.count or 0) if driver.allocatable is not None else 0
        for driver in csi_node.spec.drivers
    }
