"""What is known of every row for pods of one signature: who is feasible, and the weighted sums of standing scores."""

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from moorage.api.pod import Pod
from moorage.engine.evaluation import check_range, normalized_scores
from moorage.engine.judgement import FEASIBLE, IdArray, Statuses
from moorage.engine.layout import Layout
from moorage.engine.plugin_answers import PluginAnswer
from moorage.framework.cycle import CycleState
from moorage.framework.nodetable import NodeTable
from moorage.framework.plugin import ScorePlugin
from moorage.framework.status import MAX_NODE_SCORE, MIN_NODE_SCORE, BoolArray, IntArray, Status
from moorage.state.node_columns import NodeColumns

INFEASIBLE_TOTAL: Final = -1
NO_NUMBERS: Final = np.zeros(0, dtype=np.int32)
NO_VERDICTS: Final = np.zeros(0, dtype=np.bool_)
NO_TOTALS: Final = np.zeros(0, dtype=np.int64)


class Share(Struct):
    """What one row-local score plugin adds to the totals: a column, or one number for all rows."""

    part: PluginAnswer
    plugin: ScorePlugin
    weight: int
    normalizes: bool
    column: IntArray | int = 0
    version: int = 0


class TotalOrder:
    """Totals and ranks as one column of numbers, so that the winner is its maximum and ties need no second look."""

    def __init__(self) -> None:
        self._column: IntArray = NO_TOTALS
        self._ranks: IntArray | None = None
        self._size = 0

    def forget(self) -> None:
        """Make the column anew when it is next asked for."""
        self._ranks = None

    def put(self, row: int, total: int) -> None:
        """Follow the total of one row."""
        if self._ranks is not None:
            self._column[row] = total * self._size - int(self._ranks[row])

    def best(self, totals: IntArray, ranks: IntArray, size: int) -> int:
        """Return the row of the winner; ranks are below ``size``."""
        if self._ranks is not ranks:
            self._column = totals * size
            self._column -= ranks
            self._ranks, self._size = ranks, size
        return int(self._column.argmax())


