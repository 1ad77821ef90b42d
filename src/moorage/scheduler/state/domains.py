"""Pods counted by topology domain. The counts are updated with each pod instead of computed in every cycle.

Counts per row (by a selector, or by an affinity term) write their steps into a change log. A tally sums such counts up
by domain. Each refresh follows the steps since the last one. It recounts from the start if there are too many
steps, or if rows are in different domains than before. Inter-pod affinity and topology spread both count with it.
"""

from collections.abc import Iterable
from typing import Final, Protocol

import numpy as np

from moorage.common.caches import LRU
from moorage.scheduler.framework.columns import Categorical, CodeArray, Vocabulary, next_version
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import BoolArray, IntArray
from moorage.scheduler.state.objects import ChangeLog

MAX_STEPS: Final = 128
"""Following more steps than this takes longer than counting the pods of a few thousand rows."""

LOG_LENGTH: Final = 2 * MAX_STEPS
"""The maximum size of a log of steps. At least half is always available."""

MAX_TOPOLOGY_KEYS: Final = 256

Labels = Categorical[str | None]


class RowCounts(Protocol):
    """Pods counted per row."""

    log: ChangeLog[int]
    """The row of every added pod, and ``~row`` of every removed pod."""

    @property
    def is_empty(self) -> bool:
        """Whether all rows are zero."""
        ...

    def add_to(self, totals: IntArray, weight: int) -> None:
        """Add the count of each row, times a weight, to a column as long as the node table."""
        ...


Sources = tuple[tuple[RowCounts, int], ...]


class Domains:
    """The domain of each row, as the code of a topology label's value. ``nowhere`` is the code of no domain.

    Domains never change. ``version`` distinguishes them: counts over a different version are stale.
    """

    __slots__ = ("_is_host", "_zeros", "are_hosts", "codes", "nowhere", "values", "version")

    def __init__(
        self, values: Vocabulary[str | None], codes: CodeArray | IntArray, nowhere: int | None, version: int
    ) -> None:
        self.values = values
        self.codes = codes
        self.nowhere = nowhere
        self.version = version
        self.are_hosts = 2 * len(values) > len(codes)
        """Whether there are nearly as many domains as rows."""
        self._is_host: BoolArray | None = None
        self._zeros: IntArray | None = None

    @classmethod
    def of(cls, column: Labels) -> "Domains":
        """Take the values of a label for domains. Nodes without the label are in none."""
        return cls(column.values, column.codes, column.values.find(None), column.version)

    @property
    def is_host(self) -> BoolArray:
        """Which domains, by code, have exactly one row, as those of host names do."""
        if self._is_host is None:
            self._is_host = np.equal(np.bincount(self.codes, minlength=len(self.values)), 1)
        return self._is_host

    @property
    def zeros(self) -> IntArray:
        """A read-only zero for each domain, the initial value of every tally."""
        if self._zeros is None:
            self._zeros = np.zeros(len(self.values), dtype=np.int64)
            self._zeros.flags.writeable = False
        return self._zeros

    def rows_nowhere(self) -> BoolArray | None:
        """Find the rows that are in no domain. Return ``None`` if every row is in a domain."""
        return _match_code(self.nowhere, self.codes)

    def sum(self, per_row: IntArray) -> IntArray:
        """Add up a number of each row by domain."""
        # The sums are computed as floats, which are exact far beyond any number of pods.
        table = np.bincount(self.codes, weights=per_row, minlength=len(self.values))[: len(self.values)]
        sums: IntArray = table.astype(np.int64)
        if self.nowhere is not None and self.nowhere < len(sums):
            sums[self.nowhere] = 0
        return sums


NO_DOMAINS: Final = Domains(Vocabulary(), np.zeros(0, dtype=np.int32), None, next_version())


class LabelDomains:
    """The domains of each topology key in use, recomputed when a node's label changes."""

    def __init__(self) -> None:
        self._by_key: LRU[str, Domains] = LRU("topology domains", MAX_TOPOLOGY_KEYS)

    def of(self, nodes: NodeTable, key: str) -> Domains:
        """Return the domains of a key over all rows of a table."""
        column = nodes.label(key)
        domains = self._by_key.find(key)
        if domains is None or domains.version != column.version:
            domains = Domains.of(column)
            self._by_key.put(key, domains)
        return domains


