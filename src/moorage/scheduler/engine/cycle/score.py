"""Choosing the node: pre-score, score, normalise, weigh, and upstream's tie-break.

Most totals stand from pod to pod (:meth:`StandingAnswer.score`); the plugins that are asked in every cycle are added,
and the winner is the maximum of one column that holds totals and tie-breaks together.
"""

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Final

import numpy as np
from msgspec import Struct, field

from moorage.common.arrays import IntType
from moorage.common.errors import PluginError
from moorage.scheduler.engine.answers.layout import MAX_NARROW
from moorage.scheduler.engine.answers.ranking import HeapOrder, Ranks, ordered
from moorage.scheduler.engine.answers.standing import INFEASIBLE_TOTAL, Share, StandingAnswer
from moorage.scheduler.engine.cycle.cross_check import CrossCheck
from moorage.scheduler.engine.cycle.found import FEW, ExtendedNodes, OneNode, SeveralNodes
from moorage.scheduler.engine.extension_points import check_range, normalize, pre_score, score_nodes
from moorage.scheduler.engine.profile import Profile
from moorage.scheduler.engine.reference import PluginScores, score_all
from moorage.scheduler.engine.ties import Ties
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable, RowArray
from moorage.scheduler.framework.status import MAX_NODE_SCORE, IntArray
from moorage.scheduler.state.cache import Cache

MAX_ORDERED: Final = 1 << 62
MANY_NODES: Final = 1 << 14
"""From so many on it pays not to go through all nodes that were not rejected."""
MANY_EQUALS: Final = 1024
"""With so many equals, one of the places that win first is nearly always among them."""


class Choice(Struct):
    """The node that won; ``tied`` lists equals among which upstream would choose at random.

    ``added`` is what extenders added to the totals, by node.
    """

    node: NodeInfo
    tied: tuple[str, ...] = ()
    added: Mapping[str, int] = {}


class Totals(Struct):
    """The weighted sums of nodes: of some rows, or (``rows`` is ``None``) of all, infeasible ones below zero.

    ``is_standing``: the column is the standing answer's own and must not be changed.
    """

    column: IntArray
    rows: RowArray | None = None
    is_standing: bool = False

    def at(self, rows: RowArray) -> IntArray:
        """Return the sums of the rows they were asked for."""
        return self.column.take(rows) if self.rows is None else self.column


class LateRows:
    """The feasible rows in the order they are found in, worked out when somebody needs them."""

    __slots__ = ("_find", "_found")

    def __init__(self, find: Callable[[], RowArray]) -> None:
        self._find = find
        self._found: RowArray | None = None

    def find(self) -> RowArray:
        """Return the rows."""
        if self._found is None:
            self._found = self._find()
        return self._found


def found_rows(rows: RowArray | LateRows) -> RowArray:
    """Return rows that may be late."""
    return rows.find() if isinstance(rows, LateRows) else rows


class ScoreNotes(Struct):
    """What the totals of the last choice are made of: shares that stand, over all rows, and fresh scores over some.

    ``rows`` are those of the fresh scores; ``None`` is all. Valid until the next choice.
    """

    shares: list[Share] = field(default_factory=list)
    fresh: list[PluginScores] = field(default_factory=list)
    rows: RowArray | None = None


