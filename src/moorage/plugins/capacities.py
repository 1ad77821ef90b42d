"""What nodes have of a resource, in the forms scores divide by; those of the cluster stand while no node changes."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from moorage.framework.nodetable import NodeTable
from moorage.framework.status import BoolArray, FloatArray, IntArray

EXACT_BELOW: Final = 1 << 46


class Capacity(NamedTuple):
    """What a window of nodes has of one resource; a node with none counts as having 1, and is not present."""

    amounts: IntArray
    floats: FloatArray
    present: BoolArray | None
    """Which nodes have the resource; ``None`` means all."""
    is_exact: bool
    """Whether percentages may be computed with floats."""


def capacity_of(amounts: IntArray) -> Capacity:
    """Look at a column of amounts."""
    present = None
    if int(amounts.min(initial=1)) <= 0:
        present = amounts != 0
        amounts = amounts + ~present
    return Capacity(amounts, amounts.astype(np.float64), present, int(amounts.max(initial=0)) < EXACT_BELOW)


class Capacities:
    """The capacities of the cluster, looked at once until a node changes."""

    def __init__(self) -> None:
        self._known: dict[str, Capacity] = {}
        self._nodes: NodeTable | None = None
        self._version = -1

    def of(self, nodes: NodeTable, resources: Sequence[str]) -> list[Capacity]:
        """Return what a window of nodes has of each resource."""
        if not nodes.shows_all:
            return [capacity_of(nodes.allocatable[resource]) for resource in resources]
        version = nodes.nodes_version
        if self._version != version or self._nodes is None or not nodes.is_window_of(self._nodes):
            self._known.clear()
            self._nodes, self._version = nodes, version
        known = self._known
        for resource in resources:
            if resource not in known:
                known[resource] = capacity_of(nodes.allocatable[resource])
        return [known[resource] for resource in resources]


def percentages(hundredfold: IntArray, capacity: Capacity) -> IntArray:
    """Divide by capacities where quotients lie between 0 and 100, cutting off as integer division does."""
    # Dividing floats takes a third of the time. It is exact as long as capacities stay below 2**46: the quotient is at
    # least 1/capacity away from the next integer, which is then more than half the gap between floats near 100.
    if capacity.is_exact:
        return (hundredfold / capacity.floats).astype(np.int64)
    return hundredfold // capacity.amounts
