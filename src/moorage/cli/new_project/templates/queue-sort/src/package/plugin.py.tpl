"""{{ plugin }}: pods with an earlier deadline are tried first."""

import math

import msgspec

from moorage import Pod, QueuedPod, QueueSortPlugin


class {{ plugin }}Args(msgspec.Struct, frozen=True, rename="camel"):
    """Arguments in `pluginConfig`."""

    label: str = "{{ label }}"


class {{ plugin }}(QueueSortPlugin):
    """Order pods by priority, then by the number in a label, then by the time in the queue."""

    Args = {{ plugin }}Args

    def __init__(self, *, args: {{ plugin }}Args) -> None:
        self.label = args.label

    def sort_key(self, queued: QueuedPod) -> tuple[int, float, float]:
        """Return the key of a queued pod: the pod with the smallest key is tried first.

        The key is computed when the pod enters the queue. If keys of queued pods change, call `handle.resort_queue()`.
        """
        return -queued.priority, self.deadline(queued.pod), queued.timestamp

    def deadline(self, pod: Pod) -> float:
        """Return the number in the label; pods without a number are last."""
        value = pod.labels.get(self.label, "")
        return int(value) if value.isdecimal() else math.inf
