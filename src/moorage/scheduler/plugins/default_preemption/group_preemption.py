"""Preemption for a group: the units to evict, and their eviction."""

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Final, Protocol

from moorage.common.errors import ApiError, PluginError
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import CompositePodGroup
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.group_plugins import GroupPostFilterResult
from moorage.scheduler.framework.groups import GroupTree, Proposal
from moorage.scheduler.framework.handle import PreemptionHandle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import DependsOn
from moorage.scheduler.framework.status import Code, Status
from moorage.scheduler.plugins.default_preemption.budgets import Budgets
from moorage.scheduler.plugins.default_preemption.dry_run import start_of_unstarted
from moorage.scheduler.plugins.default_preemption.eligibility import (
    NEVER,
    POLICY_NEVER,
    VictimRules,
    is_leaving_for_another,
)
from moorage.scheduler.plugins.default_preemption.eviction import Eviction, Preemptor
from moorage.scheduler.plugins.default_preemption.units import (
    Unit,
    Units,
    may_evict,
    missing_node,
    reprieve_units,
    sort_by_importance,
)
from moorage.scheduler.state.handle import ClusterHandle

PREFIX: Final = "pod group preemption: "
NO_VICTIMS: Final = "No preemption victims found for incoming preemptor"
ONGOING: Final = "ongoing preemption on nominated nodes"
GROUP: Final = "podgroup"
"""The metric label of preempting groups of all kinds."""
CLUSTER: Final = "cluster"
"""The location in events about victims of a group, which are on several nodes."""


class GroupHandle(PreemptionHandle, ClusterHandle, Protocol):
    """The handle of preemption with pod groups."""


class GroupPreemption:
    """Runs preemption for groups."""

    def __init__(
        self, handle: GroupHandle, budgets: Budgets, eviction: Eviction, rules: VictimRules | None = None
    ) -> None:
        self._handle = handle
        self._rules = rules
        self._budgets = budgets
        self._eviction = eviction
        self._has_policies = handle.features.enabled("PodGroupPreemptionPolicy")

    async def run(self, group: GroupTree) -> GroupPostFilterResult:
        """Find victims for an unschedulable group and evict them."""
        pods = [pod for node in self._handle.nodes for pod in node.pods.values()]
        units = Units(self._handle.groups).of(pods)
        if problem := missing_node(units, self._handle.nodes):
            return GroupPostFilterResult(Status.error(f"{PREFIX}failed to create domain: {problem}"))
        policies = {group.group.spec.preemption_policy}
        if not self._has_policies:
            policies = {pod.spec.preemption_policy for pod in group.all_members}
        if POLICY_NEVER in policies:
            return GroupPostFilterResult(Status.unschedulable(PREFIX + NEVER))
        if self._waits_for_victims(group):
            nominations = {pod.metadata.uid: self._nomination(pod) for pod in group.all_members}
            return GroupPostFilterResult(None, nominations, message=PREFIX + ONGOING)
        first = next(group.all_members)
        pool = [unit for unit in units if may_evict(unit, first, group.group.priority, self._rules)]
        if not pool:
            return GroupPostFilterResult(Status.unresolvable(PREFIX + NO_VICTIMS))
        try:
            return await self._evict_victims(group, pool)
        except ApiError as error:
            return GroupPostFilterResult(Status.error(PREFIX + str(error)))

    async def _evict_victims(self, group: GroupTree, pool: list[Unit]) -> GroupPostFilterResult:
        began, meter = perf_counter(), self._handle.meter
        victims, violating = list[Unit](), set[str]()
        with self._handle.without(pod for unit in pool for pod in unit.pods):
            status, proposals = await self._handle.place_group(group)
            if status is None:
                features = self._handle.features
                unstarted = start_of_unstarted(features, self._handle.clock)
                ordered = sort_by_importance(pool, unstarted, by_uid=features.since(1, 38))
                what_if = GroupWhatIf(self._handle, proposals)
                victims, violating = reprieve_units(ordered, self._budgets.split, what_if.reprieve)
        result = Code.SUCCESS if status is None else status.code
        seconds = perf_counter() - began
        meter.observe("scheduler_preemption_evaluation_duration_seconds", seconds, GROUP, result.label)
        if status is not None:
            return GroupPostFilterResult(Status(status.code, (PREFIX + status.message,)))
        pods = tuple(pod for unit in victims for pod in unit.pods)
        more = (group.type_label,) if self._handle.features.since(1, 38) else ()
        meter.observe("scheduler_workload_preemption_victims", len(pods), *more)
        disrupted = sum(unit.group is not None for unit in victims)
        meter.observe("scheduler_preemption_workload_disruptions", disrupted, GROUP)
        for pod in pods:
            if pod.metadata.uid in violating:
                meter.count("scheduler_preemption_pdb_violations_total", GROUP)
        staying = tuple(pod for pod in pods if not pod.is_terminating)
        await self._eviction.carry_out(make_preemptor(group), CLUSTER, staying)
        nominated = {proposal.pod.metadata.uid: proposal.node_name for proposal in proposals}
        note = f"{PREFIX}found a placement for podgroup, preempting {len(pods)} victims"
        return GroupPostFilterResult(None, nominated, staying, note)

    def _nomination(self, pod: Pod) -> str:
        return pod.nominated_node_name or self._handle.nominator.node_of(pod)

    def _waits_for_victims(self, group: GroupTree) -> bool:
        """Return whether a lower-priority pod is leaving a node that is nominated for a member."""
        units, priority = Units(self._handle.groups), group.group.priority
        names = {self._nomination(pod) for pod in group.all_members}
        for info in map(self._handle.nodes.find, filter(None, names)):
            for neighbor in () if info is None else info.pods.values():
                is_leaving = neighbor in self._eviction.evictions or is_leaving_for_another(neighbor)
                if is_leaving and units.effective_priority(neighbor) < priority:
                    return True
        return False


