"""The writing side of the node table: one dense row per node, kept by increments.

Rows are dense: a node that goes leaves its row to the last one, so a column of the cluster is always one run of memory.
Every row that changes is noted in the change log, which is how standing answers know what to look at again.
"""

from collections.abc import Callable, Hashable
from typing import Any, Final

import numpy as np

from moorage.api.pod import Pod
from moorage.framework.columns import Categorical, Growing, Vocabulary
from moorage.framework.nodeinfo import NO_ROW, NodeInfo
from moorage.state.image_index import ImageIndex

Extract = Callable[[NodeInfo], Hashable]

LONGEST_LOG: Final = 1 << 16
MOST_IMAGE_COLUMNS: Final = 512


class CategoricalColumn:
    """A categorical column that follows its nodes."""

    def __init__(self, extract: Extract) -> None:
        self._extract = extract
        self._codes = Growing(np.int32)
        self._values: Vocabulary[Any] = Vocabulary()
        self._view: Categorical[Any] | None = None

    def write(self, row: int, info: NodeInfo) -> None:
        """Take a row's value from its node."""
        self._codes.reserve(row + 1)
        code = self._values.code(self._extract(info))
        if self._codes.array[row] != code:
            self._codes.array[row] = code
            self._view = None

    def fill(self, infos: list[NodeInfo]) -> None:
        """Number all values afresh, which also forgets those no node has any more."""
        self._values = Vocabulary()
        self._view = None
        self._codes.reserve(len(infos))
        for row, info in enumerate(infos):
            self._codes.array[row] = self._values.code(self._extract(info))

    def is_bloated(self, rows: int) -> bool:
        """Tell whether most numbered values belong to nodes that are gone."""
        return len(self._values) > 2 * rows + 64

    def view(self, rows: int) -> Categorical[Any]:
        """Return the column as plugins read it: the same object as long as every row has the value it had."""
        view = self._view
        if view is None or len(view.codes) != rows:
            view = self._view = Categorical(self._codes.view(rows), self._values)
        return view


