"""DynamicResources: allocates devices for the claims of pods."""

from collections.abc import Collection, Hashable, Sequence
from typing import Final

from msgspec.structs import replace

from moorage.common.errors import SelectorError
from moorage.kube.api.devices import AllocationResult, ClaimConsumer, ResourceClaim
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import PodGroup
from moorage.scheduler.config.args import DynamicResourcesArgs, complete_args
from moorage.scheduler.framework.cycle import ASSUMED, CycleState
from moorage.scheduler.framework.events import EventRegistration
from moorage.scheduler.framework.group_plugins import GroupPostFilterResult, PodGroupPostFilterPlugin
from moorage.scheduler.framework.groups import FINDINGS, GroupTree
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.node_statuses import NodeStatuses
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import (
    DependsOn,
    FilterPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    ReservePlugin,
    ScorePlugin,
    default_normalize,
)
from moorage.scheduler.framework.status import IntArray, Status, Verdict
from moorage.scheduler.plugins.dynamic_resources.allocation.allocation_results import allocation, stored_preference
from moorage.scheduler.plugins.dynamic_resources.claim_binding import NOTHING_TO_FREE, ClaimBinder, is_stuck
from moorage.scheduler.plugins.dynamic_resources.claims.extended_resource_claims import (
    make_extended_claim,
    may_have_class,
    requests_devices,
)
from moorage.scheduler.plugins.dynamic_resources.claims.tracker import GROUPS, ClaimProblem
from moorage.scheduler.plugins.dynamic_resources.device_state import FILTERED, KEY, PENDING, DeviceState
from moorage.scheduler.plugins.dynamic_resources.devices.pools import strict_matcher
from moorage.scheduler.plugins.dynamic_resources.dra_manager import shared_dra_manager
from moorage.scheduler.plugins.dynamic_resources.filter import NodeFilter
from moorage.scheduler.plugins.dynamic_resources.hints import DeviceHints, PodsAwaitingClaims

CLAIMS_DEALLOCATED: Final = Status.unschedulable("deallocation and deletion of ResourceClaims completed")
NOT_PREPARED: Final = Status.error(KEY.missing)
NO_ALLOCATION: Final = Status.error("claim allocation not found for node")
_NOTHING: Final = DeviceState()


