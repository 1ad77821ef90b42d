"""The NodeVolumeLimits plugin."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from moorage.kube.api.claims import uses_claim
from moorage.kube.api.csi_migration import CSIName, in_line_driver
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import CSIDriver, CSINode, PersistentVolumeClaim, VolumeAttachment
from moorage.scheduler.framework.cycle import CycleState, StateKey
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration, QueueingHint, Resource, queue_if
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import DependsOn, FilterPlugin, PreFilterPlugin
from moorage.scheduler.framework.pods_by_claim import BY_VOLUME_CLAIM
from moorage.scheduler.framework.status import BoolArray, Status, Verdict
from moorage.scheduler.plugins.node_volume_limits.volume_columns import (
    AttachableVolumes,
    UnattachableError,
    VolumeColumns,
    attaches_anything,
    held_by_pods,
    read_limits,
)

NOWHERE: Final = np.empty(0, dtype=np.int64)
EXCEEDED: Final = Status.unschedulable("node(s) exceed max volume count")


class NewAttachments(Struct, frozen=True):
    """The volumes that a pod attaches, with their drivers, or the failure. ``demanding`` drivers must be installed."""

    volumes: Mapping[CSIName, str]
    failure: Status | None = None
    demanding: tuple[str, ...] = ()


class PodAttachments(Struct, frozen=True):
    """The volumes that a pod attaches on nodes with a CSINode object (in-tree disks count), and on other nodes."""

    with_csi_node: NewAttachments
    without: NewAttachments


KEY = StateKey[PodAttachments]("NodeVolumeLimits")


class NodeVolumeLimits(PreFilterPlugin, FilterPlugin):
    """Reject nodes where a driver's volume limit would be exceeded, or where a required driver is missing."""

    # The volumes of a pod never change: results follow pods that are added to a node and removed.
    depends_on = DependsOn.REQUESTS
    _signs_template = True

    def __init__(self, *, handle: Handle) -> None:
        self._handle = handle
        self._csi_nodes = handle.lister(CSINode)
        self._drivers = handle.lister(CSIDriver)
        self._attachable = AttachableVolumes(handle)
        self._columns = VolumeColumns(handle, self._attachable)
        self._checks_drivers = handle.features.enabled("VolumeLimitScaling")

    def sign(self, pod: Pod) -> Hashable | None:
        """Share results among pods that attach nothing."""
        return None if attaches_anything(pod) else ()

    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        if not attaches_anything(pod):
            return Status.skip()
        cycle[KEY] = self._look_up(pod)
        return None

    def _look_up(self, pod: Pod) -> PodAttachments:
        """Look up the pod's volumes; called from Filter if the profile has no PreFilter."""
        return PodAttachments(self._new_volumes(pod, migrated=True), self._new_volumes(pod, migrated=False))

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        csi_node = self._csi_nodes.get(node.name)
        volumes = cycle.get(KEY) or self._look_up(pod)
        new = volumes.without if csi_node is None else volumes.with_csi_node
        if new.failure is not None or not new.volumes:
            return new.failure
        drivers = {driver.name for driver in csi_node.spec.drivers} if csi_node is not None else ()
        for driver in new.demanding:
            if driver not in drivers:
                return _not_installed(driver)
        limits = read_limits(csi_node)
        if not limits:
            return None
        try:
            attached = held_by_pods(self._attachable, node, migrated=csi_node is not None)
        except UnattachableError as error:
            return error.status
        more = Counter(driver for name, driver in new.volumes.items() if name not in attached)
        counts = Counter(name.driver for name in attached | self._columns.attached(node.name))
        fits = all(counts[driver] + number <= limits[driver] for driver, number in more.items() if driver in limits)
        return None if fits else EXCEEDED

    def filter_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Verdict:
        """Filter all nodes by cached counts. Nodes that already have one of the volumes are counted exactly."""
        if not nodes.is_window_of(self._handle.nodes):
            return super().filter_nodes(cycle, pod, nodes)
        self._columns.refresh()
        volumes = cycle.get(KEY) or self._look_up(pod)
        if volumes.with_csi_node == volumes.without:
            rejections = self._rejections(volumes.without, nodes, np.ones(len(nodes), dtype=np.bool_))
        else:
            has_csi_node = self._columns.has_csi_node(nodes)
            rejections = self._rejections(volumes.with_csi_node, nodes, has_csi_node.copy())
            rejections += self._rejections(volumes.without, nodes, ~has_csi_node)
        # Columns are not exact where counting failed, and where one of the volumes is attached already.
        names = volumes.with_csi_node.volumes.keys() | volumes.without.volumes.keys()
        rows = {row for name in names for row in self._columns.holders(name)}.union(self._columns.failures)
        if not rows:
            exceptions = NOWHERE
        else:
            row_array = np.fromiter(rows, np.int64, count=len(rows))
            exceptions = row_array if nodes.shows_all else np.flatnonzero(np.isin(nodes.rows, row_array))
        if not len(exceptions):
            return Verdict(len(nodes), tuple(rejections))
        for where, _ in rejections:
            where[exceptions] = False
        exact = Verdict.from_rows(
            len(nodes), ((index, self.filter(cycle, pod, nodes[index])) for index in exceptions.tolist())
        )
        return Verdict(len(nodes), (*rejections, *exact.rejections))

    def _rejections(
        self, new: NewAttachments, nodes: NodeTable, undecided: BoolArray
    ) -> list[tuple[BoolArray, Status]]:
        if new.failure is not None:
            return [(undecided, new.failure)]
        rejections = []
        for driver in new.demanding:
            lacking = self._columns.lacking(driver, nodes) & undecided
            undecided &= ~lacking
            rejections.append((lacking, _not_installed(driver)))
        for driver, more in Counter(new.volumes.values()).items():
            exceeded = self._columns.exceeding(driver, more, nodes) & undecided
            undecided &= ~exceeded
            rejections.append((exceeded, EXCEEDED))
        return rejections

    def _new_volumes(self, pod: Pod, *, migrated: bool) -> NewAttachments:
        try:
            names = self._attachable.find(pod, migrated=migrated, is_placed=False)
            volumes = {name: name.driver for name in names}
        except UnattachableError as error:
            return NewAttachments({}, error.status)
        driver_names = dict.fromkeys(volumes.values()) if self._checks_drivers else ()
        drivers = [driver for name in driver_names if (driver := self._drivers.get(name)) is not None]
        demanding = tuple(driver.name for driver in drivers if driver.spec.prevent_pod_scheduling_if_missing)
        return NewAttachments(volumes, demanding=demanding)

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (
            EventRegistration(ClusterEvent(Resource.CSI_NODE, Action.ADD)),
            EventRegistration(ClusterEvent(Resource.CSI_NODE, Action.UPDATE), after_csi_node_updated),
            EventRegistration(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), after_pod_deleted),
            EventRegistration(
                ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD), after_claim_added, index=BY_VOLUME_CLAIM
            ),
            EventRegistration(ClusterEvent(Resource.VOLUME_ATTACHMENT, Action.DELETE), after_attachment_deleted),
        )


def _not_installed(driver: str) -> Status:
    return Status.unschedulable(f"{driver} CSI driver is not installed on the node")


def after_csi_node_updated(_pod: Pod, old: CSINode, new: CSINode) -> QueueingHint:
    """Queue if the limit of a driver was raised. A missing limit is treated as 0, as upstream."""
    before = read_limits(old)
    return queue_if(any(limit > before.get(name, 0) for name, limit in read_limits(new).items()))


def after_pod_deleted(_pod: Pod, old: Pod, _new: None) -> QueueingHint:
    """Queue if the deleted pod was assigned or nominated and had volumes that count."""
    return queue_if(bool(old.node_name or old.nominated_node_name) and attaches_anything(old))


def after_claim_added(pod: Pod, _old: None, new: PersistentVolumeClaim) -> QueueingHint:
    """Queue if the pod uses the claim."""
    return queue_if(uses_claim(pod, new))


def after_attachment_deleted(pod: Pod, old: VolumeAttachment, _new: None) -> QueueingHint:
    """Queue if the pod uses a claim, or a disk that the attachment's driver serves."""
    volumes, driver = pod.spec.volumes, old.spec.attacher
    return queue_if(any(v.persistent_volume_claim is not None or in_line_driver(v) == driver for v in volumes))
