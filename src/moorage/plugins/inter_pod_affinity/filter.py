"""Required terms: which nodes the incoming pod's own rule out, and which those of pods already there do."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from moorage.api.pod import Pod
from moorage.framework.affinity_terms import affinity_terms
from moorage.framework.domains import DomainCounts, nodes_lacking
from moorage.framework.masks import any_of, but_not
from moorage.framework.nodeinfo import NodeInfo
from moorage.framework.nodetable import NodeTable
from moorage.framework.pod_index import PodIndex
from moorage.framework.status import BoolArray, IntArray, Status, Verdict
from moorage.plugins.inter_pod_affinity.terms import IncomingTerm, conjunction, match_all

AFFINITY_UNMET: Final = Status.unresolvable("node(s) didn't match pod affinity rules")
ANTI_AFFINITY_BROKEN: Final = Status.unschedulable("node(s) didn't match pod anti-affinity rules")
EXISTING_BROKEN: Final = Status.unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")


class PairCounts:
    """Pods counted by topology key and the value of that label on their node."""

    __slots__ = ("by_key",)

    def __init__(self, by_key: dict[str, DomainCounts]) -> None:
        self.by_key = by_key

    @classmethod
    def sum_of(cls, per_node: Mapping[str, IntArray], nodes: NodeTable) -> "PairCounts":
        """Add up a number of each node by key and domain."""
        return cls({key: DomainCounts.sum_of(nodes.label(key), counts) for key, counts in per_node.items()})

    @property
    def is_empty(self) -> bool:
        """Whether no pod was counted anywhere."""
        return all(counts.total == 0 for counts in self.by_key.values())

    def has(self, key: str, node: NodeInfo) -> bool:
        """Tell whether a pod was counted in the node's domain of a key."""
        value = node.labels.get(key)
        counts = self.by_key.get(key)
        return value is not None and counts is not None and counts[value] > 0

    def has_any(self, node: NodeInfo) -> bool:
        """Tell whether a pod was counted in one of the node's domains."""
        return any(self.has(key, node) for key in self.by_key)

    def change(self, key: str, node: NodeInfo, by: int) -> None:
        """Count a pod more or less on a node."""
        value = node.labels.get(key)
        if value is not None:
            self.by_key.setdefault(key, DomainCounts.none()).change(value, by)

    def found_at(self, nodes: NodeTable) -> BoolArray | None:
        """Find the nodes with a pod counted in one of their domains; ``None`` if there are none."""
        return any_of(counts.positive_at(nodes.label(key)) for key, counts in self.by_key.items() if counts.total)

    def clone(self) -> "PairCounts":
        """Return a copy for a what-if."""
        return PairCounts({key: counts.clone() for key, counts in self.by_key.items()})


class AffinityState(Struct):
    """What the filter needs to know of the cluster: three counts, and the terms that say what they count."""

    affinity_terms: tuple[IncomingTerm, ...]
    anti_terms: tuple[IncomingTerm, ...]
    namespace_labels: Mapping[str, str]
    matches_itself: bool
    affinity: PairCounts
    anti: PairCounts
    existing_anti: PairCounts

    def clone(self) -> "AffinityState":
        """Return a copy for a what-if."""
        return AffinityState(
            self.affinity_terms,
            self.anti_terms,
            self.namespace_labels,
            self.matches_itself,
            self.affinity.clone(),
            self.anti.clone(),
            self.existing_anti.clone(),
        )

    def change(self, incoming: Pod, other: Pod, node: NodeInfo, by: int) -> None:
        """Follow a what-if in which another pod is put on a node or taken off it."""
        for term in affinity_terms(other).anti_affinity:
            if term.matches(incoming.namespace, incoming.labels, self.namespace_labels):
                self.existing_anti.change(term.topology_key, node, by)
        if match_all(self.affinity_terms, other):
            for key in self.affinity.by_key:
                self.affinity.change(key, node, by)
        for own in self.anti_terms:
            if own.matches(other):
                self.anti.change(own.topology_key, node, by)

    def judge(self, node: NodeInfo) -> Status | None:
        """Judge one node."""
        if not self._meets_affinity(node):
            return AFFINITY_UNMET
        if self.anti_terms and self.anti.has_any(node):
            return ANTI_AFFINITY_BROKEN
        return EXISTING_BROKEN if self.existing_anti.has_any(node) else None

    def _meets_affinity(self, node: NodeInfo) -> bool:
        if not self.affinity_terms:
            return True
        if any(key not in node.labels for key in self.affinity.by_key):
            return False
        if all(self.affinity.has(key, node) for key in self.affinity.by_key):
            return True
        return self._is_first_of_its_kind

    @property
    def _is_first_of_its_kind(self) -> bool:
        # Otherwise the first pod of a group that wants to be together could never be placed.
        return self.matches_itself and self.affinity.is_empty

    def judge_nodes(self, nodes: NodeTable) -> Verdict:
        """Judge every node of a window; each gets the first reason that applies."""
        rejections: list[tuple[BoolArray, Status]] = []
        decided: BoolArray | None = None
        for found, status in (
            (self._unmet_affinity(nodes) if self.affinity_terms else None, AFFINITY_UNMET),
            (self.anti.found_at(nodes), ANTI_AFFINITY_BROKEN),
            (self.existing_anti.found_at(nodes), EXISTING_BROKEN),
        ):
            if found is not None:
                rejections.append((but_not(found, decided), status))
                decided = any_of((decided, found))
        return Verdict(len(nodes), tuple(rejections))

    def _unmet_affinity(self, nodes: NodeTable) -> BoolArray | None:
        columns = {key: nodes.label(key) for key in self.affinity.by_key}
        if self._is_first_of_its_kind:
            return any_of(nodes_lacking(column) for column in columns.values())
        return any_of(~counts.positive_at(columns[key]) for key, counts in self.affinity.by_key.items())


def count_affinity(terms: tuple[IncomingTerm, ...], pods: PodIndex, nodes: NodeTable) -> PairCounts:
    """Count the pods that all terms mean, by each of the terms' keys."""
    if not terms:
        return PairCounts({})
    namespaces, matcher = conjunction(terms)
    counts = pods.counts(namespaces, matcher, terminating=True)
    return PairCounts.sum_of({term.topology_key: counts for term in terms}, nodes)


def count_anti_affinity(terms: tuple[IncomingTerm, ...], pods: PodIndex, nodes: NodeTable) -> PairCounts:
    """Count the pods that any of the terms means, by that term's key."""
    per_node: dict[str, IntArray] = {}
    for key, namespaces, matcher in terms:
        counts = pods.counts(namespaces, matcher, terminating=True)
        per_node[key] = per_node[key] + counts if key in per_node else counts
    return PairCounts.sum_of(per_node, nodes)