class DynamicResources(
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    PodGroupPostFilterPlugin,
    ScorePlugin,
    ReservePlugin,
    PreBindPlugin,
):
    """Allocates devices for the claims of a pod, and for extended resources backed by device classes.

    An allocated claim restricts the pod to the nodes where its devices can be used. For other claims, devices are
    searched on each node. Reserve adds a pending allocation for the selected node; PreBind writes it.
    """

    call_timeout = None  # bindingTimeout limits the wait

    depends_on = DependsOn.NODE
    _signs_template = True
    _idle_when_skipped = True
    _normalizes_by_value = True

    Args = DynamicResourcesArgs
    allows_parallel = True

    def __init__(self, *, args: DynamicResourcesArgs | None = None, handle: Handle) -> None:
        timeouts: DynamicResourcesArgs = complete_args(args or DynamicResourcesArgs(), handle.features)
        self._manager = shared_dra_manager(handle)
        self._features = self._manager.features
        self._clock = handle.clock
        self._nodes = handle.nodes
        if self._features.node_allocatable:
            # Devices may use CPU or memory of the node, so the result depends on other pods' requests.
            self.depends_on = DependsOn.REQUESTS  # type: ignore[misc]
        self._groups = handle.lister(PodGroup) if self._features.group_claims else None
        self._by_topology = handle.features.enabled("TopologyAwareWorkloadScheduling")
        limit = timeouts.binding_timeout if self._features.binding_conditions else None
        self._binding_timeout = limit.seconds if limit is not None else None
        limit = timeouts.filter_timeout
        self._filter = NodeFilter(self._manager, handle.clock, limit.seconds if limit is not None else None)
        self._binder = ClaimBinder(handle, self._manager.claims, self._binding_timeout)
        self._awaiting = PodsAwaitingClaims(handle.lister(ResourceClaim))
        with_declared = self._features.optional_node_operations
        self._hints = DeviceHints(self._manager.claims, self._awaiting, with_declared_features=with_declared)

    def sign(self, pod: Pod) -> Hashable | None:
        # The plugin caches results by claim spec; the engine caches results of pods without claims.
        return None if pod.spec.resource_claims or self._requests_devices(pod) else ()

    def epoch(self) -> Hashable:
        return self._manager.extended.version

    def events_to_register(self) -> Sequence[EventRegistration]:
        return self._hints.registrations()

    def pre_enqueue(self, pod: Pod) -> Status | None:
        try:
            for _ in self._manager.claims.iter_claims(pod):
                pass
        except ClaimProblem as problem:
            self._awaiting.add(pod.key, problem.claim)
            return Status.unresolvable(str(problem))
        return None

    def reconsidered(self) -> Collection[str] | None:
        return self._awaiting.reconsidered()

    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        # Also set this for pods without claims: PostFilter checks that PreFilter ran.
        cycle[KEY] = _NOTHING
        if not pod.spec.resource_claims and not self._requests_devices(pod):
            return Status.skip()
        try:
            entries = list(self._manager.claims.iter_entries(pod))
        except ClaimProblem as problem:
            return Status.unresolvable(str(problem))
        state = DeviceState([claim for _, claim in entries], entries=tuple(entry.name for entry, _ in entries))
        if self._groups is not None and pod.group_key is not None and entries:
            group = self._groups.find(pod.group_key)
            if group is None:
                return Status.unresolvable(f'could not find PodGroup "{pod.group_key}"')
            # Claims of entries that the group also has are reserved for the group.
            consumer, shared = ClaimConsumer(GROUPS, "podgroups", group.name, group.uid), group.spec.resource_claims
            state.consumers = {index: consumer for index, (entry, _) in enumerate(entries) if entry in shared}
        if self._requests_devices(pod):
            state.extended = self._manager.claims.find_extended_claim(pod) or make_extended_claim(pod)
            state.claims.append(state.extended)
            requested = {name: amount for name, amount in pod.requests.items() if amount and may_have_class(name)}
            state.extended_resources = requested
        if state.is_empty:
            return Status.skip()
        status = self._prepare(state, cycle.group)
        if status is not None:
            return status
        self._manager.refresh()
        cycle[KEY] = state
        return None

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        state = cycle[KEY]
        cycle[FILTERED] = True
        return None if state.is_empty else self._filter.filter(state, pod, node)

    def filter_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Verdict:
        state = cycle[KEY]
        cycle[FILTERED] = True
        if state.is_empty:
            return Verdict.accept(len(nodes))
        if not nodes.is_window_of(self._nodes) or self._features.node_allocatable:
            return super().filter_nodes(cycle, pod, nodes)
        return self._filter.filter_nodes(state, pod, nodes, may_suspend=cycle.may_suspend)

    async def post_filter(self, cycle: CycleState, pod: Pod, statuses: NodeStatuses) -> PostFilterResult:
        state = cycle.get(KEY)
        if state is None:
            return PostFilterResult(NOT_PREPARED)
        if state.is_empty:
            return PostFilterResult(NOTHING_TO_FREE)
        unavailable = state.find_rejected_claims(statuses, self._nodes)
        return PostFilterResult(await self._binder.free_claim(state, pod, unavailable))

    async def post_filter_group(self, cycle: CycleState, group: GroupTree) -> GroupPostFilterResult:
        constrained = self._by_topology and group.group.spec.scheduling_constraints is not None
        if group.is_composite or constrained:
            return GroupPostFilterResult(Status.unschedulable())
        findings = cycle[FINDINGS]
        if self.name not in findings.pre_filtered:
            return GroupPostFilterResult(Status.error("not found"))
        attempts = [
            (item.pod, state, state.find_rejected_claims(item.statuses, self._nodes))
            for item in findings.tried.values()
            if (state := item.cycle.get(KEY)) is not None
        ]
        has_idle = False
        for pod, state, unavailable in attempts:
            status = await self._binder.free_claim(state, pod, unavailable)
            if not status.is_rejection:
                return GroupPostFilterResult(status)
            has_idle = has_idle or status is NOTHING_TO_FREE
        if has_idle and self._groups is not None and not group.scheduled:
            away = [state.claims[index] for _, state, unavailable in attempts for index in sorted(unavailable)]
            assert isinstance(group.group, PodGroup)
            status = await self._binder.free_group_claim(group.group, group.members[0], away)
            if status is not NOTHING_TO_FREE:
                return GroupPostFilterResult(status)
        # Upstream returns this status even if no pod has claims.
        return GroupPostFilterResult(CLAIMS_DEALLOCATED)

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        state = cycle[KEY]
        return 0 if state.is_empty or FILTERED not in cycle else self._filter.score(state, pod, node)

    def score_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        state = cycle[KEY]
        if state.is_empty or FILTERED not in cycle or not nodes.is_window_of(self._nodes):
            return super().score_nodes(cycle, pod, nodes)
        return self._filter.score_nodes(state, pod, nodes)

    def normalize_scores(self, cycle: CycleState, pod: Pod, nodes: NodeTable, scores: IntArray) -> IntArray:
        return default_normalize(scores)

    def reserve(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        state = cycle[KEY]
        status = None if state.is_empty else self._set_aside(cycle, state, pod, node_name)
        if status is None and self._features.node_allocatable and not state.is_empty:
            info = self._nodes.find(node_name)
            state.statuses = self._filter.statuses(state, pod, info) if info is not None else ()
            if state.statuses:
                status_there = replace(pod.status, node_allocatable_resource_claim_statuses=state.statuses)
                # Another plugin may also have changed the assumed pod.
                cycle[ASSUMED] = replace(cycle.get(ASSUMED) or pod, status=status_there)
        return status

    def _set_aside(self, cycle: CycleState, state: DeviceState, pod: Pod, node_name: str) -> Status | None:
        for index in state.shared:
            pending_allocation = self._manager.claims.pending_allocation(state.claims[index].uid)
            if pending_allocation is None:
                return NO_ALLOCATION
            self._add_pending(cycle, state, index, pending_allocation)
        indexes = state.to_allocate
        if not indexes:
            return None
        if FILTERED not in cycle:
            return NO_ALLOCATION if any(state.claims[index] is not state.extended for index in indexes) else None
        info = self._nodes.find(node_name)
        pattern = self._filter.find_pattern(state, pod, info) if info is not None else None
        if info is None or pattern is None or isinstance(pattern, Status):
            return NO_ALLOCATION
        if pattern.cached is None:
            return None
        # Results may be stale: later pods of the group were tried when the node had fewer devices.
        pattern.cached.refresh()
        solution = self._filter.outcome(state, pattern.cached, info).solution
        if solution is None:
            return NO_ALLOCATION
        state.reserved = pattern
        for index, claim, choices, selected in zip(
            indexes, pattern.cached.parsed_claims, solution.choices, solution.alternatives, strict=True
        ):
            result = allocation(claim, choices, selected, node_name=node_name, features=self._features)
            self._add_pending(cycle, state, index, result)
        return None

    def _add_pending(self, cycle: CycleState, state: DeviceState, index: int, result: AllocationResult) -> None:
        """Add a pending allocation for a claim. Pods of the same group may share it."""
        uid = state.claims[index].uid
        state.allocations[index] = result
        state.pending_uids.append(uid)
        self._manager.claims.add_pending_allocation(uid, result)
        if cycle.group is not None:
            pending_uids = cycle.group.get(PENDING) or {}
            cycle.group[PENDING] = {**pending_uids, uid: pending_uids.get(uid, 0) + 1}

    def unreserve(self, cycle: CycleState, pod: Pod, node_name: str) -> None:
        state = cycle.get(KEY)
        if state is None or state.is_empty:
            return
        if cycle.group is not None and (pending_uids := cycle.group.get(PENDING)) is not None:
            counts = {uid: count - state.pending_uids.count(uid) for uid, count in pending_uids.items()}
            cycle.group[PENDING] = {uid: count for uid, count in counts.items() if count > 0}
        self._binder.undo(state, pod)

    def pre_bind_pre_flight(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        return Status.skip() if cycle[KEY].is_empty else None

    async def pre_bind(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        state = cycle[KEY]
        return None if state.is_empty else await self._binder.bind(state, pod, node_name)

    def _requests_devices(self, pod: Pod) -> bool:
        return self._features.extended_resources and requests_devices(pod, self._manager.extended)

    def _prepare(self, state: DeviceState, group: CycleState | None) -> Status | None:
        """Check each claim: where its devices can be used, or whether it can be allocated.

        Pending allocations of earlier pods of the same ``group`` and attempt are available to this pod.
        """
        pending_uids = (group.get(PENDING) if group is not None else None) or {}
        stuck, skipping, pending_skips = set[int](), set[int](), list[int]()
        for index, claim in enumerate(state.claims):
            known_allocation = claim.status.allocation
            if known_allocation is None and claim.uid in pending_uids:
                known_allocation = self._manager.claims.pending_allocation(claim.uid)
                assert known_allocation is not None
                state.shared[index] = known_allocation
            if known_allocation is None:
                status = self._refusal(claim, is_extended=claim is state.extended)
                if status is not None:
                    return status
                continue
            if known_allocation.node_selector is not None:
                try:
                    state.matchers[index] = strict_matcher(known_allocation.node_selector)
                except SelectorError as error:
                    return Status.error(str(error), cause=error)
            state.fixed_score += stored_preference(claim)
            if self._binding_timeout is not None and is_stuck(
                claim, now=self._clock.wall(), timeout=self._binding_timeout
            ):
                stuck.add(index)
            # Independent of the gate: devices allocated while it was on need the same from their node.
            if any(result.skip_node_operations for result in known_allocation.devices.results):
                (pending_skips.append if index in state.shared else skipping.add)(index)
        state.stuck, state.skipping, state.pending_skips = frozenset(stuck), frozenset(skipping), tuple(pending_skips)
        return None

    def _refusal(self, claim: ResourceClaim, *, is_extended: bool) -> Status | None:
        """Return why a claim cannot be allocated on any node."""
        if self._manager.claims.pending_allocation(claim.uid) is not None:
            return Status.unresolvable(f"resource claim {claim.key} is in the process of being allocated")
        for request in () if is_extended else claim.spec.devices.requests:
            if request.exactly is None and not request.first_available:
                text = f"resource claim {claim.key}, request {request.name}: unknown request type"
                return Status.unresolvable(text)
            if request.exactly is None and not self._features.prioritized_list:
                text = "has subrequests, but the DRAPrioritizedList feature is disabled"
                return Status.unresolvable(f"resource claim {claim.key}, request {request.name}: {text}")
            class_names = (
                [(request.name, request.exactly.device_class_name)]
                if request.exactly is not None
                else [(f"{request.name}/{sub.name}", sub.device_class_name) for sub in request.first_available]
            )
            for name, device_class in class_names:
                if not device_class:
                    return Status.error(f"request {name}: unsupported request type")
                if self._manager.classes.get(device_class) is None:
                    return Status.unresolvable(f"request {name}: device class {device_class} does not exist")
        return None
