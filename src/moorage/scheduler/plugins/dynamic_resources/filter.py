"""Filters and scores nodes by the devices that a pod's claims have, or could be allocated."""

from collections.abc import Iterable, Iterator
from contextlib import suppress

import numpy as np
from msgspec.structs import replace

from moorage.common.arrays import group_rows
from moorage.common.clock import Clock
from moorage.common.errors import AttemptSuspended
from moorage.kube.api.devices import Device, DeviceRequestAllocationResult, ResourceClaim
from moorage.kube.api.pod import ContainerExtendedResourceRequest, NodeAllocatableClaimStatus, Pod
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import BoolArray, IntArray, Status, Verdict
from moorage.scheduler.plugins.dynamic_resources.allocation.allocation_results import device_result
from moorage.scheduler.plugins.dynamic_resources.allocation.allocator import SLICE, SearchBudget, SearchTimeout
from moorage.scheduler.plugins.dynamic_resources.allocation.cached_allocations import (
    ALLOCATED,
    UNKNOWN,
    AllocationOutcome,
    CachedAllocations,
)
from moorage.scheduler.plugins.dynamic_resources.cel.program import CelCompileError, compile_selector
from moorage.scheduler.plugins.dynamic_resources.claims.extended_resource_claims import make_extended_requests
from moorage.scheduler.plugins.dynamic_resources.claims.node_allocatable import (
    MappingError,
    PodClaimOnNode,
    claim_statuses,
    list_users,
    refusal,
)
from moorage.scheduler.plugins.dynamic_resources.claims.tracker import is_reserved_for, is_reserved_for_member
from moorage.scheduler.plugins.dynamic_resources.device_state import NOT_AVAILABLE, DeviceState, Pattern
from moorage.scheduler.plugins.dynamic_resources.devices.identifiers import DeviceId
from moorage.scheduler.plugins.dynamic_resources.devices.pools import OPTIONAL_NODE_OPERATIONS
from moorage.scheduler.plugins.dynamic_resources.dra_manager import DraManager

STALE_CLAIM = Status.unresolvable("cannot schedule extended resource claim")
CANNOT_FIT = Status.unresolvable("cannot fit resource")

FEW_UNKNOWN = 8

Rejections = list[tuple[BoolArray, Status]]


