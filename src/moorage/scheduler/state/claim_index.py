"""Which pods on nodes use which claims, and which inline disks, so that a conflict costs one look-up."""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from moorage.kube.api.pod import Pod
from moorage.kube.api.volume import Volume


class Disk(NamedTuple):
    """An inline disk of pods: its kind, and its identity."""

    kind: str
    identity: tuple[str, ...]


class ClaimIndex:
    """Users of claims and disks among the pods on known nodes; the cache keeps it.

    Only ``persistentVolumeClaim`` volumes are treated as uses of a claim: the claim of a generic ephemeral volume
    belongs to its pod alone.
    """

    def __init__(self) -> None:
        self._uses: dict[str, int] = {}
        self._disks: dict[Disk, dict[str, Pod]] = {}

    def uses(self, claim: str) -> int:
        """Count the pod volumes on nodes that refer to the claim ``namespace/name``."""
        return self._uses.get(claim, 0)

    def disk_users(self, disk: Disk) -> Collection[Pod]:
        """Return the pods on nodes that name a disk in line."""
        return self._disks.get(disk, {}).values()

    def add(self, pod: Pod) -> None:
        """Add a pod with a node."""
        for claim in _claims(pod):
            self._uses[claim] = self._uses.get(claim, 0) + 1
        for disk in _disks(pod):
            self._disks.setdefault(disk, {})[pod.uid] = pod

    def remove(self, pod: Pod) -> None:
        """Take out a pod that has left its node."""
        for claim in _claims(pod):
            self._uses[claim] -= 1
            if not self._uses[claim]:
                del self._uses[claim]
        for disk in set(_disks(pod)):
            del self._disks[disk][pod.uid]
            if not self._disks[disk]:
                del self._disks[disk]


def find_disk(volume: Volume) -> Disk | None:
    """Return the disk that a volume names in line, if it is one that pods cannot always share."""
    if volume.gce_persistent_disk is not None:
        return Disk("gce", (volume.gce_persistent_disk.pd_name,))
    if volume.aws_elastic_block_store is not None:
        return Disk("aws", (volume.aws_elastic_block_store.volume_id,))
    if volume.iscsi is not None:
        return Disk("iscsi", (volume.iscsi.iqn,))
    if volume.rbd is not None:
        return Disk("rbd", (volume.rbd.pool, volume.rbd.image))
    return None


def _claims(pod: Pod) -> Iterator[str]:
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield f"{pod.namespace}/{volume.persistent_volume_claim.claim_name}"


def _disks(pod: Pod) -> Iterator[Disk]:
    return (disk for volume in pod.spec.volumes if (disk := find_disk(volume)) is not None)
