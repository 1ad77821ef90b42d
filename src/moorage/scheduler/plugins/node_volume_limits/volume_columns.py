"""Volume counts and limits per driver and node, updated incrementally."""

from collections.abc import Collection, Hashable, Iterable, Iterator
from typing import Any, Generic, TypeVar

import numpy as np

from moorage.common.arrays import NDArray
from moorage.kube.api.csi_migration import CSIName
from moorage.kube.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment
from moorage.scheduler.framework.columns import Growing
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import BoolArray, Status
from moorage.scheduler.plugins.node_volume_limits.attachable import (
    AttachableVolumes,
    UnattachableError,
    attaches_anything,
)
from moorage.scheduler.state.side_columns import ALL_ROWS, SideColumns

K = TypeVar("K", bound=Hashable)


class Attachments:
    """VolumeAttachments by node."""

    def __init__(self, handle: Handle) -> None:
        self._lister = handle.lister(VolumeAttachment)
        self._volumes = handle.lister(PersistentVolume)
        self._node_of: dict[str, str] = {}
        self._on_node: dict[str, dict[str, VolumeAttachment]] = {}
        self.reread()

    def reread(self) -> None:
        self._node_of.clear()
        self._on_node.clear()
        for attachment in self._lister.list():
            self.follow(attachment.key)

    def follow(self, key: str) -> set[str]:
        """Apply a change of one attachment; return the affected nodes."""
        nodes = {self._node_of[key]} if key in self._node_of else set()
        for node in nodes:
            del self._on_node[node][key]
        self._node_of.pop(key, None)
        attachment = self._lister.get(key)
        if attachment is not None:
            node = self._node_of[key] = attachment.spec.node_name
            self._on_node.setdefault(node, {})[key] = attachment
            nodes.add(node)
        return nodes

    def on_node(self, node_name: str) -> Iterator[tuple[str, CSIName | None]]:
        """Iterate over the attached volumes of a node: the persistent volume, and its CSI name if known."""
        for attachment in self._on_node.get(node_name, {}).values():
            name = attachment.spec.source.persistent_volume_name
            if attachment.spec.attacher and name is not None:
                volume = self._volumes.get(name)
                source = volume.spec.csi if volume is not None else None
                yield name, CSIName(attachment.spec.attacher, source.volume_handle) if source is not None else None


class Dependencies(Generic[K]):
    """The rows that depend on each object."""

    def __init__(self) -> None:
        self._rows: dict[K, set[int]] = {}
        self._keys: dict[int, set[K]] = {}

    def rows(self, key: K) -> Collection[int]:
        """Return the rows that depend on an object."""
        return self._rows.get(key, ())

    def replace(self, row: int, keys: set[K]) -> None:
        for key in self._keys.pop(row, ()):
            self._rows[key].discard(row)
            if not self._rows[key]:
                del self._rows[key]
        if keys:
            self._keys[row] = keys
            for key in keys:
                self._rows.setdefault(key, set()).add(row)


