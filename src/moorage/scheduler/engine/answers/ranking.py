"""Who wins among scored nodes: upstream's heap decides ties, so the order in which nodes were found matters."""

from collections.abc import Hashable
from typing import Final

import numpy as np
from msgspec import Struct

from moorage.common.arrays import NDArray
from moorage.scheduler.engine.answers.layout import MAX_NARROW
from moorage.scheduler.framework.status import IntArray

LEVELS: Final = 48
"""Enough levels of a binary heap for more nodes than a cluster can have."""
MIN_SIZE: Final = 1 << 13
FIRST_PLACES: Final = 1 << 8
"""So many places are looked at before all of those that are equal are compared."""


class Ranks(Struct, frozen=True):
    """The tie-break of each row: among equals the lowest wins; all are below ``size``.

    ``version`` names what they were made of, so that what is derived from them can be kept; ``None`` for one choice.
    """

    column: IntArray
    size: int
    version: Hashable = None


class HeapOrder:
    """Which of several equal nodes ends at the root of upstream's heap.

    The root after Go's ``heap.Init`` is the first of the maxima in preorder of the implicit binary tree. In preorder a
    place sorts by its path from the root: place + 1 in binary, read from its leading one, shorter paths first.
    """

    def __init__(self) -> None:
        self.size = 0
        self._ranks: IntArray = np.zeros(0, dtype=np.int32)
        self._first: IntArray = np.zeros(0, dtype=np.int64)

    def first(self, count: int) -> IntArray:
        """Return some of the first ``count`` places: those that win before all others, in the order they win in."""
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

    Kept from pod to pod: a pod that is placed changes the total of one row, and only that place is written again.
    """

    def __init__(self) -> None:
        self._column: IntArray = np.zeros(0, dtype=np.int64)
        self._ranks: Ranks | None = None

    def invalidate(self) -> None:
        """Make the column anew when it is next asked for."""
        self._ranks = None

    def put(self, row: int, total: int) -> None:
        """Follow the total of one row."""
        if self._ranks is not None:
            self._column[row] = total * self._ranks.size - int(self._ranks.column[row])

    def best(self, totals: IntArray, ranks: Ranks, max_total: int) -> int:
        """Return the row of the winner; no total is higher than ``max_total``."""
        known = self._ranks
        if known is None or ranks.version is None or known.version != ranks.version or known.size != ranks.size:
            self._column = ordered(totals, ranks, max_total)
            self._ranks = ranks
        return int(self._column.argmax())


def ordered(totals: IntArray, ranks: Ranks, max_total: int) -> IntArray:
    """Return a column whose maximum is the winner, in 32 bits if they are enough."""
    narrow = totals.dtype == np.int32 and (max_total + 1) * (ranks.size + 1) < MAX_NARROW
    column = np.multiply(totals, ranks.size, dtype=np.int32 if narrow else np.int64)
    column -= ranks.column
    return column
