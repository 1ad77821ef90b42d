"""{{ plugin }}: count pods without a feasible node, for example to add nodes."""

import msgspec

from moorage import CycleState, Handle, Pod, PostFilterPlugin, PostFilterResult, Status


class {{ plugin }}Args(msgspec.Struct, frozen=True, rename="camel"):
    """Arguments in `pluginConfig`."""

    label: str = "{{ label }}"


class {{ plugin }}(PostFilterPlugin):
    """Count pods without a feasible node by the pool in a label, and report the pool in their events."""

    Args = {{ plugin }}Args

    def __init__(self, *, args: {{ plugin }}Args, handle: Handle) -> None:
        self.label = args.label
        self.missing = handle.metrics.counter(
            "missing_nodes_total", "Attempts without a feasible node, by pool.", labels=("pool",)
        )

    async def post_filter(self, cycle: CycleState, pod: Pod, statuses: object) -> PostFilterResult:
        """Handle a pod without a feasible node; `statuses` contains the status of each node.

        A status of `None` means that the pod will fit, for example after evictions, and ends the phase. Otherwise,
        the next plugin runs, and the text is part of the pod's events.
        """
        pool = pod.labels.get(self.label, "any")
        self.missing.inc(pool=pool)
        return PostFilterResult(Status.unschedulable(f"pool {pool} needs another node"))
