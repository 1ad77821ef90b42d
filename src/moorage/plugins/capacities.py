"""What nodes have of a resource, in the forms scores divide by; those of the cluster stand while no node changes."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from moorage.framework.nodeinfo import NodeInfo
from moorage.framework.nodetable import NodeTable
from moorage.framework.status import BoolArray, FloatArray, IntArray

EXACT_FLOATS: Final = 1 << 53
"""Below this a float is as good as an integer."""
EXACT_BELOW: Final = 1 << 46
"""Below this so is the quotient of a hundred times an amount, cut off."""
MANY_ROWS: Final = 64
"""When so many rows changed it is cheaper to compute a column from scratch."""


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


class StandingAmounts:
    """Amounts per resource and row of the whole cluster, worked out once and written again on the rows that change.

    ``write`` works a column out from the nodes, or, given a row, the number of that row.
    """

    def __init__(self, write: "WriteAmounts") -> None:
        self._write = write
        self._columns: dict[str, FloatArray] = {}
        self._lowest: dict[str, float] = {}
        self._nodes: NodeTable | None = None
        self._version = self._position = -1

    def follow(self, nodes: NodeTable) -> None:
        """Take in what changed in the cluster that a window shows all of."""
        position = nodes.position
        if position == self._position and nodes is self._nodes:
            return
        changed = None
        if self._nodes is not None and nodes.is_window_of(self._nodes) and self._version == nodes.nodes_version:
            changed = nodes.changed_since(self._position)
        if changed is None or len(changed) > MANY_ROWS:
            self._columns.clear()
            self._lowest.clear()
        else:
            self._write_rows(nodes, changed)
        self._nodes, self._version, self._position = nodes, nodes.nodes_version, position

    def _write_rows(self, nodes: NodeTable, rows: list[int]) -> None:
        for row in rows if len(rows) == 1 else set(rows):
            node = nodes[row]
            for resource, column in self._columns.items():
                column[row] = amount = self._write.row(node, resource)
                self._lowest[resource] = min(self._lowest[resource], amount)

    def of(self, nodes: NodeTable, resource: str) -> FloatArray:
        """Return the column of a resource; call :meth:`follow` first."""
        column = self._columns.get(resource)
        if column is None:
            column = self._columns[resource] = self._write.column(nodes, resource)
            self._lowest[resource] = float(column.min(initial=np.inf))
        return column

    def lowest(self, nodes: NodeTable, resource: str, wanted: float) -> float:
        """Return an amount that no row is below, found out exactly if what is known is not as much as wanted."""
        known = self._lowest.get(resource)
        if known is None or known < wanted:
            known = self._lowest[resource] = float(self.of(nodes, resource).min(initial=np.inf))
        return known


class WriteAmounts(NamedTuple):
    """How the amounts of a resource are worked out: on all nodes of a window, and on one."""

    column: Callable[[NodeTable, str], FloatArray]
    row: Callable[[NodeInfo, str], float]


def percentages(hundredfold: IntArray, capacity: Capacity) -> IntArray:
    """Divide by capacities where quotients lie between 0 and 100, cutting off as integer division does."""
    # Dividing floats takes a third of the time. It is exact as long as capacities stay below 2**46: the quotient is at
    # least 1/capacity away from the next integer, which is then more than half the gap between floats near 100.
    if capacity.is_exact:
        return (hundredfold / capacity.floats).astype(np.int64)
    return hundredfold // capacity.amounts
