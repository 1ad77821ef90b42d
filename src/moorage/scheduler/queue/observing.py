"""Who may watch the queue at work: metrics, logs, and the story of one pod."""

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from moorage.kube.api.pod import Pod

ACTIVE: Final = "active"
BACKOFF: Final = "backoff"
UNSCHEDULABLE: Final = "unschedulable"
GATED: Final = "gated"
IN_FLIGHT: Final = "in-flight"
INCOMPLETE: Final = "incomplete"
PENDING: Final = "pending"
POD_POPPED: Final = "PodPopped"


class QueueObserver:
    """Notified of everything upstream counts; must be quick and must not touch the queue.

    The base of observers: each overrides what it cares for.
    """

    def moved(self, pod: Pod, queue: str, event: str) -> None:
        """A pod came into the active, backoff or unschedulable pods because of an event."""

    def group_moved(self, pods: Sequence[Pod], queue: str, event: str) -> None:
        """A group came into one of these places with its pods, or one of its pods joined it there."""
        for pod in pods:
            self.moved(pod, queue, event)

    def rejected(self, plugin: str, profile: str, delta: int) -> None:
        """The number of waiting pods that a plugin rejected has changed."""

    def in_flight(self, event: str, delta: int) -> None:
        """The number of events remembered for pods in flight has changed; popped pods count as events, too."""

    def popped(self, pod: Pod, attempt: int) -> None:
        """A pod is being tried."""

    def hinted(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        """A plugin said whether an event helps a pod: ``Queue``, ``QueueSkip`` or ``Error``, in real seconds."""

    def plugin_failed(self, plugin: str, pod: Pod, problem: BaseException | str) -> None:
        """A plugin raised, or answered with an error, when asked for a hint or whether a pod may enter."""


def report_failure(observer: QueueObserver | None, plugin: str, pod: Pod, problem: BaseException | str) -> None:
    """Report a plugin that failed in the queue to whoever observes it."""
    if observer is not None:
        observer.plugin_failed(plugin, pod, problem)


class Step(NamedTuple):
    """One step in the life of a pod: where it went, and because of what."""

    uid: str
    queue: str
    event: str


class Story(QueueObserver):
    """Remembers the last moves of all pods, to report those of one when something is wrong."""

    def __init__(self, length: int = 10_000) -> None:
        # Put into words when somebody asks: pods come by far more often.
        self._steps: deque[tuple[str, str, str | int]] = deque(maxlen=length)

    def moved(self, pod: Pod, queue: str, event: str) -> None:
        """Note the move."""
        self._steps.append((pod.metadata.uid, queue, event))

    def popped(self, pod: Pod, attempt: int) -> None:
        """Note the attempt."""
        self._steps.append((pod.metadata.uid, IN_FLIGHT, attempt))

    def of(self, pod: Pod) -> list[Step]:
        """Return the steps of one pod, oldest first."""
        return [
            Step(uid, queue, f"attempt {event}" if isinstance(event, int) else event)
            for uid, queue, event in self._steps
            if uid == pod.uid
        ]
