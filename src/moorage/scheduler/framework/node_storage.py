"""Storage of a node table's columns: the content of each column and the writing of rows.

It is sufficient for a table of single nodes (``NodeTable.of``). The cluster's table, in
``moorage.scheduler.state.cache``, also follows changes of nodes and pods.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from operator import attrgetter
from typing import Any, Final

import numpy as np

from moorage.common.caches import LRU
from moorage.scheduler.framework.columns import Categorical, Growing, Vocabulary
from moorage.scheduler.framework.nodeinfo import NodeInfo

Extract = Callable[[NodeInfo], Hashable]

SPARE_NAMES: Final = 1024
MAX_LABEL_COLUMNS: Final = 256
"""Maximum number of label columns. Users may use any number of keys."""
MAX_RESOURCE_COLUMNS: Final = 256
"""Maximum number of columns of amounts. Users may invent any number of resources."""


class ImageFacts:
    """Size and node count of an image name in a table. The size is that of the first node with the image."""

    __slots__ = ("node_count", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.node_count = 0


class KnownNames(set[str]):
    """All names that the nodes have, and some of nodes that are deleted or have changed."""

    def __init__(self, infos: list[NodeInfo], names_on: Callable[[NodeInfo], Mapping[str, object]]) -> None:
        super().__init__()
        self.version = 0
        """Grows when a name is added."""
        self._infos = infos
        self._names_on = names_on
        self._limit = SPARE_NAMES

    def read(self, info: NodeInfo) -> None:
        """Add the names of a node. Forget those of deleted nodes if there are too many."""
        names = self._names_on(info).keys()
        if not names <= self:
            self.update(names)
            self.version += 1
            if len(self) > self._limit:
                self.clear()
                self.update(name for node in self._infos for name in self._names_on(node))
                self._limit = 2 * len(self) + SPARE_NAMES


class AmountColumns:
    """Amounts per resource: a column is created when a plugin reads it, and updated from then on.

    One node or pod may have a hundred thousand resources, and a column for each would fill the memory.
    """

    def __init__(self, infos: list[NodeInfo], amounts_on: Callable[[NodeInfo], Mapping[str, int]]) -> None:
        self.names = KnownNames(infos, amounts_on)
        self._columns: LRU[str, Growing] = LRU("resource columns", MAX_RESOURCE_COLUMNS, self._fill)
        self.lookup = self._columns.lookup
        self._infos = infos
        self._amounts_on = amounts_on

    def write(self, info: NodeInfo) -> None:
        """Write the row of a node."""
        self.names.read(info)
        amounts = self._amounts_on(info)
        for name, column in self._columns.items():
            column.put(info.row, amounts.get(name, 0))

    def write_some(self, info: NodeInfo, names: Iterable[str]) -> None:
        """Write some resources of a row. Raise KeyError for a new name, IndexError and OverflowError as arrays do."""
        row, amounts, find = info.row, self._amounts_on(info), self._columns.find
        for name in names:
            if (column := find(name)) is not None:
                column.array[row] = amounts[name]
            elif name not in self.names:
                raise KeyError(name)

    def _fill(self, name: str) -> Growing:
        column = Growing(np.int64, max(1, len(self._infos)))
        for row, info in enumerate(self._infos):
            if amount := self._amounts_on(info).get(name, 0):
                column.put(row, amount)
        return column


class CategoricalColumn:
    """A categorical column that can be written row by row."""

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
        """Renumber all values, which also drops values that no node has."""
        self._values = Vocabulary()
        self._view = None
        self._codes.reserve(len(infos))
        for row, info in enumerate(infos):
            self._codes.array[row] = self._values.code(self._extract(info))

    def is_bloated(self, rows: int) -> bool:
        """Return whether most numbered values belong to nodes that are deleted."""
        return len(self._values) > 2 * rows + 64

    def view(self, rows: int) -> Categorical[Any]:
        """Return the column as plugins read it. Its version remains as long as every row has the value it had."""
        view = self._view
        if view is None or len(view.codes) != rows:
            view = self._view = Categorical(self._codes.view(rows), self._values)
        return view


class NodeStorage:
    """Some nodes, by columns, one row each. Rows are added, never changed: there is nothing to follow here."""

    def __init__(self) -> None:
        self.infos: list[NodeInfo] = []
        self.count = 0
        """Number of nodes."""
        self.row_of: dict[str, int] = {}
        self.allocatable = AmountColumns(self.infos, attrgetter("allocatable"))
        self.requested = AmountColumns(self.infos, attrgetter("requested"))
        self.nonzero = {"cpu": Growing(np.int64), "memory": Growing(np.int64)}
        self.pod_count = Growing(np.int64)
        self.unschedulable = Growing(np.bool_)
        self.taints = CategoricalColumn(lambda info: info.taints)
        self.host_ports = CategoricalColumn(lambda info: frozenset(info.used_ports))
        self.features = CategoricalColumn(lambda info: frozenset(info.node.status.declared_features))
        self.label_keys = KnownNames(self.infos, lambda info: info.labels)
        self.labels: LRU[str, CategoricalColumn] = LRU("label columns", MAX_LABEL_COLUMNS, self._new_label_column)
        self._label_views: LRU[str, Categorical[str | None]] = LRU(
            "label column views", MAX_LABEL_COLUMNS, lambda key: self._label_column(key).view(len(self.infos))
        )
        self._absent_label = CategoricalColumn(lambda _info: None)

    def __len__(self) -> int:
        return self.count

    @property
    def position(self) -> int:
        """The position in the log of changed rows."""
        return 0

    @property
    def nodes_version(self) -> int:
        """A number that grows when a node itself is added, changed or removed, but not with the pods on it."""
        return 0

    @property
    def images_version(self) -> int:
        """A number that grows whenever the images on some node change."""
        return 0

    def changed_since(self, position: int) -> list[int] | None:
        """Return the rows that changed since a position, or ``None`` if the position is too old."""
        return []

    def add(self, info: NodeInfo) -> int:
        """Give a node a row at the end."""
        row = len(self.infos)
        NodeInfo.move_to(info, row)
        self.infos.append(info)
        self.count = row + 1
        self.row_of[info.name] = row
        self.write_node(info)
        return row

    def write_node(self, info: NodeInfo) -> None:
        """Bring a row in line with its node object and its pods."""
        row = info.row
        self._label_views.clear()
        self.label_keys.read(info)
        self.allocatable.write(info)
        self.unschedulable.reserve(row + 1)
        self.unschedulable.array[row] = info.node.spec.unschedulable
        for categorical in self.categoricals():
            categorical.write(row, info)
        self.write_requests(info)

    def write_requests(self, info: NodeInfo) -> None:
        """Write the requests on a node, also if a column is missing or too short, or a sum exceeds its range."""
        self.requested.write(info)
        self.nonzero["cpu"].put(info.row, info.nonzero_cpu)
        self.nonzero["memory"].put(info.row, info.nonzero_memory)
        self.pod_count.put(info.row, len(info.pods))

    def label(self, key: str) -> Categorical[str | None]:
        """Return the column of a label. It is created at first use and cached."""
        return self._label_views.lookup(key)

    def _label_column(self, key: str) -> CategoricalColumn:
        # Keys that no node has share a column: pods may name thousands, and each node event would write them all.
        return self.labels.lookup(key) if key in self.label_keys else self._absent_label

    def _new_label_column(self, key: str) -> CategoricalColumn:
        column = CategoricalColumn(lambda info: info.labels.get(key))
        column.fill(self.infos)
        return column

    def categoricals(self) -> list[CategoricalColumn]:
        """List all categorical columns there are."""
        labels = (column for _, column in self.labels.items())
        return [self.taints, self.features, self.host_ports, self._absent_label, *labels]

    def image(self, name: str) -> Growing:
        """Return which nodes hold an image."""
        column = Growing(np.bool_, max(1, len(self.infos)))
        for row, info in enumerate(self.infos):
            column.array[row] = name in info.node.image_names
        return column

    def image_facts(self, name: str) -> ImageFacts | None:
        """Return the facts about an image, or ``None`` if no node has it."""
        holders = [info.node for info in self.infos if name in info.node.image_names]
        if not holders:
            return None
        facts = ImageFacts(next(image.size_bytes for image in holders[0].status.images if name in image.names))
        facts.node_count = len(holders)
        return facts
