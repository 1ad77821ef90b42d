"""What a search for nodes can find: none, one, or several to choose from."""

from typing import Final, TypeAlias

from msgspec import Struct

from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.answers.standing import StandingAnswer
from moorage.scheduler.engine.outcomes import Diagnosis
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable, RowArray
from moorage.scheduler.framework.status import BoolArray

FEW: Final = 8
"""Of so many nodes one may be rejected for the rejected ones to count as few."""


class NoNode(Struct):
    """The pod fits nowhere, or a pre-filter rejected it."""

    pod: Pod
    cycle: CycleState
    diagnosis: Diagnosis


class OneNode(Struct):
    """Exactly one node will do: it is taken without being scored. ``is_nominated``: no other node was looked at."""

    pod: Pod
    cycle: CycleState
    diagnosis: Diagnosis
    node: NodeInfo
    is_nominated: bool = False


class SeveralNodes(Struct):
    """Nodes to choose from, as a mask over all rows.

    ``answer`` is what stands for pods like this one; ``None`` if a plugin failed on the way and nodes were filtered one
    by one, so that all of them have to be scored from nothing. ``feasible_version`` is the answer's if the mask is
    exactly the answer's own, else ``None``. ``is_narrowed``: a pre-filter named the only nodes to look at. ``order``:
    the rows as they are visited, where only a part of the cluster is searched.
    """

    pod: Pod
    cycle: CycleState
    diagnosis: Diagnosis
    answer: StandingAnswer | None
    feasible: BoolArray
    count: int
    start: int
    feasible_version: int | None = None
    is_narrowed: bool = False
    order: RowArray | None = None


class ExtendedNodes(Struct):
    """Nodes to choose from as extenders left them, in their order.

    ``table`` is the cluster as score plugins are to see it, if extenders sent other nodes back than they were given.
    """

    found: SeveralNodes
    rows: RowArray
    table: NodeTable | None = None


Found: TypeAlias = NoNode | OneNode | SeveralNodes


def is_feasible(found: Found, row: int) -> bool:
    """Tell whether the node in a row will do."""
    if isinstance(found, NoNode):
        return False
    return found.node.row == row if isinstance(found, OneNode) else bool(found.feasible[row])