class DomainTally:
    """Some counts, each with a weight, summed up by domain."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._positions: list[int] = []
        self._domains = NO_DOMAINS
        self._table = NO_DOMAINS.zeros
        self._at_rows: IntArray | None = None
        self._stale: dict[int, int] = {}
        self._positive: BoolArray | None = None
        self._crossed: dict[int, int] = {}
        self.counted = 0
        """The number of pods counted in some domain, independent of their weight."""
        self.version = 0
        """Grows whenever a sum changes, or rows are in other domains."""
        self.positive_version = 0
        """Grows whenever other rows have a sum above 0, or rows are in other domains."""

    def refresh(self, domains: Domains) -> None:
        """Bring the sums up to date, over the domains that rows are in now."""
        if domains.version != self._domains.version:
            self._recount(domains)
            return
        for index, (source, weight) in enumerate(self._sources):
            last_position = self._positions[index]
            if source.log.position != last_position:
                steps = source.log.since(last_position)
                if steps is None or len(steps) > MAX_STEPS:
                    self._recount(domains)
                    return
                self._follow(steps, weight)
                self._positions[index] = source.log.position

    def __getitem__(self, value: str | None) -> int:
        code = self._domains.values.find(value)
        # The vocabulary may have grown since the count: nodes that exist no more added values.
        return 0 if code is None or code >= len(self._table) else int(self._table[code])

    def table(self, values: Vocabulary[str | None]) -> IntArray:
        """Return the sum for each value of a vocabulary, to be gathered by code."""
        if values.version != self._domains.values.version:
            return np.fromiter((self[value] for value in values), dtype=np.int64, count=len(values))
        return self._table

    def at(self, rows: IntArray | None) -> IntArray:
        """Return the sum of the domain of each of some rows (``None``: of all), as a column of the caller's own."""
        if rows is None:
            return self._all_rows().copy()
        if self._domains.are_hosts:
            return self._all_rows().take(rows)
        return self._table.take(self._domains.codes.take(rows))

    def _all_rows(self) -> IntArray:
        if self._at_rows is None or len(self._stale) > MAX_STEPS:
            self._at_rows = self._table.take(self._domains.codes)
        else:
            for code, row in self._stale.items():
                self._at_rows[row] = self._table[code]
        self._stale.clear()
        return self._at_rows

    def positive_rows(self) -> BoolArray:
        """Return the rows with a domain sum above 0. The column is the caller's to keep, but not to change."""
        if self._positive is None or len(self._crossed) > MAX_STEPS:
            self._positive = np.greater(self._table, 0).take(self._domains.codes)
        elif self._crossed:
            self._positive = self._positive.copy()
            for code, row in self._crossed.items():
                self._positive[row] = self._table[code] > 0
        self._crossed.clear()
        return self._positive

    def rows_nowhere(self) -> BoolArray | None:
        """Return the rows that are in no domain, or ``None`` if every row is in a domain."""
        return self._domains.rows_nowhere()

    def snapshot(self) -> "DomainCounts":
        """Return a copy of the current sums, for what-ifs."""
        # They share the table. The tally copies it before the next write.
        self._table.flags.writeable = False
        return DomainCounts(self._table, self._domains.values, self.counted)

    def _recount(self, domains: Domains) -> None:
        self._domains = domains
        self._positions = [source.log.position for source, _ in self._sources]
        self._at_rows = self._positive = None
        self._stale.clear()
        self._crossed.clear()
        self.version += 1
        self.positive_version += 1
        counting = [(source, weight) for source, weight in self._sources if not source.is_empty]
        if not counting:
            # Usual of the first pod of a group, and then there is nothing to add up.
            self._table, self.counted = domains.zeros, 0
            return
        self._table = heads = _sum(counting, domains)
        if any(weight != 1 for _, weight in counting):
            heads = _sum([(source, 1) for source, _ in counting], domains)
        self.counted = int(heads.sum())

    def _follow(self, steps: list[int], weight: int) -> None:
        codes, nowhere = self._domains.codes, self._domains.nowhere
        for step in steps:
            row, by = (step, 1) if step >= 0 else (~step, -1)
            # A row beyond the end was there for a while only, and so were its pods.
            code = int(codes[row]) if row < len(codes) else nowhere
            if code is None or code == nowhere:
                continue
            if not self._table.flags.writeable:
                self._table = self._table.copy()
            before = int(self._table[code])
            after = before + by * weight
            self._table[code] = after
            self.counted += by
            self.version += 1
            has_crossed = (before > 0) != (after > 0)
            self.positive_version += has_crossed
            # A domain of a row costs no pass over other domains when its sum changes.
            if self._at_rows is not None:
                if self._domains.is_host[code]:
                    self._stale[code] = row
                else:
                    self._at_rows = None
            if has_crossed and self._positive is not None:
                if self._domains.is_host[code]:
                    self._crossed[code] = row
                else:
                    self._positive = None


