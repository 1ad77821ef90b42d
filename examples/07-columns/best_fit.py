"""A score in NumPy: prefer nodes with the least free capacity, to keep large gaps for large pods."""

import numpy as np

from moorage import CycleState, DependsOn, IntArray, NodeInfo, NodeTable, Pod, ScorePlugin

RESOURCES = ("cpu", "memory")


class BestFit(ScorePlugin):
    """Score 100 minus the free percentage after placing the pod, averaged over CPU and memory."""

    depends_on = DependsOn.REQUESTS

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Score one node: the reference, also used for single nodes."""
        free = 0
        for resource in RESOURCES:
            has = node.allocatable.get(resource, 0)
            requested = node.requested.get(resource, 0) + pod.requests.get(resource, 0)
            free += max(has - requested, 0) * 100 // max(has, 1)
        return 100 - free // len(RESOURCES)

    def score_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """Score all nodes together: each line processes a column."""
        free = np.zeros(len(nodes), dtype=np.int64)
        for resource in RESOURCES:
            has = nodes.allocatable[resource]
            requested = nodes.requested[resource] + pod.requests.get(resource, 0)
            free += np.maximum(has - requested, 0) * 100 // np.maximum(has, 1)
        return 100 - free // len(RESOURCES)

    def sign(self, pod: Pod) -> tuple[int, ...]:
        """Share results among pods with the same requests."""
        return tuple(pod.requests.get(resource, 0) for resource in RESOURCES)
