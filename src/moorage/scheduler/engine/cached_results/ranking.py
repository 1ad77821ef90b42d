"""The winner among scored nodes. Upstream's heap decides ties, so the order in which nodes were found matters."""

from collections.abc import Hashable
from typing import Final

import numpy as np
from msgspec import Struct

from moorage.common.arrays import NDArray
from moorage.scheduler.framework.status import IntArray

MAX_NARROW: Final = 1 << 31
"""Numbers below this fit into 32 bits."""
LEVELS: Final = 48
"""Enough levels of a binary heap for any number of nodes."""
MIN_SIZE: Final = 1 << 13
FIRST_PLACES: Final = 1 << 8
"""The number of places to examine before all equals are compared."""


class Ranks(Struct, frozen=True):
    """The tie-break of each row: among equals the lowest rank wins; all ranks are below ``size``.

    ``version`` identifies their inputs, so that derived columns can be cached; ``None`` is used for a single choice.
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
        """Return some of the first ``count`` places: the ones with the lowest ranks, in order."""
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

    It is cached between pods: a placed pod changes the total of one row, and only that row is written again.
    """

    def __init__(self) -> None:
        self._column: IntArray = np.zeros(0, dtype=np.int64)
        self._ranks: Ranks | None = None

    def invalidate(self) -> None:
        """Compute the whole column at the next use."""
        self._ranks = None

    def put(self, row: int, total: int) -> None:
        """Update the total of one row."""
        if self._ranks is not None:
            self._column[row] = total * self._ranks.size - int(self._ranks.column[row])

    def best(self, totals: IntArray, ranks: Ranks, max_total: int) -> int:
        """Return the row of the winner; no total is higher than ``max_total``."""
        cached = self._ranks
        if cached is None or ranks.version is None or cached.version != ranks.version or cached.size != ranks.size:
            self._column = order_totals(totals, ranks, max_total)
            self._ranks = ranks
        return int(self._column.argmax())


def order_totals(totals: IntArray, ranks: Ranks, max_total: int) -> IntArray:
    """Return a column whose maximum is the winner, in 32 bits if they are enough."""
    is_narrow = totals.dtype == np.int32 and (max_total + 1) * (ranks.size + 1) < MAX_NARROW
    column = np.multiply(totals, ranks.size, dtype=np.int32 if is_narrow else np.int64)
    column -= ranks.column
    return column
