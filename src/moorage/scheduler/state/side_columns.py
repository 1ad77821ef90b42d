"""Columns of a plugin with one row per node, computed from other objects than nodes and pods."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from moorage.scheduler.framework.handle import Lister
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable

ALL_ROWS = None
"""The result of :meth:`SideColumns.find_rows` if a change may concern every row."""


class SideColumns:
    """Facts per row that follow the node table and some listers.

    Nothing is pushed here: :meth:`refresh` reads the changes since the last call, and rewrites the affected rows.
    A subclass defines how to write a row, and if necessary how to clear one and which rows an object concerns.
    """

    def __init__(self, nodes: NodeTable, sources: Mapping[str, Lister[Any]]) -> None:
        self._nodes = nodes
        self._sources = sources
        self._versions = {name: lister.version for name, lister in sources.items()}
        self._position = -1
        self._known_rows = 0

    @abstractmethod
    def write(self, info: NodeInfo) -> None:
        """Bring a row in line with its node."""

    def clear(self, row: int) -> None:
        """Clear the row of a removed node; not needed if rows are only read after they were written."""

    def find_rows(self, source: str, key: str) -> Iterable[int] | None:
        """Return the rows that an object of a source concerns, or ``ALL_ROWS``; for columns with sources."""
        return ()

    def reread(self, source: str) -> None:
        """Read all objects of a source: its log is truncated."""

    def refresh(self) -> None:
        """Rewrite the rows that changed since the last call."""
        changed_rows = None if self._position < 0 else self._nodes.changed_since(self._position)
        stale = ALL_ROWS if changed_rows is None else set(changed_rows)
        for name, lister in self._sources.items():
            if lister.version != self._versions[name]:
                stale = self._add_changed_rows(name, lister, stale)
        self._position = self._nodes.position
        rows = len(self._nodes)
        if stale is ALL_ROWS:
            stale = set(range(rows))
        # The last node moves to the row of a removed node. The log contains the latter row only.
        stale.update(range(rows, self._known_rows))
        self._known_rows = rows
        for row in stale:
            if row < rows:
                self.write(self._nodes[row])
            else:
                self.clear(row)

    def _add_changed_rows(self, name: str, lister: Lister[Any], stale: set[int] | None) -> set[int] | None:
        keys = lister.changed_since(self._versions[name])
        self._versions[name] = lister.version
        if keys is None:
            self.reread(name)
            return ALL_ROWS
        for key in set(keys):
            rows = self.find_rows(name, key)
            if rows is None or stale is None:
                stale = ALL_ROWS
            else:
                stale.update(rows)
        return stale

    def row_of(self, node_name: str) -> tuple[int, ...]:
        """Return the row of a node, or ``None`` if it does not exist."""
        info = self._nodes.find(node_name)
        return () if info is None else (info.row,)
