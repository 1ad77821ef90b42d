"""The results of a search for nodes (none, one, or several to choose from), their totals, and the choice."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from msgspec import Struct

from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.cached_results.combined_result import CombinedResult
from moorage.scheduler.engine.outcomes import Diagnosis
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable, RowArray
from moorage.scheduler.framework.status import BoolArray, IntArray

FEW: Final = 8
"""Rejected nodes are treated as few if at most one of this number of nodes is rejected."""


class NoNode(Struct):
    """No node is feasible, or a pre-filter rejected the pod."""

    pod: Pod
    cycle: CycleState
    diagnosis: Diagnosis


class OneNode(Struct):
    """Exactly one node is feasible: it is not scored. ``is_nominated``: no other node was evaluated."""

    pod: Pod
    cycle: CycleState
    diagnosis: Diagnosis
    node: NodeInfo
    is_nominated: bool = False


class SeveralNodes(Struct):
    """Nodes to choose from, as a mask over all rows.

    ``cached`` is the cached result of these pods, or ``None`` if a plugin failed and nodes were filtered one by one, so
    that all of them have to be scored without it. ``feasible_version`` is its version if the mask is exactly the cached
    one, else ``None``. ``is_narrowed``: a pre-filter named the only candidates. ``order``: the rows in search order,
    where only a part of the cluster is searched.
    """

    pod: Pod
    cycle: CycleState
    diagnosis: Diagnosis
    cached: CombinedResult | None
    feasible: BoolArray
    count: int
    start: int
    feasible_version: int | None = None
    is_narrowed: bool = False
    order: RowArray | None = None


class ExtendedNodes(Struct):
    """Nodes to choose from as extenders returned them, in their order.

    ``table`` is the cluster for the score plugins, if extenders returned other nodes than they received.
    """

    result: SeveralNodes
    rows: RowArray
    table: NodeTable | None = None


SearchResult: TypeAlias = NoNode | OneNode | SeveralNodes


def is_feasible(result: SearchResult, row: int) -> bool:
    """Return whether the node in a row is feasible."""
    if isinstance(result, NoNode):
        return False
    return result.node.row == row if isinstance(result, OneNode) else bool(result.feasible[row])


class Totals(Struct):
    """The weighted sums of nodes: of some rows, or (``rows`` is ``None``) of all, infeasible ones below zero.

    ``is_cached``: the column belongs to the cached result and must not be changed.
    """

    column: IntArray
    rows: RowArray | None = None
    is_cached: bool = False

    def at(self, rows: RowArray) -> IntArray:
        """Return the sums of the rows for which they were computed."""
        return self.column.take(rows) if self.rows is None else self.column


class Choice(Struct):
    """The winning node, equals among which upstream chooses at random, and the scores of extenders by name."""

    node: NodeInfo
    tied: tuple[str, ...] = ()
    added: Mapping[str, int] = {}
