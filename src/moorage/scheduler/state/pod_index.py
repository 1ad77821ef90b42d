"""Pods on nodes, counted by label selector, so that a selector costs one lookup per cycle.

Pods of the same namespace and labels are one class, and a selector is tested on classes. Each selector in use has a
count: a column of pods per row, updated with every added and removed pod. Counts are an LRU: the least recently used
are dropped when they take too much memory, and recomputed on the next use.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, TypeVar

import numpy as np

from moorage.common.caches import LRU
from moorage.kube.api.affinity_terms import AffinityTerm, PodTerms, affinity_terms
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import LabelMatcher
from moorage.scheduler.framework.columns import Growing
from moorage.scheduler.framework.status import IntArray
from moorage.scheduler.state.domains import LOG_LENGTH
from moorage.scheduler.state.label_bits import LabelBits
from moorage.scheduler.state.objects import ChangeLog
from moorage.scheduler.state.selector_index import Namespaces, Place, SelectorIndex, places

K = TypeVar("K", bound=Hashable)

# A group on more than one row in this number is a column: its dictionary would take nearly as much memory.
DENSE_SHARE: Final = 32
DENSE_FLOOR: Final = 32


class TermGroup:
    """One distinct term with its weight, and how many pods have it on each row."""

    __slots__ = ("_column", "log", "rows", "term", "weight")

    def __init__(self, term: AffinityTerm, weight: int) -> None:
        self.term = term
        self.weight = weight
        self.rows: dict[int, int] = {}
        self.log: ChangeLog[int] = ChangeLog(LOG_LENGTH)
        """The row of every added pod, and ``~row`` of every removed pod."""
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
            if self._column is None:
                self._column = Growing(np.int64, size)
                rows = np.fromiter(self.rows.keys(), np.int64, len(self.rows))
                self._column.array[rows] = np.fromiter(self.rows.values(), np.int64, len(self.rows))
            column = self._column.view(size)
            totals += column if weight == 1 else weight * column
            return
        self._column = None
        for row, count in self.rows.items():
            totals[row] += weight * count


class TermIndex:
    """All terms of the same kind (required affinity, required anti-affinity, or preferred), grouped."""

    def __init__(self) -> None:
        self._groups: dict[tuple[AffinityTerm, int], TermGroup] = {}
        self._by_selector: SelectorIndex[TermGroup] = SelectorIndex()
        self.topology_keys = Counter[str]()
        """The topology keys of the terms."""
        self.version = 0
        """Grows whenever a term appears, or the last pod with it disappears."""

    def __bool__(self) -> bool:
        return bool(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def bump(self, term: AffinityTerm, weight: int, row: int, step: int) -> None:
        """Count a pod that has this term more or less on a row."""
        group = self._groups.get((term, weight))
        if group is None:
            group = self._groups[term, weight] = TermGroup(term, weight)
            self._by_selector.add(group, term_namespaces(term), term.matcher)
            self.topology_keys[term.topology_key] += 1
            self.version += 1
        group.bump(row, step)
        if group.is_empty:
            del self._groups[term, weight]
            self._by_selector.remove(group, term_namespaces(term), term.matcher)
            self.topology_keys[term.topology_key] -= 1
            if not self.topology_keys[term.topology_key]:
                del self.topology_keys[term.topology_key]
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


def term_places(term: AffinityTerm) -> Iterator[Place]:
    """Return the places of a term's selector: the labels of each pod that matches the term have one of them."""
    return places(term_namespaces(term), term.matcher)


def term_namespaces(term: AffinityTerm) -> Namespaces:
    """Return the namespaces of a term, or ``None`` if it may select any."""
    # Which namespaces a selector picks may change under a term, so a term that has one is filed for all of them.
    return term.namespaces if term.namespace_matcher.is_nothing else None


MAX_BYTES: Final = 64 << 20
MIN_COUNTS: Final = 16
MAX_COUNTS: Final = 1024

ClassKey = tuple[str, frozenset[tuple[str, str]], bool]
"""Namespace, labels, and whether the pods are terminating. Labels are a set, since a dict's order means nothing."""

