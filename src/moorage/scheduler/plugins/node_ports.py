"""NodePorts: host ports of a node are exclusive."""

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState, StateKey
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration, QueueingHint, Resource, queue_if
from moorage.scheduler.framework.nodeinfo import NodeInfo, PortTest, ports_conflict
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import DependsOn, FilterPlugin, PreFilterAnswer, PreFilterPlugin
from moorage.scheduler.framework.status import IntArray, Status, Verdict

TAKEN: Final = Status.unschedulable("node(s) didn't have free ports for the requested pod ports")
PORTS: Final = StateKey[PortTest](
    "PreFilterNodePorts", missing='reading "PreFilterNodePorts" from cycleState: not found'
)


class NodePorts(PreFilterPlugin, FilterPlugin):
    """Reject nodes where another pod uses a requested host port."""

    _signs_template = True
    depends_on = DependsOn.REQUESTS

    def sign(self, pod: Pod) -> Hashable:
        return pod.host_ports

    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
        if not pod.host_ports:
            return Status.skip()
        cycle[PORTS] = PortTest(pod.host_ports)
        return None

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        ports = cycle[PORTS]
        return TAKEN if ports.conflicts(node.used_ports) else None

    def filter_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Verdict:
        return Verdict.reject(where=nodes.host_ports.where(cycle[PORTS].conflicts), because=TAKEN)

    def how_many(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        # A pod of the same kind uses the same port, so a node takes only one.
        return np.ones(len(nodes), dtype=np.int64) - self.filter_nodes(cycle, pod, nodes).rejected

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (
            EventRegistration(
                ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), after_pod_deletion, index=_PodsByPort()
            ),
            EventRegistration(ClusterEvent(Resource.NODE, Action.ADD)),
        )


class _PodsByPort:
    """Finds the pending pods that request a port of a deleted pod."""

    def keys(self, pod: Pod) -> set[Hashable]:
        return {port[1:] for port in pod.host_ports}

    def affected(self, old: Pod, _new: None) -> set[Hashable]:
        return self.keys(old)


def after_pod_deletion(pod: Pod, old: Pod, new: Pod | None) -> QueueingHint:
    """Queue when an assigned or nominated pod with a requested port was deleted."""
    had_node = bool(old.node_name or old.nominated_node_name)
    return queue_if(had_node and ports_conflict(pod.host_ports, old.host_ports))
