"""Answers that stand: what plugins say of every row (``plugin_answer.py``), combined per
signature of the pod: who is feasible, and the weighted sums.

Both remember the position in a change log up to which they are true; the next pod looks again at the rows that changed
since. docs/explanation/cached-results.md draws it.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from moorage.common.arrays import IntType
from moorage.common.caches import LRU
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.answers.layout import Layout
from moorage.scheduler.engine.answers.plugin_answer import FEW_ROWS, NO_STATUS_IDS, NO_TOTALS, PluginAnswer
from moorage.scheduler.engine.answers.ranking import Ranks, TotalOrder
from moorage.scheduler.engine.extension_points import (
    check_range,
    normalize,
)
from moorage.scheduler.engine.statuses import FEASIBLE, IdArray, StatusTable, WithNominated
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.nodetable import NodeTable, RowArray
from moorage.scheduler.framework.plugin import (
    DependsOn,
    PreFilterPlugin,
    ScorePlugin,
)
from moorage.scheduler.framework.status import MAX_NODE_SCORE, MIN_NODE_SCORE, BoolArray, IntArray
from moorage.scheduler.state.cache import NodeColumns

INFEASIBLE_TOTAL: Final = -1
MAX_PRIORITIES: Final = 16

NO_MASK: Final = np.zeros(0, dtype=np.bool_)


class Share(Struct):
    """What one plugin adds to the totals: a column of normalised scores, or one number for all rows.

    ``version`` is that of the raw scores it was made of. A plugin that does not normalise adds the raw scores
    themselves, those of a ``generation`` (``None`` if the column is not the raw scores): they follow their plugin.
    """

    part: PluginAnswer
    plugin: ScorePlugin
    weight: int
    normalizes: bool
    column: IntArray | int = 0
    version: int = 0
    generation: int | None = None


class StandingAnswer:
    """What is known of every row for pods of one signature."""

    def __init__(self, layout: Layout, parts: Sequence[PluginAnswer], columns: NodeColumns, table: StatusTable) -> None:
        self.layout = layout
        self.table = table
        self._parts = parts
        self._columns = columns
        self._steps = self._steps_left()
        self._cycle: CycleState | None = None
        self._filters: list[PluginAnswer] = []
        self._pod_filters: list[PluginAnswer] = []
        self._position = self._nodes_filtered = self._nodes_scored = -1
        self.shares: list[Share] | None = None
        self._pod_shares: list[Share] = []
        self.status_ids: IdArray = NO_STATUS_IDS
        self.feasible: BoolArray = NO_MASK
        self.feasible_count = 0
        self.feasible_version = 0
        self.found_order: tuple[RowArray, Ranks] | None = None
        """The feasible rows in the order they are found in, and their tie-breaks, as of the version of those."""
        self.totals: IntArray = NO_TOTALS
        self.totals_ignore_feasibility = False
        """Whether no total depends on which rows are feasible, but for those that are not."""
        self._totals_dirty = True
        self._rows_to_total: dict[int, None] = {}
        self._order = TotalOrder()
        self.with_nominated: LRU[int, WithNominated] = LRU("results with nominated pods", MAX_PRIORITIES)
        """What was said of nodes with their nominated pods to pods of a priority."""

    def begin(self) -> tuple[CycleState, list[tuple[PreFilterPlugin, PluginAnswer | None]]]:
        """Return the state an attempt starts with, and the pre-filters that have to be looked at, in order.

        The first time those are all that were not asked before, and the state is empty until :meth:`join`.
        """
        return (CycleState() if self._cycle is None else self._cycle.share()), self._steps

    def join(self, cycle: CycleState) -> None:
        """Have what the parts stored in the state of an attempt, now that all pre-filters were asked.

        From now on only those that say more than "go on" are looked at.
        """
        if self._cycle is not None:
            return
        self._cycle = CycleState.merged([part.cycle for part in self._parts])
        cycle.absorb(self._cycle)
        self._steps = self._steps_left()
        kept = map(self._parts.__getitem__, self.layout.filters)
        self._filters = [part for part in kept if not part.skips_filter]
        self._pod_filters = [part for part in self._filters if part.plugin.depends_on > DependsOn.NODE]

    def _steps_left(self) -> list[tuple[PreFilterPlugin, PluginAnswer | None]]:
        """List the pre-filters whose answers do not stand, or say more than "go on"."""
        parts = self._parts
        return [
            (plugin, None if at is None else parts[at])
            for plugin, at in self.layout.pre_filters
            if at is None or not parts[at].is_quiet
        ]

    def join_up_to(self, plugin: PreFilterPlugin, cycle: CycleState) -> None:
        """Have in the state of an attempt what the parts up to a pre-filter stored that ended it, and no others."""
        is_before = True
        for other, at in self.layout.pre_filters:
            if at is not None:
                if is_before and self._cycle is None:
                    cycle.absorb(self._parts[at].cycle)
                elif not is_before and self._cycle is not None:
                    cycle.drop(self._parts[at].cycle)
            is_before = is_before and other is not plugin

    def has_fresh_filters(self, cycle: CycleState) -> bool:
        """Tell whether a plugin that is asked in every cycle has a say about the pod."""
        return any(fresh.plugin.name not in cycle.skipped_filters for fresh in self.layout.fresh_filters)

    def filter(self, pod: Pod, nodes: NodeTable) -> None:
        """Bring the verdicts up to date: on the rows that changed, or on all."""
        position = self._columns.changes.position
        if self._position == position:
            return
        dirty = self._columns.changes.since(self._position)
        if dirty is not None and len(dirty) > FEW_ROWS and len(dirty) > len(nodes):
            dirty = None
        nodes_filtered = self._columns.node_changes.position
        # Filters that look at nodes alone need not be asked while no node has changed.
        asked = self._filters if dirty is None or self._nodes_filtered != nodes_filtered else self._pod_filters
        for part in asked:
            part.filter(pod, nodes)
        if dirty is None:
            self._combine_all(self._columns.count)
        else:
            for row in dict.fromkeys(dirty):
                self._combine_row(row)
        # Last: after a plugin's error all of them are asked again.
        self._position, self._nodes_filtered = position, nodes_filtered

    def _combine_all(self, size: int) -> None:
        self.status_ids = np.zeros(size, dtype=np.int32)
        rejecting = [part.status_ids for part in self._filters if part.rejects_any]
        for status_ids in rejecting:
            self.status_ids = np.where(self.status_ids == FEASIBLE, status_ids, self.status_ids)
        self.feasible = np.equal(self.status_ids, FEASIBLE)
        self.feasible_count = int(np.count_nonzero(self.feasible)) if rejecting else size
        self.feasible_version += 1
        self._totals_dirty = True

    def _combine_row(self, row: int) -> None:
        number = FEASIBLE
        for part in self._filters:
            if part.rejects_any and (number := int(part.status_ids[row])) != FEASIBLE:
                break
        self.status_ids[row] = number
        self._rows_to_total[row] = None
        is_feasible = number == FEASIBLE
        if is_feasible != bool(self.feasible[row]):
            self.feasible[row] = is_feasible
            self.feasible_count += 1 if is_feasible else -1
            self.feasible_version += 1
            if not self.totals_ignore_feasibility:
                self._totals_dirty = True

    def _score(self, pod: Pod, nodes: NodeTable) -> list[Share]:
        """Return the score plugins that keep their answers and take part, with raw scores brought up to date."""
        node_changes = self._columns.node_changes.position
        if self.shares is None:
            self.shares = self._new_shares(pod, nodes)
            self._pod_shares = [share for share in self.shares if share.plugin.depends_on > DependsOn.NODE]
            self._totals_dirty = True
        else:
            for share in self.shares if self._nodes_scored != node_changes else self._pod_shares:
                share.part.score(pod, nodes)
            for share in self.shares:
                if share.version != share.part.version and share.generation != share.part.generation:
                    self._totals_dirty = True
        self._nodes_scored = node_changes
        return self.shares

    def _new_shares(self, pod: Pod, nodes: NodeTable) -> list[Share]:
        for at in self.layout.only_pre_scoring:
            self._parts[at].pre_score(pod, nodes)
        shares = []
        for at, plugin, weight, normalizes in self.layout.scorers:
            part = self._parts[at]
            if part.scored_to != part.log.position:
                part.score(pod, nodes)
            if not part.skips_score:
                shares.append(Share(part, plugin, weight, normalizes))
        return shares

    def score(self, pod: Pod, nodes: NodeTable) -> IntArray:
        """Return the weighted sums over the plugins that keep their answers; infeasible rows have less than none."""
        shares = self._score(pod, nodes)
        if self._totals_dirty:
            assert self._cycle is not None
            size = self._columns.count
            rows = None if self.feasible_count == size else np.flatnonzero(self.feasible)
            self.totals_ignore_feasibility = True
            for share in shares:
                write_share(share, self._cycle, pod, nodes, rows)
                if share.normalizes and type(share.column) is not int:
                    self.totals_ignore_feasibility = False
            self.totals = sum_of(shares, size, self.layout.totals_dtype)
            if rows is not None:
                self.totals[~self.feasible] = INFEASIBLE_TOTAL
            self._totals_dirty = False
            self._order.invalidate()
        else:
            for row in self._rows_to_total:
                self.totals[row] = total = self._total_of(row, shares)
                self._order.put(row, total)
        self._rows_to_total.clear()
        return self.totals

    def filters_in_force(self) -> Sequence[PluginAnswer]:
        """Return what stands of the plugins that filter such pods."""
        return self._filters

    def winner(self, ranks: Ranks) -> int:
        """Return the row with the highest standing total; among equals, the one whose rank is lowest."""
        return self._order.best(self.totals, ranks, self.layout.max_total)

    def _total_of(self, row: int, shares: list[Share]) -> int:
        if not self.feasible[row]:
            return INFEASIBLE_TOTAL
        total = 0
        for share in shares:
            column = share.column
            score = column if type(column) is int else int(column[row])  # type: ignore[index]
            if not MIN_NODE_SCORE <= score <= MAX_NODE_SCORE:
                check_range(share.plugin.name, np.array([score]))
            total += share.weight * score
        return total

    def score_over(
        self, cycle: CycleState, pod: Pod, nodes: NodeTable, feasible: BoolArray
    ) -> tuple[IntArray, list[Share]]:
        """Return the same sums over another set of feasible rows than the answer's own, and what they are made of."""
        rows = None if feasible.all() else np.flatnonzero(feasible)
        shares = [Share(share.part, share.plugin, share.weight, share.normalizes) for share in self._score(pod, nodes)]
        for share in shares:
            write_share(share, cycle, pod, nodes, rows)
        totals = sum_of(shares, len(nodes))
        totals[~feasible] = INFEASIBLE_TOTAL
        return totals, shares


