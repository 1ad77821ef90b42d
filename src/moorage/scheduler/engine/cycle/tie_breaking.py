"""Tie-breaking: which of several nodes with equal totals wins. It is chosen when a profile is built.

The default is upstream's: the root of its heap, which depends on the order in which the search finds nodes.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from moorage.scheduler.engine.cached_results.combined_result import HeapOrder, Ranks, order_totals
from moorage.scheduler.engine.cycle.search_result import FEW, Choice, SeveralNodes, Totals
from moorage.scheduler.engine.ties import Ties
from moorage.scheduler.framework.nodetable import RowArray
from moorage.scheduler.framework.status import IntArray
from moorage.scheduler.state.cache import Cache

MAX_ORDERED: Final = 1 << 62
MANY_NODES: Final = 1 << 14
"""From this number of nodes on it pays not to visit all feasible ones."""
MANY_EQUALS: Final = 1024
"""Among this number of equals, one of the places that win first is nearly always present."""


class LateRows:
    """The feasible rows in search order, computed at first use."""

    __slots__ = ("_compute", "_rows")

    def __init__(self, compute: Callable[[], RowArray]) -> None:
        self._compute = compute
        self._rows: RowArray | None = None

    def get(self) -> RowArray:
        """Return the rows."""
        if self._rows is None:
            self._rows = self._compute()
        return self._rows


class SearchOrder:
    """The order in which upstream's search finds the feasible nodes, and the tie-breaks that follow from it."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self.heap = HeapOrder()
        self._ranks_of_all: Ranks | None = None

    def rows(self, result: SeveralNodes) -> RowArray | LateRows | None:
        """Return the feasible rows in search order, or ``None`` if all rows are feasible."""
        if result.count == len(result.feasible):
            return None
        if result.feasible_version is not None:
            return self._cached_order(result)[0]
        return LateRows(partial(self.visited, result)) if has_few_rejections(result) else self.visited(result)

    def visited(self, result: SeveralNodes) -> RowArray:
        """Compute the feasible rows in search order."""
        order = self._cache.order if result.order is None else result.order
        if result.start and result.order is None:
            order = np.concatenate((order[result.start :], order[: result.start]))
        return order.take(result.feasible.take(order).nonzero()[0])

    def ranks(self, result: SeveralNodes) -> Ranks:
        """Return for each row its place in the preorder of upstream's heap of feasible nodes."""
        if result.count == len(result.feasible):
            version = (self._cache.structure, result.start)
            if self._ranks_of_all is None or self._ranks_of_all.version != version:
                self._ranks_of_all = self._rank_rows(self.visited(result), version)
            return self._ranks_of_all
        if result.feasible_version is None:
            return self._rank_rows(self.visited(result))
        return self._cached_order(result)[1]

    def _cached_order(self, result: SeveralNodes) -> tuple[RowArray, Ranks]:
        """Return the cached feasible rows in search order, and their ranks: they rarely change between pods."""
        assert result.cached is not None
        version = (self._cache.structure, result.start, result.feasible_version)
        cached = result.cached.search_order
        if cached is None or cached[1].version != version:
            rows = self.visited(result)
            cached = result.cached.search_order = (rows, self._rank_rows(rows, version))
        return cached

    def _rank_rows(self, visited: RowArray, version: object = None) -> Ranks:
        ranks = np.zeros(len(self._cache), dtype=np.int32)
        ranks[visited] = self.heap.ranks(len(visited))
        return Ranks(ranks, self.heap.size, version)


class TieBreaker:
    """Chooses as upstream does, or as ``ties`` does. ``max_total`` is the upper bound of totals."""

    def __init__(self, cache: Cache, order: SearchOrder, max_total: int, ties: Ties | None = None) -> None:
        self._cache = cache
        self._order = order
        self._max_total = max_total
        self._ties = ties

    def choose(self, result: SeveralNodes, totals: Totals) -> Choice:
        """Return the winner; after a pre-filter named the candidates, ``tied`` lists all equals."""
        nodes = self._cache.nodes
        if self._ties is None and not result.is_narrowed:
            return Choice(nodes[self._find_best(result, totals)])
        best = (totals.column == totals.column.max()).nonzero()[0]
        tied_rows = best if totals.rows is None else totals.rows[best]
        if self._ties is not None:
            return Choice(nodes[self._ties.choose(nodes, tied_rows)])
        if len(tied_rows) == 1:
            return Choice(nodes[int(tied_rows[0])])
        in_order = tied_rows[np.argsort(self._cache.places[tied_rows])]
        return Choice(nodes[int(in_order[0])], tuple(nodes[int(row)].name for row in in_order))

    def _find_best(self, result: SeveralNodes, totals: Totals) -> int:
        """Return the row with the highest total; among equals, the root of upstream's heap."""
        column, rows = totals.column, totals.rows
        if rows is None and not totals.is_cached and has_few_rejections(result):
            return self._find_root(result, column)
        heap = self._order.heap
        ranks = self._order.ranks(result) if rows is None else Ranks(heap.ranks(len(rows)), heap.size)
        if self._max_total * (ranks.size + 1) >= MAX_ORDERED:
            best_indexes = (column == column.max()).nonzero()[0]
            index = int(best_indexes[ranks.column[best_indexes].argmin()])
        elif totals.is_cached and result.cached is not None:
            index = result.cached.find_winner(ranks)
        else:
            index = int(order_totals(column, ranks, self._max_total).argmax())
        return index if rows is None else int(rows[index])

    def _find_root(self, result: SeveralNodes, totals: IntArray) -> int:
        """Do the same where few nodes were rejected, and only in this cycle, without a visit of all feasible ones.

        A node's place in the heap is its turn in the search, minus the number of rejected nodes before it.
        """
        order, size, heap = self._cache.order, len(totals), self._order.heap
        gaps = (self._cache.places[(~result.feasible).nonzero()[0]] - result.start) % size
        gaps.sort()
        is_best = totals == totals.max()
        if np.count_nonzero(is_best) > MANY_EQUALS:
            first = heap.first(result.count)
            turns = first + (gaps - np.arange(len(gaps))).searchsorted(first, side="right")
            rows = order[(turns + result.start) % size]
            index = int(is_best[rows].argmax())
            if is_best[rows[index]]:
                return int(rows[index])
        tied_rows = is_best.nonzero()[0]
        turns = (self._cache.places[tied_rows] - result.start) % size
        ranks = heap.ranks(result.count)[turns - gaps.searchsorted(turns)]
        return int(tied_rows[ranks.argmin()])


def has_few_rejections(result: SeveralNodes) -> bool:
    """Return whether nearly all nodes of a large cluster are feasible, but not exactly the cached ones."""
    size = len(result.feasible)
    is_search_of_all = result.order is None and not result.is_narrowed
    few = 0 < (size - result.count) * FEW <= size and size >= MANY_NODES
    return few and is_search_of_all and result.feasible_version is None
