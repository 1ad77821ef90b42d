"""Cached affinity rules: expanded terms and incremental counts for pods with equal terms and labels.

Pods of a template have the same terms, namespace and labels, so their rules are computed once, and updated only when
a namespace changes, a term appears or disappears, or counts were dropped.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import Final

import numpy as np

from moorage.common.caches import LRU, MAX_KEY_LABELS
from moorage.kube.api.affinity_terms import PodTerms
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import MANY, LabelMatcher
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import IntArray
from moorage.scheduler.plugins.inter_pod_affinity.filter import (
    IncomingTerm,
    NamespaceExpansion,
    RequiredRules,
    Tallies,
    TermsOfKey,
    combine,
    conjunction,
)
from moorage.scheduler.state.domains import DomainTally, LabelDomains, RowCounts, Sources, is_any_counted
from moorage.scheduler.state.pod_index import PodIndex, SelectorCount
from moorage.scheduler.state.selector_index import Namespaces

MAX_BYTES: Final = 64 << 20
BYTES_PER_ROW: Final = 24
MIN_TALLIES: Final = 16
MAX_TALLIES: Final = 1024
MAX_RULES: Final = 1024

Token = tuple[int, ...]
"""Versions of everything that rules depend on."""


class DomainScores:
    """Scores that pods add to their domains, by topology key."""

    def __init__(self, tallies: dict[str, DomainTally], domains: LabelDomains) -> None:
        self._tallies = tallies
        self._domains = domains
        self._nodes: NodeTable | None = None

    def refresh(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        for key, tally in self._tallies.items():
            tally.refresh(self._domains.of(nodes, key))

    @property
    def is_empty(self) -> bool:
        """Whether no pod adds to a score; as upstream, scores that cancel out do count."""
        return not is_any_counted(self._tallies.values())

    def at_node(self, labels: Mapping[str, str]) -> int:
        """Sum up the scores of a node's domains."""
        return sum(tally[labels.get(key)] for key, tally in self._tallies.items())

    def at_nodes(self, nodes: NodeTable) -> IntArray:
        """Sum up the scores of each node's domains."""
        is_of_cluster = self._nodes is not None and nodes.is_window_of(self._nodes)
        total: IntArray | None = None
        for key, tally in self._tallies.items():
            if is_of_cluster:
                score = tally.at(None if nodes.shows_all else nodes.rows)
            else:
                column = nodes.label(key)
                score = tally.table(column.values).take(column.codes)
            total = score if total is None else total + score
        return np.zeros(len(nodes), dtype=np.int64) if total is None else total


