"""Whether a pod may have others evicted, and whether it has done so already."""

from typing import Final

from moorage.api.pod import Pod
from moorage.framework.node_statuses import NodeStatuses
from moorage.framework.nodetable import NodeTable
from moorage.framework.status import Code

DISRUPTION_TARGET: Final = "DisruptionTarget"
PREEMPTION_BY_SCHEDULER: Final = "PreemptionByScheduler"
POLICY_NEVER: Final = "Never"

NEVER: Final = "not eligible due to preemptionPolicy=Never."
STILL_TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."


def why_not_eligible(pod: Pod, nodes: NodeTable, statuses: NodeStatuses) -> str:
    """Return what keeps a pod from having others evicted; an empty text if nothing does."""
    if pod.spec.preemption_policy == POLICY_NEVER:
        return NEVER
    promised = pod.nominated_node_name
    # On a node that became hopeless, waiting for the victims is in vain.
    if not promised or statuses[promised].code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return ""
    info = nodes.find(promised)
    if info is not None and any(
        other.priority < pod.priority and is_leaving_for_another(other) for other in info.pods.values()
    ):
        return STILL_TERMINATING
    return ""


def is_leaving_for_another(pod: Pod) -> bool:
    """Tell whether a pod is terminating because the scheduler evicted it."""
    if not pod.is_terminating:
        return False
    condition = pod.condition(DISRUPTION_TARGET)
    return condition is not None and condition.status == "True" and condition.reason == PREEMPTION_BY_SCHEDULER
