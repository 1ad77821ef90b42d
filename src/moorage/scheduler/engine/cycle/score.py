"""Scoring: pre-score, score, normalize, weigh, and choose the node.

Most totals are cached between pods (:meth:`CombinedResult.score`). The scores of plugins without cached results are
added in each cycle. ``tie_breaking.py`` finds the winner.
"""

from collections.abc import Mapping
from random import Random

import numpy as np
from msgspec import Struct, field

from moorage.common.arrays import IntType
from moorage.common.errors import PluginError
from moorage.scheduler.engine.cached_results.combined_result import INFEASIBLE_TOTAL, MAX_NARROW, CombinedResult, Share
from moorage.scheduler.engine.cycle.search_result import Choice, ExtendedNodes, OneNode, SeveralNodes, Totals
from moorage.scheduler.engine.cycle.tie_breaking import LateRows, SearchOrder, TieBreaker
from moorage.scheduler.engine.extension_points import check_range, normalize, pre_score, score_nodes
from moorage.scheduler.engine.phases import NO_HOOKS, PRE_SCORE_PHASE, SCORE_PHASE, PhaseHooks
from moorage.scheduler.engine.profile import Profile
from moorage.scheduler.engine.reference import CrossCheck, PluginScores, score_all
from moorage.scheduler.engine.ties import Ties
from moorage.scheduler.framework.nodetable import NodeTable, RowArray
from moorage.scheduler.framework.status import MAX_NODE_SCORE
from moorage.scheduler.state.cache import Cache


class ScoreNotes(Struct):
    """The components of the totals of the last choice: cached shares over all rows, and other scores over some.

    ``rows`` are the rows of the uncached scores. ``None`` is all. Valid until the next choice.
    """

    shares: list[Share] = field(default_factory=list)
    uncached: list[PluginScores] = field(default_factory=list)
    rows: RowArray | None = None


