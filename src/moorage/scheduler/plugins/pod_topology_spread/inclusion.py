"""Which nodes count for a constraint: its policies may leave out nodes the pod cannot run on anyway."""

from collections.abc import Hashable

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.masks import all_of
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import BoolArray
from moorage.scheduler.plugins.node_affinity import demands_of, node_affinity_of
from moorage.scheduler.plugins.pod_topology_spread.constraints import Constraints, SpreadConstraint
from moorage.scheduler.plugins.taint_toleration import repels


class Inclusion:
    """What one pod's node selector, required node affinity and tolerations say about nodes.

    ``by_number`` as in :meth:`~moorage.kube.api.affinity.Toleration.tolerates`.
    """

    def __init__(self, pod: Pod, *, by_number: bool = False) -> None:
        self._pod = pod
        self._by_number = by_number
        is_choosy = bool(pod.spec.node_selector) or node_affinity_of(pod).required is not None
        self._demands = demands_of(pod) if is_choosy else None

    def sign(self, constraints: Constraints) -> Hashable:
        """Return what decides which nodes count for these constraints: pods that sign the same include the same."""
        honors_affinity = any(constraint.honors_affinity for constraint in constraints)
        honors_taints = any(constraint.honors_taints for constraint in constraints)
        return self._demands if honors_affinity else None, self._pod.spec.tolerations if honors_taints else ()

    def includes(self, constraint: SpreadConstraint, node: NodeInfo) -> bool:
        """Return whether a node counts."""
        if constraint.honors_affinity and self._demands is not None and not self._demands.accepts(node.node):
            return False
        return not (constraint.honors_taints and repels(node.taints, self._pod, by_number=self._by_number))

    def included(self, constraint: SpreadConstraint, nodes: NodeTable) -> BoolArray | None:
        """Find the nodes that count; ``None`` means all."""
        wanted = tolerated = None
        if constraint.honors_affinity and self._demands is not None:
            wanted = self._demands.accepted_nodes(nodes)
        if constraint.honors_taints:
            pod, by_number = self._pod, self._by_number
            tolerated = nodes.taints.where(lambda taints: not repels(taints, pod, by_number=by_number))
        return all_of((wanted, tolerated))
