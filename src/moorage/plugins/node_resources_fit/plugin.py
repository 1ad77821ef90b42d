"""NodeResourcesFit: a pod goes only where what it asks for is left, and rather where more (or less) of it is."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from moorage.api.pod import Pod
from moorage.api.requests import CPU, MEMORY, PODS, is_scalar
from moorage.config.args import NodeResourcesFitArgs
from moorage.framework.cycle import CycleState, StateKey
from moorage.framework.events import EventRegistration
from moorage.framework.group_plugins import PlacementScorePlugin
from moorage.framework.groups import GroupTree, Placement
from moorage.framework.handle import Handle
from moorage.framework.nodeinfo import NodeInfo
from moorage.framework.nodetable import NodeTable
from moorage.framework.plugin import (
    CountingPlugin,
    DependsOn,
    FilterPlugin,
    PreFilterAnswer,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
)
from moorage.framework.status import MAX_NODE_SCORE, BoolArray, FloatArray, IntArray, Status, Verdict, combined
from moorage.plugins.capacities import EXACT_FLOATS, Capacities, Capacity, StandingAmounts, WriteAmounts, capacity_of
from moorage.plugins.deferred_pod_scheduling import GATE
from moorage.plugins.dynamic_resources.stock import device_stock
from moorage.plugins.extended_resources import extended_classes
from moorage.plugins.node_resources_fit.demands import TOO_MANY_PODS, Demand, DemandReader, shortages
from moorage.plugins.node_resources_fit.hints import FitHints
from moorage.plugins.node_resources_fit.placements import fullness
from moorage.plugins.node_resources_fit.strategies import FEW_NODES, WeightedScores, strategy_of


class WeightedRequest(NamedTuple):
    """What a pod counts for in the score of one resource, and what that resource weighs."""

    resource: str
    amount: int
    weight: int


DEMANDS: Final = StateKey[tuple[Demand, ...]](
    "PreFilterNodeResourcesFit", missing='error reading "PreFilterNodeResourcesFit" from cycleState: not found'
)
SHARES: Final = StateKey[tuple[WeightedRequest, ...]]("NodeResourcesFit: what the pod counts for in scores")


class NodeResourcesFit(
    PreFilterPlugin, FilterPlugin, CountingPlugin, PreScorePlugin, ScorePlugin, PlacementScorePlugin
):
    """Reject nodes that are full, and score by how full the others would be."""

    Args = NodeResourcesFitArgs
    depends_on = DependsOn.REQUESTS
    looks_at_nodes = False

    def __init__(self, *, args: NodeResourcesFitArgs | None = None, handle: Handle) -> None:
        args = args or NodeResourcesFitArgs()
        self._strategy = strategy_of(args.scoring_strategy)
        # Pods are limited in number, not scored: upstream knows no allocatable for them here.
        self._weights = tuple((r.name, r.weight) for r in args.scoring_strategy.resources if r.name != PODS)
        self._scored = tuple(name for name, _ in self._weights)
        self._capacities = Capacities()
        self._free = StandingAmounts(FREE)
        self._left = StandingAmounts(LEFT)
        self._stock = device_stock(handle, self._scored)
        self._signs_template = self._stock is None
        self._classes = extended_classes(handle)
        self._demands = DemandReader(self._classes, args.ignored_resources, args.ignored_resource_groups)
        self._nodes = handle.nodes if handle.features.enabled(GATE) else None
        """Where pods that are to grow are looked up; ``None`` if nobody makes room for them."""
        self._signs_template = self._signs_template and self._nodes is None

    def sign(self, pod: Pod) -> Hashable | None:
        if self._nodes is not None and pod.has_deferred_resize:
            return None
        if self._stock is not None and self._stock.concerns(pod.requests, self._scored):
            return None
        return frozenset(pod.requests.items()), frozenset(pod.scoring_requests.items())

    def epoch(self) -> Hashable:
        return self._classes.version

    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
        demands = self._demands.read(pod)
        cycle[DEMANDS] = self._growth(pod, demands) if self._nodes is not None else demands
        return None

    def _growth(self, pod: Pod, demands: tuple[Demand, ...]) -> tuple[Demand, ...]:
        """Leave out what a pod that is to grow is counted with already; a node that is overdrawn is still too full."""
        if not pod.has_deferred_resize or self._nodes is None:
            return demands
        info = self._nodes.find(pod.node_name)
        known = info.pods.get(pod.uid) if info is not None else None
        counted = known.requests_on_node if known is not None else {}
        return tuple(item._replace(amount=max(0, item.amount - counted.get(item.resource, 0))) for item in demands)

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        demands = cycle[DEMANDS]
        found = shortages(demands, node)
        return combined(found) if found else None

    def left_over(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> dict[str, int]:
        allocatable, requested = node.allocatable, node.requested
        left = {PODS: allocatable.get(PODS, 0) - len(node.pods) - 1}
        for resource, amount, _, _, is_delegable in cycle[DEMANDS]:
            capacity = allocatable.get(resource, 0)
            if capacity > 0 or not is_delegable:
                left[resource] = capacity - requested.get(resource, 0) - amount
        return left

    def filter_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Verdict:
        allocatable, requested = nodes.allocatable, nodes.requested
        found: list[tuple[BoolArray, Status]] = []
        has_bounds = len(nodes) > FEW_NODES and nodes.shows_all
        if has_bounds:
            self._free.follow(nodes)
        if not has_bounds or self._free.lowest(nodes, PODS, 1) < 1:
            full = nodes.pod_count >= allocatable[PODS]
            if full.any():
                found.append((full, TOO_MANY_PODS))
        for resource, amount, short, hopeless, is_delegable in cycle[DEMANDS]:
            # Most often no node is that full: then nobody is looked at.
            if has_bounds and amount < EXACT_FLOATS and self._free.lowest(nodes, resource, amount) >= amount:
                continue
            capacity = allocatable[resource]
            lacking = capacity - requested[resource] < amount
            if is_delegable:
                lacking &= capacity > 0
            if lacking.any():
                too_small = lacking & (capacity < amount)
                found += [(lacking & ~too_small, short), (too_small, hopeless)]
        return Verdict(len(nodes), tuple(found))

    def filter_without(self, cycle: CycleState, pod: Pod, nodes: NodeTable, gone: Mapping[str, IntArray]) -> Verdict:
        allocatable, requested = nodes.allocatable, nodes.requested
        found = [(nodes.pod_count - gone[PODS] >= allocatable[PODS], TOO_MANY_PODS)]
        for resource, amount, short, hopeless, is_delegable in cycle[DEMANDS]:
            capacity = allocatable[resource]
            lacking = capacity - requested[resource] + gone.get(resource, 0) < amount
            if is_delegable:
                lacking &= capacity > 0
            too_small = lacking & (capacity < amount)
            found += [(lacking & ~too_small, short), (too_small, hopeless)]
        return Verdict(len(nodes), tuple(found))

    def how_many(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        allocatable, requested = nodes.allocatable, nodes.requested
        counts = allocatable[PODS] - nodes.pod_count
        for resource, amount, _, _, is_delegable in cycle[DEMANDS]:
            capacity = allocatable[resource]
            fitting = (capacity - requested[resource]) // amount
            counts = np.minimum(counts, np.where(capacity > 0, fitting, counts) if is_delegable else fitting)
        return counts

    def pre_score(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        cycle[SHARES] = self._read_shares(pod)
        return None

    def _read_shares(self, pod: Pod) -> tuple[WeightedRequest, ...]:
        """Read what the pod counts for; a profile without the pre-score does so when it scores."""
        asked = pod.scoring_requests
        if self._stock is not None:
            self._stock.refresh()
        shares = []
        for resource, weight in self._weights:
            amount = asked.get(resource, 0)
            if amount or not is_scalar(resource):
                shares.append(WeightedRequest(resource, amount, weight))
        return tuple(shares)

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        allocatable, score_resource = node.allocatable, self._strategy.score_resource
        weighted = []
        for resource, amount, weight in cycle.get(SHARES) or self._read_shares(pod):
            capacity = allocatable.get(resource, 0)
            if capacity:
                weighted.append((weight, score_resource(_taken(node, resource) + amount, capacity)))
            elif self._stock is not None:
                capacity, taken = self._stock.on_node(node, resource)
                if capacity:
                    weighted.append((weight, score_resource(taken + amount, capacity)))
        return self._strategy.mean(weighted)

    def score_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        if len(nodes) <= FEW_NODES:
            return super().score_nodes(cycle, pod, nodes)
        shares = cycle.get(SHARES) or self._read_shares(pod)
        kept = self._capacities.of(nodes, [resource for resource, _, _ in shares])
        if self._stock is None and nodes.shows_all and (scores := self._score_left(nodes, shares, kept)) is not None:
            return scores
        nonzero, requested = nodes.nonzero_requested, nodes.requested
        weighted = []
        for place, (resource, amount, weight) in enumerate(shares):
            taken, capacity = (nonzero if resource in (CPU, MEMORY) else requested)[resource], kept[place]
            if self._stock is not None:
                amounts, taken = self._stock.on_nodes(nodes, resource, nodes.allocatable[resource], taken)
                capacity = capacity_of(amounts)
            scores = self._strategy.score_resource_nodes(taken + amount, capacity)
            weighted.append(WeightedScores(weight, scores, capacity.present))
        return self._strategy.mean_nodes(weighted, len(nodes))

    def _score_left(
        self, nodes: NodeTable, shares: Sequence[WeightedRequest], capacities: Sequence[Capacity]
    ) -> IntArray | None:
        """Score the whole cluster by what is left on each node, which stands from pod to pod; None if it cannot be."""
        self._left.follow(nodes)
        weighted = []
        for (resource, amount, weight), capacity in zip(shares, capacities, strict=True):
            if not capacity.is_exact:
                return None
            asked = amount * MAX_NODE_SCORE
            left = self._left.of(nodes, resource) - asked
            if self._left.lowest(nodes, resource, asked) < asked:
                np.maximum(left, 0.0, out=left)
            if (scores := self._strategy.score_left(left, capacity)) is None:
                return None
            weighted.append(WeightedScores(weight, scores, capacity.present))
        return self._strategy.mean_nodes(weighted, len(nodes))

    def score_placements(self, cycle: CycleState, group: GroupTree, placements: Sequence[Placement]) -> IntArray:
        return fullness(placements, self._weights)

    def events_to_register(self) -> Sequence[EventRegistration]:
        return FitHints(self._classes, grows=self._nodes is not None).registrations()


def _free_column(nodes: NodeTable, resource: str) -> FloatArray:
    taken = nodes.pod_count if resource == PODS else nodes.requested[resource]
    return (nodes.allocatable[resource] - taken).astype(np.float64)


def _free_on(node: NodeInfo, resource: str) -> float:
    taken = len(node.pods) if resource == PODS else node.requested.get(resource, 0)
    return node.allocatable.get(resource, 0) - taken


def _left_column(nodes: NodeTable, resource: str) -> FloatArray:
    taken = (nodes.nonzero_requested if resource in (CPU, MEMORY) else nodes.requested)[resource]
    return (nodes.allocatable[resource] - taken).astype(np.float64) * MAX_NODE_SCORE


def _left_on(node: NodeInfo, resource: str) -> float:
    return (node.allocatable.get(resource, 0) - _taken(node, resource)) * MAX_NODE_SCORE


FREE: Final = WriteAmounts(_free_column, _free_on)
"""What is free of a resource, rounded beyond ``EXACT_FLOATS``."""
LEFT: Final = WriteAmounts(_left_column, _left_on)
"""A hundred times what scores count as left of a resource; exact wherever less than 2**46 are left."""


def _taken(node: NodeInfo, resource: str) -> int:
    if resource == CPU:
        return node.nonzero_cpu
    if resource == MEMORY:
        return node.nonzero_memory
    return node.requested.get(resource, 0)
