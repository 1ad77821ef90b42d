"""Prefer cheap nodes, and reject nodes above the budget of a pod: a plugin that also works as an extender."""

from moorage import CycleState, DependsOn, FilterPlugin, NodeInfo, Pod, ScorePlugin, Status

PRICE, BUDGET = "price", "budget"
UNKNOWN = 100


class Cheap(FilterPlugin, ScorePlugin):
    """Compare the label ``price`` of nodes (cents per hour, up to 100) with the label ``budget`` of pods."""

    depends_on = DependsOn.NODE

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject nodes above the budget."""
        budget = pod.labels.get(BUDGET, str(UNKNOWN))
        if not budget.isdecimal():
            return Status.unresolvable(f"the pod's label {BUDGET} is {budget!r}: write a whole number of cents")
        if get_price(node) <= int(budget):
            return None
        return Status.unresolvable("node(s) were above the pod's budget")

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Prefer cheap nodes."""
        return 100 - get_price(node)

    def sign(self, pod: Pod) -> str | None:
        """Share results among pods with the same budget."""
        return pod.labels.get(BUDGET, "")


def get_price(node: NodeInfo) -> int:
    """Return the price of a node; without a valid label, the maximum."""
    price = node.labels.get(PRICE, "")
    return min(int(price), UNKNOWN) if price.isdecimal() else UNKNOWN
