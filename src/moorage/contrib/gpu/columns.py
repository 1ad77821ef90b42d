"""The devices of all nodes as columns, which are updated row by row."""

from hashlib import blake2b
from typing import Any

import numpy as np
from msgspec import Struct

from moorage.common.arrays import NDArray
from moorage.common.caches import cached
from moorage.contrib.gpu.devices import NO_GPUS, NodeGpus, read_gpus
from moorage.kube.api.gpu_sharing import GPU_MODEL
from moorage.scheduler.framework.columns import Categorical
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import IntArray
from moorage.scheduler.state.side_columns import SideColumns

SaltArray = NDArray[np.uint64]


class GpuTable(Struct, frozen=True):
    """The GPUs of a table of nodes: a row per node, and in ``free`` a column per device. Missing devices are 0."""

    free: IntArray
    count: IntArray
    classes: IntArray
    cpu_free: IntArray
    models: Categorical[str | None]

    @classmethod
    def of(cls, gpus: "list[NodeGpus]") -> "GpuTable":
        width = max((len(node.free) for node in gpus), default=0)
        free = np.zeros((len(gpus), width), dtype=np.int64)
        for row, node in enumerate(gpus):
            free[row, : len(node.free)] = node.free
        return cls(
            free,
            np.array([len(node.free) for node in gpus], dtype=np.int64),
            np.array([node.classes for node in gpus], dtype=np.int64),
            np.array([node.cpu_free for node in gpus], dtype=np.int64),
            Categorical.of([node.model for node in gpus]),
        )

    def __len__(self) -> int:
        return len(self.count)

    @property
    def idle(self) -> IntArray:
        """The free amount of all devices of each node."""
        total: IntArray = self.free.sum(axis=1)
        return total


class GpuColumns(SideColumns):
    """The GPUs of every node of the cluster. Only changed rows are recomputed."""

    def __init__(self, nodes: NodeTable) -> None:
        super().__init__(nodes, {})
        self._gpus: list[NodeGpus] = []
        self._free = np.zeros((0, 0), dtype=np.int64)
        self._count = np.zeros(0, dtype=np.int64)
        self._classes = np.zeros(0, dtype=np.int64)
        self._salts: SaltArray = np.zeros(0, dtype=np.uint64)

    def write(self, info: NodeInfo) -> None:
        row, gpus = info.row, read_gpus(info)
        while len(self._gpus) <= row:
            self._gpus.append(NO_GPUS)
        self._reserve(len(self._gpus), len(gpus.free))
        self._gpus[row] = gpus
        self._free[row] = gpus.free + (0,) * (self._free.shape[1] - len(gpus.free))
        self._count[row] = len(gpus.free)
        self._classes[row] = gpus.classes
        self._salts[row] = hash_text(info.name)

    def _reserve(self, rows: int, width: int) -> None:
        has_rows, has_width = self._free.shape
        if rows <= has_rows and width <= has_width:
            return
        has_room = max(rows, 2 * has_rows) if rows > has_rows else has_rows
        larger = np.zeros((has_room, max(width, has_width)), dtype=np.int64)
        larger[:has_rows, :has_width] = self._free
        self._free = larger
        self._count = _longer(self._count, has_room)
        self._classes = _longer(self._classes, has_room)
        self._salts = _longer(self._salts, has_room)

    def of(self, info: NodeInfo) -> NodeGpus:
        """Return the GPUs of a node, possibly a changed copy."""
        nodes = self._nodes
        if 0 <= info.row < len(nodes) and nodes[info.row] is info:
            self.refresh()
            return self._gpus[info.row]
        return read_gpus(info)

    def salts(self, nodes: NodeTable) -> SaltArray:
        """Return a pseudo-random number for each node of a window, derived from its name."""
        if not nodes.is_window_of(self._nodes):
            return np.array([hash_text(info.name) for info in nodes], dtype=np.uint64)
        self.refresh()
        return self._salts[nodes.rows]

    def through(self, nodes: NodeTable) -> GpuTable:
        """Return the GPUs of a window of nodes."""
        if not nodes.is_window_of(self._nodes):
            return GpuTable.of([read_gpus(info) for info in nodes])
        self.refresh()
        rows = slice(0, len(nodes)) if nodes.shows_all else nodes.rows
        cpu_free = nodes.allocatable["cpu"] - nodes.requested["cpu"]
        return GpuTable(self._free[rows], self._count[rows], self._classes[rows], cpu_free, nodes.label(GPU_MODEL))


def _longer(column: NDArray[Any], rows: int) -> NDArray[Any]:
    return np.concatenate((column, np.zeros(rows - len(column), dtype=column.dtype)))


@cached(1 << 16)
def hash_text(text: str) -> int:
    """Return 64 pseudo-random bits derived from a text."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
