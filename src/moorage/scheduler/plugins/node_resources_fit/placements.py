"""How full a part of the cluster would be with a group in it: the fuller the better, whatever holds for nodes."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from moorage.kube.api.requests import CPU, MEMORY, is_scalar
from moorage.scheduler.framework.groups import Placement, Proposal
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import MAX_NODE_SCORE, IntArray


def fullness(placements: Sequence[Placement], weights: Sequence[tuple[str, int]]) -> IntArray:
    """Return the weighted mean, over the resources that count, of the percentage that would be taken."""
    # Where places are counted, parts of the cluster that take as many pods share one tuple of them.
    asked = {id(placement.proposals): placement.proposals for placement in placements}
    sums = {key: _asked(proposals) for key, proposals in asked.items()}
    scores = [_fullness(placement.nodes, sums[id(placement.proposals)], weights) for placement in placements]
    return np.array(scores, dtype=np.int64)


def _asked(proposals: Iterable[Proposal]) -> Counter[str]:
    asked: Counter[str] = Counter()
    for proposal in proposals:
        asked.update(proposal.pod.scoring_requests)
    return asked


def _fullness(nodes: NodeTable, asked: Counter[str], weights: Iterable[tuple[str, int]]) -> int:
    total = weighed = 0
    for resource, weight in weights:
        offered = nodes.allocatable[resource]
        capacity = int(offered.sum())
        if not capacity or (is_scalar(resource) and not asked[resource]):
            continue
        taken = (nodes.nonzero_requested if resource in (CPU, MEMORY) else nodes.requested)[resource]
        # What pods take of a resource that their node does not have counts for nothing.
        used = int(taken[offered > 0].sum()) + asked[resource]
        total += weight * (min(used, capacity) * MAX_NODE_SCORE // capacity)
        weighed += weight
    return total // weighed if weighed else 0
