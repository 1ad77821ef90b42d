"""Statuses of rejected nodes: explicit ones, and one for all other nodes."""

from collections import Counter
from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from moorage.scheduler.framework.nodetable import NodeTable, RowArray
from moorage.scheduler.framework.status import Code, Status


class StatusGroup(Struct, frozen=True):
    """Nodes that have the same status: how many, and the names of some."""

    status: Status
    count: int
    examples: tuple[str, ...] = ()


class NodeStatuses:
    """The status of every node. ``absent`` is the status of nodes without an explicit one.

    >>> statuses = NodeStatuses({"a": Status.unschedulable("full")}, Status.unresolvable("no"))
    >>> statuses.histogram(3)
    '1 full, 2 no'
    """

    def __init__(self, explicit: Mapping[str, Status], absent: Status) -> None:
        self._explicit = explicit
        self.absent = absent

    @property
    def explicit(self) -> Mapping[str, Status]:
        """The nodes with an explicit status."""
        return self._explicit

    def kept(self) -> "NodeStatuses":
        """Return the same statuses, which later attempts do not change."""
        return self

    def __len__(self) -> int:
        return len(self.explicit)

    def __getitem__(self, node_name: str) -> Status:
        return self.explicit.get(node_name, self.absent)

    def select_rows(self, code: Code, nodes: NodeTable, order: RowArray) -> RowArray:
        """Return the rows of the cluster with exactly this status code, in the given order."""
        explicit, absent = self.explicit, self.absent
        rows = [row for row in order.tolist() if explicit.get(nodes[row].name, absent).code == code]
        return np.array(rows, dtype=np.int64)

    def counts(self) -> Mapping[Status, int]:
        """Return every distinct explicit status, and how many nodes have it."""
        return Counter(self.explicit.values())

    def examples(self, status: Status, limit: int) -> list[str]:
        """Return the names of a few nodes with an explicit status."""
        return [name for name, explicit in self.explicit.items() if explicit == status][:limit]

    def reasons(self, node_count: int) -> Counter[str]:
        """Count every reason over all nodes of the cluster."""
        reason_counts, counts = Counter[str](), self.counts()
        for status, count in (*counts.items(), (self.absent, node_count - sum(counts.values()))):
            for reason in status.reasons:
                reason_counts[reason] += count
        return +reason_counts

    def grouped(self, node_count: int, examples: int) -> list[StatusGroup]:
        """Group nodes by status, the most common first, with the names of a few nodes."""
        groups = [
            StatusGroup(status, count, tuple(self.examples(status, examples)))
            for status, count in self.counts().items()
        ]
        remaining_count = node_count - sum(group.count for group in groups)
        if remaining_count > 0 and self.absent.reasons:
            groups.append(StatusGroup(self.absent, remaining_count))
        return sorted(groups, key=lambda group: -group.count)

    def histogram(self, node_count: int) -> str:
        """Write the counted reasons as :func:`histogram` does."""
        return histogram(self.reasons(node_count))


def histogram(reasons: Mapping[str, int]) -> str:
    """Format counted reasons as upstream does: sorted as text, so that "10 x" precedes "2 y".

    >>> histogram({"y": 2, "x": 10})
    '10 x, 2 y'
    """
    return ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
