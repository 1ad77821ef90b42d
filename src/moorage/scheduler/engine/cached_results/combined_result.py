"""The combined cached result for pods of a signature: which rows are feasible, and their weighted totals.

It combines the results of single plugins (``plugin_result.py``). Both remember the position in a change log up to which
they are valid. The next pod evaluates the rows that changed since. docs/explanation/cached-results.md has a picture.
"""

from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct

from moorage.common.arrays import IntType, NDArray
from moorage.common.caches import LRU
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.cached_results.plugin_result import FEW_ROWS, NO_STATUS_IDS, NO_TOTALS, PluginResult
from moorage.scheduler.engine.extension_points import check_range, normalize
from moorage.scheduler.engine.profile import Profile, normalizes
from moorage.scheduler.engine.statuses import FEASIBLE, IdArray, StatusTable, WithNominated
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.nodetable import NodeTable, RowArray
from moorage.scheduler.framework.plugin import (
    DependsOn,
    FilterPlugin,
    Plugin,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
)
from moorage.scheduler.framework.status import MAX_NODE_SCORE, MIN_NODE_SCORE, BoolArray, IntArray
from moorage.scheduler.state.cache import NodeColumns

MAX_NARROW: Final = 1 << 31
"""Numbers below this fit into 32 bits."""
LEVELS: Final = 48
"""Enough levels of a binary heap for any number of nodes."""
MIN_SIZE: Final = 1 << 13
FIRST_PLACES: Final = 1 << 8
"""The number of places to examine before all equals are compared."""


class Ranks(Struct, frozen=True):
    """The tie-break of each row: among equals the lowest rank wins. All ranks are below ``size``.

    ``version`` identifies their inputs, so that derived columns can be cached. ``None`` is used for a single choice.
    """

    column: IntArray
    size: int
    version: Hashable = None


class HeapOrder:
    """Computes which of several equal nodes ends at the root of upstream's heap.

    The root after Go's ``heap.Init`` is the first of the maxima in preorder of the implicit binary tree. In preorder a
    place sorts by its path from the root: place + 1 in binary, read from its leading one, shorter paths first.
    """

    def __init__(self) -> None:
        self.size = 0
        self._ranks: IntArray = np.zeros(0, dtype=np.int32)
        self._first: IntArray = np.zeros(0, dtype=np.int64)

    def first(self, count: int) -> IntArray:
        """Return some of the first ``count`` places: those with the lowest ranks, in order."""
        self.ranks(count)
        return self._first[self._first < count]

    def ranks(self, count: int) -> IntArray:
        """Return a number below ``size`` for each of the first places; among equals, the smallest number wins."""
        if count > len(self._ranks):
            self.size = max(MIN_SIZE, 1 << (count - 1).bit_length())
            self._ranks = np.empty(self.size, dtype=np.int32)
            order = np.argsort(preorder_keys(self.size))
            self._ranks[order] = np.arange(self.size)
            self._first = order[:FIRST_PLACES]
        return self._ranks[:count]


def preorder_keys(count: int) -> NDArray[np.int64]:
    """Compute a number for each heap place, such that sorting by it is preorder."""
    paths = np.arange(1, count + 1, dtype=np.int64)
    depth = np.frexp(paths.astype(np.float64))[1].astype(np.int64) - 1
    keys: NDArray[np.int64] = ((paths << (LEVELS - depth)) << 6) | depth
    return keys


class TotalOrder:
    """Totals and ranks as one column of numbers (total · size - rank), so that the winner is its maximum.

    It is cached between pods: a placed pod changes the total of a row, and only that row is rewritten.
    """

    def __init__(self) -> None:
        self._column: IntArray = np.zeros(0, dtype=np.int64)
        self._ranks: Ranks | None = None

    def invalidate(self) -> None:
        """Compute the entire column at the next use."""
        self._ranks = None

    def put(self, row: int, total: int) -> None:
        """Update the total of a row."""
        if self._ranks is not None:
            self._column[row] = total * self._ranks.size - self._ranks.column.item(row)

    def best(self, totals: IntArray, ranks: Ranks, max_total: int) -> int:
        """Return the row of the winner. No total is higher than ``max_total``."""
        cached = self._ranks
        if cached is None or ranks.version is None or cached.version != ranks.version or cached.size != ranks.size:
            self._column = order_totals(totals, ranks, max_total)
            self._ranks = ranks
        return int(self._column.argmax())


def order_totals(totals: IntArray, ranks: Ranks, max_total: int) -> IntArray:
    """Return a column with the winner as its maximum, in 32 bits if they are sufficient."""
    is_narrow = totals.dtype == np.int32 and (max_total + 1) * (ranks.size + 1) < MAX_NARROW
    column = np.multiply(totals, ranks.size, dtype=np.int32 if is_narrow else np.int64)
    column -= ranks.column
    return column


