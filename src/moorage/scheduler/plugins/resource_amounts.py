"""Requested and allocatable amounts of each resource on every node, as columns that are updated row by row.

Plugins that use resources share them: a scheduled pod changes one row, which is written once.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from moorage.kube.api.arithmetic import truncated_div, truncated_div_nodes, wrap_int64
from moorage.kube.api.quantity import MAX_INT64
from moorage.kube.api.requests import CPU, MEMORY, PODS
from moorage.scheduler.framework.cycle import StateKey
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import MAX_NODE_SCORE, BoolArray, FloatArray, IntArray

EXACT_FLOATS: Final = 1 << 53
"""Below this, floats represent integers exactly."""
EXACT_BELOW: Final = 1 << 46
"""Below this, truncated percentages computed with floats are also exact."""


class Capacity(NamedTuple):
    """The capacity of a resource in a window of nodes. Nodes without it have amount 1 and are not ``present``."""

    amounts: IntArray
    floats: FloatArray
    present: BoolArray | None
    """The nodes that have the resource. ``None`` means all."""
    is_exact: bool
    """Whether percentages may be computed with floats."""
    is_sound: bool = True
    """Whether no node has a negative capacity."""


def measure_capacity(amounts: IntArray) -> Capacity:
    """Prepare a column of amounts as divisors."""
    present = None
    least = int(amounts.min(initial=1))
    if least <= 0:
        present = amounts != 0
        amounts = amounts + ~present
    is_exact = int(amounts.max(initial=0)) < EXACT_BELOW
    return Capacity(amounts, amounts.astype(np.float64), present, is_exact, is_sound=least >= 0)


def percentages(hundredfold: IntArray, capacity: Capacity) -> IntArray:
    """Divide by capacities where quotients are between 0 and 100, truncated like integers."""
    # Float division takes a third of the time. It is exact while capacities are below 2**46: the quotient is at
    # least 1/capacity away from the next integer, which is then more than half the gap between floats near 100.
    if capacity.is_exact:
        return (hundredfold / capacity.floats).astype(np.int64)
    return truncated_div_nodes(hundredfold, capacity.amounts)


def percentage(part: int, capacity: int) -> int:
    """Return the percentage for one node. A hundred times an amount may overflow upstream's integers."""
    hundredfold = part * MAX_NODE_SCORE
    return (
        hundredfold // capacity if 0 <= hundredfold <= MAX_INT64 else truncated_div(wrap_int64(hundredfold), capacity)
    )


MANY_ROWS: Final = 64
"""If more rows changed, recomputing the column is cheaper."""
MAX_RESOURCES: Final = 256
"""Number of resources with columns. Users may invent any number of resource names."""


class ResourceAmounts:
    """One resource on every node: capacity, usage, and bounds over all rows.

    Floats are exact below ``EXACT_FLOATS``. The integer bounds decide whether the floats may be used.
    """

    __slots__ = (
        "_free_share",
        "_is_lowest",
        "_lowest_free",
        "_lowest_left",
        "capacity",
        "most_used",
        "resource",
        "used",
    )

    def __init__(self, nodes: NodeTable, resource: str) -> None:
        self.resource = resource
        self.capacity: Capacity = measure_capacity(nodes.allocatable[resource])
        usage = nodes.pod_count if resource == PODS else nodes.requested[resource]
        self.used: FloatArray = usage.astype(np.float64)
        self.most_used = int(usage.max(initial=0))
        """An upper bound on the usage; not lowered when pods are removed."""
        self._lowest_free = int((nodes.allocatable[resource] - usage).min(initial=EXACT_FLOATS))
        self._is_lowest = True
        self._free_share: FloatArray | None = None
        self._lowest_left = 0.0

    def write(self, node: NodeInfo) -> None:
        row, resource = node.row, self.resource
        capacity = node.allocatable.get(resource, 0)
        usage = len(node.pods) if resource == PODS else node.requested.get(resource, 0)
        free, before = capacity - usage, self.used.item(row)
        self.used[row] = usage
        self.most_used = max(self.most_used, usage)
        if free <= self._lowest_free:
            self._lowest_free = free
        elif usage < before and capacity - before <= self._lowest_free:
            self._is_lowest = False
        if self._free_share is not None:
            self._free_share[row] = free_hundredfold = (capacity - scored_usage(node, resource)) * MAX_NODE_SCORE
            self._lowest_left = min(self._lowest_left, free_hundredfold)

    def is_free_everywhere(self, nodes: NodeTable, amount: int) -> bool:
        """Return whether every node has ``amount`` free; scans all rows only if the bound is too low."""
        if self._lowest_free < amount and not self._is_lowest:
            usage = nodes.pod_count if self.resource == PODS else nodes.requested[self.resource]
            self._lowest_free = int((nodes.allocatable[self.resource] - usage).min(initial=EXACT_FLOATS))
            self._is_lowest = True
        return self._lowest_free >= amount

    def left(self, nodes: NodeTable) -> FloatArray:
        """Return a hundred times the free amount for scoring on each node; exact below 2**46."""
        if self._free_share is None:
            is_scored = self.resource in (CPU, MEMORY)
            usage = (nodes.nonzero_requested if is_scored else nodes.requested)[self.resource]
            self._free_share = (nodes.allocatable[self.resource] - usage).astype(np.float64)
            self._free_share *= MAX_NODE_SCORE
            self._lowest_left = float(self._free_share.min(initial=np.inf))
        return self._free_share

    def is_left_everywhere(self, hundredfold: int) -> bool:
        """Return whether every node has this much left for scoring. Call :meth:`left` first."""
        if self._lowest_left < hundredfold and self._free_share is not None:
            self._lowest_left = float(self._free_share.min(initial=np.inf))
        return self._lowest_left >= hundredfold


