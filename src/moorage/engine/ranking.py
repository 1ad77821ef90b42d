"""Choosing among rated nodes: upstream's heap decides ties, so the order in which nodes were found matters."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from moorage.framework.status import IntArray

LEVELS: Final = 48
"""Enough levels of a binary heap for more nodes than a cluster can have."""
FIRST_SIZE: Final = 1 << 13


class HeapOrder:
    """Which of several equal nodes ends at the root of upstream's heap.

    The root after Go's ``heap.Init`` is the first of the maxima in preorder of the implicit binary tree. In preorder a
    place sorts by its path from the root: place + 1 in binary, read from its leading one, shorter paths first.
    """

    def __init__(self) -> None:
        self.size = 0
        self._ranks: IntArray = np.zeros(0, dtype=np.int64)

    def ranks(self, count: int) -> IntArray:
        """Return a number below ``size`` for each of the first places; among equals, the smallest number wins."""
        if count > len(self._ranks):
            self.size = max(FIRST_SIZE, 1 << (count - 1).bit_length())
            self._ranks = np.empty(self.size, dtype=np.int64)
            self._ranks[np.argsort(preorder_keys(self.size))] = np.arange(self.size)
        return self._ranks[:count]


def preorder_keys(count: int) -> NDArray[np.int64]:
    """Compute a number for each heap place, such that sorting by it is preorder."""
    paths = np.arange(1, count + 1, dtype=np.int64)
    depth = np.frexp(paths.astype(np.float64))[1].astype(np.int64) - 1
    keys: NDArray[np.int64] = ((paths << (LEVELS - depth)) << 6) | depth
    return keys
