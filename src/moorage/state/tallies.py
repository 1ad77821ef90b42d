"""Pods counted by topology domain, kept true by the pods that come and go instead of counted anew in every cycle.

What is counted per row (by a selector, or by an affinity term) writes down its latest steps. A tally sums such counts
up by domain; when it is asked again, it follows the steps since the last time, or counts anew if they are too many.
"""

from collections.abc import Iterable
from typing import Final, Protocol

import numpy as np

from moorage.framework.columns import CodeArray
from moorage.framework.status import BoolArray, IntArray
from moorage.state.change_log import ChangeLog
from moorage.state.domains import DomainCounts, Labels, nodes_lacking

MAX_STEPS: Final = 128
"""Following more steps than this takes longer than counting the pods of a few thousand rows."""

LOG_LENGTH: Final = 2 * MAX_STEPS
"""What a log of steps may hold; at least half of that is there to be followed."""


class RowCounts(Protocol):
    """Pods counted per row."""

    @property
    def is_empty(self) -> bool:
        """Whether there are none on any row."""
        ...

    @property
    def log(self) -> ChangeLog[int]:
        """The row of every pod that came, and ``~row`` of every pod that left."""
        ...

    def add_to(self, totals: IntArray, weight: int) -> None:
        """Add the count of each row, times a weight, to a column as long as the node table."""
        ...


Sources = tuple[tuple[RowCounts, int], ...]


class DomainTally:
    """Some counts, each with a weight, summed up by the domains of one topology key."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._positions: list[int] = []
        self._column: Labels | None = None
        self._codes: CodeArray
        self._nowhere: int | None
        self._is_host: BoolArray
        self._are_hosts = False
        self._table: IntArray
        self._sums: IntArray | None = None
        self._positive: BoolArray | None = None
        self._stale: dict[int, int] = {}
        self._crossed: dict[int, int] = {}
        self.counted = 0
        """How many pods are counted in some domain, whatever they weigh."""
        self.version = 0
        """Grows whenever other rows have a sum above 0, or rows other domains."""

    def refresh(self, column: Labels) -> None:
        """Bring the sums up to date, over the values that the nodes have of the key."""
        if column is not self._column:
            self._count_anew(column)
            return
        for place, (source, weight) in enumerate(self._sources):
            known = self._positions[place]
            if source.log.position != known:
                steps = source.log.since(known)
                if steps is None:
                    self._count_anew(column)
                    return
                self._follow(steps, weight)
                self._positions[place] = source.log.position

    def at(self, rows: IntArray | None) -> IntArray:
        """Return the sum of the domain of each of some rows (``None``: of all), as a column of the caller's own."""
        if rows is None:
            return self._at_rows().copy()
        return self._at_rows().take(rows) if self._are_hosts else self._table.take(self._codes.take(rows))

    def _at_rows(self) -> IntArray:
        if self._sums is None or len(self._stale) > MAX_STEPS:
            self._sums = self._table.take(self._codes)
        else:
            for code, row in self._stale.items():
                self._sums[row] = self._table[code]
        self._stale.clear()
        return self._sums

    def positive_rows(self) -> BoolArray:
        """Return the rows whose domain has a sum above 0; the column is the caller's to keep, but not to change."""
        if self._positive is None or len(self._crossed) > MAX_STEPS:
            self._positive = np.greater(self._table, 0).take(self._codes)
        elif self._crossed:
            self._positive = self._positive.copy()
            for code, row in self._crossed.items():
                self._positive[row] = self._table[code] > 0
        self._crossed.clear()
        return self._positive

    def rows_nowhere(self) -> BoolArray | None:
        """Return the rows that are in no domain; ``None`` if there are none."""
        assert self._column is not None
        return nodes_lacking(self._column)

    def snapshot(self) -> DomainCounts:
        """Return the sums as they are now, to be changed in what-ifs."""
        assert self._column is not None
        return DomainCounts(self._table.copy(), self._column.values, int(self._table.sum()))

    def __getitem__(self, value: str | None) -> int:
        assert self._column is not None
        code = self._column.values.find(value)
        return 0 if code is None else int(self._table[code])

    def _count_anew(self, column: Labels) -> None:
        self._column, self._codes = column, column.codes
        self._nowhere = column.values.find(None)
        # A domain of one row, as those of host names are, costs no pass over the others when its sum changes.
        self._is_host = column.unshared
        self._are_hosts = 2 * len(column.values) > len(column.codes)
        self._positions = [source.log.position for source, _ in self._sources]
        self._sums = self._positive = None
        self._stale.clear()
        self._crossed.clear()
        self.version += 1
        counting = [(source, weight) for source, weight in self._sources if not source.is_empty]
        if not counting:
            # Usual of the first pod of a group, and then there is nothing to add up.
            self._table, self.counted = column.zeros, 0
            return
        self._table = self._summed(counting)
        heads = self._table
        if any(weight != 1 for _, weight in counting):
            heads = self._summed([(source, 1) for source, _ in counting])
        self.counted = int(heads.sum())

    def _summed(self, counting: Iterable[tuple[RowCounts, int]]) -> IntArray:
        assert self._column is not None
        per_row = np.zeros(len(self._codes), dtype=np.int64)
        for source, weight in counting:
            source.add_to(per_row, weight)
        # The sums are computed as floats, which are exact far beyond any number of pods.
        table = np.bincount(self._codes, weights=per_row, minlength=len(self._column.values)).astype(np.int64)
        if self._nowhere is not None:
            table[self._nowhere] = 0
        return table

    def _follow(self, steps: list[int], weight: int) -> None:
        if not self._table.flags.writeable:
            self._table = self._table.copy()
        for step in steps:
            row, by = (step, 1) if step >= 0 else (~step, -1)
            # A row beyond the end was there for a while only, and so were its pods.
            code = int(self._codes[row]) if row < len(self._codes) else self._nowhere
            if code is None or code == self._nowhere:
                continue
            before = int(self._table[code])
            after = before + by * weight
            self._table[code] = after
            self.counted += by
            has_crossed = (before > 0) != (after > 0)
            self.version += has_crossed
            if self._is_host[code]:
                self._stale[code] = row
                if has_crossed:
                    self._crossed[code] = row
            else:
                self._sums = None
                if has_crossed:
                    self._positive = None


def is_any_counted(tallies: Iterable[DomainTally]) -> bool:
    """Tell whether some tally has a pod in a domain."""
    # A plain loop: asked for every pod, of a tally or two, and a generator costs more than that.
    for tally in tallies:  # noqa: SIM110
        if tally.counted:
            return True
    return False