class ClusterAmounts(dict[str, ResourceAmounts]):
    """The amounts of every resource in use, and columns derived from them.

    Call :meth:`follow` before each lookup. New resources are read from the nodes.
    """

    __slots__ = ("_derived", "_nodes", "_position", "_version")

    def __init__(self) -> None:
        super().__init__()
        self._derived: dict[tuple[OfNode, tuple[str, ...]], IntArray] = {}
        self._nodes: NodeTable | None = None
        self._version = self._position = -1

    def follow(self, nodes: NodeTable) -> None:
        """Apply changes of the cluster. The window must show all nodes."""
        position = nodes.position
        if position == self._position and nodes is self._nodes:
            return
        changed_rows = None
        if self._nodes is not None and nodes.is_window_of(self._nodes) and self._version == nodes.nodes_version:
            changed_rows = nodes.changed_since(self._position)
        if changed_rows is None or len(changed_rows) > MANY_ROWS:
            self.clear()
            self._derived.clear()
        else:
            for row in changed_rows if len(changed_rows) == 1 else set(changed_rows):
                node = nodes[row]
                for amounts in self.values():
                    amounts.write(node)
                for (of_node, resources), column in self._derived.items():
                    column[row] = of_node(node, resources)
        self._nodes, self._version, self._position = nodes, nodes.nodes_version, position

    def __missing__(self, resource: str) -> ResourceAmounts:
        assert self._nodes is not None
        if len(self) >= MAX_RESOURCES:
            self.clear()
            self._derived.clear()
        amounts = self[resource] = ResourceAmounts(self._nodes, resource)
        return amounts

    def derived(self, of_node: "OfNode", resources: tuple[str, ...], make: Callable[[], IntArray]) -> IntArray:
        """Return a column derived from some resources. ``make`` creates it on the first call."""
        column = self._derived.get((of_node, resources))
        if column is None:
            column = self._derived[of_node, resources] = make()
        return column


OfNode: TypeAlias = Callable[[NodeInfo, Sequence[str]], int]
"""Computes the value of a derived column for one node."""

AMOUNTS: Final = StateKey[ClusterAmounts]("requested resources of all nodes")


def shared_amounts(handle: Handle | None) -> ClusterAmounts:
    """Return the amounts of the handle's cluster, shared by the plugins of all profiles."""
    return ClusterAmounts() if handle is None else handle.shared(AMOUNTS, ClusterAmounts)


def scored_usage(node: NodeInfo, resource: str) -> int:
    """Return the usage that scores count: for CPU and memory, containers without requests have defaults."""
    if resource == CPU:
        return node.nonzero_cpu
    if resource == MEMORY:
        return node.nonzero_memory
    return node.requested.get(resource, 0)
