"""GpuPacking: devices that are in use first, then free devices of nodes in use, then empty nodes."""

from typing import Final

import numpy as np

from moorage.contrib.gpu.columns import GpuTable
from moorage.contrib.gpu.demand import GpuDemand
from moorage.contrib.gpu.devices import NodeGpus
from moorage.contrib.gpu.policy import GpuPolicy
from moorage.kube.api.gpu_sharing import WHOLE_GPU
from moorage.scheduler.framework.status import MAX_NODE_SCORE, MIN_NODE_SCORE, IntArray

ON_USED_NODE: Final = MAX_NODE_SCORE // 2
ON_EMPTY_NODE: Final = MAX_NODE_SCORE // 3


class GpuPacking(GpuPolicy):
    """Score 100 to 50 where devices in use will do (the fuller the better), 50 to 33 where free devices of a node in
    use are needed (the fewer the better), and 33 to 0 on nodes whose devices are all free (the fewer the better).

    The devices meant are the tightest, which are the ones that a share takes. Pods without GPUs score 0 everywhere.
    """

    def score_node(self, cpu: int, demand: GpuDemand | None, node: NodeGpus) -> int:
        fitting = [] if demand is None else sorted(free for free in node.free if free >= demand.milli)
        if demand is None or len(fitting) < demand.count:
            return MIN_NODE_SCORE
        if all(free == WHOLE_GPU for free in node.free):
            return max(ON_EMPTY_NODE - len(node.free), MIN_NODE_SCORE)
        selected = fitting[: demand.count]
        if newly_used := selected.count(WHOLE_GPU):
            return max(ON_USED_NODE - newly_used, ON_EMPTY_NODE)
        percent_free = sum(free * 100 // WHOLE_GPU for free in selected)
        return max(MAX_NODE_SCORE - percent_free // 10, ON_USED_NODE)

    def score_table(self, cpu: int, demand: GpuDemand | None, table: GpuTable) -> IntArray:
        scores = np.full(len(table), MIN_NODE_SCORE, dtype=np.int64)
        if demand is None or table.free.shape[1] < demand.count:
            return scores
        free = table.free
        # Infeasible placements sort after all feasible ones.
        selected = np.sort(np.where(free >= demand.milli, free, 2 * WHOLE_GPU), axis=1)[:, : demand.count]
        newly_used = (selected == WHOLE_GPU).sum(axis=1)
        percent_free = (selected * 100 // WHOLE_GPU).sum(axis=1)
        in_use = np.maximum(MAX_NODE_SCORE - percent_free // 10, ON_USED_NODE)
        on_used = np.where(newly_used > 0, np.maximum(ON_USED_NODE - newly_used, ON_EMPTY_NODE), in_use)
        is_empty = (free == WHOLE_GPU).sum(axis=1) == table.count
        on_empty = np.maximum(ON_EMPTY_NODE - table.count, MIN_NODE_SCORE)
        fits = selected[:, -1] <= WHOLE_GPU
        return np.where(fits, np.where(is_empty, on_empty, on_used), MIN_NODE_SCORE)
