"""The parts of a scheduler whose every step can be taken back."""

from typing import Final

from moorage.cluster import AssumedForGood
from moorage.scheduler.decisions.attempts import AttemptLog
from moorage.scheduler.engine.binding.binder import PendingBinding
from moorage.scheduler.engine.cycle.profile_cycle import ProfileCycle
from moorage.scheduler.engine.cycle.search_result import ExtendedNodes, SearchResult
from moorage.scheduler.engine.effects import Effects, OnFailure
from moorage.scheduler.engine.failures import FailureHandler
from moorage.scheduler.engine.group_results import GroupAttempt
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.engine.outcomes import Failed, Parked
from moorage.scheduler.engine.services import Services
from moorage.scheduler.queue.entries import QueuedPodInfo
from moorage.scheduler.queue.scheduling_queue import SchedulingQueue


class LastAttempt(AttemptLog):
    """Keeps what the last attempt found, and describes every node only when that is wanted."""

    def __init__(self) -> None:
        super().__init__(with_nodes=False)
        self.last: SearchResult | ExtendedNodes | None = None
        self.last_group: GroupAttempt | None = None

    def group_ended(self, attempt: GroupAttempt) -> None:
        """Note what came of a group."""
        self.last_group = attempt
        super().group_ended(attempt)

    def describe_nodes(self, wanted: bool) -> None:
        """Choose whether every node is described."""
        self._with_nodes = wanted

    def found(self, queued: QueuedPodInfo, cycle: ProfileCycle, found: SearchResult | ExtendedNodes) -> None:
        """Note what was found for a pod."""
        self.last = found
        super().found(queued, cycle, found)


class RevocablePlacements(AssumedForGood):
    """Keeps the ways back of all placements of an attempt."""

    def __init__(
        self, services: Services, queue: SchedulingQueue, on_failure: OnFailure, observer: AttemptObserver | None
    ) -> None:
        super().__init__(services, queue, on_failure, observer)
        self.started: list[PendingBinding] = []

    def start(self, binding: PendingBinding) -> None:
        """End the attempt; a pod that has to wait on permit counts as placed."""
        self._queue.done(binding.pod.uid)
        if binding.permit is not None:
            self._services.waiting.release(binding.pod.uid)
        self.started.append(binding)

    def take(self) -> list[PendingBinding]:
        """Return what was placed since the last time."""
        taken, self.started = self.started, []
        return taken


class UnchangedPods(FailureHandler):
    """Leaves a pod that fits nowhere as it is."""

    def handle(self, queued: QueuedPodInfo, outcome: Parked | Failed) -> None:
        """Do nothing."""


REVOCABLE_EFFECTS: Final = Effects(UnchangedPods, RevocablePlacements)
