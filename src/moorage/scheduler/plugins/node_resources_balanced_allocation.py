"""NodeResourcesBalancedAllocation: prefer nodes with balanced resource utilization after the pod is added."""

import math
from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple

import numpy as np

from moorage.kube.api.pod import Pod
from moorage.kube.api.requests import PODS, is_scalar
from moorage.scheduler.config.args import DEFAULT_RESOURCES, NodeResourcesBalancedAllocationArgs
from moorage.scheduler.framework.cycle import CycleState, StateKey
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import DependsOn, PreScorePlugin, ScorePlugin
from moorage.scheduler.framework.status import MAX_NODE_SCORE, BoolArray, FloatArray, IntArray, Status
from moorage.scheduler.plugins.dynamic_resources.dra_manager import device_counts
from moorage.scheduler.plugins.node_resources_fit.strategies import FEW_NODES
from moorage.scheduler.plugins.resource_amounts import (
    EXACT_FLOATS,
    ResourceAmounts,
    measure_capacity,
    shared_amounts,
)

EVEN: Final = 150
"""Adding the evenness after, and subtracting the evenness before, gives twice the score."""


class RequestedAmount(NamedTuple):
    """The request of a pod for one resource."""

    resource: str
    amount: int


AMOUNTS: Final = StateKey[tuple[RequestedAmount, ...]]("NodeResourcesBalancedAllocation: requests of the pod")


