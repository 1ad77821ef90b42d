"""NodeResourcesFit: filter nodes by free resources, and score them by utilization."""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from moorage.common.caches import cached
from moorage.kube.api.devices import DeviceClass
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.requests import CPU, MEMORY, NATIVE, PODS, is_extended, is_scalar
from moorage.scheduler.config.args import NodeResourcesFitArgs
from moorage.scheduler.framework.cycle import CycleState, StateKey
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration, QueueingHint, Resource, queue_if
from moorage.scheduler.framework.group_plugins import PlacementScorePlugin
from moorage.scheduler.framework.groups import GroupTree, Placement
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import (
    CountingPlugin,
    DependsOn,
    FilterPlugin,
    PreFilterAnswer,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
)
from moorage.scheduler.framework.status import MAX_NODE_SCORE, BoolArray, IntArray, Status, Verdict, combined
from moorage.scheduler.plugins.deferred_pod_scheduling import GATE
from moorage.scheduler.plugins.dynamic_resources.claims.extended_resource_claims import (
    IMPLICIT_PREFIX,
    ExtendedResourceClasses,
)
from moorage.scheduler.plugins.dynamic_resources.dra_manager import device_counts
from moorage.scheduler.plugins.node_resources_fit.strategies import FEW_NODES, WeightedScores, make_strategy
from moorage.scheduler.plugins.resource_amounts import measure_capacity, scored_usage, shared_amounts

TOO_MANY_PODS: Final = Status.unschedulable("Too many pods")
MAX_TOTAL_WEIGHT: Final = 1 << 20
"""Weighted sums below this fit into 32 bits. Valid configurations are far below."""


class Demand(NamedTuple):
    """A request for one resource."""

    resource: str
    amount: int
    is_delegable: bool
    """Whether devices back the resource on nodes without it; DynamicResources filters these nodes."""