class VolumeColumns(SideColumns):
    """Volumes per node: counts and limits per driver, the nodes of each volume, and rows that could not be counted."""

    def __init__(self, handle: Handle, attachable: AttachableVolumes) -> None:
        self._csi_nodes = handle.lister(CSINode)
        self._attachable = attachable
        self._attachments = Attachments(handle)
        self._counts: dict[str, Growing] = {}
        self._limits: dict[str, Growing] = {}
        self._installed: dict[str, Growing] = {}
        self._has_csi_node = Growing(np.bool_)
        self._holders: Dependencies[CSIName] = Dependencies()
        self._claims: Dependencies[str] = Dependencies()
        self._volumes: Dependencies[str] = Dependencies()
        self.failures: dict[int, Status] = {}
        sources = {
            "csi nodes": self._csi_nodes,
            "claims": handle.lister(PersistentVolumeClaim),
            "volumes": handle.lister(PersistentVolume),
            "classes": handle.lister(StorageClass),
            "attachments": handle.lister(VolumeAttachment),
        }
        super().__init__(handle.nodes, sources)

    def rows_of(self, source: str, key: str) -> Iterable[int] | None:
        match source:
            case "csi nodes":
                return self.row_of(key)
            case "claims":
                return self._claims.rows(key)
            case "volumes":
                return self._volumes.rows(key)
            case "attachments":
                return [row for node in self._attachments.follow(key) for row in self.row_of(node)]
            case _:
                return ALL_ROWS

    def reread(self, source: str) -> None:
        """Read all attachments again after too many changes."""
        if source == "attachments":
            self._attachments.reread()

    def write(self, info: NodeInfo) -> None:
        self.clear(info.row)
        csi_node = self._csi_nodes.get(info.name)
        if csi_node is not None:
            self._has_csi_node.array[info.row] = True
            for driver in csi_node.spec.drivers:
                _cells(self._installed, driver.name, info.row, np.bool_)[info.row] = True
        for driver_name, limit in read_limits(csi_node).items():
            # Zero must mean "no limit", since rows that were never written are zero.
            _cells(self._limits, driver_name, info.row, np.int64)[info.row] = limit + 1
        claims: set[str] = set()
        volumes: set[str] = set()
        for pod in info.pods.values():
            if attaches_anything(pod):
                pod_claims, pod_volumes = self._attachable.find_dependencies(pod)
                claims.update(pod_claims)
                volumes.update(pod_volumes)
        try:
            names = held_by_pods(self._attachable, info, migrated=csi_node is not None)
        except UnattachableError as error:
            self.failures[info.row] = error.status
            names = set()
        self._holders.replace(info.row, set(names))
        for volume, name in self._attachments.on_node(info.name):
            volumes.add(volume)
            if name is not None:
                names.add(name)
        self._claims.replace(info.row, claims)
        self._volumes.replace(info.row, volumes)
        for name in names:
            _cells(self._counts, name.driver, info.row, np.int64)[info.row] += 1

    def clear(self, row: int) -> None:
        for column in (*self._counts.values(), *self._limits.values(), *self._installed.values()):
            if row < len(column.array):
                column.array[row] = 0
        self._has_csi_node.put(row, False)
        self._holders.replace(row, set())
        self._claims.replace(row, set())
        self._volumes.replace(row, set())
        self.failures.pop(row, None)

    def has_csi_node(self, nodes: NodeTable) -> BoolArray:
        """Find the nodes of a window that have a CSINode object."""
        return nodes.through(self._has_csi_node)

    def exceeding(self, driver: str, more: int, nodes: NodeTable) -> BoolArray:
        """Find the nodes of a window that cannot attach ``more`` volumes of a driver."""
        if driver not in self._limits:
            return np.zeros(len(nodes), dtype=np.bool_)
        limits = nodes.through(self._limits[driver])
        counts = nodes.through(self._counts[driver]) if driver in self._counts else 0
        exceeded: BoolArray = (counts + more >= limits) & (limits > 0)
        return exceeded

    def lacking(self, driver: str, nodes: NodeTable) -> BoolArray:
        """Find the nodes of a window where a driver does not run."""
        if driver not in self._installed:
            return np.ones(len(nodes), dtype=np.bool_)
        return ~nodes.through(self._installed[driver])

    def attached(self, node_name: str) -> set[CSIName]:
        """Return the volumes attached to a node, even if no pod uses them any more."""
        self.refresh()
        return {name for _, name in self._attachments.on_node(node_name) if name is not None}

    def holders(self, name: CSIName) -> Collection[int]:
        """Return the rows where a pod already uses a volume."""
        return self._holders.rows(name)


def held_by_pods(attachable: AttachableVolumes, node: NodeInfo, *, migrated: bool) -> set[CSIName]:
    """Return the volumes that pods on a node use; raise :class:`UnattachableError` if they are unknown."""
    return {
        name for pod in node.pods.values() if attaches_anything(pod) for name in attachable.find(pod, migrated=migrated)
    }


def read_limits(csi_node: CSINode | None) -> dict[str, int]:
    """Return the volume limits of a node by driver; other drivers have no limit."""
    drivers = csi_node.spec.drivers if csi_node is not None else ()
    return {
        driver.name: driver.allocatable.count
        for driver in drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


def _cells(columns: dict[str, Growing], driver: str, row: int, kind: Any) -> NDArray[Any]:
    """Return a driver's column, created on the first write, with capacity for a row."""
    if driver not in columns:
        columns[driver] = Growing(kind)
    columns[driver].reserve(row + 1)
    return columns[driver].array
