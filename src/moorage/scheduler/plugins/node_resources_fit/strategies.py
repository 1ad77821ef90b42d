"""The three scoring strategies of NodeResourcesFit, for one node and for columns of nodes."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple, TypeAlias

import numpy as np

from moorage.kube.api.arithmetic import round_half_away, round_half_away_nodes, truncated_div, truncated_div_nodes
from moorage.kube.api.quantity import MAX_INT64
from moorage.scheduler.config.args import (
    LEAST_ALLOCATED,
    MAX_SHAPE_SCORE,
    MOST_ALLOCATED,
    REQUESTED_TO_CAPACITY_RATIO,
    ScoringStrategy,
    UtilizationShapePoint,
)
from moorage.scheduler.framework.status import MAX_NODE_SCORE, BoolArray, FloatArray, IntArray
from moorage.scheduler.plugins.resource_amounts import Capacity, percentage, percentages

FEW_NODES: Final = 8
"""Up to this many nodes are scored one by one. Columns are slower."""


WeightedScore: TypeAlias = tuple[int, int]
"""The weight of a resource, and the score of a node for it."""


class WeightedScores(NamedTuple):
    """The scores of a window for one resource. ``present`` is ``None`` if every node has the resource."""

    weight: int
    scores: IntArray
    present: BoolArray | None


class Strategy(ABC):
    """Scores each resource by utilization, and returns the weighted mean over the node's resources."""

    scores_free_amounts: ClassVar[bool] = False
    """Whether :meth:`score_free` is supported."""

    @abstractmethod
    def score_resource(self, usage: int, capacity: int) -> int:
        """Score one resource of a node that has it."""

    @abstractmethod
    def score_resource_nodes(self, usage: IntArray, capacity: Capacity) -> IntArray:
        """Score one resource of many nodes."""

    def score_free(self, free: FloatArray, capacity: Capacity) -> IntArray:
        """Score one resource of many nodes by a hundred times the free amount.

        ``free`` holds exact integers and may be overwritten. The result has 32 bits.
        """
        raise NotImplementedError

    def mean(self, weighted: Sequence[WeightedScore]) -> int:
        """Combine the scores of a node; a node without any of the resources gets 0."""
        total = weights = 0
        for weight, score in weighted:
            total += weight * score
            weights += weight
        if not weights:
            return 0
        return total // weights if total >= 0 else truncated_div(total, weights)

    def mean_nodes(self, weighted: Sequence[WeightedScores], size: int) -> IntArray:
        total: IntArray | None = None
        everywhere = 0
        somewhere: IntArray | None = None
        for weight, scores, present in weighted:
            # The columns were created for this mean, so they may be overwritten.
            if weight != 1:
                np.multiply(scores, weight, out=scores)
            if present is None:
                everywhere += weight
            else:
                np.multiply(scores, present, out=scores)
                somewhere = weight * present if somewhere is None else somewhere + weight * present
            if total is None:
                total = scores
            else:
                total += scores
        if total is None:
            return np.zeros(size, dtype=np.int64)
        if total.dtype != np.int32 and int(total.min(initial=0)) < 0:
            return truncated_div_nodes(
                total, np.maximum(everywhere if somewhere is None else somewhere + everywhere, 1)
            )
        if somewhere is not None:
            return total // np.maximum(somewhere + everywhere, 1)
        if everywhere.bit_count() == 1:
            # The default. No score is negative, and shifting takes a quarter of the time of dividing.
            total >>= everywhere.bit_length() - 1
            return total
        return total // max(everywhere, 1)


class LeastAllocated(Strategy):
    """Score by the free share of a resource."""

    scores_free_amounts = True

    def score_resource(self, usage: int, capacity: int) -> int:
        if usage > capacity:
            return 0
        # Called for each changed node, so the common case avoids a function call.
        hundredfold = (capacity - usage) * MAX_NODE_SCORE
        return hundredfold // capacity if hundredfold <= MAX_INT64 else percentage(capacity - usage, capacity)

    def score_resource_nodes(self, usage: IntArray, capacity: Capacity) -> IntArray:
        free = capacity.amounts - usage
        np.maximum(free, 0, out=free)
        free *= MAX_NODE_SCORE
        return percentages(free, capacity)

    def score_free(self, free: FloatArray, capacity: Capacity) -> IntArray:
        free /= capacity.floats
        # 32-bit columns take half the time; CPUs convert floats to 64-bit integers one by one.
        return free.astype(np.int32)


class MostAllocated(Strategy):
    """Score by the used share of a resource."""

    def score_resource(self, usage: int, capacity: int) -> int:
        return percentage(min(usage, capacity), capacity)

    def score_resource_nodes(self, usage: IntArray, capacity: Capacity) -> IntArray:
        shares = np.minimum(usage, capacity.amounts)
        shares *= MAX_NODE_SCORE
        return percentages(shares, capacity)


class RequestedToCapacityRatio(MostAllocated):
    """Score by a configured piecewise linear function of the used share.

    Unlike the other strategies, a resource with score 0 has no weight, and the mean is rounded, not truncated.
    """

    def __init__(self, shape: Sequence[UtilizationShapePoint]) -> None:
        scale = MAX_NODE_SCORE // MAX_SHAPE_SCORE
        points = [(point.utilization, point.score * scale) for point in shape]
        self._line = [broken_linear(points, utilization) for utilization in range(101)]
        self._line_column = np.array(self._line, dtype=np.int64)

    def score_resource(self, usage: int, capacity: int) -> int:
        # Before the first point the function is constant, also if upstream's integers overflow.
        return self._line[max(0, super().score_resource(usage, capacity))]

    def score_resource_nodes(self, usage: IntArray, capacity: Capacity) -> IntArray:
        return self._line_column[np.maximum(super().score_resource_nodes(usage, capacity), 0)]

    def mean(self, weighted: Sequence[WeightedScore]) -> int:
        weights = sum(weight for weight, score in weighted if score > 0)
        total = sum(weight * score for weight, score in weighted if score > 0)
        return round_half_away(float(total) / float(weights)) if weights else 0

    def mean_nodes(self, weighted: Sequence[WeightedScores], size: int) -> IntArray:
        total = np.zeros(size, dtype=np.int64)
        weights = np.zeros(size, dtype=np.int64)
        for weight, scores, present in weighted:
            counts = scores > 0 if present is None else (scores > 0) & present
            total += weight * scores * counts
            weights += weight * counts
        return round_half_away_nodes(total / np.maximum(weights, 1))


def broken_linear(points: Sequence[tuple[int, int]], x: int) -> int:
    """Interpolate linearly between points; constant before the first and after the last point."""
    for index, (right, height) in enumerate(points):
        if x <= right:
            if index == 0:
                return height
            left, base = points[index - 1]
            return base + truncated_div((height - base) * (x - left), right - left)
    return points[-1][1]


def make_strategy(configured: ScoringStrategy) -> Strategy:
    """Create the configured strategy."""
    match configured.type:
        case t if t == LEAST_ALLOCATED:
            return LeastAllocated()
        case t if t == MOST_ALLOCATED:
            return MostAllocated()
        case t if t == REQUESTED_TO_CAPACITY_RATIO:
            ratio = configured.requested_to_capacity_ratio
            return RequestedToCapacityRatio(ratio.shape if ratio else ())
        case unknown:
            raise ValueError(f"scoring strategy {unknown} is not supported")
