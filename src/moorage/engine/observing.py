"""Looking on: metrics, simulations and explanations learn of attempts here, so that the cycle itself stays prose."""

from typing import Protocol

from moorage.engine.feasibility import Found
from moorage.engine.outcome import Failed, Outcome, Parked
from moorage.engine.placement import Placement, Rescue
from moorage.engine.timing import Stopwatch
from moorage.framework.status import Code
from moorage.queue.entry import QueuedPodInfo


class AttemptObserver(Protocol):
    """Is told of every attempt, in the frozen world in which it happens; must not change anything."""

    def stopwatch(self, profile: str) -> Stopwatch:
        """Return what the extension points of a profile are timed with; asked once, when the profile is built."""
        ...

    def found(self, queued: QueuedPodInfo, placement: Placement, found: Found) -> None:
        """Hear which nodes a pod fits on, before one is chosen."""
        ...

    def rescued(self, queued: QueuedPodInfo, rescue: Rescue) -> None:
        """Hear what the post-filters came up with for a pod that fits nowhere."""
        ...

    def ended(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        """Hear how the scheduling cycle ended."""
        ...

    def waited(self, seconds: float, code: Code) -> None:
        """Hear how long a pod waited on permit, and how that ended."""
        ...

    def bound(self, queued: QueuedPodInfo, node_name: str) -> None:
        """Hear that the API took a binding."""
        ...

    def binding_failed(self, queued: QueuedPodInfo, outcome: Parked | Failed) -> None:
        """Hear that a pod comes back from its binding cycle."""
        ...


class SilentObserver:
    """Takes no notice; the base of observers that care for some of it."""

    def stopwatch(self, profile: str) -> Stopwatch:
        """Measure nothing."""
        return Stopwatch()

    def found(self, queued: QueuedPodInfo, placement: Placement, found: Found) -> None:
        """Take no notice."""

    def rescued(self, queued: QueuedPodInfo, rescue: Rescue) -> None:
        """Take no notice."""

    def ended(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        """Take no notice."""

    def waited(self, seconds: float, code: Code) -> None:
        """Take no notice."""

    def bound(self, queued: QueuedPodInfo, node_name: str) -> None:
        """Take no notice."""

    def binding_failed(self, queued: QueuedPodInfo, outcome: Parked | Failed) -> None:
        """Take no notice."""