Question = tuple[Namespaces, LabelMatcher, bool]


class PodIndex:
    """Counts of pods and of their affinity terms per row. The cache keeps it in step with the node table.

    The index stores the class that each pod was counted in, so that removal is correct after the object has changed.

    >>> from moorage.kube.api.selectors import label_set_matcher
    >>> from moorage.testing import make_pod
    >>> index = PodIndex()
    >>> index.resize(2)
    >>> index.add(make_pod(labels={"app": "web"}), row=1)
    >>> index.count(frozenset({"default"}), label_set_matcher({"app": "web"}), terminating=True).per_row(2).tolist()
    [0, 1]
    """

    def __init__(self) -> None:
        self.affinity = TermIndex()
        self.anti_affinity = TermIndex()
        self.preferred = TermIndex()
        self.rows = 0
        """The number of rows of the node table."""
        self.generation = 0
        """Incremented when counts are dropped: dropped counts are not updated, so callers must repeat the lookup."""
        self._classes: dict[ClassKey, PodClass] = {}
        self._class_of: dict[str, PodClass] = {}
        self._terms_of: dict[str, PodTerms] = {}
        self._by_labels = ClassIndex()
        self._counts: LRU[Question, SelectorCount] = LRU("selector counts", MAX_COUNTS, on_drop=self._drop_count)
        self._by_selector: SelectorIndex[SelectorCount] = SelectorIndex()

    def resize(self, rows: int) -> None:
        """Follow the number of rows of the node table."""
        self.rows = rows
        self._counts.resize(max(MIN_COUNTS, min(MAX_BYTES // (8 * rows + 1), MAX_COUNTS)))

    def add(self, pod: Pod, row: int) -> None:
        """Count a pod on a row."""
        pods = self._find_class(pod)
        self._class_of[pod.metadata.uid] = pods
        pods.bump(row, 1)
        if pod.spec.affinity is not None:
            terms = self._terms_of[pod.metadata.uid] = affinity_terms(pod)
            self._bump_terms(terms, row, 1)

    def remove(self, pod: Pod, row: int) -> None:
        """Stop counting a pod."""
        pods = self._class_of.pop(pod.metadata.uid)
        pods.bump(row, -1)
        self._drop_if_empty(pods)
        terms = self._terms_of.pop(pod.metadata.uid, None)
        if terms is not None:
            self._bump_terms(terms, row, -1)

    def relabel(self, pod: Pod, row: int) -> None:
        """Count a changed pod; its labels or termination differ, but not its terms."""
        old_class, pods = self._class_of[pod.metadata.uid], self._find_class(pod)
        self._class_of[pod.metadata.uid] = pods
        old_class.move_to(pods, row)
        self._drop_if_empty(old_class)

    def move(self, pods: Iterable[Pod], source: int, target: int) -> None:
        """Move the pods of a row to the row of a removed node."""
        for pod in pods:
            pod_class = self._class_of[pod.metadata.uid]
            pod_class.bump(target, 1)
            pod_class.bump(source, -1)
            terms = self._terms_of.get(pod.metadata.uid)
            if terms is not None:
                self._bump_terms(terms, target, 1)
                self._bump_terms(terms, source, -1)

    def count(self, namespaces: Namespaces, matcher: LabelMatcher, *, terminating: bool) -> "SelectorCount":
        """Return the count of matching pods in namespaces (``None``: all); valid until :attr:`generation` grows."""
        question = (namespaces, matcher, terminating)
        count = self._counts.find(question)
        if count is None:
            count = SelectorCount(*question, self.rows)
            self._by_selector.add(count, namespaces, matcher)
            for pods in self._by_labels.find(namespaces, matcher):
                if count.selects(pods):
                    pods.counts = (*pods.counts, count)
                    count.add_pods(pods)
            self._counts.put(question, count)
        return count

    def count_once(self, groups: Mapping[K, Sequence[tuple[Namespaces, LabelMatcher]]]) -> "dict[K, FixedCount]":
        """Count the pods that each group of many selectors selects, once per selector. The counts follow no change."""
        classes = list(self._classes.values())
        bits = LabelBits([(pods.namespace, pods.labels) for pods in classes])
        return {name: FixedCount(classes, bits.count(questions), self.rows) for name, questions in groups.items()}

    def snapshot(self) -> dict[ClassKey, dict[int, int]]:
        """Return every class with its count per row, to compare two indexes."""
        return {key: dict(pods.rows) for key, pods in self._classes.items()}

    def _find_class(self, pod: Pod) -> "PodClass":
        metadata = pod.metadata
        key = metadata.namespace, frozenset(metadata.labels.items()), metadata.deletion_timestamp is not None
        pods = self._classes.get(key)
        if pods is None:
            pods = self._classes[key] = PodClass(key, metadata.labels)
            self._by_labels.add(pods)
            candidates = self._by_selector.find(pods.namespace, pods.labels)
            if candidates:
                pods.counts = tuple([count for count in candidates if count.selects(pods)])
        return pods

    def _drop_if_empty(self, pods: "PodClass") -> None:
        if not pods.rows:
            del self._classes[pods.key]
            self._by_labels.remove(pods)

    def _bump_terms(self, terms: PodTerms, row: int, step: int) -> None:
        for term in terms.affinity:
            self.affinity.bump(term, 1, row, step)
        for term in terms.anti_affinity:
            self.anti_affinity.bump(term, 1, row, step)
        for term, weight in terms.preferred:
            self.preferred.bump(term, weight, row, step)

    def _drop_count(self, question: Question, dropped: "SelectorCount") -> None:
        self.generation += 1
        self._by_selector.remove(dropped, dropped.namespaces, dropped.matcher)
        for pods in self._by_labels.find(dropped.namespaces, dropped.matcher):
            if dropped.selects(pods):
                pods.counts = tuple([count for count in pods.counts if count is not dropped])


class SelectorCount:
    """A selector in use, and how many of the pods it selects are on each row."""

    __slots__ = ("_column", "_pods", "log", "matcher", "namespaces", "terminating")

    def __init__(self, namespaces: Namespaces, matcher: LabelMatcher, terminating: bool, rows: int) -> None:
        self.namespaces = namespaces
        self.matcher = matcher
        self.terminating = terminating
        self.log = ChangeLog[int](LOG_LENGTH)
        """The row of every added pod, and ``~row`` of every removed pod."""
        self._column = Growing(np.int64, max(rows, 1))
        self._pods = 0

    @property
    def is_empty(self) -> bool:
        """Whether no pod is counted."""
        return not self._pods

    def selects(self, pods: "PodClass") -> bool:
        """Return whether pods of a class are counted."""
        if self.namespaces is not None and pods.namespace not in self.namespaces:
            return False
        return (self.terminating or not pods.is_terminating) and self.matcher.matches(pods.labels)

    def bump(self, row: int, step: int) -> None:
        """Count a pod more or less on a row."""
        if row >= len(self._column.array):
            self._column.reserve(row + 1)
        self._column.array[row] += step
        self._pods += step
        self.log.note(row if step > 0 else ~row)

    def add_pods(self, pods: "PodClass") -> None:
        """Count the pods of an existing class."""
        for row, count in pods.rows.items():
            self._column.array[row] += count
            self._pods += count

    def per_row(self, rows: int) -> IntArray:
        """Return the count of each row: a read-only view that follows added and removed pods."""
        return self._column.view(rows)

    def add_to(self, totals: IntArray, weight: int) -> None:
        """Add the count of each row, times a weight, to a column as long as the node table."""
        counts = self._column.view(len(totals))
        totals += counts if weight == 1 else weight * counts


class FixedCount:
    """Number of selections of the pods on each row by many selectors, valid for one attempt."""

    __slots__ = ("_column", "by_class", "log")

    def __init__(self, classes: "Sequence[PodClass]", selections: IntArray, rows: int) -> None:
        self.log = ChangeLog[int](LOG_LENGTH)
        self._column = np.zeros(rows, dtype=np.int64)
        self.by_class: dict[tuple[str, frozenset[tuple[str, str]]], int] = {}
        """The number of selectors that select a pod, by its namespace and labels."""
        for pods, count in zip(classes, selections.tolist(), strict=True):
            self.by_class[pods.key[:2]] = count
            if count:
                for row, number in pods.rows.items():
                    self._column[row] += number * count

    @property
    def is_empty(self) -> bool:
        """Whether no pod is counted."""
        return not self._column.any()

    def add_to(self, totals: IntArray, weight: int) -> None:
        """Add the count of each row, times a weight, to a column as long as the node table."""
        totals += weight * self._column[: len(totals)]


class PodClass:
    """Pods with equal labels: their number on each row, and the counts that include them."""

    __slots__ = ("counts", "key", "labels", "rows")

    def __init__(self, key: ClassKey, labels: Mapping[str, str]) -> None:
        self.key = key
        self.labels = labels
        self.rows: dict[int, int] = {}
        self.counts: tuple[SelectorCount, ...] = ()

    @property
    def namespace(self) -> str:
        """The namespace of the pods."""
        return self.key[0]

    @property
    def is_terminating(self) -> bool:
        """Whether the pods are terminating."""
        return self.key[2]

    def bump(self, row: int, step: int) -> None:
        """Count a pod more or less on a row."""
        self._step(row, step)
        for count in self.counts:
            count.bump(row, step)

    def move_to(self, target: "PodClass", row: int) -> None:
        """Count a pod in another class from now on. Counts that both are part of do not change."""
        self._step(row, -1)
        target._step(row, 1)
        for count in self.counts:
            if count not in target.counts:
                count.bump(row, -1)
        for count in target.counts:
            if count not in self.counts:
                count.bump(row, 1)

    def _step(self, row: int, step: int) -> None:
        count = self.rows.get(row, 0) + step
        if count:
            self.rows[row] = count
        else:
            del self.rows[row]


class ClassIndex:
    """Classes filed under each of their labels, so that a selector is tested only on classes that may match.

    StatefulSets and indexed Jobs make a class per pod, with labels no other class has: such a label leads straight to
    the class, without a set around it.
    """

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str, str], PodClass | set[PodClass]] = {}
        self._by_namespace: dict[str, set[PodClass]] = {}

    def add(self, pods: PodClass) -> None:
        """File a class under its labels."""
        self._by_namespace.setdefault(pods.namespace, set()).add(pods)
        for key, value in pods.key[1]:
            label = (pods.namespace, key, value)
            filed = self._by_label.get(label)
            if filed is None:
                self._by_label[label] = pods
            elif isinstance(filed, set):
                filed.add(pods)
            else:
                self._by_label[label] = {filed, pods}

    def remove(self, pods: PodClass) -> None:
        """Take a class out."""
        namespace = self._by_namespace[pods.namespace]
        namespace.discard(pods)
        if not namespace:
            del self._by_namespace[pods.namespace]
        for key, value in pods.key[1]:
            label = (pods.namespace, key, value)
            filed = self._by_label[label]
            if isinstance(filed, set) and len(filed) > 1:
                filed.discard(pods)
            else:
                del self._by_label[label]

    def find(self, namespaces: Namespaces, matcher: LabelMatcher) -> Iterator[PodClass]:
        """Go through the classes a selector may select in these namespaces, each once."""
        if matcher.is_nothing:
            return
        for namespace in tuple(self._by_namespace) if namespaces is None else namespaces:
            best = [self._by_namespace.get(namespace, set())]
            fewest = len(best[0])
            for requirement in matcher.requirements:
                if not fewest:
                    break
                if requirement.operator == "In":
                    classes = [self._with_label(namespace, requirement.key, value) for value in requirement.values]
                    if sum(map(len, classes)) < fewest:
                        best, fewest = classes, sum(map(len, classes))
            yield from chain.from_iterable(best)

    def _with_label(self, namespace: str, key: str, value: str) -> set[PodClass]:
        filed = self._by_label.get((namespace, key, value))
        if filed is None:
            return set()
        return filed if isinstance(filed, set) else {filed}
