"""The plugin: who may preempt, where it does the least harm, and the sentence users read."""

from collections.abc import Sequence
from random import Random
from typing import Final

from moorage.api.cluster import PodDisruptionBudget
from moorage.api.pod import Pod
from moorage.config.args import DefaultPreemptionArgs
from moorage.errors import ApiError, ExtenderError
from moorage.framework.cycle import CycleState
from moorage.framework.events import EventRegistration
from moorage.framework.handle import PreemptionHandle
from moorage.framework.node_statuses import NodeStatuses
from moorage.framework.plugin import PostFilterPlugin, PostFilterResult, PreEnqueuePlugin
from moorage.framework.status import Status
from moorage.plugins.default_preemption.budgets import Budgets
from moorage.plugins.default_preemption.candidates import CandidateSearch
from moorage.plugins.default_preemption.eligibility import why_not_eligible
from moorage.plugins.default_preemption.eviction import BackgroundEviction, Eviction
from moorage.plugins.default_preemption.extenders import approved
from moorage.plugins.default_preemption.picking import least_harmful

PREFIX: Final = "preemption: "
NO_CANDIDATE: Final = "no candidate node for preemption"
UNDER_WAY: Final = Status.unresolvable("waiting for the preemption for this pod to be finished")


class DefaultPreemption(PreEnqueuePlugin, PostFilterPlugin):
    """Nominate a node for a pod that fits nowhere, and evict the less important pods that are in its way there.

    Upstream starts its search at a random node; here it starts at the first, unless ``chance`` is given.
    """

    Args = DefaultPreemptionArgs

    def __init__(
        self, *, args: DefaultPreemptionArgs | None = None, handle: PreemptionHandle, chance: Random | None = None
    ) -> None:
        self._handle = handle
        self._pods = handle.lister(Pod)
        budgets = Budgets(handle.lister(PodDisruptionBudget))
        self._search = CandidateSearch(handle, args or DefaultPreemptionArgs(), budgets, chance)
        in_background = handle.features.enabled("SchedulerAsyncPreemption")
        self._eviction = (BackgroundEviction if in_background else Eviction)(handle, self.name)

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return UNDER_WAY if self._eviction.is_under_way_for(pod) else None

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
        if problem := why_not_eligible(current, self._handle, statuses, self._eviction.evictions):
            return _unschedulable(problem)
        findings = self._search.find(cycle, current, statuses)
        if not findings.candidates:
            if findings.errors:
                return _error(findings.error)
            return _unschedulable(findings.message(len(nodes)), nominated_node="")
        try:
            candidates = await approved(self._handle, current, findings.candidates)
            if not candidates:
                return _unschedulable(NO_CANDIDATE)
            node_name = least_harmful(candidates, self._handle.clock.wall())
            return await self._preempt(current, node_name, candidates[node_name].pods)
        except (ApiError, ExtenderError) as error:
            return _error(str(error))

    async def _preempt(self, pod: Pod, node_name: str, victims: Sequence[Pod]) -> PostFilterResult:
        self._handle.meter.observe("scheduler_preemption_victims", len(victims))
        staying = tuple(victim for victim in victims if not victim.is_terminating)
        await self._eviction.carry_out(pod, node_name, staying)
        note = f"found a potential placement for pod on node {node_name}, preempting {len(victims)} victims"
        return PostFilterResult(None, node_name, staying, PREFIX + note)

    def events_to_register(self) -> Sequence[EventRegistration]:
        return self._eviction.events


def _unschedulable(problem: str, nominated_node: str | None = None) -> PostFilterResult:
    return PostFilterResult(Status.unschedulable(PREFIX + problem), nominated_node)


def _error(problem: str) -> PostFilterResult:
    return PostFilterResult(Status.error(PREFIX + problem))