INFEASIBLE_TOTAL: Final = -1
MAX_PRIORITIES: Final = 16

NO_MASK: Final = np.zeros(0, dtype=np.bool_)


class Scorer(NamedTuple):
    """A score plugin with cached results: the index of its part, and its weight."""

    part_index: int
    plugin: ScorePlugin
    weight: int
    normalizes: bool


class UncachedFilter(NamedTuple):
    """A filter that is called in every cycle, and the filters after it that have cached results."""

    plugin: FilterPlugin
    cached_after: frozenset[str]


class Layout:
    """The indexes of cached parts at each extension point, and the plugins that are called in every cycle.

    It depends only on the set of plugins with cached results, and is computed once for each such set.
    """

    def __init__(self, profile: Profile, caching: Sequence[Plugin], columns: NodeColumns) -> None:
        # The confirmation of a binding changes no requests, so it matters only if a plugin depends on more of the pods.
        self.log = columns.select_log(max((plugin.depends_on for plugin in caching), default=DependsOn.NODE))
        """The changes that any of the cached results depends on."""
        index_by_name = {plugin.name: index for index, plugin in enumerate(caching)}
        scoring = {plugin.name for plugin in profile.score}
        self.pre_filters: tuple[tuple[PreFilterPlugin, int | None], ...] = tuple(
            (plugin, index_by_name.get(plugin.name)) for plugin in profile.pre_filter
        )
        self.filters = tuple(index_by_name[plugin.name] for plugin in profile.filter if plugin.name in index_by_name)
        self.scorers = tuple(
            Scorer(index_by_name[plugin.name], plugin, profile.weights[plugin.name], normalizes(plugin))
            for plugin in profile.score
            if plugin.name in index_by_name
        )
        self.max_total = MAX_NODE_SCORE * sum(scorer.weight for scorer in self.scorers)
        """The upper bound of totals: they are stored in 32 bits if it allows that."""
        self.totals_dtype: IntType = np.int32 if self.max_total < MAX_NARROW else np.int64
        self.only_pre_scoring = tuple(
            index_by_name[plugin.name]
            for plugin in profile.pre_score
            if plugin.name in index_by_name and plugin.name not in scoring
        )
        self.uncached_filters = tuple(
            UncachedFilter(
                plugin, frozenset(later.name for later in profile.filter[index:] if later.name in index_by_name)
            )
            for index, plugin in enumerate(profile.filter)
            if plugin.name not in index_by_name
        )
        self.uncached_pre_scores: tuple[PreScorePlugin, ...] = tuple(
            plugin for plugin in profile.pre_score if plugin.name not in index_by_name
        )
        self.uncached_scores: tuple[ScorePlugin, ...] = tuple(
            plugin for plugin in profile.score if plugin.name not in index_by_name
        )


class Share(Struct):
    """The part of a plugin in the totals: a column of normalized scores, or one number for all rows.

    ``version`` is the version of the raw scores. A plugin that does not normalize adds its raw scores of a
    ``generation`` without a copy, so they follow later changes, or ``None`` if the column is not the raw scores.
    """

    part: PluginResult
    plugin: ScorePlugin
    weight: int
    normalizes: bool
    column: IntArray | int = 0
    version: int = 0
    generation: int | None = None