class Answer:
    """What is known of every row for pods of one signature."""

    def __init__(self, layout: Layout, parts: Sequence[PluginAnswer], columns: NodeColumns, statuses: Statuses) -> None:
        self.layout = layout
        self.statuses = statuses
        self.cycle = CycleState.merged([part.cycle for part in parts])
        # What a remembered "go on" or "skip" means is in the state already.
        self.to_pre_filter = [plugin for plugin, at in layout.pre_filters if at is None or parts[at].is_notable]
        self.pre_filter = {part.plugin.name: part.pre_filter for part in parts if part.is_notable}
        self._parts = parts
        self._filters = [part for part in map(parts.__getitem__, layout.filters) if not part.skips_filter]
        self._pod_filters = [part for part in self._filters if part.plugin.looks_at_pods]
        self._columns = columns
        self._nodes_seen = self._nodes_rated = -1
        self._shares: list[Share] | None = None
        self._pod_shares: list[Share] = []
        self.numbers: IdArray = NO_NUMBERS
        self.feasible: BoolArray = NO_VERDICTS
        self.feasible_count = 0
        self.feasible_version = 0
        self.found_order: tuple[Hashable, IntArray, IntArray] = (None, NO_TOTALS, NO_TOTALS)
        """The feasible rows in the order they are found in, the tie-break of each row, and of which version of them."""
        self.totals: IntArray = NO_TOTALS
        self.totals_hold_for_fewer = False
        """Whether no total depends on which rows are feasible, but for those that are not."""
        self._totals_stale = True
        self._stale_rows: dict[int, None] = {}
        self._order = TotalOrder()
        self.refusals: dict[str, tuple[Hashable, Status | None]] = {}
        """What was said of nodes with the pods promised to them, and of which version of the node and which pods."""
        self.position = -1

    def is_fresh_for(self, cycle: CycleState) -> bool:
        """Tell whether a plugin that looks at the whole cluster has a say about the pod in this cycle."""
        return any(asked.plugin.name not in cycle.skipped_filters for asked in self.layout.fresh_filters)

    def judge(self, pod: Pod, nodes: NodeTable, changed: list[int] | None) -> None:
        """Bring verdicts up to date: on the rows that changed, or on all."""
        nodes_seen = self._columns.node_changes.position
        # Filters that look at nodes alone need not be asked while no node has changed.
        asked = self._filters if changed is None or self._nodes_seen != nodes_seen else self._pod_filters
        for part in asked:
            part.judge(pod, nodes)
        # Last: after a plugin's error all of them are asked again.
        self._nodes_seen = nodes_seen
        if changed is None:
            self._combine_all(len(nodes))
        else:
            for row in dict.fromkeys(changed):
                self._combine_row(row)

    def _combine_all(self, size: int) -> None:
        self.numbers = np.zeros(size, dtype=np.int32)
        rejecting = [part.numbers for part in self._filters if part.rejects_any]
        for numbers in rejecting:
            self.numbers = np.where(self.numbers == FEASIBLE, numbers, self.numbers)
        self.feasible = np.equal(self.numbers, FEASIBLE)
        self.feasible_count = int(np.count_nonzero(self.feasible)) if rejecting else size
        self.feasible_version += 1
        self._totals_stale = True

    def _combine_row(self, row: int) -> None:
        number = FEASIBLE
        for part in self._filters:
            if part.rejects_any and (number := int(part.numbers[row])) != FEASIBLE:
                break
        self.numbers[row] = number
        self._stale_rows[row] = None
        is_feasible = number == FEASIBLE
        if is_feasible != bool(self.feasible[row]):
            self.feasible[row] = is_feasible
            self.feasible_count += 1 if is_feasible else -1
            self.feasible_version += 1
            if not self.totals_hold_for_fewer:
                self._totals_stale = True

    def shares(self, pod: Pod, nodes: NodeTable) -> list[Share]:
        """Return the row-local score plugins that take part, with raw scores brought up to date."""
        if self._shares is None:
            self._shares = self._new_shares(pod, nodes)
            self._pod_shares = [share for share in self._shares if share.plugin.looks_at_pods]
            self._totals_stale = True
        else:
            node_changes = self._columns.node_changes.position
            for share in self._shares if self._nodes_rated != node_changes else self._pod_shares:
                share.part.rate(pod, nodes)
            for share in self._shares:
                # The column has to be made anew, unless it is the raw scores, which follow their plugin by themselves.
                if share.version != share.part.version and (share.normalizes or share.column is not share.part.raw):
                    self._totals_stale = True
        self._nodes_rated = self._columns.node_changes.position
        return self._shares

    def _new_shares(self, pod: Pod, nodes: NodeTable) -> list[Share]:
        parts = self._parts
        for at in self.layout.only_pre_scoring:
            parts[at].prepare_scores(pod, nodes)
        shares = []
        for at, plugin, weight, normalizes in self.layout.scorers:
            part = parts[at]
            part.rate(pod, nodes)
            if not part.skips_score:
                shares.append(Share(part, plugin, weight, normalizes))
        return shares

    def standing_totals(self, pod: Pod, nodes: NodeTable) -> IntArray:
        """Return the weighted sums over the row-local plugins; rows that are not feasible have less than none."""
        shares = self.shares(pod, nodes)
        if self._totals_stale:
            rows = None if self.feasible_count == len(nodes) else np.flatnonzero(self.feasible)
            for share in shares:
                share.column = share_column(share, self.cycle, pod, nodes, rows)
                share.version = share.part.version
            self.totals = sum_of_shares(shares, len(nodes))
            if rows is not None:
                self.totals[~self.feasible] = INFEASIBLE_TOTAL
            self.totals_hold_for_fewer = all(isinstance(share.column, int) for share in shares if share.normalizes)
            self._totals_stale = False
            self._order.forget()
        else:
            for row in self._stale_rows:
                self.totals[row] = total = self._total_of(row, shares)
                self._order.put(row, total)
        self._stale_rows.clear()
        return self.totals

    def winner(self, ranks: IntArray, size: int) -> int:
        """Return the row with the highest standing total; among equals, the one whose rank is lowest."""
        return self._order.best(self.totals, ranks, size)

    def _total_of(self, row: int, shares: list[Share]) -> int:
        if not self.feasible[row]:
            return INFEASIBLE_TOTAL
        total = 0
        for share in shares:
            score = share.column if isinstance(share.column, int) else int(share.column[row])
            if not MIN_NODE_SCORE <= score <= MAX_NODE_SCORE:
                check_range(share.plugin.name, np.array([score]))
            total += share.weight * score
        return total

    def totals_over(self, cycle: CycleState, pod: Pod, nodes: NodeTable, feasible: BoolArray) -> IntArray:
        """Return the same over another set of feasible rows, whatever was judged feasible before."""
        rows = None if feasible.all() else np.flatnonzero(feasible)
        shares = [
            Share(
                share.part, share.plugin, share.weight, share.normalizes, share_column(share, cycle, pod, nodes, rows)
            )
            for share in self.shares(pod, nodes)
        ]
        totals = sum_of_shares(shares, len(nodes))
        totals[~feasible] = INFEASIBLE_TOTAL
        return totals


def share_column(share: Share, cycle: CycleState, pod: Pod, nodes: NodeTable, rows: IntArray | None) -> IntArray | int:
    """Return a plugin's normalised scores over the feasible rows (``None``: all); other rows are left at 0."""
    part = share.part
    level = part.constant
    if not share.normalizes:
        if part.low < MIN_NODE_SCORE or part.high > MAX_NODE_SCORE:
            # Once seen on some row, perhaps not there any more.
            check_range(share.plugin.name, part.raw)
        return part.raw if level is None else level
    if level is not None and share.plugin.normalizes_by_value and len(nodes):
        if part.levelled is None or part.levelled[0] != level:
            one = np.array([level], dtype=np.int64)
            window = nodes.take(np.zeros(1, dtype=np.int64))
            part.levelled = level, int(normalized_scores(share.plugin, cycle, pod, window, one)[0])
        return part.levelled[1]
    among = part.raw if rows is None else part.raw[rows]
    window = nodes if rows is None else nodes.take(rows)
    normalized = normalized_scores(share.plugin, cycle, pod, window, among.copy())
    if rows is None:
        return normalized
    whole = np.zeros(len(part.raw), dtype=np.int64)
    whole[rows] = normalized
    return whole


def sum_of_shares(shares: list[Share], size: int) -> IntArray:
    """Add up the weighted scores of all plugins."""
    base = 0
    columns: list[IntArray] = []
    for share in shares:
        column, weight = share.column, share.weight
        if isinstance(column, int):
            base += weight * column
        else:
            columns.append(column if weight == 1 else weight * column)
    totals = np.full(size, base, dtype=np.int64)
    for column in columns:
        totals += column
    return totals
