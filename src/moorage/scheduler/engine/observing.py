"""Looking on: metrics, simulations and explanations learn of attempts here, so that the cycle itself stays prose."""

from collections.abc import Callable, Sequence
from typing import Protocol

from moorage.scheduler.engine.cycle.post_filter import PostFiltered
from moorage.scheduler.engine.cycle.profile_cycle import ProfileCycle
from moorage.scheduler.engine.cycle.search_result import Choice, ExtendedNodes, SearchResult
from moorage.scheduler.engine.group_results import GroupAttempt
from moorage.scheduler.engine.outcomes import Failed, Outcome, Parked
from moorage.scheduler.framework.status import Code
from moorage.scheduler.queue.entities import QueuedPodGroupInfo, QueuedPodInfo


class Stopwatch(Protocol):
    """Where the time of the extension points of one profile goes, by point and by the code with which it ended."""

    def cell(self, point: str, code: Code) -> Callable[[float], None]:
        """Return what takes the seconds of a point that ended with a code."""
        ...

    def permit_wait(self, code: Code) -> Callable[[float], None]:
        """Return what takes the seconds of a wait on permit that ended with a code."""
        ...


class AttemptObserver:
    """Is notified of every attempt, in the frozen world in which it happens; must not change anything.

    The base of observers: each overrides what it cares for.
    """

    def stopwatch(self, profile: str) -> Stopwatch | None:
        """Return what the extension points of a profile are timed with; asked once, when the profile is built."""
        return None

    def trying(self, queued: QueuedPodInfo) -> None:
        """Learn that a pod is tried by itself from now on; members of a group are not announced."""

    def found(self, queued: QueuedPodInfo, cycle: ProfileCycle, found: SearchResult | ExtendedNodes) -> None:
        """Learn which nodes a pod fits on, before one is chosen."""

    def chosen(self, queued: QueuedPodInfo, choice: Choice) -> None:
        """Learn which node was chosen, and what extenders added; not called where there are no extenders."""

    def trying_group(self, queued: QueuedPodGroupInfo) -> None:
        """Learn that a group is tried from now on; groups that are given up without a search are not announced."""

    def settled(self, queued: QueuedPodInfo, found: SearchResult | ExtendedNodes | None) -> None:
        """Learn which search for a node of a group's member counts, just before the member's end: there may be many."""

    def group_ended(self, attempt: GroupAttempt) -> None:
        """Learn how trying a group ended; its members have ended already."""

    def post_filtered(self, queued: QueuedPodInfo, result: PostFiltered) -> None:
        """Learn what the post-filters did for a pod that fits nowhere."""

    def ended(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        """Learn how the scheduling cycle ended."""

    def bound(self, queued: QueuedPodInfo, node_name: str) -> None:
        """Learn that the API took a binding."""

    def binding_failed(self, queued: QueuedPodInfo, outcome: Parked | Failed) -> None:
        """Learn that a pod comes back from its binding cycle."""


class ObserverChain(AttemptObserver):
    """Several who look on, notified one after the other; the first that times extension points times them."""

    def __init__(self, observers: Sequence[AttemptObserver]) -> None:
        self._observers = observers

    def stopwatch(self, profile: str) -> Stopwatch | None:
        """Return the stopwatch of the first that has one."""
        return next((found for each in self._observers if (found := each.stopwatch(profile)) is not None), None)

    def trying(self, queued: QueuedPodInfo) -> None:
        """Notify all."""
        for observer in self._observers:
            observer.trying(queued)

    def found(self, queued: QueuedPodInfo, cycle: ProfileCycle, found: SearchResult | ExtendedNodes) -> None:
        """Notify all."""
        for observer in self._observers:
            observer.found(queued, cycle, found)

    def chosen(self, queued: QueuedPodInfo, choice: Choice) -> None:
        """Notify all."""
        for observer in self._observers:
            observer.chosen(queued, choice)

    def trying_group(self, queued: QueuedPodGroupInfo) -> None:
        """Notify all."""
        for observer in self._observers:
            observer.trying_group(queued)

    def settled(self, queued: QueuedPodInfo, found: SearchResult | ExtendedNodes | None) -> None:
        """Notify all."""
        for observer in self._observers:
            observer.settled(queued, found)

    def group_ended(self, attempt: GroupAttempt) -> None:
        """Notify all."""
        for observer in self._observers:
            observer.group_ended(attempt)

    def post_filtered(self, queued: QueuedPodInfo, result: PostFiltered) -> None:
        """Notify all."""
        for observer in self._observers:
            observer.post_filtered(queued, result)

    def ended(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        """Notify all."""
        for observer in self._observers:
            observer.ended(queued, outcome)

    def bound(self, queued: QueuedPodInfo, node_name: str) -> None:
        """Notify all."""
        for observer in self._observers:
            observer.bound(queued, node_name)

    def binding_failed(self, queued: QueuedPodInfo, outcome: Parked | Failed) -> None:
        """Notify all."""
        for observer in self._observers:
            observer.binding_failed(queued, outcome)


def observed_by(*observers: AttemptObserver | None) -> AttemptObserver | None:
    """Put those who look on together, leaving out who is not there; a single one is not wrapped."""
    there = [observer for observer in observers if observer is not None]
    return ObserverChain(there) if len(there) > 1 else there[0] if there else None