class GroupWhatIf:
    """The cluster without all possible victims and with the group placed: decides which units can remain."""

    def __init__(self, handle: GroupHandle, proposals: Sequence[Proposal]) -> None:
        self._handle = handle
        self._proposals = [(proposal, proposal.cycle.clone()) for proposal in proposals]
        self._nodes: dict[str, NodeInfo] = {}
        self._is_local = all(self._depends_on_node(cycle) for _, cycle in self._proposals)

    def reprieve(self, unit: Unit) -> bool:
        """Put a unit back if the entire group still fits, otherwise omit it."""
        for pod in unit.pods:
            self._change(pod, is_back=True)
        nodes = {pod.node_name for pod in unit.pods}
        # If filters depend on single nodes, the unit affects only the members on its nodes.
        if self._fits([item for item in self._proposals if not self._is_local or item[0].node_name in nodes]):
            return True
        for pod in unit.pods:
            self._change(pod, is_back=False)
        return False

    def _fits(self, proposals: Sequence[tuple[Proposal, CycleState]]) -> bool:
        placed: list[tuple[Proposal, CycleState, Pod]] = []
        try:
            for proposal, cycle in proposals:
                node = self._node(proposal.node_name)
                if node is None or self._handle.run_filters(cycle, proposal.pod, node) is not None:
                    return False
                assumed = proposal.pod.on_node(proposal.node_name)
                node.add_pod(assumed)
                placed.append((proposal, cycle, assumed))
                self._handle.reserve(cycle, assumed, proposal.node_name)
        except PluginError:
            return False
        else:
            return True
        finally:
            for proposal, cycle, assumed in reversed(placed):
                self._handle.unreserve(cycle, assumed, proposal.node_name)
                self._nodes[proposal.node_name].remove_pod(assumed)

    def _change(self, pod: Pod, *, is_back: bool) -> None:
        node = self._node(pod.node_name)
        if node is None:
            return
        (node.add_pod if is_back else node.remove_pod)(pod)
        notify = self._handle.add_pod if is_back else self._handle.remove_pod
        if not self._is_local:
            for proposal, cycle in self._proposals:
                notify(cycle, proposal.pod, pod, node)

    def _node(self, name: str) -> NodeInfo | None:
        node = self._nodes.get(name)
        if node is None and (info := self._handle.nodes.find(name)) is not None:
            node = self._nodes[name] = info.copy()
        return node

    def _depends_on_node(self, cycle: CycleState) -> bool:
        """Return whether the filters of a member depend only on the pods of a node."""
        skipped_plugins = cycle.skipped_filters
        filters = (plugin for plugin in self._handle.filters if plugin.name not in skipped_plugins)
        follows = any(plugin.name not in skipped_plugins for plugin in self._handle.extensions)
        return not follows and all(plugin.depends_on < DependsOn.CLUSTER for plugin in filters)


def make_preemptor(group: GroupTree) -> Preemptor:
    """Create the preemptor for a group."""
    pods: Mapping[str, Pod] = {pod.key: pod for pod in group.all_members}
    name = next(iter(pods.values())).scheduler_name if pods else ""
    kind = "compositepodgroup" if isinstance(group.group, CompositePodGroup) else "podgroup"
    return Preemptor(group.group, name, group.group.priority, pods, kind)
