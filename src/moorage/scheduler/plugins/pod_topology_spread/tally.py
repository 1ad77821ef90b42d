"""The domains of a constraint, and the tally that counts its pods there."""

from typing import Final

import numpy as np

from moorage.scheduler.framework.columns import next_version
from moorage.scheduler.framework.status import BoolArray, IntArray
from moorage.scheduler.plugins.pod_topology_spread.constraints import SpreadConstraint
from moorage.scheduler.state.domains import DomainCounts, Domains, DomainTally, Labels, nodes_lacking
from moorage.scheduler.state.pod_index import PodIndex

MORE_THAN_ANY: Final = 2**31 - 1


class SpreadTally:
    """How many pods there are in each domain of a constraint; ``where`` finds the rows that count, ``None`` means all.

    It is good until a node changes, or the index drops a count: :meth:`refresh` follows the pods only.
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
        """The domains that have a row that counts."""
        self.domain_count = int(np.count_nonzero(self.eligible))
        pods = constraint.counted_pods(namespace, index)
        self.tally = DomainTally(() if pods is None else ((pods, 1),))
        self.refresh()

    def _counting(self, where: BoolArray | None) -> Domains:
        """Return where the pods of each row count: those of no domain get a code of their own, behind all others."""
        into, nowhere = self.codes, len(self.values)
        if self.lacking is not None:
            # To upstream a missing label is the value "", so pods on such nodes count where the label really is empty.
            empty = self.values.find("")
            into = np.where(self.lacking, nowhere if empty is None else empty, into)
        if where is not None:
            into = np.where(where, into, nowhere)
        return Domains(self.values, into, nowhere, next_version())

    def refresh(self) -> None:
        """Follow the pods that came and went."""
        self.tally.refresh(self._domains)

    def lowest(self) -> int:
        """Return the number of pods in the emptiest domain that counts."""
        table = self.tally.table(self.values)
        if self.domain_count == len(table):
            return int(np.minimum.reduce(table, initial=MORE_THAN_ANY))
        return int(np.minimum.reduce(table, where=self.eligible, initial=MORE_THAN_ANY))


Counts = DomainTally | DomainCounts
"""The pods per domain: as they are, or in a what-if."""
