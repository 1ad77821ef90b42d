"""{{ plugin }}: pods that name a pool run on nodes of that pool only."""

from collections.abc import Hashable

import msgspec

from moorage import CycleState, DependsOn, FilterPlugin, NodeInfo, Pod, Status


class {{ plugin }}Args(msgspec.Struct, frozen=True, rename="camel"):
    """What `pluginConfig` may say."""

    label: str = "{{ label }}"


class {{ plugin }}(FilterPlugin):
    """Keep pods with a label on nodes where it has the same value; all others may go anywhere."""

    Args = {{ plugin }}Args
    # The answer about a node depends on the node alone, not on the pods there: it is kept until the node changes.
    depends_on = DependsOn.NODE

    def __init__(self, *, args: {{ plugin }}Args) -> None:
        self.label = args.label

    def sign(self, pod: Pod) -> Hashable:
        """Name everything of a pod that an answer depends on: equal pods share their answers."""
        return pod.labels.get(self.label)

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Accept a node by `None`; the text of a rejection is what users read."""
        wanted = pod.labels.get(self.label)
        if wanted is None or node.labels.get(self.label) == wanted:
            return None
        # Evicting pods would not help, so that preemption is not tried; else this would be Status.unschedulable.
        return Status.unresolvable(f"node(s) were not in the {self.label} of the pod")