class CombinedResult:
    """The cached verdicts and totals of every row for pods of a signature."""

    def __init__(self, layout: Layout, parts: Sequence[PluginResult], columns: NodeColumns, table: StatusTable) -> None:
        self.layout = layout
        self.table = table
        self._parts = parts
        self._columns = columns
        self._steps: list[tuple[PreFilterPlugin, PluginResult | None]] = [
            (plugin, None if index is None else parts[index])
            for plugin, index in layout.pre_filters
            if index is None or not parts[index].is_success
        ]
        """The pre-filters that are not cached, or have a cached result other than plain success."""
        self._state: CycleState | None = None
        self.active_filters: list[PluginResult] = []
        """The parts of the plugins that filter these pods."""
        self._pod_filters: list[PluginResult] = []
        self._position = self._nodes_filtered = self._nodes_scored = -1
        self.shares: list[Share] | None = None
        self._pod_shares: list[Share] = []
        self.status_ids: IdArray = NO_STATUS_IDS
        self.feasible: BoolArray = NO_MASK
        self.feasible_count = 0
        self.feasible_version = 0
        self.search_order: tuple[RowArray, Ranks] | None = None
        """The feasible rows in search order and their tie-breaks; valid for the version of the ranks."""
        self.totals: IntArray = NO_TOTALS
        self._constant_total = 0
        """The sum of the shares that are equal on all rows. The other shares are in ``_varying_shares``."""
        self._varying_shares: list[tuple[IntArray, int, ScorePlugin]] = []
        self.totals_ignore_feasibility = False
        """Whether the totals of feasible rows do not depend on which rows are feasible."""
        self._totals_dirty = True
        self._rows_to_total: dict[int, None] = {}
        self._order = TotalOrder()
        self._with_nominated: LRU[int, WithNominated] | None = None

    @property
    def with_nominated(self) -> LRU[int, WithNominated]:
        """The verdicts on nodes with their nominated pods, by the priority of the pod."""
        # Created at first use: most results meet no nominated pod, and each pod with its own shape has a new result.
        if self._with_nominated is None:
            self._with_nominated = LRU("results with nominated pods", MAX_PRIORITIES)
        return self._with_nominated

    def begin(self) -> tuple[CycleState, list[tuple[PreFilterPlugin, PluginResult | None]]]:
        """Return the initial state of an attempt, and the pre-filters to process, in order.

        The first time these are all pre-filters without a result, and the state is empty until :meth:`join`.
        """
        return (CycleState() if self._state is None else self._state.share()), self._steps

    def join(self, state: CycleState) -> None:
        """Add the states of all parts to the state of an attempt, after all pre-filters were called.

        From now on only pre-filters with another result than success are processed.
        """
        if self._state is not None:
            return
        self._state = CycleState.merged([part.state for part in self._parts])
        state.absorb(self._state)
        self._steps = [(plugin, part) for plugin, part in self._steps if part is None or not part.is_success]
        cached = map(self._parts.__getitem__, self.layout.filters)
        self.active_filters = [part for part in cached if not part.skips_filter]
        self._pod_filters = [part for part in self.active_filters if part.plugin.depends_on > DependsOn.NODE]

    def join_states(self, plugin: PreFilterPlugin, state: CycleState) -> None:
        """Add the states of the parts up to the pre-filter that ended the attempt."""
        is_before = True
        for candidate, index in self.layout.pre_filters:
            if index is not None:
                if is_before and self._state is None:
                    state.absorb(self._parts[index].state)
                elif not is_before and self._state is not None:
                    state.drop(self._parts[index].state)
            is_before = is_before and candidate is not plugin

    def has_uncached_filters(self, state: CycleState) -> bool:
        """Return whether a filter without cached results applies to the pod."""
        return any(uncached.plugin.name not in state.skipped_filters for uncached in self.layout.uncached_filters)

    def filter(self, pod: Pod, nodes: NodeTable) -> None:
        """Update the verdicts: on the rows that changed, or on all."""
        log = self.layout.log
        position = log.position
        if self._position == position:
            return
        dirty = log.since(self._position)
        if dirty is not None and len(dirty) > FEW_ROWS and len(dirty) > len(nodes):
            dirty = None
        nodes_filtered = self._columns.node_changes.position
        # Filters that depend on nodes alone are not called while no node has changed.
        filters = self.active_filters if dirty is None or self._nodes_filtered != nodes_filtered else self._pod_filters
        for part in filters:
            part.filter(pod, nodes)
        if dirty is None:
            self.status_ids = np.zeros(self._columns.count, dtype=np.int32)
            rejecting = [part.status_ids for part in self.active_filters if part.rejects_any]
            for status_ids in rejecting:
                self.status_ids = np.where(self.status_ids == FEASIBLE, status_ids, self.status_ids)
            self.feasible = np.equal(self.status_ids, FEASIBLE)
            self.feasible_count = int(np.count_nonzero(self.feasible)) if rejecting else self._columns.count
            self.feasible_version += 1
            self._totals_dirty = True
        else:
            rejecting = [part.status_ids for part in self.active_filters if part.rejects_any]
            if rejecting or self.feasible_count != self._columns.count:
                for row in dict.fromkeys(dirty):
                    self._combine_row(row, rejecting)
            for row in dirty:
                self._rows_to_total[row] = None
        # Last: after an error of a plugin all filters are called again.
        self._position, self._nodes_filtered = position, nodes_filtered

    def _combine_row(self, row: int, rejecting: list[IdArray]) -> None:
        number = FEASIBLE
        for status_ids in rejecting:
            number = status_ids.item(row)
            if number != FEASIBLE:
                break
        self.status_ids[row] = number
        is_feasible = number == FEASIBLE
        if is_feasible != self.feasible.item(row):
            self.feasible[row] = is_feasible
            self.feasible_count += 1 if is_feasible else -1
            self.feasible_version += 1
            if not self.totals_ignore_feasibility:
                self._totals_dirty = True

    def _score(self, pod: Pod, nodes: NodeTable) -> list[Share]:
        """Return the shares of all score plugins with cached results, with updated raw scores."""
        node_changes = self._columns.node_changes.position
        if self.shares is None:
            for index in self.layout.only_pre_scoring:
                self._parts[index].pre_score(pod, nodes)
            self.shares = []
            for index, plugin, weight, plugin_normalizes in self.layout.scorers:
                part = self._parts[index]
                if part.scored_to != part.log.position:
                    part.score(pod, nodes)
                if not part.skips_score:
                    self.shares.append(Share(part, plugin, weight, plugin_normalizes))
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

    def score(self, pod: Pod, nodes: NodeTable) -> IntArray:
        """Return the weighted sums over the plugins with cached results. Infeasible rows are set to -1."""
        shares = self._score(pod, nodes)
        if self._totals_dirty:
            assert self._state is not None
            size = self._columns.count
            rows = None if self.feasible_count == size else np.flatnonzero(self.feasible)
            self.totals_ignore_feasibility = True
            self._constant_total, self._varying_shares = 0, []
            for share in shares:
                write_share(share, self._state, pod, nodes, rows)
                if isinstance(share.column, int):
                    self._constant_total += share.weight * share.column
                else:
                    self._varying_shares.append((share.column, share.weight, share.plugin))
                    self.totals_ignore_feasibility = self.totals_ignore_feasibility and not share.normalizes
            self.totals = sum_shares(shares, size, self.layout.totals_dtype)
            if rows is not None:
                self.totals[~self.feasible] = INFEASIBLE_TOTAL
            self._totals_dirty = False
            self._order.invalidate()
        else:
            for row in self._rows_to_total:
                self.totals[row] = total = self._sum_row(row)
                self._order.put(row, total)
        self._rows_to_total.clear()
        return self.totals

    def find_winner(self, ranks: Ranks) -> int:
        """Return the row with the highest cached total; among equals, the row with the lowest rank."""
        return self._order.best(self.totals, ranks, self.layout.max_total)

    def _sum_row(self, row: int) -> int:
        if not self.feasible[row]:
            return INFEASIBLE_TOTAL
        total = self._constant_total
        for column, weight, plugin in self._varying_shares:
            score = column.item(row)
            if not MIN_NODE_SCORE <= score <= MAX_NODE_SCORE:
                check_range(plugin, np.array([score]))
            total += weight * score
        return total

    def score_rows(
        self, state: CycleState, pod: Pod, nodes: NodeTable, feasible: BoolArray
    ) -> tuple[IntArray, list[Share]]:
        """Return the sums over another set of feasible rows than the cached one, and their shares."""
        rows = None if feasible.all() else np.flatnonzero(feasible)
        shares = [Share(share.part, share.plugin, share.weight, share.normalizes) for share in self._score(pod, nodes)]
        for share in shares:
            write_share(share, state, pod, nodes, rows)
        totals = sum_shares(shares, len(nodes))
        totals[~feasible] = INFEASIBLE_TOTAL
        return totals, shares


