"""Classes of pods that no selector can tell apart, filed by their labels."""

from collections.abc import Iterator, Mapping

import numpy as np

from moorage.api.selectors import LabelMatcher
from moorage.framework.columns import Growing
from moorage.framework.status import IntArray
from moorage.state.selector_index import Namespaces
from moorage.state.tallies import Steps


class Standing:
    """A selector in use, and how many of the pods it selects are on each row."""

    __slots__ = ("_pods", "column", "matcher", "namespaces", "steps", "terminating")

    def __init__(self, namespaces: Namespaces, matcher: LabelMatcher, terminating: bool, rows: int) -> None:
        self.namespaces = namespaces
        self.matcher = matcher
        self.terminating = terminating
        self.column = Growing(np.int64, max(rows, 1))
        self._pods = 0
        self.steps = Steps()

    @property
    def is_empty(self) -> bool:
        """Whether no pod is counted."""
        return not self._pods

    def selects(self, pods: "PodClass") -> bool:
        """Tell whether pods of a class are counted; only asked of classes in the right namespaces."""
        return (self.terminating or not pods.terminating) and self.matcher.matches(pods.labels)

    def bump(self, row: int, step: int) -> None:
        """Count a pod more or less on a row."""
        if row >= len(self.column.array):
            self.column.reserve(row + 1)
        self.column.array[row] += step
        self._pods += step
        self.steps.position += 1
        self.steps.latest.append(row if step > 0 else ~row)

    def take_in(self, pods: "PodClass") -> None:
        """Count the pods of a class that is there already."""
        for row, count in pods.rows.items():
            self.column.array[row] += count
            self._pods += count

    def add_to(self, totals: IntArray, weight: int) -> None:
        """Add the count of each row, times a weight, to a column as long as the node table."""
        counts = self.column.view(len(totals))
        totals += counts if weight == 1 else weight * counts


class PodClass:
    """Pods of one namespace and one set of labels: how many on each row, and the standing counts they are part of."""

    __slots__ = ("labels", "namespace", "rows", "standing", "terminating")

    def __init__(self, namespace: str, labels: Mapping[str, str], terminating: bool) -> None:
        self.namespace = namespace
        self.labels = labels
        self.terminating = terminating
        self.rows: dict[int, int] = {}
        self.standing: tuple[Standing, ...] = ()

    def bump(self, row: int, step: int) -> None:
        """Count a pod more or less on a row."""
        self._step(row, step)
        for standing in self.standing:
            standing.bump(row, step)

    def pass_on(self, row: int, heir: "PodClass") -> None:
        """Count a pod in another class from now on; counts that both are part of do not change."""
        self._step(row, -1)
        heir._step(row, 1)
        for standing in self.standing:
            if standing not in heir.standing:
                standing.bump(row, -1)
        for standing in heir.standing:
            if standing not in self.standing:
                standing.bump(row, 1)

    def _step(self, row: int, step: int) -> None:
        count = self.rows.get(row, 0) + step
        if count:
            self.rows[row] = count
        else:
            del self.rows[row]


class ClassIndex:
    """Classes filed under each of their labels, so that a selector is asked only where it has a chance.

    StatefulSets and indexed Jobs make a class per pod, with labels no other class has: such a label leads straight to
    the class, without a set around it.
    """

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str, str], PodClass | set[PodClass]] = {}
        self._by_namespace: dict[str, set[PodClass]] = {}

    def add(self, pods: PodClass) -> None:
        """File a class under its labels."""
        self._by_namespace.setdefault(pods.namespace, set()).add(pods)
        for key, value in pods.labels.items():
            place = (pods.namespace, key, value)
            filed = self._by_label.get(place)
            if filed is None:
                self._by_label[place] = pods
            elif isinstance(filed, set):
                filed.add(pods)
            else:
                self._by_label[place] = {filed, pods}

    def remove(self, pods: PodClass) -> None:
        """Take a class out."""
        namespace = self._by_namespace[pods.namespace]
        namespace.discard(pods)
        if not namespace:
            del self._by_namespace[pods.namespace]
        for key, value in pods.labels.items():
            place = (pods.namespace, key, value)
            filed = self._by_label[place]
            if isinstance(filed, set) and len(filed) > 1:
                filed.discard(pods)
            else:
                del self._by_label[place]

    def find(self, namespaces: Namespaces, matcher: LabelMatcher) -> Iterator[PodClass]:
        """Go through the classes a selector may select in these namespaces, each once."""
        if matcher.is_nothing:
            return
        for namespace in tuple(self._by_namespace) if namespaces is None else namespaces:
            yield from self._find(namespace, matcher)

    def _find(self, namespace: str, matcher: LabelMatcher) -> Iterator[PodClass]:
        best = [self._by_namespace.get(namespace, set())]
        fewest = len(best[0])
        for requirement in matcher.requirements:
            if requirement.operator == "In":
                chance = [self._with_label(namespace, requirement.key, value) for value in requirement.values]
                if sum(map(len, chance)) < fewest:
                    best, fewest = chance, sum(map(len, chance))
        return (pods for classes in best for pods in classes)

    def _with_label(self, namespace: str, key: str, value: str) -> set[PodClass]:
        filed = self._by_label.get((namespace, key, value))
        if filed is None:
            return set()
        return filed if isinstance(filed, set) else {filed}
