"""Pod affinity terms, parsed once per distinct text and hashable, so that equal terms of many pods count as one.

The terms of the pods on nodes are counted per row: equal ones are one group.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import numpy as np

from moorage.api.affinity import Affinity, PodAffinity, PodAffinityTerm, PodAntiAffinity, WeightedPodAffinityTerm
from moorage.api.pod import Pod
from moorage.api.selectors import LabelMatcher, label_matcher
from moorage.errors import SelectorError
from moorage.framework.columns import Growing
from moorage.framework.status import IntArray
from moorage.lru import LRU, short_key
from moorage.state.change_log import ChangeLog
from moorage.state.domains import LOG_LENGTH
from moorage.state.selector_index import Namespaces, SelectorIndex

T = TypeVar("T")

MAX_PARSED: Final = 8192

# A group on more than one row in so many is kept as a column: its dictionary would take nearly as much memory.
DENSE_SHARE: Final = 32
DENSE_FLOOR: Final = 32

NO_LABELS: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """Which pods are meant, and within which domains; whose term it is no longer matters."""

    topology_key: str
    matcher: LabelMatcher
    namespaces: frozenset[str]
    namespace_matcher: LabelMatcher
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts = (self.topology_key, self.matcher, self.namespaces, self.namespace_matcher)
        object.__setattr__(self, "_hash", hash(parts))

    def __hash__(self) -> int:
        # Terms are looked up for every pod that comes or goes, and the nested hash costs more than the rest of that.
        return self._hash

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Return whether a pod with these labels, in a namespace with those, is meant."""
        if namespace not in self.namespaces and not self.namespace_matcher.matches(namespace_labels):
            return False
        return self.matcher.matches(labels)


class WeightedTerm(NamedTuple):
    """A preferred term; the weight of an anti-affinity term is negative."""

    term: AffinityTerm
    weight: int


@dataclass(frozen=True, slots=True, eq=False)
class PodTerms:
    """All affinity terms of a pod. A list in which one selector cannot be parsed counts as empty, as upstream.

    Pods of one template have the same object, so it can stand for the terms in a key without being gone through.
    """

    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred: tuple[WeightedTerm, ...] = ()
    problems: tuple[str, ...] = ()


NO_TERMS: Final = PodTerms()

_encoder: Final = msgspec.msgpack.Encoder(order="deterministic")
_parsed: Final[LRU[tuple[str, bytes], PodTerms]] = LRU(MAX_PARSED)


def affinity_terms(pod: Pod) -> PodTerms:
    """Return the terms of a pod, parsed once however many pods were made from its template."""
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    known: PodTerms | None = pod.__dict__.get("_affinity_terms")
    if known is None:
        key = (pod.namespace, short_key(_encoder.encode((affinity.pod_affinity, affinity.pod_anti_affinity))))
        known = _parsed.find(key)
        if known is None:
            known = _parse(pod.namespace, affinity)
            _parsed.put(key, known)
        pod.__dict__["_affinity_terms"] = known
    return known


def _parse(namespace: str, affinity: Affinity) -> PodTerms:
    near, away = affinity.pod_affinity or PodAffinity(), affinity.pod_anti_affinity or PodAntiAffinity()
    problems: list[str] = []

    def parse_all(what: str, parse: Callable[[Any], T], written: Iterable[Any]) -> tuple[T, ...]:
        try:
            return tuple(parse(item) for item in written)
        except SelectorError as error:
            problems.append(f"{what}: {error}")
            return ()

    def parse_term(written: PodAffinityTerm) -> AffinityTerm:
        return _parse_term(namespace, written)

    def liked(written: WeightedPodAffinityTerm) -> WeightedTerm:
        return WeightedTerm(parse_term(written.pod_affinity_term), written.weight)

    def disliked(written: WeightedPodAffinityTerm) -> WeightedTerm:
        return WeightedTerm(parse_term(written.pod_affinity_term), -written.weight)

    return PodTerms(
        parse_all("requiredAffinityTerms", parse_term, near.required),
        parse_all("requiredAntiAffinityTerms", parse_term, away.required),
        parse_all("preferredAffinityTerms", liked, near.preferred)
        + parse_all("preferredAntiAffinityTerms", disliked, away.preferred),
        tuple(problems),
    )