def write_share(share: Share, state: CycleState, pod: Pod, nodes: NodeTable, rows: RowArray | None) -> None:
    """Compute a plugin's normalized scores over the feasible rows (``None``: all). Other rows are set to 0."""
    part = share.part
    constant = part.low if part.low == part.high else None
    share.version, share.generation = part.version, None
    if not share.normalizes:
        if part.low < MIN_NODE_SCORE or part.high > MAX_NODE_SCORE:
            # The bounds only widen: the row that exceeded them may have changed since.
            check_range(share.plugin, part.raw)
        share.generation = part.generation if constant is None else None
        share.column = part.raw if constant is None else constant
        return
    if constant is not None and share.plugin._normalizes_by_value and len(part.raw):
        if part.normalized_constant is None or part.normalized_constant[0] != constant:
            window, score = nodes.take(np.zeros(1, dtype=np.int64)), np.array([constant], dtype=np.int64)
            part.normalized_constant = constant, int(_normalize(share.plugin, state, pod, window, score)[0])
        share.column = part.normalized_constant[1]
        return
    if rows is None:
        share.column = _normalize(share.plugin, state, pod, nodes, part.raw.copy())
        return
    share.column = np.zeros(len(part.raw), dtype=np.int64)
    share.column[rows] = _normalize(share.plugin, state, pod, nodes.take(rows), part.raw[rows])


def _normalize(plugin: ScorePlugin, state: CycleState, pod: Pod, nodes: NodeTable, scores: IntArray) -> IntArray:
    normalized = normalize(plugin, state, pod, nodes, scores)
    check_range(plugin, normalized)
    return normalized


def sum_shares(shares: list[Share], size: int, dtype: IntType = np.int64) -> IntArray:
    """Add up the weighted scores of all plugins."""
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
