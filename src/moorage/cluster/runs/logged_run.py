"""A decision log as a run: decisions, a timeline, and steps for a replay.

A log does not contain when pods end or are deleted. A pod keeps its node until it is evicted, its binding fails, or a
pod of the same name is retried.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from moorage.cluster.runs.history import PodHistory, Run
from moorage.cluster.runs.recording import FailedAttempt, HistoryStep, RecordedDecision, RunRecorder, StepKind
from moorage.kube.api.meta import parse_time
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.scheduler.decisions.decision import Decision, Result
from moorage.scheduler.decisions.decision_log import LoggedDecision


class LoggedRun:
    """A decision log in order of time. Times are seconds since the start of the first attempt."""

    def __init__(self, decisions: Iterable[LoggedDecision]) -> None:
        self.lines = sorted(decisions, key=lambda line: line.moment)
        self.start = min((line.moment - line.took for line in self.lines), default=0.0)
        self.last: dict[str, LoggedDecision] = {}
        """The last decision on each pod."""
        self.histories: dict[str, PodHistory] = {}
        self.evicted: dict[str, str] = {}
        """The preemptor of each evicted pod, by key."""
        self.steps: list[HistoryStep] = []
        self.pods: dict[str, Pod] = {}
        self._placed: dict[str, str] = {}
        for line in self.lines:
            self._take(line)
        self.steps.sort(key=lambda step: step.moment)

    @property
    def seconds(self) -> float:
        """Seconds between the first decision and the last."""
        return self._moment(self.lines[-1]) if self.lines else 0.0

    def _moment(self, line: LoggedDecision) -> float:
        return round(line.moment - self.start, 3)

    def _take(self, line: LoggedDecision) -> None:
        pod, moment = line.pod, self._moment(line)
        previous = self.last.get(pod)
        if previous is None or (line.uid and previous.uid != line.uid):
            self._begin(line, moment)
        elif pod in self._placed:
            # It is retried, so its binding failed.
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
        self.pods[line.pod] = make_logged_pod(line)
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

    def _step(self, moment: float, kind: StepKind, pod: str, detail: Any = None) -> None:
        self.steps.append(HistoryStep(moment, kind, pod, detail))

    def run(self) -> Run:
        """Return the log as the result of a simulation."""
        decisions: list[Decision] = [
            msgspec.structs.replace(line, evicted=pod in self.evicted) for pod, line in self.last.items()
        ]
        return Run(decisions, list(self.histories.values()), [], self.seconds, is_quiet=True)

    def recorder(self, nodes: Sequence[Node], running: Sequence[Pod]) -> RunRecorder:
        """Return the log as a recording, with ``running`` pods. Without ``nodes``, only the names of nodes are used."""
        recorder = RunRecorder()
        recorder.seconds = self.seconds
        names = dict.fromkeys(line.node for line in self.lines if line.node)
        recorder.nodes = {node.name: node for node in nodes} or {
            name: msgspec.convert({"metadata": {"name": name}}, Node) for name in names
        }
        before = [pod for pod in running if pod.node_name and pod.key not in self.pods]
        recorder.pods = {**{pod.key: pod for pod in before}, **self.pods}
        recorder.steps = [HistoryStep(0.0, StepKind.TAKES, pod.key, pod.node_name) for pod in before]
        recorder.steps += _without_repeated_waits(self.steps)
        recorder.decisions = [
            RecordedDecision(self._moment(line), line.pod, line.result, line.node, line.message, line.attempts)
            for line in self.lines
        ]
        return recorder


def _without_repeated_waits(steps: Sequence[HistoryStep]) -> list[HistoryStep]:
    """Drop WAITS steps of pods that are pending already."""
    waiting: set[str] = set()
    result = []
    for step in steps:
        if step.what is StepKind.WAITS:
            if step.pod in waiting:
                continue
            waiting.add(step.pod)
        elif step.what is StepKind.TAKES:
            waiting.discard(step.pod)
        result.append(step)
    return result


def why_logged(line: LoggedDecision) -> FailedAttempt:
    """Return why a logged attempt failed."""
    if line.pre_filter is not None:
        reasons = line.pre_filter.reasons
    else:
        reasons = tuple(dict.fromkeys(reason for group in line.rejected for reason in group.reasons))
    return FailedAttempt(reasons or (line.message,), line.unschedulable_plugins, line.message)


def make_logged_pod(line: LoggedDecision) -> Pod:
    """Return a pod with the fields of a logged decision: enough to count its requests."""
    namespace, _, name = line.pod.partition("/")
    container = {"name": "main", "resources": {"requests": line.requests}}
    spec = {"schedulerName": line.profile, "priority": line.priority, "containers": [container]}
    data = {"metadata": {"name": name, "namespace": namespace, "uid": line.uid}, "spec": spec}
    return msgspec.convert(data, Pod)
