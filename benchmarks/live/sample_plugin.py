"""A typical plugin: a filter and a score for single nodes, called for every pod."""

from moorage import CycleState, FilterPlugin, NodeInfo, Pod, ScorePlugin, Status


class Sample(FilterPlugin, ScorePlugin):
    """Reject a tenth of the nodes, and prefer some of the others."""

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject nodes with names that end in 7."""
        return Status.unresolvable("node(s) ended in 7") if node.name.endswith("7") else None

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Prefer nodes with few pods."""
        return max(0, 100 - len(node.pods))
