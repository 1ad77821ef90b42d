"""Looking on: metrics, simulations and explanations learn of attempts here, so that the cycle itself stays prose."""

from typing import Protocol

from moorage.engine.feasibility import Found
from moorage.engine.outcome import Outcome
from moorage.engine.placement import Placement
from moorage.queue.entry import QueuedPodInfo


class AttemptObserver(Protocol):
    """Is told of every attempt, in the frozen world in which it happens; must not change anything."""

    def found(self, queued: QueuedPodInfo, placement: Placement, found: Found) -> None:
        """Hear which nodes a pod fits on, before one is chosen."""
        ...

    def ended(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        """Hear how the scheduling cycle ended."""
        ...


class SilentObserver:
    """Takes no notice."""

    def found(self, queued: QueuedPodInfo, placement: Placement, found: Found) -> None:
        """Take no notice."""

    def ended(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        """Take no notice."""
