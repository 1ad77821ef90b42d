"""VolumeRestrictions: separate pods that cannot share an inline disk or a ReadWriteOncePod claim."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from moorage.kube.api.claims import READ_WRITE_ONCE_POD, uses_claim
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import PersistentVolumeClaim
from moorage.scheduler.framework.cycle import CycleState, StateKey
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration, QueueingHint, Resource, queue_if
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import DependsOn, FilterPlugin, PreFilterExtensions
from moorage.scheduler.framework.pods_by_claim import BY_VOLUME_CLAIM
from moorage.scheduler.framework.status import Status, Verdict
from moorage.scheduler.state.claim_index import disk_uses
from moorage.scheduler.state.handle import ClusterHandle

DISK_CONFLICT: Final = Status.unschedulable("node(s) had no available disk")
CLAIM_CONFLICT: Final = Status.unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


class Restrictions(Struct):
    """The pod's ReadWriteOncePod claims, and the number of their uses by other pods."""

    claims: frozenset[str]
    uses: int

    def clone(self) -> "Restrictions":
        return replace(self)

    def count_uses(self, pod: Pod) -> int:
        """Count the volumes of a pod that use these claims. As upstream, namespaces are not compared."""
        return sum(
            volume.persistent_volume_claim is not None and volume.persistent_volume_claim.claim_name in self.claims
            for volume in pod.spec.volumes
        )


KEY = StateKey[Restrictions](
    "PreFilterVolumeRestrictions", missing='cannot read "PreFilterVolumeRestrictions" from cycleState'
)


class VolumeRestrictions(PreFilterExtensions, FilterPlugin):
    """Reject nodes with a conflicting disk, and all nodes while another pod uses a ReadWriteOncePod claim."""

    # The volumes of a pod never change: results follow pods that are added to a node and removed.
    depends_on = DependsOn.REQUESTS
    _signs_template = True

    def __init__(self, *, handle: ClusterHandle) -> None:
        self._handle = handle
        self._claims = handle.lister(PersistentVolumeClaim)

    def sign(self, pod: Pod) -> Hashable | None:
        """Share results among pods without restricted volumes."""
        return (
            None
            if pod.spec.volumes and (disk_uses(pod) or any(v.persistent_volume_claim for v in pod.spec.volumes))
            else ()
        )

    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        if not pod.spec.volumes:
            return Status.skip()
        claims: set[str] = set()
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is None:
                continue
            name = volume.persistent_volume_claim.claim_name
            claim = self._claims.get(name, pod.namespace)
            if claim is None:
                return Status.unresolvable(f'persistentvolumeclaim "{name}" not found')
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                claims.add(name)
        # Each claim counts once, even if several pods use it.
        uses = sum(self._handle.claims.uses(f"{pod.namespace}/{name}") > 0 for name in claims)
        if not uses and not disk_uses(pod):
            return Status.skip()
        cycle[KEY] = Restrictions(frozenset(claims), uses)
        return None

    def add_pod(self, cycle: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status | None:
        cycle[KEY].uses += cycle[KEY].count_uses(added)
        return None

    def remove_pod(self, cycle: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> Status | None:
        cycle[KEY].uses -= cycle[KEY].count_uses(removed)
        return None

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        if disks_clash(pod, node.pods.values()):
            return DISK_CONFLICT
        return CLAIM_CONFLICT if cycle[KEY].uses > 0 else None

    def filter_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Verdict:
        """Filter all nodes. Only nodes with users of the same disks are checked."""
        if not nodes.is_window_of(self._handle.nodes):
            return super().filter_nodes(cycle, pod, nodes)
        names = {
            user.node_name
            for disk, use in disk_uses(pod).items()
            for user in self._handle.claims.disk_users(disk)
            if use.clashes_with(disk_uses(user)[disk])
        }
        rows = [info.row for name in names if (info := nodes.find(name)) is not None]
        clashing = np.isin(nodes.rows, rows)
        if cycle[KEY].uses > 0:
            return Verdict(len(nodes), ((clashing, DISK_CONFLICT), (~clashing, CLAIM_CONFLICT)))
        return Verdict.reject(where=clashing, because=DISK_CONFLICT)

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (
            EventRegistration(
                ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), after_pod_deleted, index=_PodsByVolume()
            ),
            EventRegistration(ClusterEvent(Resource.NODE, Action.ADD)),
            EventRegistration(
                ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD), after_claim_added, index=BY_VOLUME_CLAIM
            ),
        )


class _PodsByVolume:
    """Finds the pending pods with a claim of a deleted pod, and those with disks if the deleted pod had some."""

    def keys(self, pod: Pod) -> set[Hashable]:
        keys: set[Hashable] = {f"{pod.namespace}/{name}" for name in _claim_names(pod)}
        return keys | {_DISKS} if disk_uses(pod) else keys

    def affected(self, old: Pod, _new: None) -> set[Hashable]:
        return self.keys(old)


_DISKS: Final = ""


def after_pod_deleted(pod: Pod, old: Pod, _new: None) -> QueueingHint:
    """Queue if the deleted pod used the same disk or claim."""
    frees = disks_clash(pod, (old,)) or not _claim_names(pod).isdisjoint(_claim_names(old))
    return queue_if(old.namespace == pod.namespace and frees)


def after_claim_added(pod: Pod, _old: None, new: PersistentVolumeClaim) -> QueueingHint:
    """Queue if the pod uses the claim."""
    return queue_if(uses_claim(pod, new, ephemeral=False))


def disks_clash(pod: Pod, existing_pods: Iterable[Pod]) -> bool:
    """Return whether the pod has an inline disk that an existing pod uses and does not share."""
    uses = disk_uses(pod)
    return bool(uses) and any(
        disk in uses and use.clashes_with(uses[disk])
        for existing in existing_pods
        for disk, use in disk_uses(existing).items()
    )


def _claim_names(pod: Pod) -> set[str]:
    return {
        volume.persistent_volume_claim.claim_name
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None
    }
