"""Numbers per topology domain: what inter-pod affinity and topology spread count before they look at nodes."""

import numpy as np

from moorage.framework.columns import Categorical, Vocabulary
from moorage.framework.status import BoolArray, IntArray

Labels = Categorical[str | None]


class DomainCounts:
    """A whole number for each value of a topology label; nodes without the label are in no domain.

    Clones are cheap, since preemption makes one per node it looks at: they share the table and keep only what they
    changed.

    >>> zones = Categorical.of(["a", "b", None, "a"])
    >>> counts = DomainCounts.sum_of(zones, np.array([1, 2, 4, 8]))
    >>> counts["a"], counts["b"], counts[None], counts["c"]
    (9, 2, 0, 0)
    """

    __slots__ = ("_changes", "_table", "_values", "total")

    def __init__(self, table: IntArray, values: Vocabulary[str | None], total: int) -> None:
        self._table = table
        self._values = values
        self._changes: dict[str, int] = {}
        self.total = total

    @classmethod
    def sum_of(cls, column: Labels, per_node: IntArray) -> "DomainCounts":
        """Add up a number of each node by domain."""
        # The sums are computed as floats, which are exact far beyond any number of pods.
        table = np.bincount(column.codes, weights=per_node, minlength=len(column.values)).astype(np.int64)
        nowhere = column.values.find(None)
        if nowhere is not None:
            table[nowhere] = 0
        return cls(table, column.values, int(table.sum()))

    @classmethod
    def none(cls) -> "DomainCounts":
        """Start with nothing counted anywhere."""
        return cls(np.zeros(0, dtype=np.int64), Vocabulary(), 0)

    def __getitem__(self, value: str | None) -> int:
        code = self._values.find(value)
        counted = 0 if code is None else int(self._table[code])
        return counted + self._changes.get(value, 0) if self._changes and value is not None else counted

    @property
    def is_zero(self) -> bool:
        """Whether no domain has a number other than 0."""
        return not self._table.any() and not any(self._changes.values())

    def is_changed(self, value: str) -> bool:
        """Tell whether a what-if touched a domain."""
        return value in self._changes

    def change(self, value: str, by: int) -> None:
        """Count more, or less, in one domain."""
        self._changes[value] = self._changes.get(value, 0) + by
        self.total += by

    def plus(self, code: int, by: int) -> "DomainCounts":
        """Return the counts with more, or less, in one domain, by its code; these stay as they are."""
        table = self._table.copy()
        table[code] += by
        return DomainCounts(table, self._values, self.total + by)

    def table(self, values: Vocabulary[str | None]) -> IntArray:
        """Return the number for each value of a vocabulary, to be gathered by code."""
        if values is not self._values:
            return np.fromiter((self[value] for value in values), dtype=np.int64, count=len(values))
        if not self._changes:
            return self._table
        table = self._table.copy()
        for value, by in self._changes.items():
            code = values.find(value)
            if code is not None:
                table[code] += by
        return table

    def at(self, column: Labels) -> IntArray:
        """Return the number for the domain of each node."""
        return self.table(column.values).take(column.codes)

    def positive_at(self, column: Labels) -> BoolArray:
        """Find the nodes in whose domain something is counted."""
        positive: BoolArray = np.greater(self.table(column.values), 0)
        return positive.take(column.codes)

    def clone(self) -> "DomainCounts":
        """Return a copy for a what-if."""
        copy = DomainCounts(self._table, self._values, self.total)
        copy._changes = dict(self._changes)
        return copy


def nodes_lacking(column: Labels) -> BoolArray | None:
    """Find the nodes without the label; ``None`` if all have it."""
    nowhere = column.values.find(None)
    if nowhere is None:
        return None
    lacking: BoolArray = np.equal(column.codes, nowhere)
    return lacking if lacking.any() else None