class NodeResourcesBalancedAllocation(PreScorePlugin, ScorePlugin):
    """Compare the balance of a node with and without the pod; 75 means no difference."""

    Args = NodeResourcesBalancedAllocationArgs
    depends_on = DependsOn.REQUESTS
    _narrow_is_checked = True

    def __init__(
        self, *, args: NodeResourcesBalancedAllocationArgs | None = None, handle: Handle | None = None
    ) -> None:
        configured = (args.resources if args else ()) or DEFAULT_RESOURCES
        self._resources = tuple(item.name for item in configured if item.name != PODS)
        self._amounts = shared_amounts(handle)
        self._device_counts = device_counts(handle, self._resources) if handle is not None else None
        self._signs_template = self._device_counts is None

    def sign(self, pod: Pod) -> Hashable | None:
        if self._device_counts is not None and self._device_counts.concerns(pod.requests, self._resources):
            return None
        return frozenset(pod.requests_on_node.items())

    def pre_score(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        amounts = self._read_amounts(pod)
        if not amounts:
            # Otherwise all best-effort pods would prefer the same node.
            return Status.skip()
        cycle[AMOUNTS] = amounts
        return None

    def _read_amounts(self, pod: Pod) -> tuple[RequestedAmount, ...]:
        """Read the requests of a pod. Return an empty result if it requests no scored resource.

        Called from Score if the profile has no PreScore.
        """
        requests = pod.requests_on_node
        amounts, is_anything = [], False
        for resource in self._resources:
            amount = requests.get(resource, 0)
            if amount or not is_scalar(resource):
                amounts.append(RequestedAmount(resource, amount))
                is_anything = is_anything or amount != 0
        if not is_anything:
            return ()
        if self._device_counts is not None:
            self._device_counts.refresh()
        return tuple(amounts)

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        allocatable, requested = node.allocatable, node.requested
        amounts = cycle.get(AMOUNTS) or self._read_amounts(pod)
        if not amounts:
            return 0
        before, after = [], []
        for resource, amount in amounts:
            capacity, usage = allocatable.get(resource, 0), requested.get(resource, 0)
            if not capacity and self._device_counts is not None:
                capacity, usage = self._device_counts.on_node(node, resource)
            if capacity:
                # Convert to floats first, as upstream: beyond 2**53, integer division gives another result.
                divisor = float(capacity)
                usage_before, usage_after = float(usage) / divisor, float(usage + amount) / divisor
                before.append(usage_before if usage_before < 1.0 else 1.0)
                after.append(usage_after if usage_after < 1.0 else 1.0)
        # Evenness is between 50 and 100, so no term is negative.
        return 50 + (50 + evenness(after) - evenness(before)) // 2

    def score_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        if len(nodes) <= FEW_NODES:
            return super().score_nodes(cycle, pod, nodes)
        amounts = cycle.get(AMOUNTS) or self._read_amounts(pod)
        if not amounts:
            return np.zeros(len(nodes), dtype=np.int64)
        if self._device_counts is None and nodes.shows_all and (scores := self._score_all(nodes, amounts)) is not None:
            return scores
        before, after, present = [], [], []
        for resource, amount in amounts:
            allocatable, usage = nodes.allocatable[resource], nodes.requested[resource]
            if self._device_counts is not None:
                allocatable, usage = self._device_counts.on_nodes(nodes, resource, allocatable, usage)
            capacity = measure_capacity(allocatable)
            before.append(np.minimum(usage / capacity.floats, 1.0))
            after.append(np.minimum((usage + amount) / capacity.floats, 1.0))
            present.append(capacity.present)
        gain = evenness_nodes(after, present).astype(np.int64)
        gain += EVEN - evenness_nodes(before, present).astype(np.int64)
        gain >>= 1
        return gain

    def _score_all(self, nodes: NodeTable, amounts: Sequence[RequestedAmount]) -> IntArray | None:
        """Score the entire cluster from cached columns; None if floats would not be exact."""
        self._amounts.follow(nodes)
        columns = [self._amounts[resource] for resource, _ in amounts]
        present, after = [], []
        for item, (_, amount) in zip(columns, amounts, strict=True):
            if item.most_used + amount >= EXACT_FLOATS or not item.capacity.is_sound:
                return None
            part = item.used + amount
            part /= item.capacity.floats
            if not item.is_free_everywhere(nodes, amount):
                np.minimum(part, 1.0, out=part)
            present.append(item.capacity.present)
            after.append(part)
        # 32-bit columns take half the time; CPUs convert floats to 64-bit integers one by one.
        gain = evenness_nodes(after, present).astype(np.int32)
        # The balance without the pod is also a cached column.
        resources = tuple([item.resource for item in columns])
        gain += self._amounts.derived(_unevenness, resources, lambda: _unevenness_now(columns))
        gain >>= 1
        return gain


def _unevenness_now(columns: Sequence[ResourceAmounts]) -> IntArray:
    """Return ``EVEN`` minus the current evenness, for every node of the cluster."""
    fractions = [np.minimum(item.used / item.capacity.floats, 1.0) for item in columns]
    return EVEN - evenness_nodes(fractions, [item.capacity.present for item in columns]).astype(np.int32)


def _unevenness(node: NodeInfo, resources: Sequence[str]) -> int:
    allocatable, requested = node.allocatable, node.requested
    return EVEN - evenness(
        [
            min(float(requested.get(resource, 0)) / float(allocatable[resource]), 1.0)
            for resource in resources
            if allocatable.get(resource, 0)
        ]
    )


def evenness(fractions: Sequence[float]) -> int:
    """Return 100 minus the standard deviation in percent, truncated, in upstream's order of operations."""
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        # Not sum(): from Python 3.12 on it compensates rounding errors, which Go does not.
        total = squares = 0.0
        for fraction in fractions:
            total += fraction
        mean = total / float(len(fractions))
        for fraction in fractions:
            squares += (fraction - mean) * (fraction - mean)
        deviation = math.sqrt(squares / float(len(fractions)))
    return int((1 - deviation) * MAX_NODE_SCORE)


def evenness_nodes(fractions: Sequence[FloatArray], present: Sequence[BoolArray | None]) -> FloatArray:
    """Compute the evenness of columns without truncation. The columns are overwritten.

    ``present`` marks the nodes that have a resource. ``None`` means all.
    """
    if len(fractions) == 2 and present[0] is None and present[1] is None:
        deviation = fractions[0]
        deviation -= fractions[1]
        np.abs(deviation, out=deviation)
        # Halves of floats are exact, so this equals 1 - deviation / 2 without another pass.
        np.subtract(2, deviation, out=deviation)
        deviation *= MAX_NODE_SCORE / 2
    else:
        deviation = _deviation_nodes(fractions, present)
        np.subtract(1, deviation, out=deviation)
        deviation *= MAX_NODE_SCORE
    return deviation


def _deviation_nodes(fractions: Sequence[FloatArray], present: Sequence[BoolArray | None]) -> FloatArray:
    size = len(fractions[0])
    masks = [np.ones(size, dtype=np.bool_) if mask is None else mask for mask in present]
    count = np.sum(masks, axis=0)
    divisor = np.maximum(count, 1)
    total = np.zeros(size)
    for fraction, mask in zip(fractions, masks, strict=True):
        total += np.where(mask, fraction, 0.0)
    mean = total / divisor
    squares = np.zeros(size)
    for fraction, mask in zip(fractions, masks, strict=True):
        squares += np.where(mask, (fraction - mean) * (fraction - mean), 0.0)
    # As upstream, two resources use another formula, which may differ in the last bit.
    largest = np.max([np.where(mask, f, -np.inf) for f, mask in zip(fractions, masks, strict=True)], axis=0)
    smallest = np.min([np.where(mask, f, np.inf) for f, mask in zip(fractions, masks, strict=True)], axis=0)
    spread = np.where(count == 2, largest, 0.0) - np.where(count == 2, smallest, 0.0)
    return np.where(count == 2, spread / 2, np.where(count > 2, np.sqrt(squares / divisor), 0.0))
