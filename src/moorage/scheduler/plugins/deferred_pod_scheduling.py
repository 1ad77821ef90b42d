"""DeferredPodScheduling: preempt pods for a running pod with a resize that the kubelet deferred.

Such a pod already has a node. It is requeued so that preemption can free the resources for the resize. It is never
bound: when it fits, it waits for the kubelet.
"""

from collections.abc import Hashable, Sequence
from typing import Final

from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration, QueueingHint, Resource, queue_if
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import DependsOn, FilterPlugin, PermitPlugin, PreFilterAnswer, PreFilterPlugin
from moorage.scheduler.framework.status import Status

OTHER_NODE: Final = Status.unresolvable("pod assigned to different node")
NO_PREEMPTION: Final = Status.unresolvable("node had resize preemption disabled")
FITS: Final = Status.unresolvable("pod resize fits, waiting for Kubelet actuation")
GATE: Final = "InPlacePodVerticalScalingSchedulerPreemption"


class DeferredPodScheduling(PreFilterPlugin, FilterPlugin, PermitPlugin):
    """Restrict a pod with a deferred resize to its own node, and hold it back once it fits there."""

    depends_on = DependsOn.NODE

    def __init__(self, *, handle: Handle) -> None:
        self._is_on = handle.features.enabled(GATE)

    def _concerns(self, pod: Pod) -> bool:
        return self._is_on and pod.has_deferred_resize

    def sign(self, pod: Pod) -> Hashable:
        return (pod.node_name, True) if self._concerns(pod) else (None, False)

    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
        return None if self._concerns(pod) else Status.skip()

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        if not self._concerns(pod):
            return None
        if pod.node_name and pod.node_name != node.name:
            return OTHER_NODE
        return NO_PREEMPTION if forbids_preemption(node.node) else None

    def permit(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        return FITS if self._concerns(pod) else None

    def events_to_register(self) -> Sequence[EventRegistration]:
        policy_change = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_PREEMPTION_POLICY)
        return (
            EventRegistration(policy_change, self.after_node_change),
            EventRegistration(ClusterEvent(Resource.NODE, Action.ADD), self.after_node_change),
        )

    def after_node_change(self, pod: Pod, old: Node | None, new: Node) -> QueueingHint:
        """Queue when the pod's node was added, or began to allow preemption."""
        is_concerned = self._concerns(pod) and pod.node_name == new.name
        return queue_if(is_concerned and (old is None or forbids_preemption(old)) and not forbids_preemption(new))


def forbids_preemption(node: Node) -> bool:
    """Return whether the node disables preemption for resizes."""
    policy = node.spec.pod_preemption_policy
    return policy is not None and bool(policy.disable_resize_preemption)
