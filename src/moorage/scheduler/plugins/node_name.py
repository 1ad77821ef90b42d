"""NodeName: a pod with ``spec.nodeName`` fits only that node."""

from collections.abc import Hashable, Sequence
from typing import Final

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration, Resource
from moorage.scheduler.framework.nodeinfo import NO_ROW, NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import DependsOn, FilterPlugin, NodeNames, PreFilterAnswer, PreFilterPlugin
from moorage.scheduler.framework.status import Status, Verdict

OTHER_NODE: Final = Status.unresolvable("node(s) didn't match the requested node name")
_EVENTS: Final = (EventRegistration(ClusterEvent(Resource.NODE, Action.ADD)),)


class NodeName(PreFilterPlugin, FilterPlugin):
    """Accept only the node in ``spec.nodeName``, if set."""

    depends_on = DependsOn.NODE
    _signs_template = True

    def sign(self, pod: Pod) -> Hashable:
        return pod.node_name

    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
        return NodeNames(frozenset((pod.node_name,))) if pod.node_name else None

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        name = pod.spec.node_name
        return OTHER_NODE if name and name != node.name else None

    def filter_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Verdict:
        if not pod.node_name:
            return Verdict.accept(len(nodes))
        info = nodes.find(pod.node_name)
        return Verdict.reject(where=nodes.rows != (info.row if info else NO_ROW), because=OTHER_NODE)

    def events_to_register(self) -> Sequence[EventRegistration]:
        return _EVENTS
