"""Required terms of the incoming pod and of existing pods: the nodes that they exclude."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from moorage.kube.api.affinity_terms import NO_LABELS, AffinityTerm, affinity_terms
from moorage.kube.api.cluster import Namespace
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import MANY, LabelMatcher
from moorage.scheduler.framework.handle import Lister
from moorage.scheduler.framework.node_selection import any_of
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import BoolArray, Status, Verdict
from moorage.scheduler.state.domains import DomainCounts, DomainTally, LabelDomains, is_any_counted, nodes_lacking
from moorage.scheduler.state.selector_index import Namespaces


class IncomingTerm(NamedTuple):
    """A term of an incoming pod with its namespaces."""

    topology_key: str
    namespaces: Namespaces
    matcher: LabelMatcher

    def matches(self, pod: Pod) -> bool:
        return (self.namespaces is None or pod.namespace in self.namespaces) and self.matcher.matches(pod.labels)


class TermsOfKey(NamedTuple):
    """Many terms of an incoming pod with one topology key, and how many of them select each class of pods."""

    topology_key: str
    terms: Sequence[IncomingTerm]
    by_class: Mapping[tuple[str, frozenset[tuple[str, str]]], int]

    def matches(self, pod: Pod) -> int:
        count = self.by_class.get((pod.namespace, frozenset(pod.labels.items())))
        return sum(term.matches(pod) for term in self.terms) if count is None else count


class NamespaceExpansion:
    """Expands terms with the namespaces of the cluster."""

    def __init__(self, namespaces: Lister[Namespace]) -> None:
        self._namespaces = namespaces
        self._last: tuple[int, Sequence[AffinityTerm], tuple[IncomingTerm, ...]] = (-1, (), ())

    @property
    def version(self) -> int:
        """The version of the namespaces. It grows with every change."""
        return self._namespaces.version

    def expand(self, terms: Sequence[AffinityTerm]) -> tuple[IncomingTerm, ...]:
        # Most pods have one or two terms. Those of a pod with 40,000 are expanded once, not for each event.
        is_large = len(terms) > MANY
        if is_large and self._last[0] == self.version and self._last[1] is terms:
            return self._last[2]
        # Many terms may select among many namespaces.
        selected: dict[LabelMatcher, frozenset[str]] = {}
        expanded = tuple([self.expand_one(term, selected) for term in terms])
        if is_large:
            self._last = (self.version, terms, expanded)
        return expanded

    def expand_one(self, term: AffinityTerm, selected: dict[LabelMatcher, frozenset[str]]) -> IncomingTerm:
        """Expand one term. An empty namespace selector means all namespaces."""
        selector, namespaces = term.namespace_matcher, term.namespaces
        if not selector.is_nothing and not selector.is_everything:
            if selector not in selected:
                names = [item.name for item in self._namespaces.list() if selector.matches(item.labels)]
                selected[selector] = frozenset(names)
            namespaces |= selected[selector]
        return IncomingTerm(term.topology_key, None if selector.is_everything else namespaces, term.matcher)

    def find_labels(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace. Unknown namespaces have no labels."""
        obj = self._namespaces.get(namespace)
        return NO_LABELS if obj is None else obj.labels


def match_all(terms: Sequence[IncomingTerm], pod: Pod) -> bool:
    """Return whether all terms select the pod; False without terms."""
    return bool(terms) and all(term.matches(pod) for term in terms)


def combine(terms: Sequence[IncomingTerm], nodes: NodeTable) -> tuple[IncomingTerm, ...]:
    """Return equivalent required affinity terms, one for each topology key; a key that no node has decides alone."""
    keys = list(dict.fromkeys(term.topology_key for term in terms))
    absent = [key for key in keys if not nodes.may_have_label(key)]
    namespaces, matcher = conjunction(terms)
    return tuple([IncomingTerm(key, namespaces, matcher) for key in absent[:1] or keys])


def conjunction(terms: Sequence[IncomingTerm]) -> tuple[Namespaces, LabelMatcher]:
    """Combine terms to the namespaces and the matcher of the pods that all terms select."""
    if len(terms) == 1:
        return terms[0].namespaces, terms[0].matcher
    namespaces = [term.namespaces for term in terms if term.namespaces is not None]
    return (
        frozenset.intersection(*namespaces) if namespaces else None,
        LabelMatcher(
            tuple(requirement for term in terms for requirement in term.matcher.requirements),
            any(term.matcher.is_nothing for term in terms),
        ),
    )


AFFINITY_UNMET: Final = Status.unresolvable("node(s) didn't match pod affinity rules")
ANTI_AFFINITY_BROKEN: Final = Status.unschedulable("node(s) didn't match pod anti-affinity rules")
EXISTING_BROKEN: Final = Status.unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")


