"""A score in NumPy: put a pod where the least stays free, so that large holes remain for large pods."""

import numpy as np

from moorage import CycleState, DependsOn, NodeInfo, NodeTable, Pod, ScorePlugin
from moorage.scheduler.framework.status import IntArray

RESOURCES = ("cpu", "memory")


class BestFit(ScorePlugin):
    """Score 100 less the percentage that stays free once the pod is there, as a mean over CPU and memory."""

    depends_on = DependsOn.REQUESTS

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Score one node, for what-ifs and for those who read this."""
        left = 0
        for resource in RESOURCES:
            has = node.allocatable.get(resource, 0)
            used = node.requested.get(resource, 0) + pod.requests.get(resource, 0)
            left += max(has - used, 0) * 100 // max(has, 1)
        return 100 - left // len(RESOURCES)

    def score_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """The same for all nodes at once: each line works on a whole column."""
        left = np.zeros(len(nodes), dtype=np.int64)
        for resource in RESOURCES:
            has = nodes.allocatable[resource]
            used = nodes.requested[resource] + pod.requests.get(resource, 0)
            left += np.maximum(has - used, 0) * 100 // np.maximum(has, 1)
        return 100 - left // len(RESOURCES)

    def sign(self, pod: Pod) -> tuple[int, ...]:
        """Answer pods alike that ask for the same."""
        return tuple(pod.requests.get(resource, 0) for resource in RESOURCES)