class Scoring:
    """Scores feasible nodes and picks one, one profile's way; among equals as upstream does, or as ``ties`` says."""

    def __init__(self, profile: Profile, cache: Cache, ties: Ties | None = None) -> None:
        self.profile = profile
        self.cache = cache
        self._ties = ties
        self.cross_check: CrossCheck | None = None
        self.notes: ScoreNotes | None = None
        """Where to note what totals are made of, for who writes decisions down; nobody does unless asked to."""
        self._heap = HeapOrder()
        self._max_total = MAX_NODE_SCORE * sum(profile.weights.values())
        self._dtype: IntType = np.int32 if self._max_total < MAX_NARROW else np.int64
        self._ranks_of_all: Ranks | None = None
        # Reproducible, and yet spread over the nodes.
        self._chance = Random(0)

    def choose(self, found: OneNode | SeveralNodes) -> Choice:
        """Pick the best node; a single feasible one is taken without being scored."""
        if isinstance(found, OneNode):
            return Choice(found.node)
        rows = self._rows_in_order(found)
        totals = self.totals(found, rows)
        if self.cross_check is not None:
            checked = np.flatnonzero(found.feasible) if rows is None else found_rows(rows)
            self.cross_check.totals(found.pod, self.cache.nodes, checked, totals.at(checked), found.cycle.group)
        if self._ties is not None:
            best = (totals.column == totals.column.max()).nonzero()[0]
            tied = best if totals.rows is None else totals.rows[best]
            return Choice(self.cache.nodes[self._ties.choose(self.cache.nodes, tied)])
        if found.is_narrowed:
            return self._first_in_order(totals)
        return Choice(self.cache.nodes[self._best(found, totals)])

    def totals(self, found: SeveralNodes, rows: "RowArray | LateRows | None") -> Totals:
        """Return the weighted sums over all score plugins of the feasible rows (``None``: all there are)."""
        if not self.profile.score:
            return Totals(np.where(found.feasible, 1, INFEASIBLE_TOTAL))
        if found.answer is not None:
            try:
                self.pre_score(found, found.answer, rows)
                return self.score(found, found.answer, rows)
            except PluginError:
                # Columns score nodes that are not feasible, too: if only those failed, nothing is wrong. And the error
                # that counts is the one that upstream would meet first.
                pass
        visited = self._visited(found)
        totals = np.full(len(found.feasible), INFEASIBLE_TOTAL, dtype=np.int64)
        totals[visited] = score_all(self.profile, found.cycle.clone(), found.pod, self.cache.nodes.take(visited)).totals
        return Totals(totals)

    def pre_score(self, found: SeveralNodes, answer: StandingAnswer, rows: "RowArray | LateRows | None") -> None:
        """Ask the pre-score plugins whose answers do not stand."""
        if answer.layout.fresh_pre_scores:
            nodes = self.cache.nodes
            window = nodes.late(found.count, rows.find) if isinstance(rows, LateRows) else self._window(rows)
            for plugin in answer.layout.fresh_pre_scores:
                pre_score(plugin, found.cycle, found.pod, window)

    def score(self, found: SeveralNodes, answer: StandingAnswer, rows: "RowArray | LateRows | None") -> Totals:
        """Add the plugins that are asked in every cycle to the standing totals."""
        skipped, is_own = found.cycle.skipped_scores, found.feasible_version == answer.feasible_version
        scorers = [plugin for plugin in answer.layout.fresh_scores if plugin.name not in skipped]
        standing = answer.score(found.pod, self.cache.nodes)
        is_standing = is_own or answer.totals_ignore_feasibility
        shares, notes = answer.shares or [], self.notes
        if not is_standing:
            standing, shares = answer.score_over(found.cycle, found.pod, self.cache.nodes, found.feasible)
        if isinstance(rows, LateRows):
            if not scorers:
                if notes is not None:
                    notes.shares, notes.fresh, notes.rows = shares, [], None
                return Totals(_without(standing, found) if is_standing else standing)
            rows = rows.find()
        if notes is not None:
            notes.shares, notes.fresh, notes.rows = shares, [], rows
        if not scorers and (rows is None or is_own):
            return Totals(standing, is_standing=is_standing)
        column, window, adds = standing if rows is None else standing.take(rows), self._window(rows), False
        for scorer in scorers:
            raw = score_nodes(scorer, found.cycle, found.pod, window)
            noted = raw if notes is None else raw.copy()  # to normalise may change the column
            normalized = normalize(scorer, found.cycle, found.pod, window, raw)
            is_narrow = normalized.dtype == np.int32
            if not (is_narrow and scorer._narrow_is_checked):
                check_range(scorer.name, normalized)
            if notes is not None:
                notes.fresh.append(PluginScores(scorer.name, self.profile.weights[scorer.name], noted, normalized))
            if not normalized.any():
                continue
            adds = True
            # What comes of it is a column of our own, what stands is not.
            narrowed = normalized if is_narrow else normalized.astype(self._dtype)
            weighted = np.multiply(narrowed, self.profile.weights[scorer.name], dtype=self._dtype)
            weighted += column
            column = weighted
        if not adds and (rows is None or is_own):
            return Totals(standing, is_standing=is_standing)
        return Totals(column, rows)

    def _window(self, rows: RowArray | None) -> NodeTable:
        return self.cache.nodes if rows is None else self.cache.nodes.take(rows)

    def _best(self, found: SeveralNodes, totals: Totals) -> int:
        """Return the row with the highest total; among equals, the one that is the root of upstream's heap."""
        column, rows = totals.column, totals.rows
        if rows is None and not totals.is_standing and _are_few_rejected(found):
            return self._root(found, column)
        ranks = self._ranks(found) if rows is None else Ranks(self._heap.ranks(len(rows)), self._heap.size)
        if self._max_total * (ranks.size + 1) >= MAX_ORDERED:
            tied = (column == column.max()).nonzero()[0]
            place = int(tied[ranks.column[tied].argmin()])
        elif totals.is_standing and found.answer is not None:
            place = found.answer.winner(ranks)
        else:
            place = int(ordered(column, ranks, self._max_total).argmax())
        return place if rows is None else int(rows[place])

    def _root(self, found: SeveralNodes, totals: IntArray) -> int:
        """Do the same where few nodes were rejected, and in this cycle alone, without going through all that were not.

        A node's place in the heap is its turn in the search, less the rejected ones that had theirs before.
        """
        order, size = self.cache.order, len(totals)
        gaps = (self.cache.places[(~found.feasible).nonzero()[0]] - found.start) % size
        gaps.sort()
        is_best = totals == totals.max()
        if np.count_nonzero(is_best) > MANY_EQUALS:
            first = self._heap.first(found.count)
            turns = first + (gaps - np.arange(len(gaps))).searchsorted(first, side="right")
            rows = order[(turns + found.start) % size]
            at = int(is_best[rows].argmax())
            if is_best[rows[at]]:
                return int(rows[at])
        tied = is_best.nonzero()[0]
        turns = (self.cache.places[tied] - found.start) % size
        ranks = self._heap.ranks(found.count)[turns - gaps.searchsorted(turns)]
        return int(tied[ranks.argmin()])

    def _first_in_order(self, totals: Totals) -> Choice:
        """Pick among the few nodes a pre-filter named: equals are listed in the order of the cluster."""
        places = (totals.column == totals.column.max()).nonzero()[0]
        tied = places if totals.rows is None else totals.rows[places]
        if len(tied) == 1:
            return Choice(self.cache.nodes[int(tied[0])])
        in_order = tied[np.argsort(self.cache.places[tied])]
        nodes = [self.cache.nodes[int(row)] for row in in_order]
        return Choice(nodes[0], tuple(node.name for node in nodes))

    def choose_with(self, extended: ExtendedNodes, added: Mapping[str, int]) -> Choice:
        """Pick the best node by the plugins' totals and what extenders add; equals that they mention draw lots."""
        found, rows = extended.found, extended.rows
        nodes = [self.cache.nodes[int(row)] for row in rows]
        if extended.table is None:
            totals = self.totals(found, rows).at(rows)
        else:
            totals = score_all(self.profile, found.cycle, found.pod, extended.table.take(rows)).totals
        totals = totals + np.array([added.get(node.name, 0) for node in nodes], dtype=np.int64)
        best = [nodes[place] for place in np.flatnonzero(totals == totals.max())]
        mentioned = [node for node in best if node.name in added] or best[:1]
        tied = tuple(node.name for node in mentioned) if len(mentioned) > 1 else ()
        return Choice(self._chance.choice(mentioned), tied, added)

    def _rows_in_order(self, found: SeveralNodes) -> "RowArray | LateRows | None":
        """Return the feasible rows in the order upstream finds them in; ``None`` if all are feasible."""
        if found.count == len(found.feasible):
            return None
        if found.feasible_version is not None:
            return self._kept_order(found)[0]
        return LateRows(partial(self._visited, found)) if _are_few_rejected(found) else self._visited(found)

    def _ranks(self, found: SeveralNodes) -> Ranks:
        """Return for each row where it stands in the preorder of upstream's heap over the nodes found."""
        if found.count == len(found.feasible):
            version = (self.cache.structure, found.start)
            if self._ranks_of_all is None or self._ranks_of_all.version != version:
                self._ranks_of_all = self._ranks_by_row(self._visited(found), version)
            return self._ranks_of_all
        if found.feasible_version is None:
            return self._ranks_by_row(self._visited(found))
        return self._kept_order(found)[1]

    def _kept_order(self, found: SeveralNodes) -> tuple[RowArray, Ranks]:
        """Return the standing feasible rows as they are found, and their ranks: they rarely change between pods."""
        assert found.answer is not None
        version = (self.cache.structure, found.start, found.feasible_version)
        known = found.answer.found_order
        if known is None or known[1].version != version:
            rows = self._visited(found)
            known = found.answer.found_order = (rows, self._ranks_by_row(rows, version))
        return known

    def _visited(self, found: SeveralNodes) -> RowArray:
        order = self.cache.order if found.order is None else found.order
        if found.start and found.order is None:
            order = np.concatenate((order[found.start :], order[: found.start]))
        return order.take(found.feasible.take(order).nonzero()[0])

    def _ranks_by_row(self, visited: RowArray, version: object = None) -> Ranks:
        ranks = np.zeros(len(self.cache), dtype=np.int32)
        ranks[visited] = self._heap.ranks(len(visited))
        return Ranks(ranks, self._heap.size, version)


def _are_few_rejected(found: SeveralNodes) -> bool:
    """Tell whether nearly all nodes of the cluster will do, though not those that the standing answer says."""
    size = len(found.feasible)
    is_search_of_all = found.order is None and not found.is_narrowed
    few = 0 < (size - found.count) * FEW <= size and size >= MANY_NODES
    return few and is_search_of_all and found.feasible_version is None


def _without(standing: IntArray, found: SeveralNodes) -> IntArray:
    """Return a copy of standing totals in which the rows that will not do have less than none."""
    totals = standing.copy()
    totals[(~found.feasible).nonzero()[0]] = INFEASIBLE_TOTAL
    return totals
