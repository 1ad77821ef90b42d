"""GpuClustering: pods of one class (shares, one GPU, two …) together, the fuller nodes first."""

from typing import Final

import numpy as np

from moorage.contrib.gpu.columns import GpuTable
from moorage.contrib.gpu.demand import GpuDemand
from moorage.contrib.gpu.devices import NodeGpus
from moorage.contrib.gpu.policy import LARGEST_GPU, GpuPolicy
from moorage.scheduler.framework.status import MAX_NODE_SCORE, MIN_NODE_SCORE, IntArray

STEP: Final = MAX_NODE_SCORE // 4


class GpuClustering(GpuPolicy):
    """Score 100 to 75 where all pods with GPUs have the pod's class, 75 to 50 where some do, 50 to 25 on nodes without
    GPU pods, and 25 to 0 on other nodes; within each range, fewer idle GPUs relative to the largest node are better.

    Pods without GPUs score 0 everywhere and are not counted. A share takes the tightest device.
    """

    def score_node(self, cpu: int, demand: GpuDemand | None, node: NodeGpus) -> int:
        if demand is None:
            return MIN_NODE_SCORE
        if node.classes & demand.class_bit:
            base = 3 * STEP if node.classes == demand.class_bit else 2 * STEP
        else:
            base = MIN_NODE_SCORE if node.classes else STEP
        # Nodes may have more than eight GPUs.
        return base + STEP * max(LARGEST_GPU - node.idle, 0) // LARGEST_GPU

    def score_table(self, cpu: int, demand: GpuDemand | None, table: GpuTable) -> IntArray:
        if demand is None:
            return np.full(len(table), MIN_NODE_SCORE, dtype=np.int64)
        own, classes = demand.class_bit, table.classes
        with_own = np.where(classes == own, 3 * STEP, 2 * STEP)
        without = np.where(classes == 0, STEP, MIN_NODE_SCORE)
        base = np.where(classes & own, with_own, without)
        fuller: IntArray = STEP * np.maximum(LARGEST_GPU - table.idle, 0) // LARGEST_GPU
        return base + fuller
