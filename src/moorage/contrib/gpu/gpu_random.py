"""GpuRandom: any feasible node, and any device of it; what other policies are measured against."""

from typing import Final

import numpy as np

from moorage.contrib.gpu.books import books_of
from moorage.contrib.gpu.choosing import RandomDevices
from moorage.contrib.gpu.columns import salt_of
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.gpu_args import GpuRandomArgs
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import DependsOn, ScorePlugin
from moorage.scheduler.framework.status import MAX_NODE_SCORE, MIN_NODE_SCORE, IntArray

_ALL_BITS: Final = (1 << 64) - 1
_FACTORS: Final = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
"""Two odd multipliers that spread the bits of a hash."""


class GpuRandom(ScorePlugin):
    """Score 100 on one feasible node and 0 on all others, pseudo-randomly by seed, pod and node.

    The result does not depend on the order of nodes and is reproducible. A share takes a random device with enough
    free capacity.
    """

    Args = GpuRandomArgs
    depends_on = DependsOn.CLUSTER

    def __init__(self, *, args: GpuRandomArgs | None = None, handle: Handle) -> None:
        self._seed = (args or GpuRandomArgs()).seed
        self._books = books_of(handle)
        self._books.choose = RandomDevices(self._seed).devices_for

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        lot = salt_of(node.name) ^ self._salt(pod)
        for factor in _FACTORS:
            lot = ((lot ^ (lot >> 31)) * factor) & _ALL_BITS
        return (lot ^ (lot >> 31)) >> 1

    def score_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        lots = self._books.columns.salts(nodes) ^ np.uint64(self._salt(pod))
        for factor in _FACTORS:
            # Beyond 64 bits nothing is kept.
            lots = (lots ^ (lots >> np.uint64(31))) * np.uint64(factor)
        return ((lots ^ (lots >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)

    def _salt(self, pod: Pod) -> int:
        return salt_of(f"{self._seed} {pod.key}")

    def normalize_scores(self, cycle: CycleState, pod: Pod, nodes: NodeTable, scores: IntArray) -> IntArray:
        normalized = np.full(len(scores), MIN_NODE_SCORE, dtype=np.int64)
        if len(scores):
            normalized[int(scores.argmax())] = MAX_NODE_SCORE
        return normalized
