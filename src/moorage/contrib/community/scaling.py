"""Scales raw scores to the range of node scores."""

from typing import Final

import numpy as np

from moorage.scheduler.framework.status import MAX_NODE_SCORE, IntArray

_MAX_EXACT: Final = 2**56
"""Up to this number, a hundred times the number fits an int64."""


def spread(scores: IntArray, lowest: int, highest: int, *, onto: int = 0) -> IntArray:
    """Scale scores so that the lowest becomes ``onto`` and the highest 100. Equal scores become ``onto``.

    >>> spread(np.array([-5, 0, 5]), -5, 5).tolist()
    [0, 50, 100]
    """
    span, room = highest - lowest, MAX_NODE_SCORE - onto
    if span == 0:
        return np.full_like(scores, onto)
    if span > _MAX_EXACT:
        shares = scores.astype(np.float64) - lowest
        return np.minimum(onto + (shares / span * room).astype(np.int64), MAX_NODE_SCORE)
    shifted_scores: IntArray = onto + (scores - lowest) * room // span
    return shifted_scores
