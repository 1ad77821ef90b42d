"""Eligibility of pods to preempt, and evictions in progress."""

from collections.abc import Callable, Coroutine
from inspect import CORO_CLOSED, getcoroutinestate
from operator import attrgetter
from typing import Any, Final, Protocol

from moorage.common.caches import LRU
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.handle import PreemptionHandle
from moorage.scheduler.framework.node_statuses import NodeStatuses
from moorage.scheduler.framework.status import Code

DISRUPTION_TARGET: Final = "DisruptionTarget"
PREEMPTION_BY_SCHEDULER: Final = "PreemptionByScheduler"
POLICY_NEVER: Final = "Never"

NEVER: Final = "not eligible due to preemptionPolicy=Never."
STILL_TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."

MAX_EVICTIONS: Final = 1 << 14
"""Number of remembered evictions. Each is needed only until its watch event arrives."""


class Evictions:
    """Pods that are being evicted, starting with the decision.

    The watch delivers a deletion after the API accepts it, which is after the decision. Until then the victim
    is still on its node, and a pod nominated there would cause another eviction.
    """

    def __init__(self) -> None:
        self._under_way: LRU[str, Coroutine[Any, Any, None]] = LRU("running evictions", MAX_EVICTIONS)
        self._accepted: LRU[str, bool] = LRU("accepted evictions", MAX_EVICTIONS)

    def __contains__(self, pod: Pod) -> bool:
        if pod.uid in self._accepted:
            return True
        # Work that failed or was dropped before it started (dry runs) is closed: it evicts no pod.
        work = self._under_way.find(pod.uid)
        return work is not None and getcoroutinestate(work) != CORO_CLOSED

    def is_accepted(self, uid: str) -> bool:
        """Return whether the API has accepted the deletion of a pod."""
        return uid in self._accepted

    def begin(self, pod: Pod, work: Coroutine[Any, Any, None]) -> None:
        self._under_way.put(pod.uid, work)

    def accept(self, pod: Pod) -> None:
        """Record that the API accepted the deletion, or that the pod no longer exists."""
        self._under_way.discard(pod.uid)
        self._accepted.put(pod.uid, True)

    def cancel(self, pod: Pod) -> None:
        """Record that the pod was stopped in memory. It may be rescheduled."""
        self._under_way.discard(pod.uid)


class VictimRules(Protocol):
    """Rules for possible victims that replace the comparison of priorities."""

    def may_evict(self, preemptor: Pod, victim: Pod, priority: int) -> bool:
        """Return whether a pod may be evicted for another. ``priority`` is the victim's, or that of its group."""
        ...


def why_not_eligible(
    pod: Pod,
    handle: PreemptionHandle,
    statuses: NodeStatuses,
    evictions: Evictions,
    effective_priority: Callable[[Pod], int] = attrgetter("priority"),
) -> str:
    """Return why a pod is not eligible to preempt, or an empty string if it is."""
    if pod.spec.preemption_policy == POLICY_NEVER:
        return NEVER
    # The nomination is written in a separate request, which the watch may not have delivered yet.
    nominated = pod.nominated_node_name or handle.nominator.node_of(pod)
    # If the node became infeasible, waiting for the victims does not help.
    if not nominated or statuses[nominated].code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return ""
    info = handle.nodes.find(nominated)
    if info is not None and any(
        effective_priority(neighbor) < pod.priority and (neighbor in evictions or is_leaving_for_another(neighbor))
        for neighbor in info.pods.values()
    ):
        return STILL_TERMINATING
    return ""


def is_leaving_for_another(pod: Pod) -> bool:
    """Return whether a pod is terminating because the scheduler evicted it."""
    if not pod.is_terminating:
        return False
    condition = pod.condition(DISRUPTION_TARGET)
    return condition is not None and condition.status == "True" and condition.reason == PREEMPTION_BY_SCHEDULER