class CachedRules:
    """Required and preferred rules by namespace, labels and terms of the pod, over shared counts.

    A rule is stale when a namespace changed, a term appeared or disappeared, or counts were dropped.
    """

    def __init__(self, pods: PodIndex, namespaces: NamespaceExpansion, hard_weight: int) -> None:
        self._pods = pods
        self._namespaces = namespaces
        self._hard_weight = hard_weight
        self._domains = LabelDomains()
        self._tallies: LRU[tuple[Sources, str], DomainTally] = LRU(
            "affinity counts", MIN_TALLIES, on_drop=self._drop_rules
        )
        self._required: LRU[Hashable, tuple[Token, RequiredRules]] = LRU("required affinity rules", MAX_RULES)
        self._preferred: LRU[Hashable, tuple[Token, DomainScores]] = LRU("preferred affinity scores", MAX_RULES)

    def __len__(self) -> int:
        return len(self._tallies)

    @property
    def can_score(self) -> bool:
        """Whether a pod on a node has a term that scores nodes for other pods."""
        return bool(self._pods.preferred) or (self._hard_weight > 0 and bool(self._pods.affinity))

    def required(self, pod: Pod, terms: PodTerms, nodes: NodeTable) -> RequiredRules:
        """Return the rules of the pod's and of existing pods' required terms. Call ``refresh`` before use."""
        key = _cache_key(pod, terms)
        pods = self._pods
        state = (self._namespaces.version, nodes.label_keys_version, pods.anti_affinity.version, pods.generation)
        cached = self._required.find(key)
        if cached is None or cached[0] != state:
            cached = (state, self._new_rules(pod, terms, nodes))
            if len(pod.labels) <= MAX_KEY_LABELS and len(terms.affinity) <= MANY and len(terms.anti_affinity) <= MANY:
                self._required.put(key, cached)
        return cached[1]

    def preferred(self, pod: Pod, terms: PodTerms, nodes: NodeTable) -> DomainScores:
        """Return the scores of the pod's and of existing pods' preferred terms. Call ``refresh`` before use."""
        pods = self._pods
        key = _cache_key(pod, terms)
        state = (
            *(self._namespaces.version, nodes.label_keys_version),
            *(pods.affinity.version, pods.preferred.version, pods.generation),
        )
        cached = self._preferred.find(key)
        if cached is None or cached[0] != state:
            cached = (state, self._new_scores(pod, terms, nodes))
            if len(pod.labels) <= MAX_KEY_LABELS and len(terms.preferred) <= MANY:
                self._preferred.put(key, cached)
        return cached[1]

    def _new_rules(self, pod: Pod, terms: PodTerms, nodes: NodeTable) -> RequiredRules:
        namespace_labels = self._namespaces.find_labels(pod.namespace)
        affinity = self._namespaces.expand(terms.affinity)
        if len(affinity) > MANY:
            affinity = combine(affinity, nodes)
        anti_affinity: tuple[IncomingTerm | TermsOfKey, ...]
        anti_affinity, avoided = self._count_avoided(self._namespaces.expand(terms.anti_affinity), nodes)
        # A domain must have pods that match all affinity terms.
        matching_all = self._pods.count(*conjunction(affinity), terminating=True) if affinity else None
        affinity_keys = dict.fromkeys(term.topology_key for term in affinity)
        existing_anti_affinity = self._pods.anti_affinity.about(pod.namespace, pod.labels, namespace_labels)
        tallies = (
            self._by_key((key, matching_all, 1) for key in affinity_keys if matching_all is not None),
            avoided,
            # Existing pods may have any number of topology keys. Ignore keys that no node has.
            self._by_key(
                (group.term.topology_key, group, 1)
                for group in existing_anti_affinity
                if nodes.may_have_label(group.term.topology_key)
            ),
        )
        return RequiredRules(pod, affinity, anti_affinity, namespace_labels, tallies, self._domains)

    def _count_avoided(
        self, terms: tuple[IncomingTerm, ...], nodes: NodeTable
    ) -> tuple[tuple[IncomingTerm | TermsOfKey, ...], Tallies]:
        if len(terms) <= MANY:
            return terms, self._by_key((term.topology_key, self._count_matching(term), 1) for term in terms)
        by_key: defaultdict[str, list[IncomingTerm]] = defaultdict(list)
        for term in terms:
            if nodes.may_have_label(term.topology_key):
                by_key[term.topology_key].append(term)
        counts = self._pods.count_once({key: [term[1:] for term in group] for key, group in by_key.items()})
        combined = tuple([TermsOfKey(key, group, counts[key].by_class) for key, group in by_key.items()])
        return combined, {key: DomainTally(((count, 1),)) for key, count in counts.items()}

    def _new_scores(self, pod: Pod, terms: PodTerms, nodes: NodeTable) -> DomainScores:
        about = (pod.namespace, pod.labels, self._namespaces.find_labels(pod.namespace))
        expanded = self._namespaces.expand([term for term, _ in terms.preferred])
        own = list(zip(expanded, [weight for _, weight in terms.preferred], strict=True))
        groups = [(group, group.weight) for group in self._pods.preferred.about(*about)]
        if self._hard_weight > 0:
            groups += [(group, self._hard_weight) for group in self._pods.affinity.about(*about)]
        counts: list[tuple[str, RowCounts, int]] = [
            (group.term.topology_key, group, weight)
            for group, weight in groups
            if nodes.may_have_label(group.term.topology_key)
        ]
        if len(own) <= MANY:
            counts = [(term.topology_key, self._count_matching(term), weight) for term, weight in own] + counts
            return DomainScores(self._by_key(counts), self._domains)
        weighted: defaultdict[tuple[str, int], list[tuple[Namespaces, LabelMatcher]]] = defaultdict(list)
        for term, weight in own:
            if nodes.may_have_label(term.topology_key):
                weighted[term.topology_key, weight].append((term.namespaces, term.matcher))
        counts += [(key, count, weight) for (key, weight), count in self._pods.count_once(weighted).items()]
        return DomainScores(self._by_key(counts), self._domains)

    def _count_matching(self, term: IncomingTerm) -> SelectorCount:
        return self._pods.count(term.namespaces, term.matcher, terminating=True)

    def _by_key(self, counts: Iterable[tuple[str, RowCounts, int]]) -> Tallies:
        """Group weighted counts by topology key. Equal sums share a tally."""
        sources: defaultdict[str, list[tuple[RowCounts, int]]] = defaultdict(list)
        for key, source, weight in counts:
            sources[key].append((source, weight))
        return {key: self._tally(tuple(weighted), key) for key, weighted in sources.items()}

    def _tally(self, sources: Sources, key: str) -> DomainTally:
        tally = self._tallies.find((sources, key))
        if tally is None:
            tally = DomainTally(sources)
            affordable = MAX_BYTES // (BYTES_PER_ROW * self._pods.rows + 1)
            self._tallies.resize(max(MIN_TALLIES, min(affordable, MAX_TALLIES)))
            self._tallies.put((sources, key), tally)
        return tally

    def _drop_rules(self, key: Hashable, dropped: DomainTally) -> None:
        # Cached rules would keep the dropped tallies in memory; new rules reuse the remaining ones.
        self._required.clear()
        self._preferred.clear()


def _cache_key(pod: Pod, terms: PodTerms) -> Hashable:
    return terms, pod.metadata.namespace, frozenset(pod.metadata.labels.items())
