"""Why a pod fits nowhere: who turned which nodes down, and the sentence users read."""

from msgspec import Struct, field

from moorage.framework.node_statuses import NodeStatuses
from moorage.framework.status import Code, Status

NOT_EXAMINED = Status.unresolvable()
"""What is said of a node that no plugin was asked about."""
NOTHING_EXAMINED = NodeStatuses({}, NOT_EXAMINED)


class Diagnosis(Struct):
    """What an attempt found out, whether or not it ended well."""

    node_count: int
    statuses: NodeStatuses = NOTHING_EXAMINED
    unschedulable_plugins: set[str] = field(default_factory=set)
    pending_plugins: set[str] = field(default_factory=set)
    pre_filter: Status | None = None
    post_filter_message: str = ""

    def blame(self, status: Status) -> None:
        """Remember the plugin that turned something down: its events can bring the pod back."""
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
