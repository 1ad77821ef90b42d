"""The plugin: pods wait while their namespace exceeds its quota, and reclaim what other namespaces borrow."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Final

from msgspec import Struct, field

from moorage.common.errors import ApiError, QuantityError
from moorage.kube.api.custom import custom_kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.api.quantity import NANO, ResourceList, format_nanos
from moorage.kube.api.requests import PODS, countable
from moorage.kube.api.struct import KubeStruct
from moorage.scheduler.config.args import DefaultPreemptionArgs
from moorage.scheduler.framework.cycle import CycleState, StateKey
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration, QueueingHint, Resource
from moorage.scheduler.framework.group_plugins import GroupPostFilterResult
from moorage.scheduler.framework.groups import GroupTree
from moorage.scheduler.framework.handle import Lister
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
from moorage.scheduler.state.side_columns import SideColumns

Amounts = dict[str, int]
"""Resources in the units in which they are counted: CPU in thousandths."""
NO_AMOUNTS: Final[Mapping[str, int]] = {}


class ElasticQuotaSpec(KubeStruct, frozen=True):
    """The guarantee and the limit of a namespace. Resources that are not named are not counted."""

    min: ResourceList = {}
    max: ResourceList = {}


class ElasticQuotaStatus(KubeStruct, frozen=True):
    """The usage of a namespace."""

    used: ResourceList = {}


class ElasticQuota(KubeObject, frozen=True, dict=True, gc=True):
    """The elastic quota of a namespace."""

    spec: ElasticQuotaSpec = ElasticQuotaSpec()
    status: ElasticQuotaStatus = ElasticQuotaStatus()


KIND: Final = custom_kind("ElasticQuota", "elasticquotas", "scheduling.x-k8s.io/v1alpha1", type=ElasticQuota)


class Usage(SideColumns):
    """The requests of the pods of each namespace on all nodes, including assumed pods."""

    def __init__(self, nodes: NodeTable) -> None:
        super().__init__(nodes, {})
        self._by_row: dict[int, dict[str, Amounts]] = {}
        self._by_namespace: dict[str, Amounts] = {}

    def of(self, namespace: str) -> Amounts:
        self.refresh()
        return self._by_namespace.get(namespace, {})

    def write(self, info: NodeInfo) -> None:
        self.clear(info.row)
        by_namespace: dict[str, Amounts] = {}
        for pod in info.pods.values():
            add(by_namespace.setdefault(pod.namespace, {}), pod_usage(pod))
        for namespace, amounts in by_namespace.items():
            add(self._by_namespace.setdefault(namespace, {}), amounts)
        self._by_row[info.row] = by_namespace

    def clear(self, row: int) -> None:
        for namespace, amounts in self._by_row.pop(row, {}).items():
            add(self._by_namespace[namespace], amounts, -1)


class Quota(Struct):
    """The quota of a namespace: its bounds and its usage in a cluster."""

    namespace: str
    name: str
    min: Amounts
    max: Amounts
    used: Amounts

    def exceeds_max(self, more: Mapping[str, int]) -> bool:
        """Return whether additional requests would exceed the limit."""
        return any(self.used.get(name, 0) + more.get(name, 0) > most for name, most in self.max.items())

    def exceeds_min(self, more: Mapping[str, int] = NO_AMOUNTS) -> bool:
        """Return whether the usage, with additional requests, exceeds the guarantee."""
        return any(self.used.get(name, 0) + more.get(name, 0) > least for name, least in self.min.items())


class QuotaState(Struct):
    """All quotas during one attempt. A clone follows a what-if."""

    quotas: dict[str, Quota]
    promised: Amounts = field(default_factory=dict)
    """Requests of other nominated pods of the namespace with precedence, counted against its quota."""
    promised_to_all: Amounts = field(default_factory=dict)
    """Requests of such pods of all namespaces, counted against the sum of the guarantees."""

    def clone(self) -> "QuotaState":
        """Return a copy that can follow a what-if."""
        return QuotaState({**self.quotas}, self.promised, self.promised_to_all)

    def change(self, pod: Pod, sign: int) -> None:
        """Count a pod that is added to a node, or stop counting a removed one."""
        if (quota := self.quotas.get(pod.namespace)) is not None:
            usage = {**quota.used}
            add(usage, pod_usage(pod), sign)
            self.quotas[pod.namespace] = Quota(quota.namespace, quota.name, quota.min, quota.max, usage)

    def find_problem(self, pod: Pod) -> str:
        """Return the violated bound, or an empty string if the pod violates no bound or the namespace has no quota."""
        quota = self.quotas.get(pod.namespace)
        if quota is None:
            return ""
        requests = pod_requests(pod)
        if quota.exceeds_max(plus(requests, self.promised)):
            return f"because ElasticQuota {quota.name} is more than Max"
        guaranteed, total = Amounts(), plus(requests, self.promised_to_all)
        for quota in self.quotas.values():
            add(guaranteed, quota.min)
            add(total, quota.used)
        if any(total.get(name, 0) > amount for name, amount in guaranteed.items()):
            return "because total ElasticQuota used is more than min"
        return ""


class QuotaBook:
    """The quotas by namespace, cached until one changes.

    If a namespace has several, the first by name counts. An invalid quota limits nothing. ``problems`` contains the
    reason, by namespace.
    """

    def __init__(self, objects: Lister[ElasticQuota]) -> None:
        self._objects = objects
        self._version = -1
        self._bounds: dict[str, tuple[str, Amounts, Amounts]] = {}
        self.problems: dict[str, str] = {}

    def with_usage(self, usage: Usage) -> dict[str, Quota]:
        """Return all quotas with their current usage, which is shared and must not be changed."""
        self._refresh()
        return {
            namespace: Quota(namespace, name, least, most, usage.of(namespace))
            for namespace, (name, least, most) in self._bounds.items()
        }

    def _refresh(self) -> None:
        if self._version == self._objects.version:
            return
        self._version = self._objects.version
        self._bounds, self.problems = {}, {}
        for elastic_quota in sorted(self._objects.list(), key=lambda quota: quota.key):
            if elastic_quota.namespace in self._bounds or elastic_quota.namespace in self.problems:
                continue
            try:
                bounds = elastic_quota.name, countable(elastic_quota.spec.min), countable(elastic_quota.spec.max)
            except QuantityError as error:
                self.problems[elastic_quota.namespace] = f"ElasticQuota {elastic_quota.name} cannot be read: {error}"
            else:
                self._bounds[elastic_quota.namespace] = bounds


def pod_requests(pod: Pod) -> Amounts:
    """Return the requests of a pod. Every pod takes one of ``pods``."""
    return {**pod.requests, PODS: 1}


def pod_usage(pod: Pod) -> Amounts:
    """Return the resources that a pod uses on its node."""
    return {**pod.requests_on_node, PODS: 1}


def add(total: Amounts, more: Mapping[str, int], sign: int = 1) -> None:
    """Add or subtract amounts."""
    for name, amount in more.items():
        total[name] = total.get(name, 0) + sign * amount


def plus(first: Mapping[str, int], second: Mapping[str, int]) -> Amounts:
    """Return the sum of two amounts."""
    total = {**first}
    add(total, second)
    return total


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
    """A search that also checks quotas in its dry runs."""

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

    def _what_if(self, node: NodeInfo, removed: Iterable[Pod]) -> WhatIf:
        return QuotaWhatIf(self._handle, self._cycle, self._pod, node, removed)


class QuotaWhatIf(WhatIf):
    """A node without some of its pods. The quotas must also allow the pod."""

    def run_filters(self) -> Status | None:
        status = super().run_filters()
        quotas = self._cycle.get(QUOTAS)
        if status is not None or quotas is None:
            return status
        problem = quotas.find_problem(self._pod)
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
        """Write the status of quotas with changed usage, while the scheduler leads."""
        while True:
            await asyncio.sleep(REPORT_EVERY)
            for quota in list(self._objects.list()):
                counted = self._usage.of(quota.namespace)
                resources = {**quota.spec.min, **quota.spec.max}
                usage = {name: format_amount(name, counted.get(name, 0)) for name in resources}
                if usage == quota.status.used:
                    continue
                removed_names = {name: None for name in quota.status.used if name not in usage}
                try:
                    await self._handle.cluster.patch_status(quota, {"used": {**usage, **removed_names}})
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
        # Count the requests of preemptors that are not placed yet.
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
        problem = state.find_problem(pod)
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
