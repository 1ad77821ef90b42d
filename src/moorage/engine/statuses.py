"""Statuses of nodes read from columns: counted without looking at one node at a time."""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property

import numpy as np

from moorage.engine.judgement import FEASIBLE, IdArray, Statuses
from moorage.framework.node_statuses import NodeStatuses
from moorage.framework.nodetable import NodeTable, RowArray
from moorage.framework.status import BoolArray, Code, Status


class RowStatuses(NodeStatuses):
    """The statuses of an attempt: a number per row; rows that were not examined have none."""

    def __init__(
        self, nodes: NodeTable, numbers: IdArray, statuses: Statuses, examined: BoolArray | None, absent: Status
    ) -> None:
        super().__init__({}, absent)
        self._nodes = nodes
        self._numbers = numbers if examined is None else np.where(examined, numbers, FEASIBLE)
        self._statuses = statuses

    @cached_property
    def _by_name(self) -> Mapping[str, Status]:
        explicit: dict[str, Status] = {}
        for row in np.flatnonzero(self._numbers):
            status = self._statuses[int(self._numbers[row])]
            assert status is not None
            explicit[self._nodes[int(row)].name] = status
        return explicit

    @property
    def explicit(self) -> Mapping[str, Status]:
        """The nodes that have a status of their own."""
        return self._by_name

    @property
    def explicit_count(self) -> int:
        """How many nodes have a status of their own."""
        return int(np.count_nonzero(self._numbers))

    def __getitem__(self, node_name: str) -> Status:
        info = self._nodes.find(node_name)
        return (None if info is None else self._statuses[int(self._numbers[info.row])]) or self.absent

    def rows_with(self, code: Code, nodes: NodeTable, order: RowArray) -> RowArray:
        """Return those of the rows whose status has exactly this code, in the given order."""
        numbers = range(len(self._statuses))
        is_wanted = np.array([(self._statuses[number] or self.absent).code == code for number in numbers])
        rows: RowArray = order[is_wanted[self._numbers[order]]]
        return rows

    def distinct(self) -> Iterable[Status]:
        """Return every status that some node has."""
        for number in np.unique(self._numbers):
            if (status := self._statuses[int(number)]) is not None:
                yield status

    def reasons(self, node_count: int) -> Counter[str]:
        """Count every reason over all nodes of the cluster."""
        counted: Counter[str] = Counter()
        counts = np.bincount(self._numbers, minlength=len(self._statuses))
        for number in np.flatnonzero(counts):
            if (status := self._statuses[int(number)]) is not None:
                for reason in status.reasons:
                    counted[reason] += int(counts[number])
        for reason in self.absent.reasons:
            counted[reason] += node_count - self.explicit_count
        return +counted
