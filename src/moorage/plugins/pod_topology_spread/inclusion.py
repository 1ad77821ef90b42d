"""Which nodes count for a constraint: its policies may leave out nodes the pod cannot run on anyway."""

from functools import lru_cache

from moorage.api.affinity import Taint
from moorage.api.pod import Pod
from moorage.api.selectors import NodeMatcher, NodeSelector, NodeTermMatcher, Requirement, node_matcher
from moorage.framework.masks import all_of
from moorage.framework.node_selection import matching_nodes, nodes_matching_term
from moorage.framework.nodeinfo import NodeInfo
from moorage.framework.nodetable import NodeTable
from moorage.framework.status import BoolArray
from moorage.plugins.pod_topology_spread.constraints import Constraint


class Inclusion:
    """What one pod's node selector, required node affinity and tolerations say about nodes."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        spec = pod.spec
        self._selector = _by_labels(tuple(spec.node_selector.items())) if spec.node_selector else None
        affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        required = affinity.required if affinity is not None else None
        self._required = _parse(required) if required is not None else None

    def includes(self, constraint: Constraint, node: NodeInfo) -> bool:
        """Tell whether a node counts."""
        if constraint.honors_affinity and not self._matches(node):
            return False
        return not constraint.honors_taints or self._tolerates_all(node.taints)

    def included(self, constraint: Constraint, nodes: NodeTable) -> BoolArray | None:
        """Find the nodes that count; ``None`` means all."""
        selected = required = tolerated = None
        if constraint.honors_affinity:
            selected = None if self._selector is None else nodes_matching_term(self._selector, nodes)
            required = None if self._required is None else matching_nodes(self._required, nodes)
        if constraint.honors_taints:
            tolerated = nodes.taints.where(self._tolerates_all)
        return all_of((selected, required, tolerated))

    def _matches(self, node: NodeInfo) -> bool:
        if self._selector is not None and not self._selector.matches(node.labels, node.name):
            return False
        return self._required is None or self._required.matches(node.labels, node.name)

    def _tolerates_all(self, taints: tuple[Taint, ...]) -> bool:
        return all(not taint.keeps_pods_off or self._pod.tolerates(taint) for taint in taints)


@lru_cache(maxsize=4096)
def _by_labels(labels: tuple[tuple[str, str], ...]) -> NodeTermMatcher:
    return NodeTermMatcher(tuple(Requirement(key, "In", frozenset((value,))) for key, value in labels))


@lru_cache(maxsize=4096)
def _parse(selector: NodeSelector) -> NodeMatcher:
    return node_matcher(selector)
