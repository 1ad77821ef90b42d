"""TargetLoadPacking: fill nodes up to a measured load, and spread the remaining pods."""

import math
from collections.abc import Hashable
from typing import Final

import numpy as np

from moorage.contrib.community.measured_load import LoadColumns, LoadPlugin, LoadSource, Measurements, scheduling_time
from moorage.kube.api.arithmetic import round_half_away, round_half_away_nodes
from moorage.kube.api.pod import Pod
from moorage.kube.api.quantity import milli_value
from moorage.scheduler.config.contrib_args import TargetLoadPackingArgs
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import DependsOn, ScorePlugin
from moorage.scheduler.framework.status import MIN_NODE_SCORE, IntArray

REPORTING_SECONDS: Final = 60.0
"""Seconds until measurements include a new pod."""


class Prediction:
    """The expected CPU of a pod in thousandths: its limits, a multiple of its requests, or a default."""

    def __init__(self, args: TargetLoadPackingArgs) -> None:
        self._default = milli_value(args.default_requests.get("cpu", 0))
        self._multiplier = float(args.default_requests_multiplier)

    def of(self, pod: Pod) -> int:
        """Return the CPU that a pod is expected to use."""
        total = milli_value(pod.spec.overhead.get("cpu", 0))
        for container in pod.spec.containers:
            limit = milli_value(container.resources.limits.get("cpu", 0))
            request = milli_value(container.resources.requests.get("cpu", 0))
            total += limit or (round_half_away(request * self._multiplier) if request else self._default)
        return total


class PackingColumns(LoadColumns):
    """The CPU of each node, and its current and expected use, in thousandths."""

    names = ("capacity", "used")

    def __init__(self, handle: Handle, source: LoadSource, prediction: Prediction) -> None:
        super().__init__(handle, source.polled)
        self._prediction = prediction

    def compute_numbers(self, info: NodeInfo, measured: Measurements) -> tuple[float, ...]:
        """Return the capacity, and the measured usage with the expected usage of pods that are not measured yet."""
        load = measured.nodes.get(info.name)
        if load is None or load.cpu is None:
            return math.nan, math.nan
        capacity = float(milli_value(info.node.status.capacity.get("cpu", 0)))
        new = [pod for pod in info.pods.values() if scheduling_time(pod) > measured.until - REPORTING_SECONDS]
        return capacity, load.cpu / 100.0 * capacity + sum(map(self._prediction.of, new))


class TargetLoadPacking(LoadPlugin, ScorePlugin):
    """Prefer the busiest node that remains below the target, then the least busy of those above it.

    Without a recent measurement the plugin is skipped. Unmeasured nodes score 0.
    """

    Args = TargetLoadPackingArgs
    depends_on = DependsOn.PODS

    def __init__(self, *, args: TargetLoadPackingArgs, handle: Handle) -> None:
        super().__init__(args=args, handle=handle)
        self._prediction = Prediction(args)
        self._columns = PackingColumns(handle, self._source, self._prediction)
        self._target = float(args.target_utilization)

    def sign(self, pod: Pod) -> Hashable:
        return self._prediction.of(pod)

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        capacity, usage = self._columns.of(node)
        if math.isnan(capacity):
            return MIN_NODE_SCORE
        predicted = 100.0 * (usage + self._prediction.of(pod)) / capacity if capacity else 0.0
        if predicted > 100.0:
            return MIN_NODE_SCORE
        if predicted > self._target:
            return round_half_away(self._target * (100.0 - predicted) / (100.0 - self._target))
        return round_half_away((100.0 - self._target) * predicted / self._target + self._target)

    def score_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        capacity, usage = self._columns.through(nodes)
        request, target = self._prediction.of(pod), self._target
        with np.errstate(divide="ignore", invalid="ignore"):
            predicted = np.where(capacity == 0.0, 0.0, 100.0 * (usage + request) / capacity)
            below = (100.0 - target) * predicted / target + target
            above = target * (100.0 - predicted) / (100.0 - target)
        scores = np.where(predicted > target, above, below)
        hopeless = np.isnan(capacity) | (predicted > 100.0)
        return round_half_away_nodes(np.where(hopeless, float(MIN_NODE_SCORE), scores))
