"""Pods per domain, kept from one pod to the next: a pod that comes or goes changes one domain."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from moorage.framework.status import BoolArray, IntArray
from moorage.plugins.pod_topology_spread.constraints import Constraint
from moorage.state.domains import DomainCounts, Labels, nodes_lacking
from moorage.state.pod_index import PodIndex, SelectorCount

MORE_THAN_ANY: Final = 2**31 - 1


class MatchingPods:
    """The pods of a namespace that a constraint is about: not terminating ones, and none for an empty selector.

    They are counted until the index gives a count up, or rows stand for other nodes.
    """

    __slots__ = ("_position", "_rows", "_standing")

    def __init__(self, constraint: Constraint, namespace: str, index: PodIndex) -> None:
        self._rows = index.rows
        self._standing: SelectorCount | None = None
        self._position = 0
        if not constraint.matcher.is_everything:
            self._standing = index.count(frozenset((namespace,)), constraint.matcher, terminating=False)
            self._position = self._standing.log.position

    def per_row(self) -> IntArray:
        """Count them on each row: a view that goes on with the pods that come and go."""
        if self._standing is None:
            return np.zeros(self._rows, dtype=np.int64)
        return self._standing.per_row(self._rows)

    def steps(self) -> Sequence[int] | None:
        """Return the rows pods came to since the last time, ``~row`` where one left; ``None`` if they are too many."""
        if self._standing is None or self._standing.log.position == self._position:
            return ()
        taken = self._standing.log.since(self._position)
        self._position = self._standing.log.position
        return taken


class Tally:
    """How many pods there are in each domain; ``where`` finds the rows that count, ``None`` means all."""

    __slots__ = ("_into", "_nowhere", "_pods", "codes", "counts", "domains", "eligible", "lacking", "values")

    def __init__(self, pods: MatchingPods, column: Labels, where: BoolArray | None) -> None:
        self._pods = pods
        self.values = column.values
        self.codes = column.codes.astype(np.int64)
        self.lacking = nodes_lacking(column)
        self._nowhere = len(column.values)
        self._into = self._domains(where)
        self.eligible: BoolArray = np.bincount(self._into, minlength=self._nowhere + 1)[: self._nowhere] > 0
        """The domains that have a row that counts."""
        self.domains = int(np.count_nonzero(self.eligible))
        self.counts = self._counted()

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

    def _counted(self) -> DomainCounts:
        # The sums are computed as floats, which are exact far beyond any number of pods.
        sums = np.bincount(self._into, weights=self._pods.per_row(), minlength=self._nowhere + 1)
        table = sums[: self._nowhere].astype(np.int64)
        return DomainCounts(table, self.values, int(table.sum()))

    def follow(self) -> bool:
        """Count the pods that came and went since the last time, and tell whether that made a difference.

        Counts handed out before stay as they were.
        """
        steps, before = self._pods.steps(), self.counts
        if steps is None:
            self.counts = self._counted()
            return True
        for step in steps:
            row, by = (step, 1) if step >= 0 else (~step, -1)
            code = int(self._into[row])
            if code != self._nowhere:
                self.counts = self.counts.plus(code, by)
        return self.counts is not before
