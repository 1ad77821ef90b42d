"""NodeResourcesAllocatable: prefer small or large nodes, independent of their pods."""

from collections.abc import Hashable

import numpy as np

from moorage.contrib.community.scaling import spread
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.contrib_args import MOST, NodeResourcesAllocatableArgs
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import DependsOn, ScorePlugin
from moorage.scheduler.framework.status import IntArray


class NodeResourcesAllocatable(ScorePlugin):
    """Score the weighted mean of the allocatable resources: less is better, or more in the mode Most.

    The best feasible node has 100, the worst 0. Nodes of the same size have 0.
    """

    Args = NodeResourcesAllocatableArgs
    depends_on = DependsOn.NODE
    _signs_template = True
    _normalizes_by_value = True

    def __init__(self, *, args: NodeResourcesAllocatableArgs | None = None) -> None:
        self._args = args or NodeResourcesAllocatableArgs()

    def sign(self, pod: Pod) -> Hashable:
        return ()

    def score_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        resources = self._args.resources
        total = np.zeros(len(nodes), dtype=np.int64)
        for resource in resources:
            total += resource.weight * nodes.allocatable[resource.name]
        weights = sum(resource.weight for resource in resources)
        mean: IntArray = total // weights  # neither is negative
        return mean if self._args.mode == MOST else -mean

    def normalize_scores(self, cycle: CycleState, pod: Pod, nodes: NodeTable, scores: IntArray) -> IntArray:
        return spread(scores, int(scores.min()), int(scores.max())) if len(scores) else scores
