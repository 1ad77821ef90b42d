"""What a window of nodes has of a resource, in the forms scores divide by."""

from typing import Final, NamedTuple

import numpy as np

from moorage.kube.api.arithmetic import truncated_div, truncated_div_nodes, wrapped
from moorage.kube.api.quantity import MAX_INT64
from moorage.scheduler.framework.status import MAX_NODE_SCORE, BoolArray, FloatArray, IntArray

EXACT_FLOATS: Final = 1 << 53
"""Below this a float is as good as an integer."""
EXACT_BELOW: Final = 1 << 46
"""Below this so is the quotient of a hundred times an amount, cut off."""


class Capacity(NamedTuple):
    """What a window of nodes has of one resource; a node with none counts as having 1, and is not present."""

    amounts: IntArray
    floats: FloatArray
    present: BoolArray | None
    """Which nodes have the resource; ``None`` means all."""
    is_exact: bool
    """Whether percentages may be computed with floats."""
    is_sound: bool = True
    """Whether no node says that it has less than nothing."""


def capacity_of(amounts: IntArray) -> Capacity:
    """Look at a column of amounts."""
    present = None
    least = int(amounts.min(initial=1))
    if least <= 0:
        present = amounts != 0
        amounts = amounts + ~present
    is_exact = int(amounts.max(initial=0)) < EXACT_BELOW
    return Capacity(amounts, amounts.astype(np.float64), present, is_exact, is_sound=least >= 0)


def percentages(hundredfold: IntArray, capacity: Capacity) -> IntArray:
    """Divide by capacities where quotients lie between 0 and 100, cutting off as integer division does."""
    # Dividing floats takes a third of the time. It is exact as long as capacities stay below 2**46: the quotient is at
    # least 1/capacity away from the next integer, which is then more than half the gap between floats near 100.
    if capacity.is_exact:
        return (hundredfold / capacity.floats).astype(np.int64)
    return truncated_div_nodes(hundredfold, capacity.amounts)


def percentage(part: int, capacity: int) -> int:
    """Do the same for one node: a hundred times an amount may be more than upstream's integers hold."""
    hundredfold = part * MAX_NODE_SCORE
    return hundredfold // capacity if 0 <= hundredfold <= MAX_INT64 else truncated_div(wrapped(hundredfold), capacity)
