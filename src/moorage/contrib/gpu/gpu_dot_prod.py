"""GpuDotProd: the node whose free CPU and GPU have the smallest dot product with the pod's request."""

import numpy as np

from moorage.contrib.gpu.columns import GpuTable
from moorage.contrib.gpu.demand import GpuDemand
from moorage.contrib.gpu.devices import NodeGpus
from moorage.contrib.gpu.policy import LARGEST_CPU, LARGEST_GPU, GpuPolicy
from moorage.scheduler.framework.status import MAX_NODE_SCORE, MIN_NODE_SCORE, IntArray


class GpuDotProd(GpuPolicy):
    """Score 1 - (free · requested) / 2, both relative to the largest node. A share takes the tightest device."""

    def score_node(self, cpu: int, demand: GpuDemand | None, node: NodeGpus) -> int:
        gpu = 0 if demand is None else demand.total
        product = node.cpu_free / LARGEST_CPU * (cpu / LARGEST_CPU) + node.idle / LARGEST_GPU * (gpu / LARGEST_GPU)
        # Nodes may be larger than the largest of the experiments.
        return int(MAX_NODE_SCORE * min(max(1.0 - product / 2, 0.0), 1.0))

    def score_table(self, cpu: int, demand: GpuDemand | None, table: GpuTable) -> IntArray:
        gpu = 0 if demand is None else demand.total
        by_cpu = table.cpu_free / LARGEST_CPU * (cpu / LARGEST_CPU)
        product = by_cpu + table.idle / LARGEST_GPU * (gpu / LARGEST_GPU)
        scores = MAX_NODE_SCORE * np.clip(1.0 - product / 2, 0.0, 1.0)
        return np.clip(scores.astype(np.int64), MIN_NODE_SCORE, MAX_NODE_SCORE)
