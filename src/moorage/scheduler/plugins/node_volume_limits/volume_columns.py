"""Volumes that a CSI driver must attach. Their counts and limits per driver and node, updated incrementally."""

from collections.abc import Collection, Hashable, Iterable, Iterator
from typing import Any, Final, Generic, TypeVar

import numpy as np

from moorage.common.arrays import NDArray
from moorage.common.errors import MigrationError
from moorage.kube.api.claims import ClaimUse, claim_use, ownership_problem, storage_class_name
from moorage.kube.api.csi_migration import (
    BY_PLUGIN,
    UNCOUNTED_PLUGINS,
    CSIName,
    find_migration,
    in_line_driver,
)
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment
from moorage.kube.api.volume import Volume
from moorage.scheduler.framework.columns import Growing
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import BoolArray, Status
from moorage.scheduler.state.side_columns import ALL_ROWS, SideColumns

# A prefix that real volume handles cannot have. Upstream uses random letters.
NOT_YET_PROVISIONED: Final = "\0not-yet-provisioned-"


class UnattachableError(Exception):
    """The volumes of a pod cannot be determined. ``status`` is the filter's result for the node."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


class AttachableVolumes:
    """Finds the volumes of pods. In-tree disks count where they are migrated: on nodes with a CSINode object."""

    def __init__(self, handle: Handle) -> None:
        self._claims = handle.lister(PersistentVolumeClaim)
        self._volumes = handle.lister(PersistentVolume)
        self._classes = handle.lister(StorageClass)

    def find(self, pod: Pod, *, migrated: bool, is_placed: bool = True) -> Iterator[CSIName]:
        """Iterate over the volumes of a pod. Raise UnattachableError if they cannot be determined.

        Missing claims of a pod that is already placed on a node are ignored.
        """
        for volume in pod.spec.volumes:
            use = claim_use(pod, volume)
            name = None
            if use is None:
                name = _in_line(volume) if migrated else None
            elif (claim := self._claim(pod, use)) is not None:
                name = self._of_claim(claim, migrated=migrated)
            elif not is_placed:
                key, missing_text = f"{pod.namespace}/{use.name}", f'persistentvolumeclaim "{use.name}" not found'
                raise UnattachableError(Status.unresolvable(f"looking up PVC {key}: {missing_text}"))
            if name is not None:
                yield name

    def find_dependencies(self, pod: Pod) -> tuple[list[str], list[str]]:
        """Return the claims and volumes that a pod's attachments depend on."""
        uses = [use for volume in pod.spec.volumes if (use := claim_use(pod, volume)) is not None]
        claims = [self._claims.get(use.name, pod.namespace) for use in uses]
        return [f"{pod.namespace}/{use.name}" for use in uses], [
            claim.spec.volume_name for claim in claims if claim is not None and claim.spec.volume_name
        ]

    def _claim(self, pod: Pod, use: ClaimUse) -> PersistentVolumeClaim | None:
        if not use.name:
            raise UnattachableError(Status.error("PersistentVolumeClaim had no name"))
        claim = self._claims.get(use.name, pod.namespace)
        if claim is not None and use.is_ephemeral and (problem := ownership_problem(claim, pod)):
            raise UnattachableError(Status.error(problem))
        return claim

    def _of_claim(self, claim: PersistentVolumeClaim, *, migrated: bool) -> CSIName | None:
        volume = self._volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
        if volume is None:
            return self._of_class(claim, migrated=migrated)
        if volume.spec.csi is not None:
            name = CSIName(volume.spec.csi.driver, volume.spec.csi.volume_handle)
        else:
            migration = find_migration(volume.spec)
            if migration is None or not migrated:
                return None
            try:
                name = migration.csi_name(volume.spec, volume.labels)
            except MigrationError:
                # A volume without a CSI name is not attached by any driver.
                return None
        return name if name.driver and name.handle else None

    def _of_class(self, claim: PersistentVolumeClaim, *, migrated: bool) -> CSIName | None:
        """Return a name for the volume that will be provisioned for a claim."""
        name = storage_class_name(claim)
        storage_class = self._classes.get(name) if name else None
        if storage_class is None or storage_class.provisioner in UNCOUNTED_PLUGINS:
            return None
        driver = storage_class.provisioner
        if driver in BY_PLUGIN:
            if not migrated:
                return None
            driver = BY_PLUGIN[driver].driver
        return CSIName(driver, f"{NOT_YET_PROVISIONED}{claim.key}") if driver else None


def attaches_anything(pod: Pod) -> bool:
    """Return whether a pod has a volume that a CSI driver may attach: a claim, or a disk that may be migrated."""
    # Most pods have no volumes. This is called several times per pod.
    return bool(pod.spec.volumes) and any(
        volume.persistent_volume_claim is not None or volume.ephemeral is not None or in_line_driver(volume) is not None
        for volume in pod.spec.volumes
    )


def _in_line(volume: Volume) -> CSIName | None:
    migration = find_migration(volume)
    if migration is None:
        return None
    try:
        return migration.csi_name(volume)
    except MigrationError as error:
        problem = f"converting volume({volume.name}) from inline to csi: {error}"
        raise UnattachableError(Status.error(problem)) from error


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
        """Apply a change of an attachment. Return the affected nodes."""
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

    def find_rows(self, source: str, key: str) -> Iterable[int] | None:
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
        """Reload all attachments after too many changes."""
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
    """Return the volumes that pods on a node use. Raise :class:`UnattachableError` if they are unknown."""
    return {
        name for pod in node.pods.values() if attaches_anything(pod) for name in attachable.find(pod, migrated=migrated)
    }


def read_limits(csi_node: CSINode | None) -> dict[str, int]:
    """Return the volume limits of a node by driver. Other drivers have no limit."""
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
