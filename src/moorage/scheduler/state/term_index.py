"""The affinity terms of the pods on nodes, counted per row: equal ones are one group."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from moorage.kube.api.affinity_terms import AffinityTerm
from moorage.scheduler.framework.columns import Growing
from moorage.scheduler.framework.status import IntArray
from moorage.scheduler.state.domains import LOG_LENGTH
from moorage.scheduler.state.objects import ChangeLog
from moorage.scheduler.state.selector_index import Namespaces, SelectorIndex

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
        self.log = ChangeLog[int](LOG_LENGTH)
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
