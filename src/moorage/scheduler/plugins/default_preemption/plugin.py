"""The DefaultPreemption plugin: eligibility, candidates, choice of the node, and the message for users."""

from collections.abc import Collection, Mapping, Sequence
from random import Random
from time import perf_counter
from typing import Any, ClassVar, Final

import structlog

from moorage.common.errors import ApiError, ExtenderError
from moorage.kube.api.cluster import PodDisruptionBudget
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.args import DefaultPreemptionArgs
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.events import EventRegistration
from moorage.scheduler.framework.group_plugins import GroupPostFilterResult, PodGroupPostFilterPlugin
from moorage.scheduler.framework.groups import GroupTree
from moorage.scheduler.framework.handle import PreemptionHandle
from moorage.scheduler.framework.node_statuses import NodeStatuses
from moorage.scheduler.framework.plugin import PostFilterPlugin, PostFilterResult, PreEnqueuePlugin
from moorage.scheduler.framework.status import Code, Status
from moorage.scheduler.framework.victims import Harm, Victims
from moorage.scheduler.plugins.default_preemption.budgets import Budgets
from moorage.scheduler.plugins.default_preemption.candidates import CandidateSearch
from moorage.scheduler.plugins.default_preemption.dry_run import start_of_unstarted
from moorage.scheduler.plugins.default_preemption.eligibility import why_not_eligible
from moorage.scheduler.plugins.default_preemption.eviction import BackgroundEviction, Eviction, Preemptor
from moorage.scheduler.plugins.default_preemption.group_preemption import GroupHandle, GroupPreemption
from moorage.scheduler.plugins.default_preemption.units import Units

log = structlog.get_logger(__name__)

PREFIX: Final = "preemption: "
NO_CANDIDATE: Final = "no candidate node for preemption"
UNDER_WAY: Final = Status.unresolvable("waiting for the preemption for this pod to be finished")
GROUP_UNDER_WAY: Final = Status.unresolvable("waiting for the preemption for this pod group to be finished")


class DefaultPreemption(PreEnqueuePlugin, PostFilterPlugin, PodGroupPostFilterPlugin):
    """Nominate a node for an unschedulable pod, and evict lower-priority pods there.

    Upstream starts its search at a random node. Here it starts at the first, unless ``chance`` is set.
    """

    call_timeout = None  # evictions are requests, and the client has timeouts

    Args: ClassVar[type[Any] | None] = DefaultPreemptionArgs

    def __init__(
        self, *, args: DefaultPreemptionArgs | None = None, handle: GroupHandle, chance: Random | None = None
    ) -> None:
        self._handle = handle
        self._pods = handle.lister(Pod)
        budgets = Budgets(handle.lister(PodDisruptionBudget), handle.features)
        has_groups = handle.has_groups
        units = Units(handle.groups) if has_groups else None
        self._search = self._make_search(args or DefaultPreemptionArgs(), budgets, chance, units)
        in_background = handle.features.enabled("SchedulerAsyncPreemption")
        evict = BackgroundEviction if in_background else Eviction
        self._eviction = evict(handle, self.name, self._group_uid) if has_groups else evict(handle, self.name)
        self._groups = GroupPreemption(handle, budgets, self._eviction, self._search.rules)

    def _make_search(
        self, args: DefaultPreemptionArgs, budgets: Budgets, chance: Random | None, units: Units | None
    ) -> CandidateSearch:
        return CandidateSearch(self._handle, args, budgets, chance, units)

    def _group_uid(self, pod: Pod) -> str:
        """Return the UID of the preemptor: the root group of the pod, or the pod itself."""
        root = self._handle.groups.find_root(pod) if is_grouped(pod) else None
        return pod.metadata.uid if root is None else root.uid

    def pre_enqueue(self, pod: Pod) -> Status | None:
        if not self._eviction.has_evictions(pod):
            return None
        return GROUP_UNDER_WAY if is_grouped(pod) else UNDER_WAY

    def reconsidered(self) -> Collection[str] | None:
        return self._eviction.reconsidered()

    async def post_filter_group(self, cycle: CycleState, group: GroupTree) -> GroupPostFilterResult:
        result = await self._groups.run(group)
        code = Code.SUCCESS if result.status is None else result.status.code
        more = (group.type_label,) if self._handle.features.since(1, 38) else ()
        self._handle.meter.count("scheduler_workload_preemption_attempts_total", *more, code.label)
        return result

    async def post_filter(self, cycle: CycleState, pod: Pod, statuses: NodeStatuses) -> PostFilterResult:
        try:
            return await self._try(cycle, pod, statuses)
        finally:
            self._handle.meter.count("scheduler_preemption_attempts_total")

    async def _try(self, cycle: CycleState, pod: Pod, statuses: NodeStatuses) -> PostFilterResult:
        current = self._pods.get(pod.name, pod.namespace)
        if current is None:
            return _error(f'pod "{pod.name}" not found')
        nodes = self._handle.nodes
        units = self._search.units
        priorities = () if units is None else (units.effective_priority,)
        if problem := why_not_eligible(current, self._handle, statuses, self._eviction.evictions, *priorities):
            return _unschedulable(problem)
        began = perf_counter()
        findings = self._search.find(cycle, current, statuses)
        if units is not None:
            code = Code.SUCCESS if findings.candidates else Code.UNSCHEDULABLE
            seconds = perf_counter() - began
            self._handle.meter.observe("scheduler_preemption_evaluation_duration_seconds", seconds, "pod", code.label)
        if not findings.candidates:
            if findings.errors:
                return _error(findings.error)
            return _unschedulable(findings.message(len(nodes)), nominated_node="")
        try:
            candidates = await call_extenders(self._handle, current, findings.candidates)
            if not candidates:
                return _unschedulable(NO_CANDIDATE)
            node_name = pick_one_node(candidates, start_of_unstarted(self._handle.features, self._handle.clock))
            victims = candidates[node_name].pods
            self._handle.meter.observe("scheduler_preemption_victims", len(victims))
            staying = tuple(victim for victim in victims if not victim.is_terminating)
            await self._eviction.carry_out(Preemptor.of_pod(current), node_name, staying)
        except (ApiError, ExtenderError) as error:
            return _error(str(error))
        note = f"found a potential placement for pod on node {node_name}, preempting {len(victims)} victims"
        return PostFilterResult(None, node_name, staying, PREFIX + note)

    def events_to_register(self) -> Sequence[EventRegistration]:
        return self._eviction.events


