"""Bringing raw scores of any size into the range that counts."""

from typing import Final

import numpy as np

from moorage.scheduler.framework.status import MAX_NODE_SCORE, IntArray

_MAX_EXACT: Final = 2**56
"""Up to here a hundred times a number is still an int64."""


def spread(scores: IntArray, lowest: int, highest: int, *, onto: int = 0) -> IntArray:
    """Move scores so that the lowest becomes ``onto`` and the highest 100; if all are equal they become ``onto``.

    >>> spread(np.array([-5, 0, 5]), -5, 5).tolist()
    [0, 50, 100]
    """
    span, room = highest - lowest, MAX_NODE_SCORE - onto
    if span == 0:
        return np.full_like(scores, onto)
    if span > _MAX_EXACT:
        shares = scores.astype(np.float64) - lowest
        return np.minimum(onto + (shares / span * room).astype(np.int64), MAX_NODE_SCORE)
    moved: IntArray = onto + (scores - lowest) * room // span
    return moved
