"""Picking the node: standing totals, the plugins that rate afresh, and the tie-break."""

from collections.abc import Hashable, Mapping
from random import Random
from typing import Final

import numpy as np
from msgspec import Struct

from moorage.engine import timing
from moorage.engine.crosscheck import CrossCheck
from moorage.engine.evaluation import cycle_before_scoring, normalized_scores, rate_nodes, raw_scores, run_pre_score
from moorage.engine.feasibility import Found
from moorage.engine.profile import Profile
from moorage.engine.ranking import HeapOrder
from moorage.engine.standing import Answer
from moorage.errors import PluginError
from moorage.framework.nodeinfo import NodeInfo
from moorage.framework.nodetable import NodeTable, RowArray
from moorage.framework.status import MAX_NODE_SCORE, IntArray
from moorage.state.cache import Cache

LARGEST_ORDERED: Final = 1 << 62


class Choice(Struct):
    """The node that won; ``tied`` lists equals among which upstream would choose at random."""

    node: NodeInfo
    tied: tuple[str, ...] = ()


class Totals(Struct):
    """The weighted sums of nodes: of these rows, or of all, where rows that are not feasible have less than none."""

    column: IntArray
    rows: RowArray | None = None

    def at(self, rows: RowArray) -> IntArray:
        """Return the sums of the rows they were asked for."""
        return self.column.take(rows) if self.rows is None else self.column


