"""GpuBestFit: the node with the least CPU and GPU left over."""

import numpy as np

from moorage.contrib.community.scaling import spread
from moorage.contrib.gpu.columns import GpuTable
from moorage.contrib.gpu.demand import GpuDemand
from moorage.contrib.gpu.devices import NodeGpus
from moorage.contrib.gpu.policy import LARGEST_CPU, LARGEST_GPU, GpuPolicy
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import IntArray


class GpuBestFit(GpuPolicy):
    """Score the remaining CPU and GPU with the pod, each relative to the largest node: less is better.

    Among the feasible nodes the best has 100 and the worst 0. A share takes the tightest device.
    """

    _normalizes_by_value = True

    def score_node(self, cpu: int, demand: GpuDemand | None, node: NodeGpus) -> int:
        gpu = 0 if demand is None else demand.total
        remaining = (node.cpu_free - cpu) / LARGEST_CPU * 0.5 + (node.idle - gpu) / LARGEST_GPU * 0.5
        return int((1.0 - remaining) * 100)

    def score_table(self, cpu: int, demand: GpuDemand | None, table: GpuTable) -> IntArray:
        gpu = 0 if demand is None else demand.total
        remaining = (table.cpu_free - cpu) / LARGEST_CPU * 0.5 + (table.idle - gpu) / LARGEST_GPU * 0.5
        return ((1.0 - remaining) * 100).astype(np.int64)

    def normalize_scores(self, cycle: CycleState, pod: Pod, nodes: NodeTable, scores: IntArray) -> IntArray:
        return spread(scores, int(scores.min()), int(scores.max())) if len(scores) else scores
