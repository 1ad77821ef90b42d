"""The domains of a constraint, and the counts of their pods."""

from collections.abc import Hashable
from typing import Final

import numpy as np

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.columns import next_version
from moorage.scheduler.framework.node_selection import all_of
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import BoolArray, IntArray
from moorage.scheduler.plugins.node_affinity import find_node_affinity, read_demands
from moorage.scheduler.plugins.pod_topology_spread.spread_constraints import Constraints, SpreadConstraint
from moorage.scheduler.plugins.taint_toleration import repels
from moorage.scheduler.state.domains import DomainCounts, Domains, DomainTally, Labels, nodes_lacking
from moorage.scheduler.state.pod_index import PodIndex


class Inclusion:
    """Evaluates a pod's node selector, required node affinity and tolerations for nodes.

    ``by_number`` as in :meth:`~moorage.kube.api.affinity.Toleration.tolerates`.
    """

    def __init__(self, pod: Pod, *, by_number: bool = False) -> None:
        self._pod = pod
        self._by_number = by_number
        is_choosy = bool(pod.spec.node_selector) or find_node_affinity(pod).required is not None
        self._demands = read_demands(pod) if is_choosy else None

    def sign(self, constraints: Constraints) -> Hashable:
        """Return a key of the included nodes: pods with equal keys include the same nodes."""
        honors_affinity = any(constraint.honors_affinity for constraint in constraints)
        honors_taints = any(constraint.honors_taints for constraint in constraints)
        return self._demands if honors_affinity else None, self._pod.spec.tolerations if honors_taints else ()

    def includes(self, constraint: SpreadConstraint, node: NodeInfo) -> bool:
        """Return whether the policies of a constraint include a node."""
        if constraint.honors_affinity and self._demands is not None and not self._demands.accepts(node.node):
            return False
        return not (constraint.honors_taints and repels(node.taints, self._pod, by_number=self._by_number))

    def included(self, constraint: SpreadConstraint, nodes: NodeTable) -> BoolArray | None:
        """Find the included nodes; ``None`` means all."""
        accepted = tolerated = None
        if constraint.honors_affinity and self._demands is not None:
            accepted = self._demands.accepted_nodes(nodes)
        if constraint.honors_taints:
            pod, by_number = self._pod, self._by_number
            tolerated = nodes.taints.where(lambda taints: not repels(taints, pod, by_number=by_number))
        return all_of((accepted, tolerated))


MORE_THAN_ANY: Final = 2**31 - 1


class SpreadTally:
    """The number of pods in each domain of a constraint; ``where`` marks the rows that count, ``None`` means all.

    Valid until a node changes, or the index drops a count; :meth:`refresh` follows the pods only.
    """

    __slots__ = ("_domains", "codes", "domain_count", "eligible", "lacking", "tally", "values")

    def __init__(
        self, constraint: SpreadConstraint, namespace: str, index: PodIndex, column: Labels, where: BoolArray | None
    ) -> None:
        self.values = column.values
        self.codes: IntArray = column.codes.astype(np.int64)
        self.lacking = nodes_lacking(column)
        self._domains = self._counting(where)
        inhabited = np.bincount(self._domains.codes, minlength=len(self.values) + 1)[: len(self.values)]
        self.eligible: BoolArray = np.greater(inhabited, 0)
        """The domains with at least one row that counts."""
        self.domain_count = int(np.count_nonzero(self.eligible))
        pods = constraint.counted_pods(namespace, index)
        self.tally = DomainTally(() if pods is None else ((pods, 1),))
        self.refresh()

    def _counting(self, where: BoolArray | None) -> Domains:
        """Return the domain code of each row; rows without a domain get an extra code after all others."""
        into, nowhere = self.codes, len(self.values)
        if self.lacking is not None:
            # As upstream, a missing label equals the value "", so these pods count in the domain of the empty value.
            empty = self.values.find("")
            into = np.where(self.lacking, nowhere if empty is None else empty, into)
        if where is not None:
            into = np.where(where, into, nowhere)
        return Domains(self.values, into, nowhere, next_version())

    def refresh(self) -> None:
        """Apply added and removed pods."""
        self.tally.refresh(self._domains)

    def lowest(self) -> int:
        """Return the number of pods in the eligible domain with the fewest pods."""
        table = self.tally.table(self.values)
        if self.domain_count == len(table):
            return int(np.minimum.reduce(table, initial=MORE_THAN_ANY))
        return int(np.minimum.reduce(table, where=self.eligible, initial=MORE_THAN_ANY))


Counts = DomainTally | DomainCounts
"""The pods per domain: the tally of the cluster, or a changed copy."""