class Chooser:
    """Rates feasible nodes and picks one, one profile's way."""

    def __init__(self, profile: Profile, cache: Cache) -> None:
        self.profile = profile
        self.cache = cache
        self.cross_check: CrossCheck | None = None
        self.stopwatch = timing.Stopwatch()
        self._heap = HeapOrder()
        self._highest = MAX_NODE_SCORE * sum(profile.weights.values())
        self._ranks_of_all: tuple[Hashable, IntArray] = (None, np.zeros(0, dtype=np.int64))
        # Reproducible, and yet spread over the nodes.
        self._chance = Random(0)

    def choose(self, found: Found) -> Choice:
        """Pick the best node; a single feasible one is taken unseen."""
        if found.promised is not None:
            return Choice(found.promised)
        if found.count == 1:
            return Choice(self.cache.nodes[int(found.feasible.argmax())])
        rows = self._rows_found(found)
        totals = self.totals(found, rows)
        if self.cross_check is not None:
            checked = np.flatnonzero(found.feasible) if rows is None else rows
            self.cross_check.totals(found.pod, self.cache.nodes, checked, totals.at(checked))
        if found.is_narrowed:
            return self._first_in_order(totals)
        return Choice(self.cache.nodes[self._best(found, totals)])

    def _best(self, found: Found, totals: Totals) -> int:
        """Return the row with the highest total; among equals, the one that is the root of upstream's heap."""
        column, rows, answer = totals.column, totals.rows, found.answer
        ranks = self._ranks(found) if rows is None else self._heap.ranks(len(rows))
        size = self._heap.size
        if self._highest * (size + 1) >= LARGEST_ORDERED:
            tied = (column == column.max()).nonzero()[0]
            place = int(tied[ranks[tied].argmin()])
        elif answer is not None and column is answer.totals:
            place = answer.winner(ranks, size)
        else:
            # A column that does not stand was made for this choice.
            column *= size
            column -= ranks
            place = int(column.argmax())
        return place if rows is None else int(rows[place])

    def _first_in_order(self, totals: Totals) -> Choice:
        """Pick among the few nodes a pre-filter named: equals are listed in the order of the cluster."""
        places = (totals.column == totals.column.max()).nonzero()[0]
        tied = places if totals.rows is None else totals.rows[places]
        if len(tied) == 1:
            return Choice(self.cache.nodes[int(tied[0])])
        in_order = tied[np.argsort(self.cache.places[tied])]
        nodes = [self.cache.nodes[int(row)] for row in in_order]
        return Choice(nodes[0], tuple(node.name for node in nodes))

    def choose_with(self, found: Found, added: Mapping[str, int]) -> Choice:
        """Pick the best node by the plugins' totals and what extenders add; equals that they mention draw lots."""
        rows = np.flatnonzero(found.feasible) if found.extended is None else found.extended.rows
        nodes = [self.cache.nodes[int(row)] for row in rows]
        totals = self._totals_of(found, rows) + np.array([added.get(node.name, 0) for node in nodes], dtype=np.int64)
        best = [nodes[place] for place in np.flatnonzero(totals == totals.max())]
        mentioned = [node for node in best if node.name in added] or best[:1]
        tied = tuple(node.name for node in mentioned) if len(mentioned) > 1 else ()
        return Choice(self._chance.choice(mentioned), tied)

    def _totals_of(self, found: Found, rows: RowArray) -> IntArray:
        if found.extended is None or found.extended.scored is None:
            return self.totals(found, rows).at(rows)
        return rate_nodes(self.profile, found.cycle, found.pod, found.extended.scored.take(rows)).totals

    def totals(self, found: Found, rows: RowArray | None) -> Totals:
        """Return the weighted sums over all score plugins of the feasible rows (``None``: all there are)."""
        try:
            return self._totals(found, rows)
        except PluginError:
            return self._totals_from_nothing(found)

    def _totals(self, found: Found, rows: RowArray | None) -> Totals:
        if not self.profile.score:
            return Totals(np.where(found.feasible, 1, -1))
        nodes, began = self.cache.nodes, timing.read()
        window = nodes if rows is None else nodes.take(rows)
        self._run_pre_scores(found, window)
        prepared = timing.read()
        self.stopwatch[timing.PRE_SCORE](prepared - began)
        totals = self._sum_scores(found, window, rows)
        self.stopwatch[timing.SCORE](timing.read() - prepared)
        return totals

    def _run_pre_scores(self, found: Found, window: NodeTable) -> None:
        assert found.answer is not None
        for plugin in found.answer.layout.fresh_pre_scores:
            run_pre_score(plugin, found.cycle, found.pod, window)

    def _sum_scores(self, found: Found, window: NodeTable, rows: RowArray | None) -> Totals:
        answer, skipped = found.answer, found.cycle.skipped_scores
        assert answer is not None
        scorers = [plugin for plugin in answer.layout.fresh_scores if plugin.name not in skipped]
        standing = self._standing_totals(found, answer)
        if not scorers and (rows is None or found.feasible is answer.feasible):
            return Totals(standing)
        column = standing if rows is None else standing.take(rows)
        for scorer in scorers:
            raw = raw_scores(scorer, found.cycle, found.pod, window)
            normalized = normalized_scores(scorer, found.cycle, found.pod, window, raw)
            # The product is a column of our own, what stands is not.
            weighted = np.multiply(normalized, self.profile.weights[scorer.name], dtype=np.int64)
            weighted += column
            column = weighted
        return Totals(column, rows)

    def _standing_totals(self, found: Found, answer: Answer) -> IntArray:
        """Return the totals of the plugins that keep their answers, as a column that is right on the feasible rows."""
        if found.is_standing:
            totals = answer.standing_totals(found.pod, self.cache.nodes)
            if answer.totals_hold_for_fewer or found.feasible is answer.feasible:
                return totals
        return answer.totals_over(found.cycle, found.pod, self.cache.nodes, found.feasible)

    def _totals_from_nothing(self, found: Found) -> Totals:
        """Rate the feasible nodes in the order of upstream, for the error it would meet first.

        Columns rate nodes that are not feasible, too: if only those failed, nothing is wrong.
        """
        rows = self._visited(found)
        window = self.cache.nodes.take(rows)
        cycle = cycle_before_scoring(self.profile, found.pod, self.cache.nodes, window)
        totals = np.full(len(found.feasible), -1, dtype=np.int64)
        totals[rows] = rate_nodes(self.profile, cycle, found.pod, window).totals
        return Totals(totals)

    def _rows_found(self, found: Found) -> RowArray | None:
        """Return the feasible rows in the order upstream finds them in; ``None`` if all are feasible."""
        if found.count == len(found.feasible):
            return None
        answer = found.answer
        if answer is None or found.feasible is not answer.feasible:
            return self._visited(found)
        return self._kept_order(found, answer)[0]

    def _ranks(self, found: Found) -> IntArray:
        """Return for each row where it stands in the preorder of upstream's heap over the nodes found."""
        answer = found.answer
        if found.count == len(found.feasible):
            state: Hashable = (self.cache.structure, found.start)
            if self._ranks_of_all[0] != state:
                self._ranks_of_all = (state, self._ranks_by_row(self._visited(found)))
            return self._ranks_of_all[1]
        if answer is None or found.feasible is not answer.feasible:
            return self._ranks_by_row(self._visited(found))
        return self._kept_order(found, answer)[1]

    def _kept_order(self, found: Found, answer: Answer) -> tuple[RowArray, IntArray]:
        """Return the standing feasible rows as they are found, and their ranks: they rarely change between pods."""
        state = (answer.feasible_version, found.start)
        if answer.found_order[0] != state:
            rows = self._visited(found)
            answer.found_order = (state, rows, self._ranks_by_row(rows))
        return answer.found_order[1:]

    def _visited(self, found: Found) -> RowArray:
        order = self.cache.order
        if found.start:
            order = np.concatenate((order[found.start :], order[: found.start]))
        return order.take(found.feasible.take(order).nonzero()[0])

    def _ranks_by_row(self, visited: RowArray) -> IntArray:
        ranks = np.zeros(len(self.cache), dtype=np.int64)
        ranks[visited] = self._heap.ranks(len(visited))
        return ranks
