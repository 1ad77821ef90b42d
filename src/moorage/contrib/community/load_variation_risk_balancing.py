"""LoadVariationRiskBalancing: prefer nodes with a low and steady measured load."""

import math
from collections.abc import Hashable

import numpy as np

from moorage.common.arrays import NDArray
from moorage.contrib.community.measured_load import LoadColumns, LoadPlugin, LoadSource, Measurements
from moorage.kube.api.arithmetic import round_half_away, round_half_away_nodes
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.contrib_args import LoadVariationRiskBalancingArgs
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import DependsOn, ScorePlugin
from moorage.scheduler.framework.status import MAX_NODE_SCORE, MIN_NODE_SCORE, IntArray


class RiskColumns(LoadColumns):
    """The allocatable amounts of each node, the measured utilization, and half of the risk of its variation."""

    names = ("cpu", "cpu_share", "cpu_variation", "memory", "memory_share", "memory_variation")

    def __init__(self, handle: Handle, source: LoadSource, args: LoadVariationRiskBalancingArgs) -> None:
        super().__init__(handle, source.polled)
        self._margin, sensitivity = args.safe_variance_margin, args.safe_variance_sensitivity
        self._power = math.inf if sensitivity == 0 else 1.0 / sensitivity

    def compute_numbers(self, info: NodeInfo, measured: Measurements) -> tuple[float, ...]:
        """Return the measurements of CPU and memory. An unmeasured resource is ``NaN``."""
        load, has = measured.nodes.get(info.name), info.node.allocatable
        if load is None:
            return (math.nan,) * len(self.names)
        return (
            *self._resource(has.get("cpu", 0), load.cpu, load.cpu_deviation),
            *self._resource(has.get("memory", 0), load.memory, load.memory_deviation),
        )

    def _resource(self, has: int, average: float | None, deviation: float | None) -> tuple[float, float, float]:
        if average is None or not has:
            return math.nan, math.nan, math.nan
        variation = _clip((deviation or 0.0) / 100.0) ** self._power
        return float(has), average / 100.0, _clip(self._margin * variation)


class LoadVariationRiskBalancing(LoadPlugin, ScorePlugin):
    """Score nodes by risk: the mean load of a resource, including the pod, and its variation.

    The riskier of CPU and memory counts. Without a recent measurement the plugin is skipped. Unmeasured nodes score 0.
    """

    Args = LoadVariationRiskBalancingArgs
    depends_on = DependsOn.NODE

    def __init__(self, *, args: LoadVariationRiskBalancingArgs, handle: Handle) -> None:
        super().__init__(args=args, handle=handle)
        self._columns = RiskColumns(handle, self._source, args)

    def sign(self, pod: Pod) -> Hashable:
        return pod.requests.get("cpu", 0), pod.requests.get("memory", 0)

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        numbers = self._columns.of(node)
        requests = pod.requests.get("cpu", 0), pod.requests.get("memory", 0)
        scores = [
            (1.0 - (_clip(share + amount / has) + variation) / 2.0) * MAX_NODE_SCORE
            for amount, (has, share, variation) in zip(requests, (numbers[:3], numbers[3:]), strict=True)
            if not math.isnan(has)
        ]
        return round_half_away(min(scores)) if scores else MIN_NODE_SCORE

    def score_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        numbers = self._columns.through(nodes)
        cpu = _scores(pod.requests.get("cpu", 0), *numbers[:3])
        memory = _scores(pod.requests.get("memory", 0), *numbers[3:])
        lower = np.fmin(cpu, memory)  # of a number and NaN, the number
        return round_half_away_nodes(np.where(np.isnan(lower), float(MIN_NODE_SCORE), lower))


def _scores(
    request: int, has: NDArray[np.float64], share: NDArray[np.float64], variation: NDArray[np.float64]
) -> NDArray[np.float64]:
    average = np.clip(share + request / has, 0.0, 1.0)
    scores: NDArray[np.float64] = (1.0 - (average + variation) / 2.0) * MAX_NODE_SCORE
    return scores


def _clip(value: float) -> float:
    return min(max(value, 0.0), 1.0)