class ChangeLog:
    """Which rows changed, in order; a reader remembers the position up to which it knows."""

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._start = 0
        self.position = 0
        """The end of the log."""

    def note(self, row: int) -> None:
        """Write down that a row changed."""
        self._rows.append(row)
        self.position += 1
        if self.position - self._start > LONGEST_LOG:
            self._start += LONGEST_LOG // 2
            del self._rows[: LONGEST_LOG // 2]

    def since(self, position: int) -> list[int] | None:
        """Return the rows that changed since a position, or ``None`` if that is too long ago to tell."""
        if position < self._start:
            return None
        return self._rows[position - self._start :]


class NodeColumns:
    """Every node of the cluster, by columns. One writer: the cache."""

    def __init__(self) -> None:
        self.infos: list[NodeInfo] = []
        self.count = 0
        """How many there are."""
        self.row_of: dict[str, int] = {}
        self.changes = ChangeLog()
        self.takings = ChangeLog()
        """Those of the changes that alter what pods take of their node, or the node itself."""
        self.node_changes = ChangeLog()
        self.image_index = ImageIndex()
        self.allocatable: dict[str, Growing] = {}
        self.requested: dict[str, Growing] = {}
        self.nonzero = {"cpu": Growing(np.int64), "memory": Growing(np.int64)}
        self.pod_count = Growing(np.int64)
        self.unschedulable = Growing(np.bool_)
        self.taints = CategoricalColumn(lambda info: info.taints)
        self.host_ports = CategoricalColumn(lambda info: frozenset(info.used_ports))
        self.features = CategoricalColumn(lambda info: frozenset(info.node.status.declared_features))
        self.labels: dict[str, CategoricalColumn] = {}
        self._label_views: dict[str, Categorical[str | None]] = {}
        self.images: dict[str, Growing] = {}

    def __len__(self) -> int:
        return self.count

    def add(self, info: NodeInfo) -> int:
        """Give a node a row at the end."""
        row = info.row = len(self.infos)
        self.infos.append(info)
        self.count = row + 1
        self.row_of[info.name] = row
        self.write_node(info)
        return row

    def remove(self, info: NodeInfo) -> tuple[int, int]:
        """Take a node's row away; return its row and the row that moved there (the same if it was the last)."""
        row, last = info.row, len(self.infos) - 1
        self._label_views.clear()
        self.image_index.drop(info.name)
        del self.row_of[info.name]
        moved = self.infos.pop()
        self.count = last
        info.row = NO_ROW
        if row != last:
            self.infos[row] = moved
            self.row_of[moved.name] = row
            moved.row = row
            self.write_node(moved)
        else:
            self.changes.note(row)
            self.takings.note(row)
            self.node_changes.note(row)
        return row, last

    def write_node(self, info: NodeInfo) -> None:
        """Bring a row in line with its node object and its pods."""
        row = info.row
        self._label_views.clear()
        for name in info.allocatable:
            if name not in self.allocatable:
                self.allocatable[name] = Growing(np.int64)
        for name, column in self.allocatable.items():
            column.reserve(row + 1)
            column.array[row] = info.allocatable.get(name, 0)
        self.unschedulable.reserve(row + 1)
        self.unschedulable.array[row] = info.node.spec.unschedulable
        for categorical in (self.taints, self.features, *self.labels.values()):
            categorical.write(row, info)
            if categorical.is_bloated(len(self.infos)):
                categorical.fill(self.infos)
        self._write_images(info)
        self.node_changes.note(row)
        self._put_pods(info)
        self._write_ports(info)
        self.changes.note(row)
        self.takings.note(row)

    def write_pods(self, info: NodeInfo, pod: Pod) -> None:
        """Bring a row in line with the pods on its node, of which one has come or gone."""
        row, requested = info.row, info.requested
        try:
            for name in pod.requests_on_node:
                self.requested[name].array[row] = requested[name]
            self.nonzero["cpu"].array[row] = info.nonzero_cpu
            self.nonzero["memory"].array[row] = info.nonzero_memory
            self.pod_count.array[row] = len(info.pods)
        except (KeyError, IndexError, OverflowError):
            self._put_pods(info)
        if pod.host_ports:
            self._write_ports(info)
        self.changes.note(row)
        self.takings.note(row)

    def _put_pods(self, info: NodeInfo) -> None:
        """Write all of a row, also where a column is missing or too short, or a sum too large for it."""
        for name in info.requested:
            if name not in self.requested:
                self.requested[name] = Growing(np.int64)
        for name, column in self.requested.items():
            column.put(info.row, info.requested.get(name, 0))
        self.nonzero["cpu"].put(info.row, info.nonzero_cpu)
        self.nonzero["memory"].put(info.row, info.nonzero_memory)
        self.pod_count.put(info.row, len(info.pods))

    def _write_ports(self, info: NodeInfo) -> None:
        self.host_ports.write(info.row, info)
        if self.host_ports.is_bloated(len(self.infos)):
            self.host_ports.fill(self.infos)

    def label(self, key: str) -> Categorical[str | None]:
        """Return the column of a label, made when first asked for."""
        view = self._label_views.get(key)
        if view is None:
            if key not in self.labels:
                self.labels[key] = CategoricalColumn(lambda info: info.labels.get(key))
                self.labels[key].fill(self.infos)
            view = self._label_views[key] = self.labels[key].view(len(self.infos))
        return view

    def image(self, name: str) -> Growing:
        """Return which nodes hold an image, a column made when first asked for."""
        column = self.images.get(name)
        if column is None:
            if len(self.images) >= MOST_IMAGE_COLUMNS:
                self.images.clear()
            column = self.images[name] = Growing(np.bool_)
            column.reserve(len(self.infos))
            for row, info in enumerate(self.infos):
                column.array[row] = name in info.node.image_names
        return column

    def _write_images(self, info: NodeInfo) -> None:
        self.image_index.put(info.node)
        held = info.node.image_names
        for name, column in self.images.items():
            column.reserve(info.row + 1)
            column.array[info.row] = name in held
