"""Every node as columns, seen through a window: the entire cluster, or some of its rows."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from moorage.common.arrays import NDArray
from moorage.kube.api.affinity import Taint
from moorage.kube.api.pod import HostPort
from moorage.scheduler.framework.columns import Categorical, Growing
from moorage.scheduler.framework.node_storage import ImageFacts, NodeStorage
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.status import BoolArray, IntArray

RowArray = NDArray[np.int64]


class ResourceColumns:
    """A column per resource. One that no node has is all zeros."""

    __slots__ = ("_find_column", "_names", "_table")

    def __init__(self, names: Collection[str], find_column: Callable[[str], Growing], table: "NodeTable") -> None:
        self._names = names
        self._find_column = find_column
        self._table = table

    def __getitem__(self, resource: str) -> IntArray:
        if resource not in self._names:
            return np.zeros(len(self._table), dtype=np.int64)
        return self._table.through(self._find_column(resource))

    def __contains__(self, resource: str) -> bool:
        return resource in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)


class NodeTable:
    """A view of some or all nodes of the cluster. Columns are read-only.

    The result for a row may depend only on that row, the pod and the cycle. Facts about the entire cluster belong in
    ``pre_filter`` or ``pre_score``.

    >>> from moorage.kube.api.node import Node
    >>> table = NodeTable.of(NodeInfo(Node()))
    >>> len(table), table.unschedulable.tolist()
    (1, [False])
    """

    __slots__ = ("_candidates", "_columns", "_rows")

    def __init__(self, columns: NodeStorage, rows: RowArray | None = None, candidates: BoolArray | None = None) -> None:
        self._columns = columns
        self._rows = rows
        self._candidates = candidates

    @classmethod
    def of(cls, *infos: NodeInfo) -> "NodeTable":
        """Build a table from copies of single nodes."""
        columns = NodeStorage()
        for info in infos:
            columns.add(info.copy())
        return cls(columns)

    def __len__(self) -> int:
        return self._columns.count if self._rows is None else len(self._rows)

    def take(self, rows: RowArray) -> "NodeTable":
        """Return a window on some rows of this one, in that order."""
        return NodeTable(self._columns, rows if self._rows is None else self._rows[rows])

    def late(self, size: int, find: Callable[[], RowArray]) -> "NodeTable":
        """Return a table of ``size`` rows. The row numbers are computed at first use."""
        return LateWindow(self._columns, size, find)

    def among(self, candidates: BoolArray) -> "NodeTable":
        """Return the same table with a mask of candidates for plugins that iterate over nodes."""
        return NodeTable(self._columns, self._rows, candidates)

    def candidates(self) -> Iterator[tuple[int, NodeInfo]]:
        """Go through the nodes that are still candidates, with their place in this window."""
        positions: Iterable[int] = range(len(self)) if self._candidates is None else np.flatnonzero(self._candidates)
        for position in positions:
            yield int(position), self[int(position)]

    def __getitem__(self, position: int) -> NodeInfo:
        return self._columns.infos[position if self._rows is None else int(self._rows[position])]

    def __iter__(self) -> Iterator[NodeInfo]:
        return (self[index] for index in range(len(self)))

    def find(self, name: str) -> NodeInfo | None:
        """Look a node of the cluster up by name, whether or not it is in this window."""
        row = self._columns.row_of.get(name)
        return None if row is None else self._columns.infos[row]

    def find_rows(self, names: Iterable[str]) -> list[int]:
        """Return the rows of the named nodes of the cluster. Skip unknown names."""
        rows = map(self._columns.row_of.get, names)
        return [row for row in rows if row is not None]

    @property
    def rows(self) -> RowArray:
        """The rows of the cluster that this window shows, in its order."""
        return np.arange(len(self._columns)) if self._rows is None else self._rows

    @property
    def in_running(self) -> BoolArray:
        """Which nodes of the window no plugin has rejected yet."""
        return np.ones(len(self), dtype=np.bool_) if self._candidates is None else self._candidates

    @property
    def shows_all(self) -> bool:
        """Whether the window is the entire cluster in row order."""
        return self._rows is None

    @property
    def position(self) -> int:
        """Position in the log of changed rows. Pass it to :meth:`changed_since` later."""
        return self._columns.position

    @property
    def nodes_version(self) -> int:
        """A number that grows when a node itself is added, changed or removed, but not with the pods on it."""
        return self._columns.nodes_version

    def changed_since(self, position: int) -> list[int] | None:
        """Return the rows of the cluster that changed since a position, or ``None`` if the position is too old.

        A row may be repeated, and a deleted one is beyond the end.
        """
        return self._columns.changed_since(position)

    def is_window_of(self, table: "NodeTable") -> bool:
        """Return whether both show the same cluster, so that a row means the same node in both."""
        return self._columns is table._columns

    def shows_all_of(self, table: "NodeTable") -> bool:
        """Return whether this is the entire cluster that the other shows, in row order."""
        return self._rows is None and self._columns is table._columns

    @property
    def names(self) -> Sequence[str]:
        """The names of the nodes, in the window's order."""
        return [info.name for info in self]

    @property
    def allocatable(self) -> ResourceColumns:
        """The allocatable amounts per resource; CPU in thousandths."""
        columns = self._columns.allocatable
        return ResourceColumns(columns.names, columns.lookup, self)

    @property
    def requested(self) -> ResourceColumns:
        """The requests of the pods on the nodes, per resource."""
        columns = self._columns.requested
        return ResourceColumns(columns.names, columns.lookup, self)

    @property
    def nonzero_requested(self) -> ResourceColumns:
        """CPU and memory requests for scores, with defaults for containers without requests."""
        columns = self._columns.nonzero
        return ResourceColumns(columns, columns.__getitem__, self)

    @property
    def pod_count(self) -> IntArray:
        """Number of pods on each node."""
        return self.through(self._columns.pod_count)

    @property
    def unschedulable(self) -> BoolArray:
        """Which nodes are cordoned."""
        return self.through(self._columns.unschedulable)

    @property
    def taints(self) -> Categorical[tuple[Taint, ...]]:
        """The taints of each node."""
        return self._categorical(self._columns.taints.view(len(self._columns)))

    @property
    def host_ports(self) -> Categorical[frozenset[HostPort]]:
        """The ports taken on each node."""
        return self._categorical(self._columns.host_ports.view(len(self._columns)))

    @property
    def declared_features(self) -> Categorical[frozenset[str]]:
        """The features each node declares."""
        return self._categorical(self._columns.features.view(len(self._columns)))

    def may_have_label(self, key: str) -> bool:
        """Return False if no node of the cluster has a label with this key. The column of a need not be read."""
        return key in self._columns.label_keys

    @property
    def label_keys_version(self) -> int:
        """A number that grows when a node gets a label with a new key."""
        return self._columns.label_keys.version

    def label(self, key: str) -> Categorical[str | None]:
        """The value of a label on each node; ``None`` where it is missing.

        For the entire cluster, the ``version`` of the column changes only when a value changes, so that derived results
        can be cached.
        """
        column = self._columns.label(key)
        return column if self._rows is None else self._categorical(column)

    def holds_image(self, name: str) -> BoolArray:
        """Which nodes hold an image under exactly this name."""
        return self.through(self._columns.image(name))

    def image(self, name: str) -> ImageFacts | None:
        """Facts about an image in the entire cluster, or ``None`` if no node has it."""
        return self._columns.image_facts(name)

    @property
    def images_version(self) -> int:
        """A number that grows whenever the images on some node change."""
        return self._columns.images_version

    def through(self, column: Growing) -> NDArray[Any]:
        """Read a column of the cluster through this window."""
        count = self._columns.count
        # Called a dozen times per pod, so the usual case avoids a call.
        values = column.shown if column.rows == count else column.view(count)
        return values if self._rows is None else values[self._rows]

    def _categorical(self, column: Categorical[Any]) -> Categorical[Any]:
        return column if self._rows is None else Categorical(column.codes[self._rows], column.values)


class LateWindow(NodeTable):
    """A table that computes its rows at first use. Only their number is known before.

    Most plugins that get the feasible nodes before scoring do not read them.
    """

    __slots__ = ("_cached_rows", "_find", "_size")

    def __init__(self, columns: NodeStorage, size: int, find: Callable[[], RowArray]) -> None:
        self._columns = columns
        self._candidates = None
        self._size = size
        self._find = find
        self._cached_rows: RowArray | None = None

    @property
    def _rows(self) -> RowArray:  # type: ignore[override]
        if self._cached_rows is None:
            self._cached_rows = self._find()
        return self._cached_rows

    def __len__(self) -> int:
        return self._size

    @property
    def shows_all(self) -> bool:
        """Always False: a table of all rows needs no lazy computation."""
        return False
