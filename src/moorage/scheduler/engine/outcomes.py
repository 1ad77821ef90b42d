"""The outcomes of an attempt, and the diagnosis of an unschedulable pod: the sentence for users."""

from typing import TypeAlias

from msgspec import Struct, field

from moorage.scheduler.framework.node_statuses import NodeStatuses
from moorage.scheduler.framework.nodetable import RowArray
from moorage.scheduler.framework.status import BoolArray, Code, Status

NO_NODES = "no nodes available to schedule pods"
NOT_EXAMINED = Status.unresolvable()
"""The status of a node that was not evaluated."""
NOTHING_EXAMINED = NodeStatuses({}, NOT_EXAMINED)


class NodeScope(Struct, frozen=True):
    """A part of the cluster: a mask over all rows, their number, and the rows in the order of the cluster."""

    mask: BoolArray
    count: int
    order: RowArray


class Diagnosis(Struct):
    """The findings of a search for nodes. ``scope`` is the part of the cluster that was searched (default: all)."""

    node_count: int
    statuses: NodeStatuses = NOTHING_EXAMINED
    unschedulable_plugins: set[str] = field(default_factory=set)
    pending_plugins: set[str] = field(default_factory=set)
    pre_filter: Status | None = None
    post_filter_message: str = ""
    scope: NodeScope | None = None

    @classmethod
    def on_node(cls, node_name: str, status: Status) -> "Diagnosis":
        """Describe a rejection on the chosen node: ``0/1 nodes are available: 1 <reason>.``"""
        diagnosis = cls(1, NodeStatuses({node_name: status}, Status.unresolvable()))
        diagnosis.add_rejection(status)
        return diagnosis

    def add_rejection(self, status: Status) -> None:
        """Add the rejecting plugin: its events can requeue the pod."""
        if status.is_rejection and status.plugin:
            self.unschedulable_plugins.add(status.plugin)
            if status.code == Code.PENDING:
                self.pending_plugins.add(status.plugin)

    @property
    def message(self) -> str:
        """The text of the FailedScheduling event."""
        sentence = f"0/{self.node_count} nodes are available:"
        if self.pre_filter is not None and self.pre_filter.message:
            sentence += f" {self.pre_filter.message}."
        elif histogram := self.statuses.histogram(self.node_count):
            sentence += f" {histogram}."
        return sentence + (f" {self.post_filter_message}" if self.post_filter_message else "")


class Placed(Struct, frozen=True):
    """The pod has a node, and its binding cycle has begun. ``tied`` are equals that upstream might choose."""

    node_name: str
    tied: tuple[str, ...] = ()


class Unschedulable(Struct, frozen=True):
    """The pod was rejected. Events of the plugins can requeue it. ``nominated_node`` is as in PostFilterResult."""

    diagnosis: Diagnosis
    nominated_node: str | None = None

    @property
    def message(self) -> str:
        """The message for users."""
        return self.diagnosis.message


class Failed(Struct, frozen=True):
    """The attempt failed with an error, or without nodes. ``nominated_node`` is as in PostFilterResult."""

    message: str
    is_rejection: bool = False
    nominated_node: str | None = ""


class Dropped(Struct, frozen=True):
    """The attempt has no outcome: the pod is being deleted, is already placed, or the attempt was suspended."""


class Tried(Struct, frozen=True):
    """A group was tried. Each of its pods has a separate outcome."""


Outcome: TypeAlias = Placed | Unschedulable | Failed | Dropped | Tried
