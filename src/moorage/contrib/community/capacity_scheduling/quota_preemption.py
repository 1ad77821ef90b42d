"""Preemption with quotas: pods that borrow are evicted for pods within their guarantee."""

from collections.abc import Iterable, Mapping, Sequence

from moorage.contrib.community.capacity_scheduling.quotas import (
    Amounts,
    Quota,
    QuotaState,
    add,
    pod_requests,
    pod_usage,
)
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState, StateKey
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.default_preemption.candidates import CandidateSearch
from moorage.scheduler.plugins.default_preemption.dry_run import PreemptionDryRun, WhatIf

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
