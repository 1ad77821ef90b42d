"""{{ plugin }}: pods with a pool label run only on nodes of that pool."""

from collections.abc import Hashable

import msgspec

from moorage import CycleState, DependsOn, FilterPlugin, NodeInfo, Pod, Status


class {{ plugin }}Args(msgspec.Struct, frozen=True, rename="camel"):
    """Arguments in `pluginConfig`."""

    label: str = "{{ label }}"


class {{ plugin }}(FilterPlugin):
    """Run pods with a label only on nodes with the same value; accept all nodes for other pods."""

    Args = {{ plugin }}Args
    # The result depends on the node alone, not on its pods: it is cached until the node changes.
    depends_on = DependsOn.NODE

    def __init__(self, *, args: {{ plugin }}Args) -> None:
        self.label = args.label

    def sign(self, pod: Pod) -> Hashable:
        """Return all properties of the pod that the result depends on: pods with equal signatures share results."""
        return pod.labels.get(self.label)

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Return `None` to accept a node; the text of a rejection is part of the pod's events."""
        pool = pod.labels.get(self.label)
        if pool is None or node.labels.get(self.label) == pool:
            return None
        # Evicting pods would not help, so preemption must skip the node. Otherwise, return Status.unschedulable.
        return Status.unresolvable(f"node(s) were not in the {self.label} of the pod")
