"""A score in NumPy: put a pod where the least stays free, so that large holes remain for large pods."""

import numpy as np

from moorage import CycleState, DependsOn, IntArray, NodeInfo, NodeTable, Pod, ScorePlugin

RESOURCES = ("cpu", "memory")


class BestFit(ScorePlugin):
    """Score 100 less the percentage that stays free once the pod is there, as a mean over CPU and memory."""

    depends_on = DependsOn.REQUESTS

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Score one node, for what-ifs and for readers."""
        free = 0
        for resource in RESOURCES:
            has = node.allocatable.get(resource, 0)
            requested = node.requested.get(resource, 0) + pod.requests.get(resource, 0)
            free += max(has - requested, 0) * 100 // max(has, 1)
        return 100 - free // len(RESOURCES)

    def score_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """The same for all nodes at once: each line works on a whole column."""
        free = np.zeros(len(nodes), dtype=np.int64)
        for resource in RESOURCES:
            has = nodes.allocatable[resource]
            requested = nodes.requested[resource] + pod.requests.get(resource, 0)
            free += np.maximum(has - requested, 0) * 100 // np.maximum(has, 1)
        return 100 - free // len(RESOURCES)

    def sign(self, pod: Pod) -> tuple[int, ...]:
        """Share results among pods with the same requests."""
        return tuple(pod.requests.get(resource, 0) for resource in RESOURCES)
