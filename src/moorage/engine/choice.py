"""Picking the node: standing totals, the plugins that rate afresh, and the tie-break."""

from collections.abc import Hashable, Mapping
from random import Random
from typing import Final

import numpy as np
from msgspec import Struct

from moorage.cache.cache import Cache
from moorage.engine import timing
from moorage.engine.crosscheck import CrossCheck
from moorage.engine.evaluation import cycle_before_scoring, normalized_scores, rate_nodes, raw_scores, run_pre_score
from moorage.engine.feasibility import Found
from moorage.engine.profile import Profile
from moorage.engine.ranking import HeapOrder
from moorage.errors import PluginError
from moorage.framework.nodeinfo import NodeInfo
from moorage.framework.nodetable import NodeTable, RowArray
from moorage.framework.status import MAX_NODE_SCORE, IntArray

LARGEST_ORDERED: Final = 1 << 62


class Choice(Struct):
    """The node that won; ``tied`` lists equals among which upstream would choose at random."""

    node: NodeInfo
    tied: tuple[str, ...] = ()


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
        totals = self.totals(found)
        if self.cross_check is not None:
            self.cross_check.totals(found.pod, self.cache.nodes, found.feasible, totals)
        if not found.is_narrowed and self._totals_stand(found, totals):
            assert found.answer is not None
            return Choice(self.cache.nodes[found.answer.winner(self._heap_ranks(found), self._heap.size)])
        tied = np.flatnonzero(totals == totals.max())
        if len(tied) == 1:
            return Choice(self.cache.nodes[int(tied[0])])
        if found.is_narrowed:
            in_order = tied[np.argsort(self.cache.places[tied])]
            nodes = [self.cache.nodes[int(row)] for row in in_order]
            return Choice(nodes[0], tuple(node.name for node in nodes))
        first = self._heap_ranks(found)[tied].argmin()
        return Choice(self.cache.nodes[int(tied[first])])

    def _totals_stand(self, found: Found, totals: IntArray) -> bool:
        """Tell whether the totals are the standing ones, and small enough to be ordered together with ranks."""
        answer = found.answer
        return (
            answer is not None and totals is answer.totals and self._highest * (self._heap.size + 1) < LARGEST_ORDERED
        )

    def choose_with(self, found: Found, added: Mapping[str, int]) -> Choice:
        """Pick the best node by the plugins' totals and what extenders add; equals that they mention draw lots."""
        rows = np.flatnonzero(found.feasible) if found.extended is None else found.extended.rows
        nodes = [self.cache.nodes[int(row)] for row in rows]
        totals = self._totals_of(found, rows) + np.array([added.get(node.name, 0) for node in nodes], dtype=np.int64)
        best = [nodes[place] for place in np.flatnonzero(totals == totals.max())]
        mentioned = [node for node in best if node.name in added] or best[:1]
        return Choice(self._chance.choice(mentioned), tuple(node.name for node in mentioned))

    def _totals_of(self, found: Found, rows: RowArray) -> IntArray:
        if found.extended is None or found.extended.scored is None:
            return self.totals(found)[rows]
        return rate_nodes(self.profile, found.cycle, found.pod, found.extended.scored.take(rows)).totals

    def totals(self, found: Found) -> IntArray:
        """Return the weighted sums over all score plugins; rows that are not feasible have less than none."""
        try:
            return self._totals(found)
        except PluginError:
            return self._totals_from_nothing(found)

    def _totals(self, found: Found) -> IntArray:
        if not self.profile.score:
            return np.where(found.feasible, 1, -1)
        nodes, began = self.cache.nodes, timing.read()
        rows = None if found.count == len(nodes) else np.flatnonzero(found.feasible)
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

    def _sum_scores(self, found: Found, window: NodeTable, rows: IntArray | None) -> IntArray:
        answer, nodes = found.answer, self.cache.nodes
        assert answer is not None
        scorers = [plugin for plugin in answer.layout.fresh_scores if plugin.name not in found.cycle.skipped_scores]
        if found.feasible is answer.feasible:
            standing = answer.standing_totals(found.pod, nodes)
        else:
            standing = answer.totals_over(found.cycle, found.pod, nodes, found.feasible)
        if not scorers:
            return standing
        totals = standing.copy()
        for scorer in scorers:
            raw = raw_scores(scorer, found.cycle, found.pod, window)
            share = self.profile.weights[scorer.name] * normalized_scores(scorer, found.cycle, found.pod, window, raw)
            if rows is None:
                totals += share
            else:
                totals[rows] += share
        return totals

    def _totals_from_nothing(self, found: Found) -> IntArray:
        """Rate the feasible nodes in the order of upstream, for the error it would meet first.

        Columns rate nodes that are not feasible, too: if only those failed, nothing is wrong.
        """
        rows = np.roll(self.cache.order, -found.start)
        rows = rows[found.feasible[rows]]
        window = self.cache.nodes.take(rows)
        cycle = cycle_before_scoring(self.profile, found.pod, self.cache.nodes, window)
        totals = np.full(len(found.feasible), -1, dtype=np.int64)
        totals[rows] = rate_nodes(self.profile, cycle, found.pod, window).totals
        return totals

    def _heap_ranks(self, found: Found) -> IntArray:
        """Return for each row where it stands in the preorder of upstream's heap over the nodes found.

        The list of nodes found rarely changes from one pod to the next, so the ranks are kept with what it depends on.
        """
        if found.count == len(self.cache):
            state: Hashable = (self.cache.structure, found.start)
            if self._ranks_of_all[0] != state:
                self._ranks_of_all = (state, self._computed_ranks(found))
            return self._ranks_of_all[1]
        answer = found.answer
        if answer is None or found.feasible is not answer.feasible:
            return self._computed_ranks(found)
        state = (answer.feasible_version, found.start)
        if answer.heap_ranks[0] != state:
            answer.heap_ranks = (state, self._computed_ranks(found))
        return answer.heap_ranks[1]

    def _computed_ranks(self, found: Found) -> IntArray:
        visited = self.cache.order
        if found.start:
            visited = np.concatenate((visited[found.start :], visited[: found.start]))
        visited = visited[found.feasible[visited]]
        ranks = np.zeros(len(self.cache), dtype=np.int64)
        ranks[visited] = self._heap.ranks(len(visited))
        return ranks
