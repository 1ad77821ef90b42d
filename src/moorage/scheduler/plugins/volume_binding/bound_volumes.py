"""Access of nodes to the volumes that a pod's claims are bound to."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from moorage.common.errors import MigrationError
from moorage.kube.api.claims import find_reach
from moorage.kube.api.csi_migration import Migration, find_migration, list_migrated_plugins, translated
from moorage.kube.api.selectors import NodeMatcher
from moorage.kube.api.storage import CSINode, PersistentVolume
from moorage.scheduler.framework.columns import Categorical, Growing, Vocabulary
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.node_selection import matching_nodes
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import BoolArray
from moorage.scheduler.state.side_columns import SideColumns


class TranslationError(Exception):
    """A migrated in-tree volume cannot be translated to CSI. The message is for users."""


class BoundVolume(Struct, frozen=True):
    """The nodes that reach a volume; for a migrated in-tree volume, also those of its CSI volume."""

    reach: NodeMatcher | None
    migration: Migration | None = None
    migrated_reach: NodeMatcher | None = None
    problem: str = ""

    @classmethod
    def of(cls, volume: PersistentVolume) -> "BoundVolume":
        """Parse a volume's node affinity, also after translation to CSI."""
        migration = find_migration(volume.spec)
        if migration is None:
            return cls(find_reach(volume))
        try:
            migrated_reach = find_reach(translated(volume, migration))
        except MigrationError as error:
            return cls(find_reach(volume), migration, problem=f"could not translate pv: {error}")
        return cls(find_reach(volume), migration, migrated_reach)

    def is_reached(self, node: NodeInfo, migrated_plugins: str) -> bool:
        """Return whether a node can reach the volume."""
        reach = self.reach
        if self.migration is not None and self.migration.plugin in migrated_plugins.split(","):
            if self.problem:
                raise TranslationError(self.problem)
            reach = self.migrated_reach
        return reach is None or reach.matches(node.labels, "")

    def reached(self, nodes: NodeTable, migrated_plugins: "MigratedPlugins") -> BoolArray | None:
        """Find the nodes that can reach the volume. ``None`` means all of them."""
        plain = None if self.reach is None else matching_nodes(self.reach, nodes)
        if self.migration is None:
            return plain
        is_migrated = migrated_plugins.where_migrated(self.migration.plugin, nodes)
        if not is_migrated.any():
            return plain
        if self.problem:
            raise TranslationError(self.problem)
        moved = None if self.migrated_reach is None else matching_nodes(self.migrated_reach, nodes)
        if plain is None and moved is None:
            return None
        return np.where(is_migrated, True if moved is None else moved, True if plain is None else plain)


def check_bound(volumes: Sequence[BoundVolume | None], node: NodeInfo, migrated_plugins: str) -> tuple[bool, bool]:
    """Return whether a node reaches all volumes, and whether all exist. The first failure decides."""
    for volume in volumes:
        if volume is None:
            return True, False
        if not volume.is_reached(node, migrated_plugins):
            return False, True
    return True, True


def check_bound_nodes(
    volumes: Sequence[BoundVolume | None], nodes: NodeTable, migrated_plugins: "MigratedPlugins"
) -> tuple[BoolArray | None, BoolArray | None]:
    """Find the nodes that do not reach a volume, and those with a missing volume. ``None`` means no node."""
    unreached: BoolArray | None = None
    for volume in volumes:
        if volume is None:
            return unreached, np.ones(len(nodes), dtype=np.bool_) if unreached is None else ~unreached
        reached = volume.reached(nodes, migrated_plugins)
        if reached is not None:
            unreached = ~reached if unreached is None else unreached | ~reached
    return unreached, None


class MigratedPlugins(SideColumns):
    """The in-tree plugins that are migrated to CSI on each node, from its CSINode."""

    def __init__(self, handle: Handle) -> None:
        self._csi_nodes = handle.lister(CSINode)
        self._codes = Growing(np.int32)
        self._values: Vocabulary[str] = Vocabulary()
        self._values.code("")
        super().__init__(handle.nodes, {"csi nodes": self._csi_nodes})

    def on_node(self, name: str) -> str:
        """Return the plugins that are migrated on a node, separated by commas."""
        return list_migrated_plugins(self._csi_nodes.get(name))

    def where_migrated(self, plugin: str, nodes: NodeTable) -> BoolArray:
        """Find the nodes of a window where a plugin is migrated."""
        self.refresh()
        column: Categorical[Any] = Categorical(nodes.through(self._codes), self._values)
        return column.where(lambda plugins: plugin in plugins.split(","))

    def write(self, info: NodeInfo) -> None:
        self._codes.reserve(info.row + 1)
        self._codes.array[info.row] = self._values.code(self.on_node(info.name))

    def clear(self, row: int) -> None:
        if row < len(self._codes.array):
            self._codes.array[row] = 0

    def find_rows(self, source: str, key: str) -> Iterable[int]:
        return self.row_of(key)