class Scoring:
    """Scores the feasible nodes of a profile and chooses one. ``ties`` replaces upstream's tie-breaking."""

    def __init__(
        self,
        profile: Profile,
        cache: Cache,
        ties: Ties | None = None,
        hooks: PhaseHooks = NO_HOOKS,
        cross_check: CrossCheck | None = None,
    ) -> None:
        self.profile = profile
        self.cache = cache
        self.cross_check = cross_check
        self._on_totals = hooks.on_totals
        self._notes = None if hooks.on_totals is None else ScoreNotes()
        self.pre_score = hooks.wrap(self._pre_score, PRE_SCORE_PHASE)
        self.score = hooks.wrap(self._score, SCORE_PHASE)
        max_total = MAX_NODE_SCORE * sum(profile.weights.values())
        self._dtype: IntType = np.int32 if max_total < MAX_NARROW else np.int64
        self._order = SearchOrder(cache)
        self._tie_breaker = TieBreaker(cache, self._order, max_total, ties)
        # Reproducible, and yet spread over the nodes.
        self._chance = Random(0)

    def choose(self, result: OneNode | SeveralNodes) -> Choice:
        """Choose the best node. A single feasible node is not scored."""
        if isinstance(result, OneNode):
            return Choice(result.node)
        rows = self._order.rows(result)
        totals = self.totals(result, rows)
        if self.cross_check is not None:
            rows = rows.get() if isinstance(rows, LateRows) else rows
            checked = np.flatnonzero(result.feasible) if rows is None else rows
            self.cross_check.totals(result.pod, self.cache.nodes, checked, totals.at(checked), result.cycle.group)
        return self._tie_breaker.choose(result, totals)

    def totals(self, result: SeveralNodes, rows: RowArray | LateRows | None) -> Totals:
        """Return the weighted sums over all score plugins of the feasible rows (``None``: all)."""
        if self._on_totals is None or self._notes is None:
            return self._compute_totals(result, rows)
        self._notes.shares, self._notes.uncached = [], []
        totals = self._compute_totals(result, rows)
        self._on_totals(result, totals, self._notes)
        return totals

    def _compute_totals(self, result: SeveralNodes, rows: RowArray | LateRows | None) -> Totals:
        if not self.profile.score:
            return Totals(np.where(result.feasible, 1, INFEASIBLE_TOTAL))
        if result.cached is not None:
            try:
                self.pre_score(result, result.cached, rows)
                return self.score(result, result.cached, rows)
            except PluginError:
                # The columnar form also scores infeasible nodes: if only those failed, nothing is wrong. And the
                # error to report is the first that upstream would encounter.
                pass
        visited = self._order.visited(result)
        totals = np.full(len(result.feasible), INFEASIBLE_TOTAL, dtype=np.int64)
        nodes = self.cache.nodes.take(visited)
        totals[visited] = score_all(self.profile, result.cycle.clone(), result.pod, nodes).totals
        return Totals(totals)

    def _pre_score(self, result: SeveralNodes, cached: CombinedResult, rows: RowArray | LateRows | None) -> None:
        """Call the pre-score plugins without cached results."""
        if cached.layout.uncached_pre_scores:
            nodes = self.cache.nodes
            window = nodes.late(result.count, rows.get) if isinstance(rows, LateRows) else self._window(rows)
            for plugin in cached.layout.uncached_pre_scores:
                pre_score(plugin, result.cycle, result.pod, window)

    def _score(self, result: SeveralNodes, cached: CombinedResult, rows: RowArray | LateRows | None) -> Totals:
        """Add the scores of plugins without cached results to the cached totals."""
        skipped_plugins, is_own = result.cycle.skipped_scores, result.feasible_version == cached.feasible_version
        scorers = [plugin for plugin in cached.layout.uncached_scores if plugin.name not in skipped_plugins]
        cached_totals = cached.score(result.pod, self.cache.nodes)
        is_cached = is_own or cached.totals_ignore_feasibility
        shares, notes = cached.shares or [], self._notes
        if not is_cached:
            cached_totals, shares = cached.score_rows(result.cycle, result.pod, self.cache.nodes, result.feasible)
        if isinstance(rows, LateRows):
            if not scorers:
                if notes is not None:
                    notes.shares, notes.uncached, notes.rows = shares, [], None
                if is_cached:
                    cached_totals = cached_totals.copy()
                    cached_totals[(~result.feasible).nonzero()[0]] = INFEASIBLE_TOTAL
                return Totals(cached_totals)
            rows = rows.get()
        if notes is not None:
            notes.shares, notes.uncached, notes.rows = shares, [], rows
        if not scorers and (rows is None or is_own):
            return Totals(cached_totals, is_cached=is_cached)
        column, window, adds = cached_totals if rows is None else cached_totals.take(rows), self._window(rows), False
        for scorer in scorers:
            raw = score_nodes(scorer, result.cycle, result.pod, window)
            noted = raw if notes is None else raw.copy()  # normalize may change the column
            normalized = normalize(scorer, result.cycle, result.pod, window, raw)
            is_narrow = normalized.dtype == np.int32
            if not (is_narrow and scorer._narrow_is_checked):
                check_range(scorer, normalized)
            if notes is not None:
                notes.uncached.append(PluginScores(scorer.name, self.profile.weights[scorer.name], noted, normalized))
            if not normalized.any():
                continue
            adds = True
            # The weighted column is a new array. The cached totals must not change.
            narrowed = normalized if is_narrow else normalized.astype(self._dtype)
            weighted = np.multiply(narrowed, self.profile.weights[scorer.name], dtype=self._dtype)
            weighted += column
            column = weighted
        if not adds and (rows is None or is_own):
            return Totals(cached_totals, is_cached=is_cached)
        return Totals(column, rows)

    def _window(self, rows: RowArray | None) -> NodeTable:
        return self.cache.nodes if rows is None else self.cache.nodes.take(rows)

    def choose_with_scores(self, extended: ExtendedNodes, extender_scores: Mapping[str, int]) -> Choice:
        """Choose by the totals of plugins and extenders. Equals with an extender's score are drawn at random."""
        result, rows = extended.result, extended.rows
        nodes = [self.cache.nodes[int(row)] for row in rows]
        if extended.table is None:
            totals = self.totals(result, rows).at(rows)
        else:
            totals = score_all(self.profile, result.cycle, result.pod, extended.table.take(rows)).totals
        totals = totals + np.array([extender_scores.get(node.name, 0) for node in nodes], dtype=np.int64)
        best = [nodes[index] for index in np.flatnonzero(totals == totals.max())]
        mentioned = [node for node in best if node.name in extender_scores] or best[:1]
        tied_names = tuple(node.name for node in mentioned) if len(mentioned) > 1 else ()
        return Choice(self._chance.choice(mentioned), tied_names, extender_scores)
