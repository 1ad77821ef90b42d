"""The observer of the queue, for metrics and logs, and the recorded moves of pods."""

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from moorage.common.observers import Observer
from moorage.kube.api.pod import Pod

ACTIVE: Final = "active"
BACKOFF: Final = "backoff"
UNSCHEDULABLE: Final = "unschedulable"
GATED: Final = "gated"
IN_FLIGHT: Final = "in-flight"
INCOMPLETE: Final = "incomplete"
PENDING: Final = "pending"
POD_POPPED: Final = "PodPopped"


class QueueObserver(Observer):
    """The events of the queue. Methods must be fast and must not use the queue."""

    def on_move(self, pod: Pod, queue: str, event: str) -> None:
        """Called when a pod entered the active, backoff or unschedulable queue because of an event."""

    def on_group_move(self, pods: Sequence[Pod], queue: str, event: str, group_type: str) -> None:
        """Called when a group with these pods entered a queue, or these pods were added to it there."""

    def on_rejection(self, plugin: str, profile: str, delta: int) -> None:
        """Called when the number of pending pods rejected by a plugin changed."""

    def on_in_flight(self, event: str, delta: int) -> None:
        """Called when the number of in-flight events changed. Popped pods are treated as events."""

    def on_pop(self, pod: Pod, attempt: int) -> None:
        """Called when a pod was popped."""

    def on_hint(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        """Called when a queueing hint returned ``Queue`` or ``QueueSkip``, or raised (``Error``)."""

    def on_plugin_failure(self, plugin: str, pod: Pod, problem: str) -> None:
        """Called when a plugin raised or returned an error in the queue."""


class Step(NamedTuple):
    """One move of a pod: the queue it entered, and the event that caused it."""

    uid: str
    queue: str
    event: str


class Story(QueueObserver):
    """Records the last moves of all pods, for debugging."""

    def __init__(self, length: int = 10_000) -> None:
        # Formatted when requested: moves are far more frequent.
        self._steps: deque[tuple[str, str, str | int]] = deque(maxlen=length)

    def on_move(self, pod: Pod, queue: str, event: str) -> None:
        """Record the move."""
        self._steps.append((pod.metadata.uid, queue, event))

    def on_group_move(self, pods: Sequence[Pod], queue: str, event: str, group_type: str = "") -> None:
        """Record the move of each pod."""
        self._steps.extend((pod.metadata.uid, queue, event) for pod in pods)

    def on_pop(self, pod: Pod, attempt: int) -> None:
        """Record the attempt."""
        self._steps.append((pod.metadata.uid, IN_FLIGHT, attempt))

    def of(self, pod: Pod) -> list[Step]:
        """Return the moves of a pod, oldest first."""
        return [
            Step(uid, queue, f"attempt {event}" if isinstance(event, int) else event)
            for uid, queue, event in self._steps
            if uid == pod.uid
        ]
