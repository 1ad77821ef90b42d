"""Pods per domain, kept from one pod to the next: a pod that comes or goes changes one domain."""

from typing import Final

import numpy as np

from moorage.framework.domains import DomainCounts, Labels, nodes_lacking
from moorage.framework.pod_index import PodIndex
from moorage.framework.status import BoolArray, IntArray
from moorage.plugins.pod_topology_spread.constraints import Constraint

MORE_THAN_ANY: Final = 2**31 - 1


class MatchingPods:
    """The pods of a namespace that a constraint is about: not terminating ones, and none for an empty selector."""

    __slots__ = ("_matcher", "_namespaces")

    def __init__(self, constraint: Constraint, namespace: str) -> None:
        self._matcher = None if constraint.matcher.is_everything else constraint.matcher
        self._namespaces = frozenset((namespace,))

    def per_row(self, index: PodIndex) -> IntArray:
        """Count them on each row; true until the next pod comes or goes."""
        if self._matcher is None:
            return np.zeros(index.rows, dtype=np.int64)
        return index.counts(self._namespaces, self._matcher, terminating=False)


class Tally:
    """How many pods there are in each domain; ``where`` finds the rows that count, ``None`` means all."""

    __slots__ = ("_into", "_nowhere", "_pods", "_seen", "codes", "counts", "domains", "eligible", "lacking", "values")

    def __init__(self, pods: MatchingPods, index: PodIndex, column: Labels, where: BoolArray | None) -> None:
        self._pods = pods
        self.values = column.values
        self.codes = column.codes.astype(np.int64)
        self.lacking = nodes_lacking(column)
        self._nowhere = len(column.values)
        self._into = self._domains(where)
        self._seen = pods.per_row(index).copy()
        # The sums are computed as floats, which are exact far beyond any number of pods.
        sums = np.bincount(self._into, weights=self._seen, minlength=self._nowhere + 1)
        table = sums[: self._nowhere].astype(np.int64)
        self.counts = DomainCounts(table, self.values, int(table.sum()))
        self.eligible: BoolArray = np.bincount(self._into, minlength=self._nowhere + 1)[: self._nowhere] > 0
        """The domains that have a row that counts."""
        self.domains = int(np.count_nonzero(self.eligible))

    def _domains(self, where: BoolArray | None) -> IntArray:
        """Return where the pods of each row count: those of no domain get a code of their own, behind all others."""
        into = self.codes
        if self.lacking is not None:
            # To upstream a missing label is the value "", so pods on such nodes count where the label really is empty.
            empty = self.values.find("")
            into = np.where(self.lacking, self._nowhere if empty is None else empty, into)
        return into if where is None else np.where(where, into, self._nowhere)

    def lowest(self) -> int:
        """Return the number of pods in the emptiest domain that counts."""
        table = self.counts.table(self.values)
        if self.domains == len(table):
            return int(np.minimum.reduce(table, initial=MORE_THAN_ANY))
        return int(np.minimum.reduce(table, where=self.eligible, initial=MORE_THAN_ANY))

    def follow(self, rows: list[int], index: PodIndex) -> None:
        """Count again on rows that changed; counts handed out before stay as they were."""
        pods, seen = self._pods.per_row(index), self._seen
        for row in rows:
            by = int(pods[row]) - int(seen[row])
            if by:
                seen[row] += by
                code = int(self._into[row])
                if code != self._nowhere:
                    self.counts = self.counts.plus(code, by)
