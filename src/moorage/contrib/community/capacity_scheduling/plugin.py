"""The plugin: pods wait while their namespace exceeds its quota, and reclaim what other namespaces borrow."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Final

from moorage.common.errors import ApiError
from moorage.contrib.community.capacity_scheduling.quotas import (
    KIND,
    Amounts,
    ElasticQuota,
    Quota,
    QuotaBook,
    QuotaState,
    Usage,
    add,
    pod_requests,
    pod_usage,
)
from moorage.kube.api.pod import Pod
from moorage.kube.api.quantity import NANO, format_nanos
from moorage.scheduler.config.args import DefaultPreemptionArgs
from moorage.scheduler.framework.cycle import CycleState, StateKey
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
from moorage.scheduler.plugins.default_preemption.dry_run import PreemptionDryRun, WhatIf
from moorage.scheduler.plugins.default_preemption.group_preemption import GroupHandle
from moorage.scheduler.plugins.default_preemption.plugin import DefaultPreemption
from moorage.scheduler.plugins.default_preemption.units import Units

QUOTAS = StateKey[QuotaState]("elastic quotas and their usage")


class BorrowerRules:
    """The pods that a preemptor may evict, according to the quotas at the start of the preemption."""

    def __init__(self) -> None:
        self.quotas: Mapping[str, Quota] = {}
        self._borrows = False

    def read(self, preemptors: Sequence[Pod], quotas: Mapping[str, Quota]) -> None:
        """Read the quotas for a pod or for the pods of a group."""
        self.quotas = quotas
        own = quotas.get(preemptors[0].namespace)
        requests: Amounts = {}
        for pod in preemptors:
            add(requests, pod_requests(pod))
        self._borrows = own is not None and own.exceeds_min(requests)

    def may_evict(self, preemptor: Pod, victim: Pod, priority: int) -> bool:
        """Return whether a pod may be evicted.

        Without a quota, or if the preemptor would borrow, the pod must have a lower priority and the same quota, or
        none. A preemptor within its guarantee may evict pods that borrow, regardless of their priority.
        """
        own, victim_quota = self.quotas.get(preemptor.namespace), self.quotas.get(victim.namespace)
        if own is None:
            return victim_quota is None and priority < preemptor.priority
        if self._borrows:
            return victim_quota is own and priority < preemptor.priority
        return victim_quota is not None and victim_quota is not own and victim_quota.exceeds_min()


class QuotaSearch(CandidateSearch):
    """A search whose dry runs also check quotas."""

    def _dry_run(self, cycle: CycleState, pod: Pod) -> PreemptionDryRun:
        assert isinstance(self.rules, BorrowerRules)
        return QuotaDryRun(self._handle, cycle, pod, self._budgets.split, self.rules)


class QuotaDryRun(PreemptionDryRun):
    """Tries nodes for one pod: borrowers are evicted, but no namespace returns more than it borrowed."""

    def _pool(self, node: NodeInfo) -> list[Pod]:
        rules, pool = self._rules, list[Pod]()
        assert isinstance(rules, BorrowerRules)
        returned: dict[str, Amounts] = {}
        for pod in sorted(node.pods.values(), key=self._importance, reverse=True):
            if not rules.may_evict(self._pod, pod, pod.priority):
                continue
            quota = rules.quotas.get(pod.namespace)
            if quota is not None and pod.namespace != self._pod.namespace:
                back = returned.setdefault(pod.namespace, {})
                if not quota.exceeds_min(back):
                    continue
                add(back, pod_usage(pod), -1)
            pool.append(pod)
        return pool

    def _what_if(self, node: NodeInfo, gone: Iterable[Pod]) -> WhatIf:
        return QuotaWhatIf(self._handle, self._cycle, self._pod, node, gone)


class QuotaWhatIf(WhatIf):
    """A node without some of its pods; the quotas must allow the pod, too."""

    def run_filters(self) -> Status | None:
        status = super().run_filters()
        quotas = self._cycle.get(QUOTAS)
        if status is not None or quotas is None:
            return status
        problem = quotas.problem_with(self._pod)
        return Status.unschedulable(problem) if problem else None


REPORT_EVERY: Final = 5.0
"""Interval in seconds of updates of the usage in the status of quotas."""


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
        super().__init__(args=DefaultPreemptionArgs(), handle=handle, chance=chance)

    async def start(self) -> None:
        self._handle.in_background(self._report_usage(), name="usage of elastic quotas")

    async def _report_usage(self) -> None:
        """Write the status of quotas whose usage has changed, while the scheduler leads."""
        while True:
            await asyncio.sleep(REPORT_EVERY)
            for quota in list(self._objects.list()):
                counted = self._usage.of(quota.namespace)
                resources = {**quota.spec.min, **quota.spec.max}
                usage = {name: format_amount(name, counted.get(name, 0)) for name in resources}
                if usage == quota.status.used:
                    continue
                removed = {name: None for name in quota.status.used if name not in usage}
                try:
                    await self._handle.cluster.patch_status(quota, {"used": {**usage, **removed}})
                except ApiError as error:
                    self._handle.log.warning("elastic quota status was not written", quota=quota.key, error=str(error))

    def _make_search(
        self, args: DefaultPreemptionArgs, budgets: Budgets, chance: Random | None, units: Units | None
    ) -> CandidateSearch:
        return QuotaSearch(self._handle, args, budgets, chance, units, self._rules)

    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        state = QuotaState(self._book.with_usage(self._usage))
        if pod.namespace not in state.quotas:
            unreadable = self._book.problems.get(pod.namespace)
            return Status.unresolvable(unreadable) if unreadable else Status.skip()
        cycle[QUOTAS] = state
        # Count the requests of pods that preempted others and are not placed yet.
        nominator = self._handle.nominator
        for node_name in nominator.nodes_with_nominations():
            for nominated in nominator.nominated_pods(node_name):
                quota = state.quotas.get(nominated.namespace)
                if quota is None or nominated.metadata.uid == pod.metadata.uid:
                    continue
                requests = pod_requests(nominated)
                if nominated.namespace == pod.namespace and nominated.priority >= pod.priority:
                    add(state.promised, requests)
                    add(state.promised_to_all, requests)
                elif nominated.namespace != pod.namespace and not quota.exceeds_min(requests):
                    add(state.promised_to_all, requests)
        problem = state.problem_with(pod)
        return Status.unschedulable(f"Pod {pod.key} is rejected in PreFilter {problem}") if problem else None

    def add_pod(self, cycle: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status | None:
        cycle[QUOTAS].change(added, +1)
        return None

    def remove_pod(self, cycle: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> Status | None:
        cycle[QUOTAS].change(removed, -1)
        return None

    async def post_filter(self, cycle: CycleState, pod: Pod, statuses: NodeStatuses) -> PostFilterResult:
        self._rules.read((pod,), self._book.with_usage(self._usage))
        return await super().post_filter(cycle, pod, statuses)

    async def post_filter_group(self, cycle: CycleState, group: GroupTree) -> GroupPostFilterResult:
        self._rules.read(tuple(group.all_members), self._book.with_usage(self._usage))
        return await super().post_filter_group(cycle, group)

    # Configurations enable this point, but usage is counted from the pods on nodes, including assumed ones.

    def reserve(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None

    def unreserve(self, cycle: CycleState, pod: Pod, node_name: str) -> None:
        return None

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (
            *super().events_to_register(),
            EventRegistration(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), self.after_pod_deletion),
            EventRegistration(ClusterEvent(KIND.event_resource, Action.ALL)),
        )

    def after_pod_deletion(self, pod: Pod, old: Pod, _new: None) -> QueueingHint:
        """Queue if a quota counted the deleted pod."""
        has_quota = any(True for _ in self._objects.list(old.namespace))
        return QueueingHint.QUEUE if has_quota else QueueingHint.SKIP


def format_amount(resource: str, amount: int) -> str:
    """Format an amount of a resource as users write it."""
    if resource == "cpu":
        return format_nanos(amount * NANO // 1000, is_binary=False)
    return format_nanos(amount * NANO, is_binary=resource in ("memory", "ephemeral-storage"))