Tallies = dict[str, DomainTally]
"""A tally for each topology key of a term."""


class PairCounts:
    """Pods counted by topology key and the value of that label on their node."""

    __slots__ = ("by_key",)

    def __init__(self, by_key: dict[str, DomainCounts]) -> None:
        self.by_key = by_key

    @classmethod
    def of(cls, tallies: Tallies) -> "PairCounts":
        """Copy the current counts of tallies."""
        return cls({key: tally.snapshot() for key, tally in tallies.items()})

    @property
    def is_empty(self) -> bool:
        return all(counts.total == 0 for counts in self.by_key.values())

    def has(self, key: str, node: NodeInfo) -> bool:
        """Return whether a pod was counted in the node's domain of a key."""
        value = node.labels.get(key)
        counts = self.by_key.get(key)
        return value is not None and counts is not None and counts[value] > 0

    def has_any(self, node: NodeInfo) -> bool:
        """Return whether a pod was counted in one of the node's domains."""
        return any(self.has(key, node) for key in self.by_key)

    def change(self, key: str, node: NodeInfo, by: int) -> None:
        """Add ``by`` to the count of a node's domain."""
        value = node.labels.get(key)
        if value is not None:
            self.by_key.setdefault(key, DomainCounts.none()).change(value, by)

    def find_positive(self, nodes: NodeTable) -> BoolArray | None:
        """Find the nodes with a pod counted in one of their domains. Return ``None`` if no node has one."""
        return any_of(counts.mask_positive(nodes.label(key)) for key, counts in self.by_key.items() if counts.total)

    def clone(self) -> "PairCounts":
        return PairCounts({key: counts.clone() for key, counts in self.by_key.items()})


class AffinityWhatIf(Struct):
    """Modifiable counts of matching pods for add_pod and remove_pod, and the terms that select the pods."""

    affinity_terms: tuple[IncomingTerm, ...]
    anti_terms: tuple[IncomingTerm | TermsOfKey, ...]
    namespace_labels: Mapping[str, str]
    matches_itself: bool
    affinity: PairCounts
    anti: PairCounts
    existing_anti: PairCounts

    def clone(self) -> "AffinityWhatIf":
        affinity, anti, existing_anti = self.affinity.clone(), self.anti.clone(), self.existing_anti.clone()
        return replace(self, affinity=affinity, anti=anti, existing_anti=existing_anti)

    def change(self, incoming: Pod, existing: Pod, node: NodeInfo, by: int) -> None:
        """Update the counts for a pod that is added to a node or removed from it."""
        for term in affinity_terms(existing).anti_affinity:
            if term.matches(incoming.namespace, incoming.labels, self.namespace_labels):
                self.existing_anti.change(term.topology_key, node, by)
        if match_all(self.affinity_terms, existing):
            for key in self.affinity.by_key:
                self.affinity.change(key, node, by)
        for own in self.anti_terms:
            if count := own.matches(existing):
                self.anti.change(own.topology_key, node, by * count)

    def filter(self, node: NodeInfo) -> Status | None:
        keys = self.affinity.by_key if self.affinity_terms else ()
        if any(key not in node.labels for key in keys):
            return AFFINITY_UNMET
        if not all(self.affinity.has(key, node) for key in keys) and not self._is_first_of_its_kind:
            return AFFINITY_UNMET
        if self.anti_terms and self.anti.has_any(node):
            return ANTI_AFFINITY_BROKEN
        return EXISTING_BROKEN if self.existing_anti.has_any(node) else None

    @property
    def _is_first_of_its_kind(self) -> bool:
        # Otherwise the first pod of a group with affinity to itself could never be scheduled.
        return self.matches_itself and self.affinity.is_empty

    def filter_nodes(self, nodes: NodeTable) -> Verdict:
        """Filter every node of a window. Each gets the first reason that applies."""
        unmet: BoolArray | None = None
        if self.affinity_terms and self._is_first_of_its_kind:
            unmet = any_of(nodes_lacking(nodes.label(key)) for key in self.affinity.by_key)
        elif self.affinity_terms:
            unmet = any_of(~counts.mask_positive(nodes.label(key)) for key, counts in self.affinity.by_key.items())
        return _verdict(len(nodes), unmet, self.anti.find_positive(nodes), self.existing_anti.find_positive(nodes))


