"""Storage of a node table's columns: the content of each column and the writing of rows.

It is sufficient for a table of single nodes (``NodeTable.of``). The cluster's table, in
``moorage.scheduler.state.cache``, also follows changes of nodes and pods.
"""

from collections.abc import Callable, Hashable
from typing import Any, Final

import numpy as np

from moorage.common.caches import LRU
from moorage.scheduler.framework.columns import Categorical, Growing, Vocabulary
from moorage.scheduler.framework.nodeinfo import NodeInfo

Extract = Callable[[NodeInfo], Hashable]

SPARE_LABEL_KEYS: Final = 1024
MAX_LABEL_COLUMNS: Final = 256
"""Maximum number of label columns; users may use any number of keys."""


class ImageFacts:
    """Size and node count of an image name in a table; the size is that of the first node with the image."""

    __slots__ = ("node_count", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.node_count = 0


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
        """Return the column as plugins read it; its version remains as long as every row has the value it had."""
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
        self.allocatable: dict[str, Growing] = {}
        self.requested: dict[str, Growing] = {}
        self.nonzero = {"cpu": Growing(np.int64), "memory": Growing(np.int64)}
        self.pod_count = Growing(np.int64)
        self.unschedulable = Growing(np.bool_)
        self.taints = CategoricalColumn(lambda info: info.taints)
        self.host_ports = CategoricalColumn(lambda info: frozenset(info.used_ports))
        self.features = CategoricalColumn(lambda info: frozenset(info.node.status.declared_features))
        self.label_keys: set[str] = set()
        """The keys of all labels of the nodes, and some of nodes that are deleted or have changed."""
        self.label_keys_version = 0
        """Grows when a label key is added."""
        self._max_label_keys = SPARE_LABEL_KEYS
        self.labels: LRU[str, CategoricalColumn] = LRU("label columns", MAX_LABEL_COLUMNS, self._new_label_column)
        self._label_views: LRU[str, Categorical[str | None]] = LRU(
            "label column views", MAX_LABEL_COLUMNS, lambda key: self.labels.lookup(key).view(len(self.infos))
        )

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
        self._add_label_keys(info)
        for name in info.allocatable:
            if name not in self.allocatable:
                self.allocatable[name] = Growing(np.int64)
        for name, column in self.allocatable.items():
            column.reserve(row + 1)
            column.array[row] = info.allocatable.get(name, 0)
        self.unschedulable.reserve(row + 1)
        self.unschedulable.array[row] = info.node.spec.unschedulable
        for categorical in self.categoricals():
            categorical.write(row, info)
        self.write_requests(info)

    def _add_label_keys(self, info: NodeInfo) -> None:
        if not info.labels.keys() <= self.label_keys:
            self.label_keys.update(info.labels)
            self.label_keys_version += 1
            if len(self.label_keys) > self._max_label_keys:
                self.label_keys = {key for other in self.infos for key in other.labels}
                self._max_label_keys = 2 * len(self.label_keys) + SPARE_LABEL_KEYS

    def write_requests(self, info: NodeInfo) -> None:
        """Write the requests on a node, also if a column is missing or too short, or a sum exceeds its range."""
        for name in info.requested:
            if name not in self.requested:
                self.requested[name] = Growing(np.int64)
        for name, column in self.requested.items():
            column.put(info.row, info.requested.get(name, 0))
        self.nonzero["cpu"].put(info.row, info.nonzero_cpu)
        self.nonzero["memory"].put(info.row, info.nonzero_memory)
        self.pod_count.put(info.row, len(info.pods))

    def label(self, key: str) -> Categorical[str | None]:
        """Return the column of a label; it is created at first use and cached."""
        return self._label_views.lookup(key)

    def _new_label_column(self, key: str) -> CategoricalColumn:
        column = CategoricalColumn(lambda info: info.labels.get(key))
        column.fill(self.infos)
        return column

    def categoricals(self) -> list[CategoricalColumn]:
        """List all categorical columns there are."""
        return [self.taints, self.features, self.host_ports, *(column for _, column in self.labels.items())]

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
