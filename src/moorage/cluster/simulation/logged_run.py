"""What a decision log tells, as a simulation would have told it: decisions, a timeline, and steps to be played.

A log says what was decided, not when pods ended or were deleted: a pod keeps its node until it is evicted by another,
its binding fails, or a pod of its name is tried again.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from moorage.cluster.simulation.history import PodHistory
from moorage.cluster.simulation.recording import FailedAttempt, HistoryStep, RecordedDecision, RunRecorder, StepKind
from moorage.cluster.simulation.simulation import Run
from moorage.kube.api.meta import parse_time
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.scheduler.decisions.decision import Decision, Result
from moorage.scheduler.decisions.decision_log import LoggedDecision


class LoggedRun:
    """A decision log gone through once, in order of time; moments are seconds since its first decision began."""

    def __init__(self, decisions: Iterable[LoggedDecision]) -> None:
        self.lines = sorted(decisions, key=lambda line: line.moment)
        self.start = min((line.moment - line.took for line in self.lines), default=0.0)
        self.last: dict[str, LoggedDecision] = {}
        """The last decision on each pod."""
        self.histories: dict[str, PodHistory] = {}
        self.evicted: dict[str, str] = {}
        """Who was evicted by whom, by name."""
        self.steps: list[HistoryStep] = []
        self.pods: dict[str, Pod] = {}
        self._placed: dict[str, str] = {}
        for line in self.lines:
            self._take(line)
        self.steps.sort(key=lambda step: step.moment)

    @property
    def seconds(self) -> float:
        """How much time there is between the first decision and the last."""
        return self._moment(self.lines[-1]) if self.lines else 0.0

    def _moment(self, line: LoggedDecision) -> float:
        return round(line.moment - self.start, 3)

    def _take(self, line: LoggedDecision) -> None:
        pod, moment = line.pod, self._moment(line)
        known = self.last.get(pod)
        if known is None or (line.uid and known.uid != line.uid):
            self._begin(line, moment)
        elif pod in self._placed:
            # Its binding failed, or it would not be tried again.
            self._leave(pod, moment)
            self._step(moment, StepKind.WAITS, pod)
        self.last[pod] = line
        history = self.histories[pod]
        if line.result is Result.SCHEDULED:
            self._placed[pod] = history.node = line.node
            history.bound, history.waited = moment, round(moment - history.created, 3)
            self._step(moment, StepKind.TAKES, pod, line.node)
            return
        history.node, history.bound = "", None
        history.waited = round(moment - history.created, 3)
        self._step(moment, StepKind.TRIED, pod, why_logged(line))
        for victim in line.post_filter.victims if line.post_filter is not None else ():
            self._evict(victim, pod, moment)

    def _begin(self, line: LoggedDecision, moment: float) -> None:
        if line.pod in self._placed:
            self._leave(line.pod, moment)
        try:
            created = max(0.0, round(parse_time(line.created) - self.start, 3)) if line.created else 0.0
        except ValueError:
            created = 0.0
        begin = min(created, moment)
        self.histories[line.pod] = PodHistory(line.pod, begin)
        self.pods[line.pod] = pod_of(line)
        self._step(begin, StepKind.WAITS, line.pod)

    def _evict(self, victim: str, by: str, moment: float) -> None:
        self.evicted[victim] = by
        if (history := self.histories.get(victim)) is not None:
            history.evicted, history.evicted_by = moment, by
        if victim in self._placed:
            self._leave(victim, moment)

    def _leave(self, pod: str, moment: float) -> None:
        del self._placed[pod]
        self._step(moment, StepKind.LEAVES, pod)

    def _step(self, moment: float, what: StepKind, pod: str, detail: Any = None) -> None:
        self.steps.append(HistoryStep(moment, what, pod, detail))

    def run(self) -> Run:
        """Tell it as a simulation that went so."""
        decisions: list[Decision] = [
            msgspec.structs.replace(line, evicted=pod in self.evicted) for pod, line in self.last.items()
        ]
        return Run(decisions, list(self.histories.values()), [], self.seconds, is_quiet=True)

    def recorder(self, nodes: Sequence[Node], running: Sequence[Pod]) -> RunRecorder:
        """Tell it as a recorded simulation: on nodes that are given or else only named, with pods that ran before."""
        recorder = RunRecorder()
        recorder.seconds = self.seconds
        names = dict.fromkeys(line.node for line in self.lines if line.node)
        recorder.nodes = {node.name: node for node in nodes} or {name: named_node(name) for name in names}
        before = [pod for pod in running if pod.node_name and pod.key not in self.pods]
        recorder.pods = {**{pod.key: pod for pod in before}, **self.pods}
        recorder.steps = [HistoryStep(0.0, StepKind.TAKES, pod.key, pod.node_name) for pod in before]
        recorder.steps += _known_only(self.steps)
        recorder.decisions = [
            RecordedDecision(self._moment(line), line.pod, line.result, line.node, line.message, line.attempts)
            for line in self.lines
        ]
        return recorder


def _known_only(steps: Sequence[HistoryStep]) -> list[HistoryStep]:
    """Leave out a second begin of waiting: a pod that waits goes on doing so."""
    waiting: set[str] = set()
    kept = []
    for step in steps:
        if step.what is StepKind.WAITS:
            if step.pod in waiting:
                continue
            waiting.add(step.pod)
        elif step.what is StepKind.TAKES:
            waiting.discard(step.pod)
        kept.append(step)
    return kept


def why_logged(line: LoggedDecision) -> FailedAttempt:
    """Say why an attempt failed, as a recorded simulation does."""
    if line.pre_filter is not None:
        reasons = line.pre_filter.reasons
    else:
        reasons = tuple(dict.fromkeys(reason for group in line.rejected for reason in group.reasons))
    return FailedAttempt(reasons or (line.message,), line.unschedulable_plugins, line.message)


def pod_of(line: LoggedDecision) -> Pod:
    """Make a pod of what a line knows of it: enough to count it on a node."""
    namespace, _, name = line.pod.partition("/")
    container = {"name": "main", "resources": {"requests": line.requests}}
    spec = {"schedulerName": line.profile, "priority": line.priority, "containers": [container]}
    data = {"metadata": {"name": name, "namespace": namespace, "uid": line.uid}, "spec": spec}
    return msgspec.convert(data, Pod)


def named_node(name: str) -> Node:
    """Make a node of which nothing but its name is known."""
    return msgspec.convert({"metadata": {"name": name}}, Node)
