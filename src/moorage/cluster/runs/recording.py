"""A recording of a simulation, step by step, from which any moment can be replayed."""

from collections import Counter
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from moorage.cluster.apiserver.storage.store import Entry, Store, StoredChange
from moorage.cluster.runs.history import NODES, PODS
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.scheduler.decisions.attempts import AttemptLog
from moorage.scheduler.decisions.decision import Result
from moorage.scheduler.engine.outcomes import Failed, Outcome, Placed, Unschedulable
from moorage.scheduler.framework.status import Code
from moorage.scheduler.queue.entities import QueuedPodInfo
from moorage.scheduler.queue.observer import UNSCHEDULABLE, QueueObserver

MAX_REPEATS: Final = 20
"""A pod that repeats the same failure more often than this is not recorded until something else happens to it."""


class StepKind(Enum):
    """The kind of a step."""

    WAITS = "a pod without a node was added"
    TAKES = "a pod was placed on a node"
    LEAVES = "a pod left its node"
    GONE = "a pending pod was deleted"
    MOVED = "a pending pod moved to another queue"
    TRIED = "an attempt failed"


class HistoryStep(NamedTuple):
    """A step of a pod, ``moment`` seconds after the start. ``detail`` depends on the kind of step."""

    moment: float
    what: StepKind
    pod: str
    detail: Any = None


class FailedAttempt(NamedTuple):
    """The causes of a failed attempt: the reasons without counts, the plugins, and the complete message.

    The decisive reason is first: that of most nodes on which the pod could run later, if there are any.
    """

    reasons: tuple[str, ...]
    plugins: tuple[str, ...]
    message: str


class RecordedDecision(NamedTuple):
    """A finished attempt."""

    moment: float
    pod: str
    result: Result
    node: str
    message: str
    attempt: int


def why_not(outcome: Unschedulable | Failed) -> FailedAttempt:
    """Return why an attempt failed."""
    if isinstance(outcome, Failed):
        return FailedAttempt((outcome.message,), (), outcome.message)
    diagnosis = outcome.diagnosis
    if diagnosis.pre_filter is not None:
        reasons = tuple(diagnosis.pre_filter.reasons)
    else:
        reason_counts, resolvable = diagnosis.statuses.reasons(diagnosis.node_count), Counter[str]()
        for status, count in diagnosis.statuses.counts().items():
            if status.code is not Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                resolvable.update(dict.fromkeys(status.reasons, count))
        reasons = tuple(sorted(reason_counts, key=lambda reason: (-resolvable[reason], -reason_counts[reason], reason)))
    return FailedAttempt(reasons, tuple(sorted(diagnosis.unschedulable_plugins)), outcome.message)


class RecordedAttempts(AttemptLog):
    """Records every attempt, not only the last of each pod."""

    def __init__(self, recorder: "RunRecorder") -> None:
        super().__init__(with_nodes=False)
        self._recorder = recorder

    def on_attempt_end(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        """Record the outcome of an attempt."""
        super().on_attempt_end(queued, outcome)
        if isinstance(outcome, Placed):
            self._recorder.decided(queued, Result.SCHEDULED, outcome.node_name, "")
        elif isinstance(outcome, Unschedulable | Failed):
            self._recorder.failed(queued, outcome)

    def on_binding_failure(self, queued: QueuedPodInfo, outcome: Unschedulable | Failed) -> None:
        """Record a failed binding."""
        super().on_binding_failure(queued, outcome)
        self._recorder.failed(queued, outcome)


class RecordedMoves(QueueObserver):
    """Records the moves of pods between queues, with the events that caused them."""

    def __init__(self, recorder: "RunRecorder") -> None:
        self._recorder = recorder

    def on_move(self, pod: Pod, queue: str, event: str) -> None:
        """Record a move."""
        self._recorder.moved(pod.key, queue, event)

    def on_group_move(self, pods: Sequence[Pod], queue: str, event: str, group_type: str = "") -> None:
        """Record the move of each pod of a group."""
        for pod in pods:
            self.on_move(pod, queue, event)


class RunRecorder:
    """Records a simulation. :attr:`steps` and :attr:`decisions` are in order of time."""

    def __init__(self) -> None:
        self.attempts = RecordedAttempts(self)
        self.moves = RecordedMoves(self)
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        """Every pod by key, in its first state."""
        self.steps: list[HistoryStep] = []
        self.decisions: list[RecordedDecision] = []
        self.seconds = 0.0
        self._on_node: set[str] = set()
        self._last: dict[str, tuple[FailedAttempt, int]] = {}
        """The last failure of each pod, and how often it was repeated."""
        self._repeating: set[str] = set()
        self._now: Callable[[], float] = lambda: 0.0
        self._start = 0.0

    def begin(self, store: Store, now: Callable[[], float]) -> None:
        """Start recording the changes of a store."""
        self._now, self._start = now, now()
        store.subscribe(self._on_change)

    def note(self, kind: StepKind, pod: str, detail: Any = None) -> None:
        """Record a step."""
        self.seconds = round(self._now() - self._start, 3)
        self.steps.append(HistoryStep(self.seconds, kind, pod, detail))

    def moved(self, pod: str, queue: str, event: str) -> None:
        """Record a move; for a repeating pod, only the return to the unschedulable pods."""
        if pod not in self._repeating or (queue == UNSCHEDULABLE and self._last[pod][1] == MAX_REPEATS + 1):
            self.note(StepKind.MOVED, pod, (queue, event))

    def decided(self, queued: QueuedPodInfo, result: Result, node: str, message: str) -> None:
        """Record an attempt."""
        moment = round(self._now() - self._start, 3)
        self.decisions.append(RecordedDecision(moment, queued.key, result, node, message, queued.attempts))

    def failed(self, queued: QueuedPodInfo, outcome: Unschedulable | Failed) -> None:
        """Record a failed attempt."""
        reason = why_not(outcome)
        before, times = self._last.get(queued.key, (None, 0))
        times = times + 1 if reason == before else 1
        self._last[queued.key] = (reason, times)
        if times > MAX_REPEATS:
            self._repeating.add(queued.key)
            return
        self._repeating.discard(queued.key)
        is_error = isinstance(outcome, Failed) and not outcome.is_rejection
        self.note(StepKind.TRIED, queued.key, reason)
        self.decided(queued, Result.ERROR if is_error else Result.UNSCHEDULABLE, "", outcome.message)

    def _on_change(self, resource: str, change: StoredChange) -> None:
        if resource == NODES and change.after is not None:
            self.nodes[change.after.key] = change.after.typed(Node)
        elif resource == PODS:
            self._pod_changed(change.before, change.after)

    def _pod_changed(self, before: Entry | None, after: Entry | None) -> None:
        if after is None:
            assert before is not None
            self._on_departure(before.key, is_gone=True)
            return
        pod, key = after.typed(Pod), after.key
        if before is None:
            self.pods[key] = pod
            if not pod.is_finished and not pod.node_name:
                self.note(StepKind.WAITS, key)
        if pod.is_finished:
            self._on_departure(key, is_gone=False)
        elif pod.node_name and key not in self._on_node:
            self._on_node.add(key)
            self._last.pop(key, None)
            self._repeating.discard(key)
            self.note(StepKind.TAKES, key, pod.node_name)

    def _on_departure(self, key: str, *, is_gone: bool) -> None:
        if key in self._on_node:
            self._on_node.discard(key)
            self.note(StepKind.LEAVES, key)
        elif is_gone:
            self.note(StepKind.GONE, key)