class NodeFilter:
    """Filters and scores nodes one by one or as columns, from the same cached results."""

    def __init__(self, manager: DraManager, clock: Clock, timeout: float | None) -> None:
        self._manager = manager
        self._clock = clock
        self._timeout = timeout

    def filter(self, state: DeviceState, pod: Pod, info: NodeInfo) -> Status | None:
        """Filter one node, possibly a changed copy."""
        pattern = self.find_pattern(state, pod, info)
        if isinstance(pattern, Status):
            return pattern
        if pattern.is_idle:
            return None
        if self._manager.features.node_allocatable and (status := self._sharing(state, pod, info)) is not None:
            return status
        if (
            status := state.unprepared()
        ) is not None and OPTIONAL_NODE_OPERATIONS not in info.node.status.declared_features:
            return status
        if pattern.cached is not None:
            try:
                status = self.outcome(state, pattern.cached, info).status(pattern.names)
            except SearchTimeout:
                return _timed_out(info)
            if status is not None:
                return status
        if self._manager.features.node_allocatable and (status := self._shortage(state, pod, info)) is not None:
            return status
        return NOT_AVAILABLE if state.find_unavailable(info) else None

    def filter_nodes(self, state: DeviceState, pod: Pod, nodes: NodeTable, *, may_suspend: bool = False) -> Verdict:
        """Filter a window. Only nodes that are still feasible are checked.

        Raise AttemptSuspended if that takes long; the cached results of a part of the nodes remain.
        """
        state.may_suspend = may_suspend
        rejections: Rejections = []
        numbers = self._manager.views.numbers(nodes)
        for mask, pattern in self._groups(state, pod, nodes, nodes.in_running, rejections):
            if pattern.is_idle:
                continue
            undecided = mask
            if (status := state.unprepared()) is not None:
                lacking = mask & nodes.declared_features.where(
                    lambda declared: OPTIONAL_NODE_OPERATIONS not in declared
                )
                rejections.append((lacking, status))
                undecided = mask & ~lacking
            if pattern.cached is not None:
                allocation_rejections = self._rejections(state, pattern, numbers, undecided, nodes)
                rejections += allocation_rejections
                for where, _ in allocation_rejections:
                    undecided = undecided & ~where
            unavailable = state.unavailable_on_nodes(nodes)
            if unavailable is not None and (undecided & unavailable).any():
                rejections.append((undecided & unavailable, NOT_AVAILABLE))
        return Verdict(len(nodes), tuple(rejections))

    def _sharing(self, state: DeviceState, pod: Pod, info: NodeInfo) -> Status | None:
        """Return why a claim with reachable devices cannot be used: they map to resources of another pod."""
        if state.mapped is None:
            allocations = ((i, claim.status.allocation or state.shared.get(i)) for i, claim in enumerate(state.claims))
            state.mapped = tuple(
                index
                for index, allocation in allocations
                if allocation is not None and any(map(self._is_mapped, allocation.devices.results))
            )
        away = state.find_unreachable(info) if state.mapped else set()
        for index in state.mapped:
            claim = state.claims[index]
            with_groups = self._manager.features.group_claims
            is_own = is_reserved_for_member(claim, pod) if with_groups else is_reserved_for(claim, pod.uid)
            is_used = index in state.shared or (bool(claim.status.reserved_for) and not is_own)
            if is_used and index not in away:
                text = f"node allocatable resource claim {claim.name} has a mapped device"
                return Status.unresolvable(f"{text} and cannot be shared across pods")
        return None

    def _is_mapped(self, result: DeviceRequestAllocationResult) -> bool:
        device = self._manager.views.index.device(DeviceId(result.driver, result.pool, result.device))
        resources = device.node_allocatable_resources.values() if device is not None else ()
        return any(resource.mapping is not None for resource in resources)

    def _shortage(self, state: DeviceState, pod: Pod, info: NodeInfo) -> Status | None:
        """Return why a node cannot provide the node resources of the devices."""
        claims = self._claims_on_node(state, pod, info)
        try:
            statuses = claim_statuses(
                claims, self._devices(claims, info), qualifies=self._manager.features.qualifies_capacities
            )
        except MappingError as error:
            return Status.error(str(error), cause=error)
        return refusal(pod, statuses, info) if statuses else None

    def statuses(self, state: DeviceState, pod: Pod, info: NodeInfo) -> tuple[NodeAllocatableClaimStatus, ...]:
        """Return the node resources of a pod's devices on a node."""
        claims = self._claims_on_node(state, pod, info)
        return claim_statuses(
            claims, self._devices(claims, info), qualifies=self._manager.features.qualifies_capacities
        )

    def _claims_on_node(self, state: DeviceState, pod: Pod, info: NodeInfo) -> list[PodClaimOnNode]:
        """List the claims of a pod with their actual or proposed devices on a node."""
        pattern = self.find_pattern(state, pod, info)
        solution = None
        if not isinstance(pattern, Status) and pattern.cached is not None:
            solution = self.outcome(state, pattern.cached, info).solution
        choices = dict(zip(state.to_allocate, solution.choices, strict=True)) if solution is not None else {}
        claims = []
        for index, claim in enumerate(state.claims):
            allocation = claim.status.allocation or state.shared.get(index)
            if allocation is not None:
                results = allocation.devices.results
            else:
                results = tuple(device_result(item, self._manager.features) for item in choices.get(index, ()))
            # No container refers to the claim for extended resources.
            users = list_users(pod, state.entries[index]) if claim is not state.extended else ()
            claims.append(PodClaimOnNode(users, claim, results))
        return claims

    def _devices(self, claims: Iterable[PodClaimOnNode], info: NodeInfo) -> dict[DeviceId, Device]:
        device_ids = {DeviceId(item.driver, item.pool, item.device) for claim in claims for item in claim.results}
        slices = self._manager.views.index.select_slices(info.node) if device_ids else ()
        return {device.id: device.device for item in slices for device in item.devices if device.id in device_ids}

    def score(self, state: DeviceState, pod: Pod, info: NodeInfo) -> int:
        """Score the allocation for a node; 0 without an allocation."""
        pattern = self.find_pattern(state, pod, info)
        if isinstance(pattern, Status) or pattern.cached is None:
            return 0
        outcome = self.outcome(state, pattern.cached, info)
        return 0 if outcome.solution is None else outcome.score + state.fixed_score

    def score_nodes(self, state: DeviceState, pod: Pod, nodes: NodeTable) -> IntArray:
        """Score the allocations for the nodes of a window."""
        scores = np.zeros(len(nodes), dtype=np.int64)
        numbers = self._manager.views.numbers(nodes)
        for mask, pattern in self._groups(state, pod, nodes, np.ones(len(nodes), dtype=np.bool_), []):
            if pattern.cached is None:
                continue
            timed_out = self._search_missing(state, pattern.cached, numbers, mask)
            if not pattern.cached.has_scores and not state.fixed_score:
                continue
            allocated = mask & (pattern.cached.codes(numbers) == ALLOCATED)
            if timed_out is not None:
                allocated &= ~timed_out
            scores[allocated] = pattern.cached.scores(numbers)[allocated] + state.fixed_score
        return scores

    def outcome(self, state: DeviceState, cached: CachedAllocations, info: NodeInfo) -> AllocationOutcome:
        """Return the allocation result for a node. Raise :class:`SearchTimeout` if the search takes too long."""
        return cached.outcome(self._manager.views.at(info), self._budget(state, cached))

    def find_pattern(self, state: DeviceState, pod: Pod, info: NodeInfo) -> Pattern | Status:
        """Return the claims to allocate on a node, or a rejection."""
        if state.extended is None:
            return self._pattern(state, pod, frozenset())
        if state.extended.spec.devices.requests:
            return STALE_CLAIM
        delegated = set()
        for name in state.extended_resources:
            if info.allocatable.get(name, 0) == 0 and self._manager.extended.find(name) is not None:
                delegated.add(name)
            elif name not in info.allocatable:
                return CANNOT_FIT
        return self._pattern(state, pod, frozenset(delegated))

    def _groups(
        self, state: DeviceState, pod: Pod, nodes: NodeTable, mask: BoolArray, rejections: Rejections
    ) -> Iterator[tuple[BoolArray, Pattern]]:
        """Split a window by the claims to allocate. Add infeasible nodes to ``rejections``."""
        if state.extended is None:
            yield mask, self._pattern(state, pod, frozenset())
            return
        if state.extended.spec.devices.requests:
            rejections.append((mask, STALE_CLAIM))
            return
        by_resource, allocatable = self._manager.extended.by_resource(), nodes.allocatable
        for name in state.extended_resources:
            if name in by_resource:
                continue
            lacking = mask & (allocatable[name] == 0) if name in allocatable else mask
            for index in np.flatnonzero(lacking) if name in allocatable else ():
                lacking[index] = name not in nodes[int(index)].allocatable
            if lacking.any():
                rejections.append((lacking, CANNOT_FIT))
                mask = mask & ~lacking
                if not mask.any():
                    return
        backed = [name for name in state.extended_resources if name in by_resource]
        groups, numbers = group_rows([mask & (allocatable[name] == 0) for name in backed], len(nodes))
        for number, members in enumerate(groups):
            if (where := mask & (numbers == number)).any():
                yield where, self._pattern(state, pod, frozenset(backed[member] for member in members))

    def _pattern(self, state: DeviceState, pod: Pod, delegated: frozenset[str]) -> Pattern:
        pattern = state.patterns.get(delegated)
        if pattern is None:
            pattern = state.patterns[delegated] = self._new_pattern(state, pod, delegated)
        return pattern

    def _new_pattern(self, state: DeviceState, pod: Pod, delegated: frozenset[str]) -> Pattern:
        if state.extended is not None and not delegated and len(state.claims) == 1:
            return Pattern(is_idle=True)
        claims: list[ResourceClaim] = [state.claims[index] for index in state.to_allocate]
        if not claims:
            return Pattern()
        extended: ResourceClaim | None = None
        mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
        if state.extended is not None:
            extended_requests = make_extended_requests(pod, delegated, self._manager.extended)
            spec = replace(
                state.extended.spec, devices=replace(state.extended.spec.devices, requests=extended_requests.requests)
            )
            extended, mappings = replace(state.extended, spec=spec), extended_requests.mappings
            claims[-1] = extended
        cached = self._manager.find_allocations(claims)
        return Pattern(cached, tuple(claim.key for claim in claims), extended, mappings)

    def _rejections(
        self, state: DeviceState, pattern: Pattern, numbers: IntArray, mask: BoolArray, nodes: NodeTable
    ) -> Rejections:
        cached = pattern.cached
        assert cached is not None
        timed_out = self._search_missing(state, cached, numbers, mask)
        rejections = []
        if timed_out is not None:
            for index in np.flatnonzero(timed_out):
                rejections.append((timed_out & (nodes.rows == nodes.rows[index]), _timed_out(nodes[int(index)])))
        codes: IntArray | None = None
        for code, outcome in cached.rejections():
            codes = cached.codes(numbers) if codes is None else codes
            where = mask & (codes == code)
            status = outcome.status(pattern.names)
            if status is not None and where.any():
                rejections.append((where, status))
        return rejections

    def _search_missing(
        self, state: DeviceState, cached: CachedAllocations, numbers: IntArray, mask: BoolArray
    ) -> BoolArray | None:
        """Search views without a result. Return the nodes for which the time was not sufficient, if any."""
        if not cached.unknown:
            return None
        if len(cached.unknown) <= FEW_UNKNOWN:
            # The views of the last pods' nodes: checking these is faster than scanning all nodes.
            view_numbers = [number for number in sorted(cached.unknown) if (mask & (numbers == number)).any()]
        else:
            unknown: BoolArray = mask & (cached.codes(numbers) == UNKNOWN)
            view_numbers = np.unique(numbers[unknown]).tolist()
        budget = self._budget(state, cached)
        try:
            while cached.expressions:
                with suppress(CelCompileError):  # reported if it is evaluated
                    compile_selector(cached.expressions.pop())
                self._suspend_if_long(state, cached, budget)
            for position, number in enumerate(view_numbers):
                if position:
                    self._suspend_if_long(state, cached, budget)
                cached.outcome(self._manager.views.all[number], budget)
            cached.spent = 0.0
        except SearchTimeout:
            # The attempt fails, so the other nodes do not matter.
            timed_out: BoolArray = mask & (cached.codes(numbers) == UNKNOWN)
            cached.spent = 0.0
            return timed_out
        return None

    def _suspend_if_long(self, state: DeviceState, cached: CachedAllocations, budget: SearchBudget) -> None:
        if state.may_suspend and (steps := budget.used_by_attempt()) > SLICE:
            cached.spent += steps
            raise AttemptSuspended

    def _budget(self, state: DeviceState, cached: CachedAllocations) -> SearchBudget:
        """Return the budget of all searches of an attempt. It starts with the first search."""
        if state.budget is None:
            state.budget = SearchBudget(self._clock, self._timeout, cached.spent)
        return state.budget


def _timed_out(info: NodeInfo) -> Status:
    return Status.error(f"node {info.name}: timed out trying to allocate devices")