def is_grouped(pod: Pod) -> bool:
    """Return whether a pod is a pending member of a group."""
    return pod.spec.scheduling_group is not None and not pod.spec.node_name


def _unschedulable(problem: str, nominated_node: str | None = None) -> PostFilterResult:
    return PostFilterResult(Status.unschedulable(PREFIX + problem), nominated_node)


def _error(problem: str) -> PostFilterResult:
    return PostFilterResult(Status.error(PREFIX + problem))


async def call_extenders(
    handle: PreemptionHandle, pod: Pod, candidates: Mapping[str, Victims]
) -> Mapping[str, Victims]:
    """Let all interested extenders, in order, drop candidates and change victims.

    Raise ExtenderError if an extender that is not ignorable fails.
    """
    for extender in handle.extenders:
        if not candidates:
            break
        if not extender.handles_preemption_for(pod):
            continue
        try:
            answer = await extender.process_preemption(pod, candidates, handle.nodes)
        except ExtenderError as error:
            if not extender.is_ignorable:
                raise
            log.warning("extender ignored in preemption", extender=extender.name, pod=pod.key, error=str(error))
            continue
        empty = next((name for name, victims in answer.items() if not victims.pods), None)
        if empty is not None and not extender.is_ignorable:
            raise ExtenderError(f'expected at least one victim pod on node "{empty}"')
        candidates = {name: victims for name, victims in answer.items() if victims.pods}
    return candidates


def pick_one_node(candidates: Mapping[str, Victims], unstarted: float) -> str:
    """Return the best candidate node, the first of several equal ones.

    The criteria are: fewest budget violations, lowest maximum priority, lowest sum of priorities, fewest victims, and
    latest start of the most important victim.
    """
    # Most candidates have equal victims: each different harm is compared once, for its first node.
    first_nodes: dict[Harm, str] = {}
    for name, victims in candidates.items():
        first_nodes.setdefault(victims.harm, name)
    least = min([harm.weight for harm in first_nodes])
    best = [harm for harm in first_nodes if harm.weight == least]
    starts = [harm.start(unstarted) for harm in best]
    return first_nodes[best[starts.index(max(starts))]]
