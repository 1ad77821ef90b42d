"""GPUs as labels of nodes: check health, level, memory and number of cards."""

from collections.abc import Mapping

from moorage import CycleState, FilterPlugin, NodeInfo, Pod, ScorePlugin, Status

WANTED = {"scv/FreeMemory": "node(s) had too little GPU memory", "scv/Number": "node(s) had too few GPUs"}


class GpuLabels(FilterPlugin, ScorePlugin):
    """Compare a pod's labels ``scv/Level``, ``scv/FreeMemory`` and ``scv/Number`` with those of a node."""

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject a node without healthy GPUs, with another level, or with too few cards or too little memory."""
        for key in WANTED:
            if not pod.labels.get(key, "0").isdecimal():
                return Status.unresolvable(f"the pod's label {key} is {pod.labels[key]!r}: write a whole number")
        if (node.labels.get("scv/Gpu"), node.labels.get("scv/Health")) != ("True", "Healthy"):
            return Status.unresolvable("node(s) had no healthy GPU")
        if pod.labels.get("scv/Level") not in (None, node.labels.get("scv/Level")):
            return Status.unresolvable("node(s) had GPUs of another level")
        short = (why for key, why in WANTED.items() if amount(node.labels, key) < amount(pod.labels, key))
        return next((Status.unresolvable(why) for why in short), None)

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Prefer nodes with much unreserved memory."""
        memory = amount(node.labels, "scv/Memory")
        reserved = sum(amount(running.labels, "scv/FreeMemory") for running in node.pods.values())
        return max(memory - reserved, 0) * 100 // max(memory, 1)

    def sign(self, pod: Pod) -> tuple[str | None, ...]:
        """Share results among pods with the same labels."""
        return tuple(pod.labels.get(key) for key in ("scv/Level", *WANTED))


def amount(labels: Mapping[str, str], key: str) -> int:
    """Return a label as a number; 0 if it is missing or invalid."""
    return int(value) if (value := labels.get(key, "")).isdecimal() else 0
