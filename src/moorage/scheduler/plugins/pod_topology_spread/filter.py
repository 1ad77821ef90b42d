"""Hard constraints: the maximum skew between domains."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from moorage.common.arrays import NDArray
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.columns import Vocabulary
from moorage.scheduler.framework.node_selection import all_of, any_of, but_not
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import BoolArray, Status, Verdict
from moorage.scheduler.plugins.pod_topology_spread.spread_constraints import (
    MORE_THAN_ANY,
    Constraints,
    Counts,
    Inclusion,
    SpreadConstraint,
    SpreadTally,
    decisive_constraints,
)
from moorage.scheduler.state.domains import DomainTally, nodes_lacking
from moorage.scheduler.state.pod_index import PodIndex

TOO_UNEVEN: Final = Status.unschedulable("node(s) didn't match pod topology spread constraints")
LABEL_MISSING: Final = Status.unresolvable(
    "node(s) didn't match pod topology spread constraints (missing required label)"
)

Codes = NDArray[np.int32] | NDArray[np.int64]


class CriticalPaths:
    """The two domains with the fewest pods; keeps the minimum correct while add_pod and remove_pod change counts."""

    __slots__ = ("emptiest", "next")

    def __init__(self, emptiest: tuple[str, int], following: tuple[str, int]) -> None:
        self.emptiest = emptiest
        self.next = following

    def update(self, value: str, count: int) -> None:
        """Update the count of a domain; as upstream, domains other than these two are not ranked."""
        if value == self.emptiest[0]:
            self.emptiest = (value, count)
        elif value == self.next[0]:
            self.next = (value, count)
        elif count < self.emptiest[1]:
            self.emptiest, self.next = (value, count), self.emptiest
        elif count < self.next[1]:
            self.next = (value, count)
        if self.emptiest[1] > self.next[1]:
            self.emptiest, self.next = self.next, self.emptiest


class Spread:
    """One constraint and the pods in each of its domains."""

    __slots__ = ("_domains", "_lowest", "_paths", "constraint", "counts", "own", "tally")

    def __init__(self, constraint: SpreadConstraint, own: bool, tally: SpreadTally) -> None:
        self.constraint = constraint
        self.own = own
        self.tally = tally
        self.counts: Counts = tally.tally
        self._domains = tally.domain_count
        self._lowest = tally.lowest()
        self._paths: CriticalPaths | None = None

    @property
    def minimum(self) -> int:
        """The number of pods in the domain with the fewest pods; 0 if there are fewer than ``minDomains`` domains."""
        if self._domains < self.constraint.min_domains:
            return 0
        return self._lowest if self._paths is None else self._paths.emptiest[1]

    def change(self, value: str, by: int) -> None:
        """Add ``by`` to the count of a domain."""
        if self._paths is None:
            self._paths = self._two_emptiest()
        if isinstance(self.counts, DomainTally):
            self.counts = self.counts.snapshot()
        code = self.tally.values.find(value)
        if (code is None or not self.tally.eligible[code]) and not self.counts.is_changed(value):
            self._domains += 1
        self.counts.change(value, by)
        self._paths.update(value, self.counts[value])

    def is_too_many(self, value: str) -> bool:
        """Return whether the pod would exceed the maximum skew in a domain."""
        return self.counts[value] + self.own - self.minimum > self.constraint.max_skew

    def find_full(self, codes: Codes, values: Vocabulary[str | None]) -> BoolArray | None:
        """Find the nodes in domains that the pod would make too full. Return ``None`` if no domain is too full."""
        limit = self.constraint.max_skew - self.own + self.minimum
        full: BoolArray = np.greater(self.counts.table(values), limit)
        return full[codes] if np.count_nonzero(full) else None

    def clone(self) -> "Spread":
        copy = Spread.__new__(Spread)
        copy.constraint, copy.own, copy.tally = self.constraint, self.own, self.tally
        # Copy the counts: the tally follows the cluster, and the copy may outlive this cycle.
        copy.counts = self.counts.snapshot() if isinstance(self.counts, DomainTally) else self.counts.clone()
        copy._domains, copy._lowest = self._domains, self._lowest
        copy._paths = None if self._paths is None else CriticalPaths(self._paths.emptiest, self._paths.next)
        return copy

    def _two_emptiest(self) -> CriticalPaths:
        eligible, values = self.tally.eligible, self.tally.values
        ranked = np.where(eligible, self.counts.table(values), MORE_THAN_ANY)
        paths = CriticalPaths(("", MORE_THAN_ANY), ("", MORE_THAN_ANY))
        for code in np.argsort(ranked, kind="stable")[:2]:
            value = values[int(code)]
            if value is not None and eligible[code]:
                paths.update(value, int(ranked[code]))
        return paths


class SpreadState(Struct):
    """Every hard constraint of a pod with its counts."""

    inclusion: Inclusion
    spreads: Sequence[Spread]
    counted: NodeTable

    def clone(self) -> "SpreadState":
        return SpreadState(self.inclusion, [spread.clone() for spread in self.spreads], self.counted)

    def detach(self) -> None:
        """Copy the counts: later changes of the cluster must not affect them."""
        for spread in self.spreads:
            if isinstance(spread.counts, DomainTally):
                spread.counts = spread.counts.snapshot()

    def change(self, incoming: Pod, existing: Pod, node: NodeInfo, by: int) -> None:
        """Update the counts for a pod that is added to a node or removed from it.

        As upstream, terminating pods and empty selectors are not special here, unlike in the initial count.
        """
        if existing.namespace != incoming.namespace:
            return
        if any(spread.constraint.topology_key not in node.labels for spread in self.spreads):
            return
        for spread in self.spreads:
            constraint = spread.constraint
            if constraint.matcher.matches(existing.labels) and self.inclusion.includes(constraint, node):
                spread.change(node.labels[constraint.topology_key], by)

    def filter(self, node: NodeInfo) -> Status | None:
        for spread in self.spreads:
            value = node.labels.get(spread.constraint.topology_key)
            if value is None:
                return LABEL_MISSING
            if spread.is_too_many(value):
                return TOO_UNEVEN
        return None

    def filter_nodes(self, nodes: NodeTable) -> Verdict:
        rejections: list[tuple[BoolArray, Status]] = []
        decided: BoolArray | None = None
        is_whole = nodes.shows_all_of(self.counted)
        for spread in self.spreads:
            if is_whole:
                tally = spread.tally
                lacking, uneven = tally.lacking, spread.find_full(tally.codes, tally.values)
            else:
                column = nodes.label(spread.constraint.topology_key)
                lacking, uneven = nodes_lacking(column), spread.find_full(column.codes, column.values)
            for rows, status in ((lacking, LABEL_MISSING), (uneven, TOO_UNEVEN)):
                if rows is not None:
                    rejections.append((but_not(rows, decided), status))
                    decided = any_of((decided, rows))
        return Verdict(len(nodes), tuple(rejections))


class SpreadCounts:
    """The hard constraints of equal pods, with counts that are refreshed for each pod."""

    def __init__(self, constraints: Constraints, pod: Pod, inclusion: Inclusion) -> None:
        self.constraints = constraints
        self._labels = pod.labels
        self._counted: Constraints = ()
        self._owns: list[bool] = []
        self._namespace = pod.namespace
        self._inclusion = inclusion
        self._tallies: list[SpreadTally] = []
        self._counted_versions: tuple[int, int] | None = None

    def state(self, pods: PodIndex, nodes: NodeTable) -> SpreadState:
        """Return the cycle state of an attempt."""
        versions = nodes.nodes_version, pods.generation
        if self._counted_versions != versions:
            self._tallies = self._count(pods, nodes)
            self._counted_versions = versions
        else:
            for tally in self._tallies:
                tally.refresh()
        spreads = [Spread(*parts) for parts in zip(self._counted, self._owns, self._tallies, strict=True)]
        return SpreadState(self._inclusion, spreads, nodes)

    def _count(self, pods: PodIndex, nodes: NodeTable) -> list[SpreadTally]:
        """Count the pods in each domain; only nodes with all keys that the policies include form domains."""
        self._counted = decisive_constraints(self.constraints, nodes)
        self._owns = [constraint.matcher.matches(self._labels) for constraint in self._counted]
        columns = [nodes.label(constraint.topology_key) for constraint in self._counted]
        lacking = any_of(nodes_lacking(column) for column in columns)
        labeled = None if lacking is None else ~lacking
        tallies = []
        for constraint, column in zip(self._counted, columns, strict=True):
            where = all_of((labeled, self._inclusion.included(constraint, nodes)))
            tallies.append(SpreadTally(constraint, self._namespace, pods, column, where))
        return tallies