class WeightedRequest(NamedTuple):
    """The request and weight of a resource in the score."""

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
    """Reject nodes with insufficient resources, and score the other nodes by utilization."""

    Args = NodeResourcesFitArgs
    depends_on = DependsOn.REQUESTS
    _narrow_is_checked = True
    uses_nodes = False

    def __init__(self, *, args: NodeResourcesFitArgs | None = None, handle: Handle) -> None:
        args = args or NodeResourcesFitArgs()
        self._strategy = make_strategy(args.scoring_strategy)
        # As upstream, the number of pods is not scored.
        self._weights = tuple((r.name, r.weight) for r in args.scoring_strategy.resources if r.name != PODS)
        self._scored = tuple(name for name, _ in self._weights)
        self._amounts = shared_amounts(handle)
        total_weight = sum(weight for _, weight in self._weights)
        self._scores_left = self._strategy.scores_free_amounts and total_weight < MAX_TOTAL_WEIGHT
        self._device_counts = device_counts(handle, self._scored)
        self._signs_template = self._device_counts is None
        self._classes = ExtendedResourceClasses(handle)
        self._ignored = frozenset(args.ignored_resources), frozenset(args.ignored_resource_groups)
        self._nodes = handle.nodes if handle.features.enabled(GATE) else None
        """The nodes of pods with a deferred resize, or ``None`` if the gate is off."""
        self._signs_template = self._signs_template and self._nodes is None

    def sign(self, pod: Pod) -> Hashable | None:
        if self._nodes is not None and pod.has_deferred_resize:
            return None
        if self._device_counts is not None and self._device_counts.concerns(pod.requests, self._scored):
            return None
        return frozenset(pod.requests.items()), frozenset(pod.scoring_requests.items())

    def epoch(self) -> Hashable:
        return self._classes.version

    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
        demands = read_demands(pod, self._classes, *self._ignored)
        if self._nodes is not None and pod.has_deferred_resize:
            # Only the increase is needed: the present requests are already counted on the node.
            info = self._nodes.find(pod.node_name)
            placed = info.pods.get(pod.uid) if info is not None else None
            requests = placed.requests_on_node if placed is not None else {}
            demands = tuple(d._replace(amount=max(0, d.amount - requests.get(d.resource, 0))) for d in demands)
        cycle[DEMANDS] = demands
        return None

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        statuses = shortages(cycle[DEMANDS], node)
        return combined(statuses) if statuses else None

    def left_over(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> dict[str, int]:
        allocatable, requested = node.allocatable, node.requested
        free = {PODS: allocatable.get(PODS, 0) - len(node.pods) - 1}
        for resource, amount, is_delegable in cycle[DEMANDS]:
            capacity = allocatable.get(resource, 0)
            if capacity > 0 or not is_delegable:
                free[resource] = capacity - requested.get(resource, 0) - amount
        return free

    def filter_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Verdict:
        rejections: list[tuple[BoolArray, Status]] = []
        size = len(nodes)
        amounts = self._amounts if size > FEW_NODES and nodes.shows_all else None
        if amounts is not None:
            amounts.follow(nodes)
        # Usually no node is full. Then no row has to be checked.
        if amounts is None or not amounts[PODS].is_free_everywhere(nodes, 1):
            full = nodes.pod_count >= nodes.allocatable[PODS]
            if full.any():
                rejections.append((full, TOO_MANY_PODS))
        allocatable, requested = nodes.allocatable, nodes.requested
        absent: list[str] = []
        """Successive resources that no node has. These are one rejection of all nodes."""
        for resource, amount, is_delegable in cycle[DEMANDS]:
            if resource not in allocatable:
                absent += () if is_delegable else (resource,)
                continue
            if amounts is not None and amounts[resource].is_free_everywhere(nodes, amount):
                continue
            capacity = allocatable[resource]
            lacking = capacity - requested[resource] < amount
            if is_delegable:
                lacking &= capacity > 0
            if lacking.any():
                rejections += _reject_all(absent, size)
                absent = []
                too_small = lacking & (capacity < amount)
                insufficient, unresolvable = _insufficient(resource)
                rejections += [(lacking & ~too_small, insufficient), (too_small, unresolvable)]
        return Verdict(size, (*rejections, *_reject_all(absent, size)))

    def filter_without(self, cycle: CycleState, pod: Pod, nodes: NodeTable, gone: Mapping[str, IntArray]) -> Verdict:
        allocatable, requested = nodes.allocatable, nodes.requested
        rejections = [(nodes.pod_count - gone[PODS] >= allocatable[PODS], TOO_MANY_PODS)]
        for resource, amount, is_delegable in cycle[DEMANDS]:
            capacity = allocatable[resource]
            lacking = capacity - requested[resource] + gone.get(resource, 0) < amount
            if is_delegable:
                lacking &= capacity > 0
            too_small = lacking & (capacity < amount)
            insufficient, unresolvable = _insufficient(resource)
            rejections += [(lacking & ~too_small, insufficient), (too_small, unresolvable)]
        return Verdict(len(nodes), tuple(rejections))

    def how_many(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        allocatable, requested = nodes.allocatable, nodes.requested
        counts = allocatable[PODS] - nodes.pod_count
        for resource, amount, is_delegable in cycle[DEMANDS]:
            capacity = allocatable[resource]
            fitting = (capacity - requested[resource]) // amount
            counts = np.minimum(counts, np.where(capacity > 0, fitting, counts) if is_delegable else fitting)
        return counts

    def pre_score(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        cycle[SHARES] = self._read_shares(pod)
        return None

    def _read_shares(self, pod: Pod) -> tuple[WeightedRequest, ...]:
        """Read the requests and weights for scoring; called from Score if the profile has no PreScore."""
        requests = pod.scoring_requests
        if self._device_counts is not None:
            self._device_counts.refresh()
        shares = []
        for resource, weight in self._weights:
            amount = requests.get(resource, 0)
            if amount or not is_scalar(resource):
                shares.append(WeightedRequest(resource, amount, weight))
        return tuple(shares)

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        allocatable, score_resource = node.allocatable, self._strategy.score_resource
        weighted = []
        for resource, amount, weight in cycle.get(SHARES) or self._read_shares(pod):
            capacity = allocatable.get(resource, 0)
            if capacity:
                weighted.append((weight, score_resource(scored_usage(node, resource) + amount, capacity)))
            elif self._device_counts is not None:
                capacity, usage = self._device_counts.on_node(node, resource)
                if capacity:
                    weighted.append((weight, score_resource(usage + amount, capacity)))
        return self._strategy.mean(weighted)

    def score_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        size = len(nodes)
        if size <= FEW_NODES:
            return super().score_nodes(cycle, pod, nodes)
        shares = cycle.get(SHARES) or self._read_shares(pod)
        if (
            self._device_counts is None
            and nodes.shows_all
            and (scores := self._score_left(nodes, shares, size)) is not None
        ):
            return scores
        allocatable, nonzero, requested = nodes.allocatable, nodes.nonzero_requested, nodes.requested
        weighted = []
        for resource, amount, weight in shares:
            total, usage = allocatable[resource], (nonzero if resource in (CPU, MEMORY) else requested)[resource]
            if self._device_counts is not None:
                total, usage = self._device_counts.on_nodes(nodes, resource, total, usage)
            capacity = measure_capacity(total)
            scores = self._strategy.score_resource_nodes(usage + amount, capacity)
            weighted.append(WeightedScores(weight, scores, capacity.present))
        return self._strategy.mean_nodes(weighted, len(nodes))

    def _score_left(self, nodes: NodeTable, shares: Sequence[WeightedRequest], size: int) -> IntArray | None:
        """Score the entire cluster from cached columns of free resources; None if that is not exact."""
        if not self._scores_left:
            return None
        self._amounts.follow(nodes)
        weighted = []
        for resource, amount, weight in shares:
            column = self._amounts[resource]
            if not column.capacity.is_exact:
                return None
            hundredfold = amount * MAX_NODE_SCORE
            free = column.left(nodes) - hundredfold
            if not column.is_left_everywhere(hundredfold):
                np.maximum(free, 0.0, out=free)
            scores = self._strategy.score_free(free, column.capacity)
            weighted.append(WeightedScores(weight, scores, column.capacity.present))
        return self._strategy.mean_nodes(weighted, size)

    def score_placements(self, cycle: CycleState, group: GroupTree, placements: Sequence[Placement]) -> IntArray:
        return fullness(placements, self._weights)

    def events_to_register(self) -> Sequence[EventRegistration]:
        node_change = Action.ADD | Action.UPDATE_NODE_ALLOCATABLE
        own_change = Action.UPDATE_POD_SCALE_DOWN
        if self._nodes is not None:
            own_change |= Action.UPDATE_POD_SCALE_UP
        return (
            EventRegistration(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), self.after_pod_deletion),
            EventRegistration(ClusterEvent(Resource.NODE, node_change), self.after_node_change),
            EventRegistration(ClusterEvent(Resource.DEVICE_CLASS, Action.ADD | Action.UPDATE), after_class_change),
            EventRegistration(ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN), self.after_scale_down),
            EventRegistration(ClusterEvent(Resource.TARGET_POD, own_change)),
        )

    def _is_elsewhere(self, pod: Pod, node: str) -> bool:
        """Return whether the event is on another node than that of a pod with a deferred resize."""
        return self._nodes is not None and pod.has_deferred_resize and pod.node_name != node

    def after_pod_deletion(self, pod: Pod, old: Pod, new: Pod | None) -> QueueingHint:
        """Queue when an assigned or nominated pod was deleted."""
        had_node = bool(old.node_name or old.nominated_node_name)
        return queue_if(had_node and not self._is_elsewhere(pod, old.node_name))

    def after_scale_down(self, pod: Pod, old: Pod, new: Pod) -> QueueingHint:
        """Queue when an assigned pod reduced a resource that this pod requests."""
        if not new.node_name or self._is_elsewhere(pod, new.node_name):
            return QueueingHint.SKIP
        before, after = old.requests_on_node, new.requests_on_node
        requested = (name for name, amount in pod.requests_on_node.items() if amount and name != PODS)
        return queue_if(any(before.get(name, 0) > after.get(name, 0) for name in requested))

    def after_node_change(self, pod: Pod, old: Node | None, new: Node) -> QueueingHint:
        """Queue when a node was added or a requested resource grew, and the pod fits the empty node."""
        # As upstream, hints do not consider the ignored resources of the configuration.
        demands = read_demands(pod, self._classes)
        if self._is_elsewhere(pod, new.name) or shortages(demands, NodeInfo(new)):
            return QueueingHint.SKIP
        if old is None:
            return QueueingHint.QUEUE
        requested = (PODS, *(demand.resource for demand in demands))
        has_grown = any(new.allocatable.get(name, 0) > old.allocatable.get(name, 0) for name in requested)
        return queue_if(has_grown or any(d.is_delegable and new.allocatable.get(d.resource, 0) <= 0 for d in demands))


def after_class_change(pod: Pod, old: DeviceClass | None, new: DeviceClass) -> QueueingHint:
    """Queue when a class begins to back a resource that the pod requests."""
    offered = new.spec.extended_resource_name or ""
    if old is None:
        # The implicit name of a class is fixed, so it matters only when the class is added.
        return queue_if(IMPLICIT_PREFIX + new.name in pod.requests or offered in pod.requests)
    return queue_if(offered != (old.spec.extended_resource_name or "") and offered in pod.requests)


def read_demands(
    pod: Pod, classes: ExtendedResourceClasses, ignored: Collection[str] = (), ignored_groups: Collection[str] = ()
) -> tuple[Demand, ...]:
    """List the requests that must be free on a node. The number of pods is checked separately."""
    amounts, backed = pod.requests, classes.by_resource()
    # CPU, memory and storage are first. The order of other resources is random upstream, here by name.
    demands = [Demand(name, amounts[name], False) for name in NATIVE if amounts.get(name, 0) > 0]
    for name in sorted([name for name in amounts if name not in NATIVE and name != PODS]):
        is_ignored = name in ignored or (ignored_groups and name.partition("/")[0] in ignored_groups)
        if amounts[name] > 0 and not (is_ignored and is_extended(name)):
            demands.append(Demand(name, amounts[name], name in backed))
    return tuple(demands)


@cached(1024)
def _insufficient(resource: str) -> tuple[Status, Status]:
    """Return the statuses of nodes with too little free, and with too little in total."""
    reason = f"Insufficient {resource}"
    return Status.unschedulable(reason), Status.unresolvable(reason)


def _reject_all(resources: Sequence[str], size: int) -> Iterator[tuple[BoolArray, Status]]:
    if resources:
        yield np.ones(size, dtype=np.bool_), Status.unresolvable(*[f"Insufficient {name}" for name in resources])


def shortages(demands: tuple[Demand, ...], node: NodeInfo) -> list[Status]:
    """List all insufficient resources of a node."""
    allocatable, requested = node.allocatable, node.requested
    statuses = [TOO_MANY_PODS] if len(node.pods) >= allocatable.get(PODS, 0) else []
    for resource, amount, is_delegable in demands:
        capacity = allocatable.get(resource, 0)
        if amount > capacity - requested.get(resource, 0) and not (is_delegable and capacity <= 0):
            insufficient, unresolvable = _insufficient(resource)
            statuses.append(unresolvable if amount > capacity else insufficient)
    return statuses


def fullness(placements: Sequence[Placement], weights: Sequence[tuple[str, int]]) -> IntArray:
    """Return the weighted mean utilization of the placements with the group, in percent."""
    # Placements with equal proposals share one tuple, so the sums are computed once per tuple.
    sums: dict[int, Counter[str]] = {}
    for placement in placements:
        if (key := id(placement.proposals)) not in sums:
            sums[key] = Counter()
            for proposal in placement.proposals:
                sums[key].update(proposal.pod.scoring_requests)
    scores = [_fullness(placement.nodes, sums[id(placement.proposals)], weights) for placement in placements]
    return np.array(scores, dtype=np.int64)


def _fullness(nodes: NodeTable, requests: Counter[str], weights: Iterable[tuple[str, int]]) -> int:
    total = weighed = 0
    for resource, weight in weights:
        offered = nodes.allocatable[resource]
        capacity = int(offered.sum())
        if not capacity or (is_scalar(resource) and not requests[resource]):
            continue
        requested = (nodes.nonzero_requested if resource in (CPU, MEMORY) else nodes.requested)[resource]
        # Requests on nodes that do not have the resource are ignored.
        total_requested = int(requested[offered > 0].sum()) + requests[resource]
        total += weight * (min(total_requested, capacity) * MAX_NODE_SCORE // capacity)
        weighed += weight
    return total // weighed if weighed else 0
