"""Replay of a recorded simulation: node utilization and pending pods at any moment."""

from bisect import bisect_right
from collections.abc import Sequence
from copy import copy
from typing import Final

import numpy as np

from moorage.cluster.runs.recording import FailedAttempt, HistoryStep, RunRecorder, StepKind
from moorage.common.arrays import NDArray
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.status import IntArray
from moorage.scheduler.queue.observer import ACTIVE

CHECKPOINT_STEPS: Final = 5000
"""Number of steps between two checkpoints, which limit the cost of going back."""


class WaitingRecord:
    """A pending pod: its start time, its queue, the event that moved it there, and its last failure."""

    __slots__ = ("attempts", "event", "failure", "place", "since")

    def __init__(self, since: float) -> None:
        self.since = since
        self.place = ACTIVE
        self.event = ""
        self.failure: FailedAttempt | None = None
        self.attempts = 0


class ClusterMoment:
    """The cluster at one moment. Rows are those of :attr:`Replay.nodes`."""

    def __init__(self, resources: tuple[str, ...], nodes: int) -> None:
        self.requested: dict[str, IntArray] = {name: np.zeros(nodes, dtype=np.int64) for name in resources}
        self.pods: NDArray[np.int64] = np.zeros(nodes, dtype=np.int64)
        self.placed: dict[str, str] = {}
        self.waiting: dict[str, WaitingRecord] = {}
        self.bound = 0

    def copied(self) -> "ClusterMoment":
        """Return an independent copy."""
        twin = copy(self)
        twin.requested = {name: column.copy() for name, column in self.requested.items()}
        twin.pods, twin.placed = self.pods.copy(), self.placed.copy()
        twin.waiting = {key: copy(record) for key, record in self.waiting.items()}
        return twin


class Replay:
    """A recorded simulation that can be shown at any moment, forwards and backwards.

    It ends with the last new step: unschedulable pods are retried every few minutes until the end of the simulation.
    """

    def __init__(self, recorder: RunRecorder) -> None:
        self.nodes: list[Node] = list(recorder.nodes.values())
        self.pods = recorder.pods
        self.seconds = _last_news(recorder.steps)
        self.steps = [step for step in recorder.steps if step.moment <= self.seconds]
        self.decisions = [decision for decision in recorder.decisions if decision.moment <= self.seconds]
        self._row = {node.name: row for row, node in enumerate(self.nodes)}
        self._moments = [step.moment for step in self.steps]
        resources = tuple(dict.fromkeys(name for node in self.nodes for name in node.allocatable if name != "pods"))
        self._checkpoints = [ClusterMoment(resources, len(self.nodes))]
        self._at = 0
        self._now = self._checkpoints[0].copied()

    def apart(self) -> "Replay":
        """Return a replay of the same run with its own position, for another thread."""
        twin = copy(self)
        twin._checkpoints, twin._at = self._checkpoints[:1], 0
        twin._now = twin._checkpoints[0].copied()
        return twin

    def at(self, seconds: float) -> ClusterMoment:
        """Return the state of the cluster after some seconds. It is valid until the next call."""
        target = bisect_right(self._moments, seconds)
        if target < self._at:
            nearest = min(target // CHECKPOINT_STEPS, len(self._checkpoints) - 1)
            self._now, self._at = self._checkpoints[nearest].copied(), nearest * CHECKPOINT_STEPS
        while self._at < target:
            self._take(self.steps[self._at])
            self._at += 1
            if self._at == len(self._checkpoints) * CHECKPOINT_STEPS:
                self._checkpoints.append(self._now.copied())
        return self._now

    def replay_pods(self, seconds: float) -> list[Pod]:
        """Return the pods at a moment, placed or pending."""
        moment = self.at(seconds)
        placed = [self.pods[key].on_node(node) for key, node in moment.placed.items()]
        pending = (self.pods[key] for key in moment.waiting)
        return placed + [pod.on_node("") if pod.node_name else pod for pod in pending]

    def _take(self, step: HistoryStep) -> None:
        now, key, detail = self._now, step.pod, step.detail
        match step.what:
            case StepKind.WAITS:
                now.waiting.setdefault(key, WaitingRecord(step.moment))
            case StepKind.TAKES:
                if now.waiting.pop(key, None) is not None:
                    now.bound += 1
                now.placed[key] = detail
                self._add(key, detail, 1)
            case StepKind.LEAVES:
                self._add(key, now.placed.pop(key), -1)
            case StepKind.GONE:
                now.waiting.pop(key, None)
            case StepKind.MOVED:
                # The queue receives a pod a moment after it was added, perhaps after it was deleted.
                if (record := now.waiting.get(key)) is not None:
                    record.place, record.event = detail
            case StepKind.TRIED:
                if (record := now.waiting.get(key)) is not None:
                    record.failure = detail
                    record.attempts += 1

    def _add(self, key: str, node: str, sign: int) -> None:
        row = self._row.get(node)
        if row is None:
            return
        self._now.pods[row] += sign
        for name, amount in self.pods[key].requests_on_node.items():
            if (column := self._now.requested.get(name)) is not None:
                column[row] += sign * amount


def _last_news(steps: Sequence[HistoryStep]) -> float:
    """Find the moment after which attempts only repeat earlier failures."""
    last_failures: dict[str, FailedAttempt] = {}
    last = 0.0
    for step in steps:
        if step.what is StepKind.MOVED:
            continue
        if step.what is StepKind.TRIED:
            if last_failures.get(step.pod) == step.detail:
                continue
            last_failures[step.pod] = step.detail
        last = step.moment
    return last