class RequiredRules:
    """Required terms evaluated against the current cluster: incremental tallies, and a verdict over all rows."""

    def __init__(
        self,
        pod: Pod,
        affinity_terms: tuple[IncomingTerm, ...],
        anti_terms: tuple[IncomingTerm | TermsOfKey, ...],
        namespace_labels: Mapping[str, str],
        tallies: tuple[Tallies, Tallies, Tallies],
        domains: LabelDomains,
    ) -> None:
        self._affinity_terms = affinity_terms
        self._anti_terms = anti_terms
        self._namespace_labels = namespace_labels
        self._matches_itself = match_all(affinity_terms, pod)
        self._affinity, self._anti, self._existing = tallies
        self._domains = domains
        self._tallies = [tally for kind in tallies for tally in kind.values()]
        keys = dict.fromkeys(key for kind in tallies for key in kind)
        self._by_key = [(key, [kind[key] for kind in tallies if key in kind]) for key in keys]
        self._nodes: NodeTable | None = None
        self._filtered: tuple[list[int], Verdict] | None = None

    def refresh(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        for key, tallies in self._by_key:
            domains = self._domains.of(nodes, key)
            for tally in tallies:
                tally.refresh(domains)

    @property
    def is_empty(self) -> bool:
        """Whether there are no terms, and no existing pod has a term that matches this pod."""
        return not (self._affinity_terms or self._anti_terms) and not is_any_counted(self._existing.values())

    def are_over(self, nodes: NodeTable) -> bool:
        """Return whether a window shows all rows of the cluster that the tallies follow."""
        return nodes.shows_all and self._nodes is not None and nodes.is_window_of(self._nodes)

    def verdict(self, size: int) -> Verdict:
        """Filter all rows. The verdict is cached until a count becomes zero or positive."""
        versions = [tally.positive_version for tally in self._tallies]
        if self._filtered is None or self._filtered[0] != versions:
            tallies = self._affinity.values()
            unmet: BoolArray | None = None
            if self._matches_itself and not is_any_counted(tallies):
                unmet = any_of(tally.rows_nowhere() for tally in tallies)
            elif tallies:
                unmet = any_of(~tally.positive_rows() for tally in tallies)
            self._filtered = (
                versions,
                _verdict(size, unmet, _rows_with_pods(self._anti), _rows_with_pods(self._existing)),
            )
        return self._filtered[1]

    def what_if(self) -> AffinityWhatIf:
        """Return modifiable counts."""
        return AffinityWhatIf(
            self._affinity_terms,
            self._anti_terms,
            self._namespace_labels,
            self._matches_itself,
            PairCounts.of(self._affinity),
            PairCounts.of(self._anti),
            PairCounts.of(self._existing),
        )


class AffinityState:
    """The filter's cycle state: the cached rules, and a copy of the counts after a change."""

    __slots__ = ("_is_changed", "_rules", "_what_if")

    def __init__(self, rules: RequiredRules) -> None:
        self._rules = rules
        self._what_if: AffinityWhatIf | None = None
        self._is_changed = False

    def clone(self) -> "AffinityState":
        copy = AffinityState(self._rules)
        copy._what_if = self._counts().clone()
        copy._is_changed = self._is_changed
        return copy

    def change(self, incoming: Pod, existing: Pod, node: NodeInfo, by: int) -> None:
        """Update the counts for a pod that is added to a node or removed from it."""
        self._is_changed = True
        self._counts().change(incoming, existing, node, by)

    def filter(self, node: NodeInfo) -> Status | None:
        return self._counts().filter(node)

    def filter_nodes(self, nodes: NodeTable) -> Verdict:
        """Filter every node of a window. Each gets the first reason that applies."""
        if not self._is_changed and self._rules.are_over(nodes):
            return self._rules.verdict(len(nodes))
        return self._counts().filter_nodes(nodes)

    def _counts(self) -> AffinityWhatIf:
        if self._what_if is None:
            self._what_if = self._rules.what_if()
        return self._what_if


def _rows_with_pods(tallies: Tallies) -> BoolArray | None:
    rows: BoolArray | None = None
    for tally in tallies.values():
        if tally.counted:
            rows = tally.positive_rows() if rows is None else rows | tally.positive_rows()
    return rows


def _verdict(size: int, *rejected: BoolArray | None) -> Verdict:
    """Combine the three reasons. Each node gets the first that applies."""
    rejections: list[tuple[BoolArray, Status]] = []
    decided: BoolArray | None = None
    for rows, status in zip(rejected, (AFFINITY_UNMET, ANTI_AFFINITY_BROKEN, EXISTING_BROKEN), strict=True):
        # Called for each pod with anti-affinity, so there are no calls of `but_not` and `any_of`.
        if rows is not None:
            rejections.append((rows if decided is None else rows & ~decided, status))
            decided = rows if decided is None else decided | rows
    return Verdict(size, tuple(rejections))
