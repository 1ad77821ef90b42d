"""How full a part of the cluster would be with a group in it: the fuller the better, whatever holds for nodes."""

from collections import Counter
from collections.abc import Iterable

from moorage.api.requests import CPU, MEMORY, is_scalar
from moorage.framework.groups import Placement
from moorage.framework.status import MAX_NODE_SCORE


def fullness(placement: Placement, weights: Iterable[tuple[str, int]]) -> int:
    """Return the weighted mean, over the resources that count, of the percentage that would be taken."""
    asked: Counter[str] = Counter()
    for proposal in placement.proposals:
        asked.update(proposal.pod.scoring_requests)
    nodes = placement.nodes
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