def write_share(share: Share, cycle: CycleState, pod: Pod, nodes: NodeTable, rows: RowArray | None) -> None:
    """Work out a plugin's normalised scores over the feasible rows (``None``: all); other rows are left at 0."""
    part = share.part
    constant = part.low if part.low == part.high else None
    share.version, share.generation = part.version, None
    if not share.normalizes:
        if part.low < MIN_NODE_SCORE or part.high > MAX_NODE_SCORE:
            # Once seen on some row, perhaps not there any more.
            check_range(share.plugin.name, part.raw)
        share.generation = part.generation if constant is None else None
        share.column = part.raw if constant is None else constant
        return
    if constant is not None and share.plugin._normalizes_by_value and len(part.raw):
        if part.normalized_constant is None or part.normalized_constant[0] != constant:
            window, one = nodes.take(np.zeros(1, dtype=np.int64)), np.array([constant], dtype=np.int64)
            part.normalized_constant = constant, int(_normalized(share.plugin, cycle, pod, window, one)[0])
        share.column = part.normalized_constant[1]
        return
    if rows is None:
        share.column = _normalized(share.plugin, cycle, pod, nodes, part.raw.copy())
        return
    share.column = np.zeros(len(part.raw), dtype=np.int64)
    share.column[rows] = _normalized(share.plugin, cycle, pod, nodes.take(rows), part.raw[rows])


def _normalized(plugin: ScorePlugin, cycle: CycleState, pod: Pod, nodes: NodeTable, scores: IntArray) -> IntArray:
    normalized = normalize(plugin, cycle, pod, nodes, scores)
    check_range(plugin.name, normalized)
    return normalized


def sum_of(shares: list[Share], size: int, dtype: IntType = np.int64) -> IntArray:
    """Add up the weighted scores of all plugins, as numbers of so many bits."""
    base = 0
    totals: IntArray | None = None
    for share in shares:
        column, weight = share.column, share.weight
        if type(column) is int:
            base += weight * column
        elif totals is None:
            totals = np.multiply(column, weight, dtype=dtype)
        else:
            np.add(totals, column if weight == 1 else np.multiply(column, weight, dtype=dtype), out=totals, dtype=dtype)
    if totals is None:
        return np.full(size, base, dtype=dtype)
    if base:
        totals += base
    return totals
