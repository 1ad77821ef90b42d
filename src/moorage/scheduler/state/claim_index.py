"""Which pods on nodes use which claims, and which inline disks, so that a conflict costs one look-up."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from moorage.kube.api.pod import Pod
from moorage.kube.api.volume import Volume


class Disk(NamedTuple):
    """An inline disk of pods: its kind, and its identity."""

    kind: str
    identity: tuple[str, ...]


class DiskUse(NamedTuple):
    """The servers through which the volumes of a pod reach one disk, and those through which they write."""

    servers: frozenset[str]
    writing: frozenset[str]

    def clashes_with(self, other: "DiskUse") -> bool:
        """Return whether two pods cannot use the disk on the same node: they share a server, and one writes."""
        return not (self.writing.isdisjoint(other.servers) and self.servers.isdisjoint(other.writing))


NO_DISKS: Final[Mapping[Disk, DiskUse]] = MappingProxyType({})
ONE_SERVER: Final = frozenset({""})


class ClaimIndex:
    """Users of claims and disks among the pods on known nodes. The cache keeps it.

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
        for disk in disk_uses(pod):
            self._disks.setdefault(disk, {})[pod.uid] = pod

    def remove(self, pod: Pod) -> None:
        """Take out a pod that has left its node."""
        for claim in _claims(pod):
            self._uses[claim] -= 1
            if not self._uses[claim]:
                del self._uses[claim]
        for disk in disk_uses(pod):
            users = self._disks[disk]
            del users[pod.uid]
            if not users:
                del self._disks[disk]


def disk_uses(pod: Pod) -> Mapping[Disk, DiskUse]:
    """Return the inline disks of a pod that pods cannot always share, computed once per pod."""
    if not pod.spec.volumes:
        return NO_DISKS
    uses: Mapping[Disk, DiskUse] | None = pod.__dict__.get("_disk_uses")
    if uses is None:
        uses = pod.__dict__["_disk_uses"] = _find_disk_uses(pod.spec.volumes) or NO_DISKS
    return uses


def _find_disk_uses(volumes: Iterable[Volume]) -> dict[Disk, DiskUse]:
    uses: dict[Disk, list[Volume]] = {}
    for volume in volumes:
        if (disk := _find_disk(volume)) is not None:
            uses.setdefault(disk, []).append(volume)
    return {disk: DiskUse(_servers(users), _servers(filter(_writes, users))) for disk, users in uses.items()}


def _servers(volumes: Iterable[Volume]) -> frozenset[str]:
    """Return the monitors of RBD volumes. Other disks are reached in one way."""
    names: set[str] = set()
    for volume in volumes:
        if volume.rbd is None:
            return ONE_SERVER
        names.update(volume.rbd.monitors)
    return frozenset(names)


def _writes(volume: Volume) -> bool:
    # An AWS disk is never shared, not even read-only.
    source = volume.rbd or volume.iscsi or volume.gce_persistent_disk
    return source is None or not source.read_only


def _find_disk(volume: Volume) -> Disk | None:
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
