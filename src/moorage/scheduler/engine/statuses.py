"""The statuses of rejected nodes: one number per row, so that counting is a histogram."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final

import numpy as np
from msgspec import Struct, field

from moorage.common.arrays import NDArray, group_rows
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.extension_points import FILTER, FILTER_NODES, call_plugin, failure, invalid, wrong_result
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.faults import is_own
from moorage.scheduler.framework.node_statuses import NodeStatuses
from moorage.scheduler.framework.nodetable import NodeTable, RowArray
from moorage.scheduler.framework.plugin import FilterPlugin, Plugin
from moorage.scheduler.framework.status import BoolArray, Code, Status, Verdict, combined

FEASIBLE: Final = 0
IdArray = NDArray[np.int32]


class StatusTable:
    """The distinct statuses of an evaluation, numbered. Number 0 means that no plugin rejects."""

    def __init__(self) -> None:
        self._statuses: list[Status | None] = [None]
        self._ids: dict[Status, int] = {}
        self.plugins: set[str] = set()
        """The plugins of all statuses."""

    def __getitem__(self, number: int) -> Status | None:
        return self._statuses[number]

    def __len__(self) -> int:
        return len(self._statuses)

    def number(self, status: Status) -> int:
        """Return the number of a status, giving it one if it is new."""
        status_id = self._ids.get(status)
        if status_id is None:
            status_id = self._ids[status] = len(self._statuses)
            self._statuses.append(status)
            self.plugins.add(status.plugin)
        return status_id

    def written(self, status_ids: IdArray, rows: Mapping[int, Status]) -> IdArray:
        """Return a copy of a column with other statuses on some rows."""
        return with_ids(status_ids, {row: self.number(status) for row, status in rows.items()})


def with_ids(status_ids: IdArray, rows: Mapping[int, int]) -> IdArray:
    """Return a copy of a column with other numbers on some rows."""
    copy = status_ids.copy()
    copy[np.fromiter(rows, np.int64, len(rows))] = np.fromiter(rows.values(), np.int32, len(rows))
    return copy


class WithNominated(Struct):
    """The rows that are infeasible with their nominated pods, and the positions in the logs of rows and nominations."""

    status_ids: dict[int, int] = field(default_factory=dict)
    rows_position: int = -1
    nominations_position: int = -1
    unread: tuple[str, ...] = ()
    """Nodes that must be re-evaluated even without a change."""


def rejected_rows(
    plugin: FilterPlugin, cycle: CycleState, pod: Pod, nodes: NodeTable, table: StatusTable, alive: BoolArray | None
) -> Iterator[tuple[BoolArray, int]]:
    """Run one filter on a window. Yield disjoint masks of rejected rows, with the numbers of their statuses.

    Rows that are not ``alive`` were rejected before: the plugin's results for those do not count, not even errors.
    """
    if alive is not None:
        nodes = nodes.among(alive)
    verdict = call_plugin(FILTER, plugin, plugin.filter_nodes, cycle, pod, nodes)
    if isinstance(verdict, Verdict) and not verdict.rejections:
        return iter(())
    if alive is None:
        alive = np.ones(len(nodes), dtype=np.bool_)
    return _number(checked_verdict(plugin, verdict, alive), plugin.name, alive, table)


def checked_verdict(plugin: Plugin, verdict: object, rows: BoolArray) -> Verdict:
    """Raise for an invalid verdict on a window of this size, and for an Error within ``rows``."""
    size, point = len(rows), FILTER_NODES if is_own(getattr(type(plugin), "filter", None)) else FILTER
    if not isinstance(verdict, Verdict):
        raise invalid(FILTER_NODES, plugin, f"returned {type(verdict).__name__}: {FILTER_NODES.results}")
    for mask, status in verdict.rejections:
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
            kind = mask.dtype if isinstance(mask, np.ndarray) else type(mask).__name__
            raise invalid(FILTER_NODES, plugin, f"returned a mask of {kind}: a mask must be an array of bool")
        if mask.shape != (size,):
            raise invalid(FILTER_NODES, plugin, f"returned a mask of shape {mask.shape} for a window of {size} nodes")
        if not isinstance(status, Status):
            raise wrong_result(point, plugin, status)
        if not status.is_rejection and (mask & rows).any():
            if status.code == Code.ERROR:
                raise failure(FILTER, plugin.name, status.message)
            raise wrong_result(point, plugin, status)
    return verdict


def _number(verdict: Verdict, plugin: str, rows: BoolArray, table: StatusTable) -> Iterator[tuple[BoolArray, int]]:
    """Yield the rejections of a verdict within ``rows``. A row with several has all their reasons together."""
    rejections = [(mask, status) for mask, status in verdict.rejections if np.count_nonzero(mask)]
    if len(rejections) == 1:
        mask, status = rejections[0]
        yield mask & rows, table.number(status.by(plugin))
    elif rejections:
        groups, group_ids = group_rows([mask & rows for mask, _ in rejections], len(rows))
        for number, members in enumerate(groups):
            if (combined_status := combined([rejections[member][1] for member in members])) is not None:
                yield group_ids == number, table.number(combined_status.by(plugin))


class RowStatuses(NodeStatuses):
    """The statuses of an attempt: a number per row. Rows that were not examined have none."""

    def __init__(
        self, nodes: NodeTable, status_ids: IdArray, table: StatusTable, examined: BoolArray | None, absent: Status
    ) -> None:
        super().__init__({}, absent)
        self._nodes = nodes
        # FEASIBLE is 0: a product is found in half the time that a choice takes.
        self._status_ids = status_ids if examined is None else status_ids * examined
        self._table = table

    def kept(self) -> NodeStatuses:
        """Return the same statuses, which later attempts do not change."""
        return RowStatuses(self._nodes, self._status_ids.copy(), self._table, None, self.absent)

    @cached_property
    def _by_name(self) -> Mapping[str, Status]:
        rows = [int(row) for row in np.flatnonzero(self._status_ids)]
        statuses = [(row, self._table[int(self._status_ids[row])]) for row in rows]
        return {self._nodes[row].name: status for row, status in statuses if status is not None}

    @property
    def explicit(self) -> Mapping[str, Status]:
        """The nodes with an explicit status."""
        return self._by_name

    @property
    def explicit_count(self) -> int:
        """The number of nodes with an explicit status."""
        return int(np.count_nonzero(self._status_ids))

    def __getitem__(self, node_name: str) -> Status:
        info = self._nodes.find(node_name)
        return (None if info is None else self._table[int(self._status_ids[info.row])]) or self.absent

    def select_rows(self, code: Code, nodes: NodeTable, order: RowArray) -> RowArray:
        """Return the rows with exactly this status code, in the given order."""
        status_ids = range(len(self._table))
        is_wanted = np.array([(self._table[number] or self.absent).code == code for number in status_ids])
        rows: RowArray = order[is_wanted[self._status_ids[order]]]
        return rows

    def counts(self) -> Mapping[Status, int]:
        """Return every distinct explicit status, and how many nodes have it."""
        counts = np.bincount(self._status_ids, minlength=len(self._table))
        numbered = ((self._table[int(number)], int(counts[number])) for number in np.flatnonzero(counts))
        return {status: count for status, count in numbered if status is not None}

    def examples(self, status: Status, limit: int) -> list[str]:
        """Return the names of a few nodes with an explicit status."""
        rows = np.flatnonzero(self._status_ids == self._table.number(status))[:limit].tolist()
        return [self._nodes[row].name for row in rows]