class DomainCounts:
    """An integer for each domain, which a what-if may change.

    Clones are cheap, since preemption makes one per candidate node: they share the table and store only their changes.
    """

    __slots__ = ("_changes", "_table", "_values", "total")

    def __init__(self, table: IntArray, values: Vocabulary[str | None], total: int) -> None:
        self._table = table
        self._values = values
        self._changes: dict[str, int] = {}
        self.total = total
        """The number of pods counted in some domain."""

    @classmethod
    def none(cls) -> "DomainCounts":
        """Start with nothing counted anywhere."""
        return cls(NO_DOMAINS.zeros, NO_DOMAINS.values, 0)

    def __getitem__(self, value: str) -> int:
        code = self._values.find(value)
        total = 0 if code is None else int(self._table[code])
        return total + self._changes.get(value, 0)

    def is_changed(self, value: str) -> bool:
        """Return whether the what-if changed a domain."""
        return value in self._changes

    def change(self, value: str, by: int) -> None:
        """Count more, or less, in one domain."""
        self._changes[value] = self._changes.get(value, 0) + by
        self.total += by

    def table(self, values: Vocabulary[str | None]) -> IntArray:
        """Return the number for each value of a vocabulary, to be gathered by code; 0 for no value."""
        if values.version != self._values.version:
            numbers = (0 if value is None else self[value] for value in values)
            return np.fromiter(numbers, dtype=np.int64, count=len(values))
        if not self._changes:
            return self._table
        table = self._table.copy()
        for value, by in self._changes.items():
            code = values.find(value)
            if code is not None:
                table[code] += by
        return table

    def mask_positive(self, column: Labels) -> BoolArray:
        """Find the nodes in domains with a positive count."""
        positive: BoolArray = np.greater(self.table(column.values), 0)
        return positive.take(column.codes)

    def clone(self) -> "DomainCounts":
        """Return a copy for a what-if."""
        copy = DomainCounts(self._table, self._values, self.total)
        copy._changes = dict(self._changes)
        return copy


def is_any_counted(tallies: Iterable[DomainTally]) -> bool:
    """Return whether any tally has a pod in a domain."""
    # A plain loop: it runs for every pod over one or two tallies, where a generator costs more.
    for tally in tallies:  # noqa: SIM110
        if tally.counted:
            return True
    return False


def nodes_lacking(column: Labels) -> BoolArray | None:
    """Find the nodes without the label. Return ``None`` if all have it."""
    return _match_code(column.values.find(None), column.codes)


def _match_code(code: int | None, codes: CodeArray | IntArray) -> BoolArray | None:
    if code is None:
        return None
    mask: BoolArray = np.equal(codes, code)
    return mask if mask.any() else None


def _sum(counting: Iterable[tuple[RowCounts, int]], domains: Domains) -> IntArray:
    per_row = np.zeros(len(domains.codes), dtype=np.int64)
    for source, weight in counting:
        source.add_to(per_row, weight)
    return domains.sum(per_row)
