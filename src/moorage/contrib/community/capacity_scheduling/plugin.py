"""The plugin: pods wait while their namespace uses all that it may, and get back what others borrowed."""

from collections.abc import Sequence
from random import Random

from moorage.contrib.community.capacity_scheduling.making_room import QUOTAS, BorrowerRules, QuotaSearch
from moorage.contrib.community.capacity_scheduling.quotas import (
    KIND,
    ElasticQuota,
    QuotaBook,
    QuotaState,
    Usage,
    add,
    asked_for,
)
from moorage.contrib.community.capacity_scheduling.reporting import UsageReport
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.args import DefaultPreemptionArgs
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration, QueueingHint, Resource
from moorage.scheduler.framework.group_plugins import GroupPostFilterResult
from moorage.scheduler.framework.groups import GroupTree
from moorage.scheduler.framework.node_statuses import NodeStatuses
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import PostFilterResult, PreFilterExtensions, ReservePlugin
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.default_preemption.budgets import Budgets
from moorage.scheduler.plugins.default_preemption.candidates import CandidateSearch
from moorage.scheduler.plugins.default_preemption.group_preemption import GroupHandle
from moorage.scheduler.plugins.default_preemption.plugin import DefaultPreemption
from moorage.scheduler.plugins.default_preemption.units import Units


class CapacityScheduling(DefaultPreemption, PreFilterExtensions, ReservePlugin):
    """Keep namespaces within their quotas, and reclaim borrowed resources by preemption.

    A namespace may use its guarantee (``min``), and more, up to ``max``, while all quotas together use at most the sum
    of their guarantees. Pods of namespaces without a quota are not affected.
    """

    Args = None

    def __init__(self, *, handle: GroupHandle, chance: Random | None = None) -> None:
        self._objects = handle.lister(ElasticQuota)
        self._book = QuotaBook(self._objects)
        self._usage = Usage(handle.nodes)
        self._rules = BorrowerRules()
        self._report = UsageReport(handle, self._objects, self._usage)
        super().__init__(args=DefaultPreemptionArgs(), handle=handle, chance=chance)

    async def start(self) -> None:
        self._report.start()

    def _make_search(
        self, args: DefaultPreemptionArgs, budgets: Budgets, chance: Random | None, units: Units | None
    ) -> CandidateSearch:
        return QuotaSearch(self._handle, args, budgets, chance, units, self._rules)

    # ── may it be placed at all? ─────────────────────────────────────────────────────────────────────────────────────

    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        state = QuotaState(self._book.at_work(self._usage))
        if pod.namespace not in state.quotas:
            unreadable = self._book.problems.get(pod.namespace)
            return Status.unresolvable(unreadable) if unreadable else Status.skip()
        cycle[QUOTAS] = state
        self._count_promised(pod, state)
        problem = state.problem_with(pod)
        return Status.unschedulable(f"Pod {pod.key} is rejected in PreFilter {problem}") if problem else None

    def _count_promised(self, pod: Pod, state: QuotaState) -> None:
        """Set aside the requests of pods that preempted others and are not placed yet."""
        nominator = self._handle.nominator
        for node_name in nominator.nodes_with_nominations():
            for nominated in nominator.nominated_pods(node_name):
                quota = state.quotas.get(nominated.namespace)
                if quota is None or nominated.metadata.uid == pod.metadata.uid:
                    continue
                requests = asked_for(nominated)
                if nominated.namespace == pod.namespace and nominated.priority >= pod.priority:
                    add(state.promised, requests)
                    add(state.promised_to_all, requests)
                elif nominated.namespace != pod.namespace and not quota.exceeds_min(requests):
                    add(state.promised_to_all, requests)

    def add_pod(self, cycle: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status | None:
        cycle[QUOTAS].change(added, +1)
        return None

    def remove_pod(self, cycle: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> Status | None:
        cycle[QUOTAS].change(removed, -1)
        return None

    # ── preemption ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def post_filter(self, cycle: CycleState, pod: Pod, statuses: NodeStatuses) -> PostFilterResult:
        self._rules.turn_to((pod,), self._book.at_work(self._usage))
        return await super().post_filter(cycle, pod, statuses)

    async def post_filter_group(self, cycle: CycleState, group: GroupTree) -> GroupPostFilterResult:
        self._rules.turn_to(tuple(group.all_members), self._book.at_work(self._usage))
        return await super().post_filter_group(cycle, group)

    # ── nothing to reserve ───────────────────────────────────────────────────────────────────────────────────────────

    # Configurations enable this point, but usage is counted from the pods on nodes, including assumed ones.

    def reserve(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None

    def unreserve(self, cycle: CycleState, pod: Pod, node_name: str) -> None:
        return None

    # ── events that help ─────────────────────────────────────────────────────────────────────────────────────────────

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (
            *super().events_to_register(),
            EventRegistration(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), self.after_pod_gone),
            EventRegistration(ClusterEvent(KIND.event_resource, Action.ALL)),
        )

    def after_pod_gone(self, pod: Pod, old: Pod, _new: None) -> QueueingHint:
        """Queue if the pod that left was counted by some quota."""
        has_quota = any(True for _ in self._objects.list(old.namespace))
        return QueueingHint.QUEUE if has_quota else QueueingHint.SKIP
