"""The effects of a what-if session: placements that can be undone, and no writes."""

from typing import Final

from moorage.scheduler.decisions.attempts import AttemptLog
from moorage.scheduler.engine.binding.binding_phases import PendingBinding
from moorage.scheduler.engine.cycle.profile_runner import ProfileRunner
from moorage.scheduler.engine.cycle.search_result import ExtendedNodes, SearchResult
from moorage.scheduler.engine.effects import Effects, OnFailure
from moorage.scheduler.engine.group_results import GroupAttempt
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.engine.outcomes import Failed, Unschedulable
from moorage.scheduler.engine.services import Services
from moorage.scheduler.queue.entities import QueuedPodInfo
from moorage.scheduler.queue.scheduling_queue import SchedulingQueue


class LastAttempt(AttemptLog):
    """Keeps the search result of the last attempt; node details are optional."""

    def __init__(self) -> None:
        super().__init__(with_nodes=False)
        self.last: SearchResult | ExtendedNodes | None = None
        self.last_group: GroupAttempt | None = None

    def group_ended(self, attempt: GroupAttempt) -> None:
        """Keep the attempt of a group."""
        self.last_group = attempt
        super().group_ended(attempt)

    def describe_nodes(self, enabled: bool) -> None:
        """Set whether decisions describe every node."""
        self._with_nodes = enabled

    def found(self, queued: QueuedPodInfo, runner: ProfileRunner, result: SearchResult | ExtendedNodes) -> None:
        """Keep the search result."""
        self.last = result
        super().found(queued, runner, result)


class RevocablePlacements:
    """Binds nothing, and keeps the undo stacks of all placements of an attempt.

    A pod that a Permit plugin delays counts as placed.
    """

    in_flight = 0

    def __init__(
        self, services: Services, queue: SchedulingQueue, _on_failure: OnFailure, _observer: AttemptObserver | None
    ) -> None:
        self._services, self._queue = services, queue
        self._placements: list[PendingBinding] = []

    def start(self, binding: PendingBinding) -> None:
        """End the attempt."""
        self._queue.done(binding.pod.uid)
        if binding.permit is not None:
            self._services.waiting.release(binding.pod.uid)
        self._placements.append(binding)

    def cancel_pre_bind(self, uid: str, reason: str) -> bool:
        """Return False: no pod is in PreBind."""
        return False

    def take(self) -> list[PendingBinding]:
        """Return the placements since the last call."""
        placements, self._placements = self._placements, []
        return placements


class UnchangedPods:
    """Leaves a pod unchanged when its attempt fails."""

    def __init__(self, _services: Services, _queue: SchedulingQueue) -> None:
        pass

    def handle(self, queued: QueuedPodInfo, outcome: Unschedulable | Failed) -> None:
        """Do nothing."""


REVOCABLE_EFFECTS: Final = Effects(UnchangedPods, RevocablePlacements)
