"""Picking the node: standing totals, the plugins that rate afresh, and the tie-break."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

import numpy as np

from moorage.cache.cache import Cache
from moorage.engine.crosscheck import CrossCheck
from moorage.engine.evaluation import normalized_scores, rate_nodes, raw_scores, run_pre_score
from moorage.engine.feasibility import Found
from moorage.engine.profile import Profile
from moorage.engine.ranking import HeapOrder
from moorage.framework.nodeinfo import NodeInfo
from moorage.framework.nodetable import RowArray
from moorage.framework.status import IntArray


@dataclass(slots=True)
class Choice:
    """The node that won; ``tied`` lists equals among which upstream would choose at random."""

    node: NodeInfo
    tied: tuple[str, ...] = ()


class Chooser:
    """Rates feasible nodes and picks one, one profile's way."""

    def __init__(self, profile: Profile, cache: Cache) -> None:
        self.profile = profile
        self.cache = cache
        self.cross_check: CrossCheck | None = None
        self._heap = HeapOrder()
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
        tied = np.flatnonzero(totals == totals.max())
        if len(tied) == 1:
            return Choice(self.cache.nodes[int(tied[0])])
        if found.is_narrowed:
            in_order = tied[np.argsort(self.cache.places[tied])]
            nodes = [self.cache.nodes[int(row)] for row in in_order]
            return Choice(nodes[0], tuple(node.name for node in nodes))
        places = self._found_places(found, tied)
        return Choice(self.cache.nodes[int(tied[self._heap.first(places)])])

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
        answer, nodes = found.answer, self.cache.nodes
        assert answer is not None
        if not self.profile.score:
            return np.where(found.feasible, 1, -1)
        rows = None if found.count == len(nodes) else np.flatnonzero(found.feasible)
        window = nodes if rows is None else nodes.take(rows)
        for plugin in answer.fresh_pre_scores:
            run_pre_score(plugin, found.cycle, found.pod, window)
        scorers = [plugin for plugin in answer.fresh_scores if plugin.name not in found.cycle.skipped_scores]
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

    def _found_places(self, found: Found, rows: IntArray) -> IntArray:
        """Return at which place each row stands in the list of feasible nodes, in the order they were found."""
        size = len(self.cache)
        places = self.cache.places[rows] - found.start
        places[places < 0] += size
        if found.count == size:
            return places
        visited = self.cache.order
        if found.start:
            visited = np.concatenate((visited[found.start :], visited[: found.start]))
        ranks = np.cumsum(found.feasible[visited]) - 1
        return ranks[places]
