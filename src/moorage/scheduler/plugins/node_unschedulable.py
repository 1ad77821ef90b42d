"""NodeUnschedulable: cordoned nodes accept only pods that tolerate the cordon."""

from collections.abc import Hashable, Sequence
from typing import Final

from moorage.kube.api.affinity import NO_SCHEDULE, Taint
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration, QueueingHint, Resource, queue_if
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import DependsOn, FilterPlugin, PreFilterAnswer, PreFilterPlugin
from moorage.scheduler.framework.status import Status, Verdict
from moorage.scheduler.plugins.taint_toleration import COMPARING

CORDONED: Final = Status.unresolvable("node(s) were unschedulable")
# The taint that the pod must tolerate. The node's own taints are ignored: spec.unschedulable alone decides.
CORDON: Final = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)


class NodeUnschedulable(PreFilterPlugin, FilterPlugin):
    """Reject nodes with ``spec.unschedulable``."""

    depends_on = DependsOn.NODE
    _signs_template = True

    def __init__(self, *, handle: Handle | None = None) -> None:
        self._by_number = handle is not None and handle.features.enabled(COMPARING)

    def sign(self, pod: Pod) -> Hashable:
        return pod.tolerates(CORDON, by_number=self._by_number)

    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
        return None

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        is_cordoned = node.node.spec.unschedulable
        return CORDONED if is_cordoned and not pod.tolerates(CORDON, by_number=self._by_number) else None

    def filter_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Verdict:
        if pod.tolerates(CORDON, by_number=self._by_number):
            return Verdict.accept(len(nodes))
        # A copy: verdicts are cached for later cycles, while the column changes.
        return Verdict.reject(where=nodes.unschedulable.copy(), because=CORDONED)

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (
            EventRegistration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT), after_node_change),
            EventRegistration(ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_TOLERATION), self._after_own_change),
        )

    def _after_own_change(self, pod: Pod, old: Pod | None, new: Pod) -> QueueingHint:
        """Queue when the pod now tolerates the cordon."""
        return queue_if(new.tolerates(CORDON, by_number=self._by_number))


def after_node_change(pod: Pod, old: Node | None, new: Node) -> QueueingHint:
    """Queue when a node that is not cordoned was added, or when a node was uncordoned."""
    return queue_if((old is None or old.spec.unschedulable) and not new.spec.unschedulable)
