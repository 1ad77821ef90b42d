"""Observes a scheduler for the page: its last decisions, the reasons of failures, and its speed."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moorage.common.caches import LRU
from moorage.common.clock import Clock
from moorage.insight.page.api_types import DecisionLine
from moorage.scheduler.decisions.decision import Result
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.engine.outcomes import Failed, Outcome, Placed, Unschedulable
from moorage.scheduler.queue.entities import QueuedPodInfo

if TYPE_CHECKING:
    from moorage.cluster import FailedAttempt

MAX_DECISIONS: Final = 1000
MAX_FAILURES: Final = 200_000
MAX_SECONDS: Final = 600


@dataclass(slots=True)
class SecondOfWork:
    """The attempts of one second."""

    second: int
    placed: int = 0
    failed: int = 0
    latency: float = 0.0


class PageObserver(AttemptObserver):
    """Records the data of the page."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.recent: deque[DecisionLine] = deque(maxlen=MAX_DECISIONS)
        self.failures: LRU[str, FailedAttempt] = LRU("page failures", MAX_FAILURES)
        self.seconds: deque[SecondOfWork] = deque(maxlen=MAX_SECONDS)
        self.count = 0
        self.bound_count = 0

    def ended(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        """Record an attempt."""
        if isinstance(outcome, Placed):
            self._note(queued, Result.SCHEDULED, node=outcome.node_name)
        elif isinstance(outcome, Unschedulable | Failed):
            self._failed(queued, outcome)

    def bound(self, queued: QueuedPodInfo, node_name: str) -> None:
        """Count a bound pod."""
        self.bound_count += 1
        second = self._second()
        second.placed += 1
        if queued.initial_attempt_timestamp is not None:
            second.latency += max(0.0, self._clock.now() - queued.initial_attempt_timestamp)
        self.failures.discard(queued.uid)

    def binding_failed(self, queued: QueuedPodInfo, outcome: Unschedulable | Failed) -> None:
        """Record a pod whose binding failed."""
        self._failed(queued, outcome)

    def attempts(self, pod: str) -> Sequence[DecisionLine]:
        """Return the recorded attempts of one pod."""
        return [line for line in self.recent if line.pod == pod]

    def _failed(self, queued: QueuedPodInfo, outcome: Unschedulable | Failed) -> None:
        from moorage.cluster import why_not  # most clusters start without a failure

        self.failures.put(queued.uid, why_not(outcome))
        self._second().failed += 1
        is_error = isinstance(outcome, Failed) and not outcome.is_rejection
        self._note(queued, Result.ERROR if is_error else Result.UNSCHEDULABLE, text=outcome.message)

    def _note(self, queued: QueuedPodInfo, result: Result, *, node: str = "", text: str = "") -> None:
        line = DecisionLine(
            number=self.count,
            time=self._clock.now(),
            pod=queued.key,
            result=result,
            node=node,
            text=text,
            attempt=queued.attempts,
        )
        self.recent.append(line)
        self.count += 1

    def _second(self) -> SecondOfWork:
        now = int(self._clock.now())
        if not self.seconds or self.seconds[-1].second != now:
            self.seconds.append(SecondOfWork(now))
        return self.seconds[-1]
