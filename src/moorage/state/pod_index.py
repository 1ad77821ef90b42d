"""Pods on nodes, counted by what is asked of their labels, so that a selector costs one look-up per cycle.

Pods of the same namespace and labels are one class, and a selector is tested on classes. Each selector in use has a
standing count: a column of pods per row that every pod's coming and going keeps true. Those not asked for longest are
dropped when they take too much memory, and computed again when they are asked for.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from moorage.api.pod import Pod
from moorage.api.selectors import LabelMatcher
from moorage.framework.status import IntArray
from moorage.state.affinity_terms import affinity_terms
from moorage.state.pod_classes import ClassIndex, PodClass, Standing
from moorage.state.selector_index import Namespaces, SelectorIndex
from moorage.state.term_index import TermIndex

MOST_BYTES: Final = 64 << 20
FEWEST_STANDING: Final = 16
MOST_STANDING: Final = 4096

ClassKey = tuple[str, tuple[tuple[str, str], ...], bool]
Question = tuple[Namespaces, LabelMatcher, bool]


class PodIndex:
    """Counts of pods and of their affinity terms per row; the cache keeps it in step with the node table.

    >>> from moorage.api.selectors import label_set_matcher
    >>> from moorage.testing import make_pod
    >>> index = PodIndex()
    >>> index.resize(2)
    >>> index.add(make_pod(labels={"app": "web"}), row=1)
    >>> index.counts(frozenset({"default"}), label_set_matcher({"app": "web"}), terminating=True).tolist()
    [0, 1]
    """

    def __init__(self) -> None:
        self.affinity = TermIndex()
        self.anti_affinity = TermIndex()
        self.preferred = TermIndex()
        self._rows = 0
        self._classes: dict[ClassKey, PodClass] = {}
        self._by_labels = ClassIndex()
        self._standing: OrderedDict[Question, Standing] = OrderedDict()
        self._by_selector: SelectorIndex[Standing] = SelectorIndex()
        self.dropped = 0
        """How many standing counts were given up: they are no longer true, whoever still holds one."""

    @property
    def rows(self) -> int:
        """How many rows the node table has."""
        return self._rows

    def resize(self, rows: int) -> None:
        """Follow the number of rows of the node table."""
        self._rows = rows

    def add(self, pod: Pod, row: int) -> None:
        """Count a pod on a row."""
        self._class_of(pod).bump(row, 1)
        if pod.spec.affinity is not None:
            terms = affinity_terms(pod)
            for term in terms.affinity:
                self.affinity.add(term, 1, row)
            for term in terms.anti_affinity:
                self.anti_affinity.add(term, 1, row)
            for term, weight in terms.preferred:
                self.preferred.add(term, weight, row)

    def remove(self, pod: Pod, row: int) -> None:
        """Stop counting a pod."""
        key = _class_key(pod)
        self._classes[key].bump(row, -1)
        self._drop_if_empty(key)
        if pod.spec.affinity is not None:
            terms = affinity_terms(pod)
            for term in terms.affinity:
                self.affinity.remove(term, 1, row)
            for term in terms.anti_affinity:
                self.anti_affinity.remove(term, 1, row)
            for term, weight in terms.preferred:
                self.preferred.remove(term, weight, row)

    def relabel(self, known: Pod, pod: Pod, row: int) -> None:
        """Count a pod as a version of it that differs in labels, or in being terminated, but not in its terms."""
        key = _class_key(known)
        self._classes[key].pass_on(row, self._class_of(pod))
        self._drop_if_empty(key)

    def move(self, pods: Iterable[Pod], source: int, target: int) -> None:
        """Follow a row that took the place of one that went, with the pods on it."""
        for pod in pods:
            self.add(pod, target)
            self.remove(pod, source)

    def counts(self, namespaces: Namespaces, matcher: LabelMatcher, *, terminating: bool) -> IntArray:
        """Count per row the pods of these namespaces (``None``: all) that match; terminating ones on demand.

        The answer is a read-only view that is true until the next pod comes or goes.
        """
        return self.standing(namespaces, matcher, terminating=terminating).column.view(self._rows)

    def standing(self, namespaces: Namespaces, matcher: LabelMatcher, *, terminating: bool) -> Standing:
        """Return the same count with its latest changes; it stays true until :attr:`dropped` grows."""
        question = (namespaces, matcher, terminating)
        standing = self._standing.get(question)
        if standing is None:
            standing = self._stand(question)
        else:
            self._standing.move_to_end(question)
        return standing

    def snapshot(self) -> dict[ClassKey, dict[int, int]]:
        """Return every class with its count per row, to compare two indexes."""
        return {key: dict(pods.rows) for key, pods in self._classes.items()}

    def _class_of(self, pod: Pod) -> PodClass:
        key = _class_key(pod)
        pods = self._classes.get(key)
        if pods is None:
            pods = self._classes[key] = PodClass(pod.namespace, pod.labels, pod.is_terminating)
            self._by_labels.add(pods)
            candidates = self._by_selector.find(pods.namespace, pods.labels)
            if candidates:
                pods.standing = tuple([standing for standing in candidates if standing.selects(pods)])
        return pods

    def _drop_if_empty(self, key: ClassKey) -> None:
        if not self._classes[key].rows:
            self._by_labels.remove(self._classes.pop(key))

    def _stand(self, question: Question) -> Standing:
        affordable = MOST_BYTES // (8 * self._rows + 1)
        while len(self._standing) >= max(FEWEST_STANDING, min(affordable, MOST_STANDING)):
            self._drop_oldest()
        standing = self._standing[question] = Standing(*question, self._rows)
        self._by_selector.add(standing, standing.namespaces, standing.matcher)
        for pods in self._by_labels.find(standing.namespaces, standing.matcher):
            if standing.selects(pods):
                pods.standing = (*pods.standing, standing)
                standing.take_in(pods)
        return standing

    def _drop_oldest(self) -> None:
        _, oldest = self._standing.popitem(last=False)
        self.dropped += 1
        self._by_selector.remove(oldest, oldest.namespaces, oldest.matcher)
        for pods in self._by_labels.find(oldest.namespaces, oldest.matcher):
            if oldest.selects(pods):
                pods.standing = tuple([standing for standing in pods.standing if standing is not oldest])


def _class_key(pod: Pod) -> ClassKey:
    metadata = pod.metadata
    return metadata.namespace, tuple(metadata.labels.items()), metadata.deletion_timestamp is not None