def _parse_term(namespace: str, written: PodAffinityTerm) -> AffinityTerm:
    if not written.namespaces and written.namespace_selector is None:
        namespaces = frozenset((namespace,))
    else:
        namespaces = frozenset(written.namespaces)
    return AffinityTerm(
        written.topology_key,
        label_matcher(written.label_selector),
        namespaces,
        label_matcher(written.namespace_selector),
    )


class TermGroup:
    """One distinct term with its weight, and how many pods have it on each row."""

    __slots__ = ("_column", "log", "rows", "term", "weight")

    def __init__(self, term: AffinityTerm, weight: int) -> None:
        self.term = term
        self.weight = weight
        self.rows: dict[int, int] = {}
        self.log = ChangeLog[int](LOG_LENGTH)
        """The row of every pod that came, and ``~row`` of every pod that left."""
        self._column: Growing | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no pod has the term."""
        return not self.rows

    def bump(self, row: int, step: int) -> None:
        """Count a pod more or less on a row."""
        count = self.rows.get(row, 0) + step
        if count:
            self.rows[row] = count
        else:
            del self.rows[row]
        if self._column is not None:
            self._column.reserve(row + 1)
            self._column.array[row] += step
        self.log.note(row if step > 0 else ~row)

    def add_to(self, totals: IntArray, weight: int) -> None:
        """Add the count of each row, times a weight, to a column as long as the node table."""
        size = len(totals)
        if len(self.rows) * DENSE_SHARE > max(size, DENSE_FLOOR * DENSE_SHARE):
            column = self._dense(size).view(size)
            totals += column if weight == 1 else weight * column
            return
        self._column = None
        for row, count in self.rows.items():
            totals[row] += weight * count

    def _dense(self, size: int) -> Growing:
        if self._column is None:
            self._column = Growing(np.int64, size)
            places = np.fromiter(self.rows.keys(), np.int64, len(self.rows))
            self._column.array[places] = np.fromiter(self.rows.values(), np.int64, len(self.rows))
        self._column.reserve(size)
        return self._column


class TermIndex:
    """All terms of one kind (required affinity, required anti-affinity, or preferred), grouped."""

    def __init__(self) -> None:
        self._groups: dict[tuple[AffinityTerm, int], TermGroup] = {}
        self._by_selector: SelectorIndex[TermGroup] = SelectorIndex()
        self.version = 0
        """Grows whenever a term appears, or the last pod that had it goes."""

    def __bool__(self) -> bool:
        return bool(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def bump(self, term: AffinityTerm, weight: int, row: int, step: int) -> None:
        """Count a pod that has this term more or less on a row."""
        group = self._groups.get((term, weight))
        if group is None:
            group = self._groups[term, weight] = TermGroup(term, weight)
            self._by_selector.add(group, _namespaces(term), term.matcher)
            self.version += 1
        group.bump(row, step)
        if group.is_empty:
            del self._groups[term, weight]
            self._by_selector.remove(group, _namespaces(term), term.matcher)
            self.version += 1

    def about(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> list[TermGroup]:
        """Return the terms that mean a pod with these labels, in a namespace with those."""
        return [
            group
            for group in self._by_selector.find(namespace, labels)
            if group.term.matches(namespace, labels, namespace_labels)
        ]

    def snapshot(self) -> dict[tuple[AffinityTerm, int], dict[int, int]]:
        """Return every term with its count per row, to compare two indexes."""
        return {key: dict(group.rows) for key, group in self._groups.items()}


def _namespaces(term: AffinityTerm) -> Namespaces:
    # Which namespaces a selector picks may change under a term, so a term that has one is filed for all of them.
    return term.namespaces if term.namespace_matcher.is_nothing else None
