"""The cards of all nodes as columns, updated for changed nodes and reports."""

import numpy as np

from moorage import Handle, IntArray, Lister, NodeInfo, NodeTable, Status, Verdict
from yoda.cards import FACTS, SUMS, CardReader, Cards, collect_card_facts, sum_card_facts
from yoda.scv import Report, Scv


class CardColumns:
    """Facts and sums by row. A row without a valid report is all zeros and has a status with the reason."""

    def __init__(self, handle: Handle, scvs: Lister[Scv], reader: CardReader) -> None:
        self._handle = handle
        self._scvs = scvs
        self._reader = reader
        self._seen: tuple[int, int] | None = None
        self._facts = np.zeros((FACTS, 0, 0), dtype=np.int64)
        self._sums = np.zeros((SUMS, 0), dtype=np.int64)
        self._unknown: dict[int, Status] = {}
        self._reported: tuple[int, Cards] | None = None

    def window(self, nodes: NodeTable) -> tuple[Cards, Verdict]:
        """Return the cards of the nodes in a window, and a verdict that rejects nodes without known cards."""
        self._follow()
        facts, sums = self._facts, self._sums
        if not nodes.shows_all:
            facts, sums = facts[:, nodes.rows], sums[:, nodes.rows]
        unknown = ((index, self._unknown.get(row)) for index, row in enumerate(nodes.rows.tolist()))
        return Cards(facts, sums), Verdict.from_rows(len(nodes), unknown if self._unknown else ())

    def of(self, node: NodeInfo) -> Cards | Status:
        """Return the cards of one node, or the reason why they are unknown."""
        self._follow()
        if node.row in self._unknown:
            return self._unknown[node.row]
        return Cards(self._facts[:, node.row], self._sums[:, node.row])

    @property
    def reported(self) -> Cards:
        """The cards of all valid reports, with or without a node, unchanged."""
        if self._reported is None or self._reported[0] != self._scvs.version:
            reports = [scv.report for scv in self._scvs.list()]
            valid = [report for report in reports if isinstance(report, Report)] or [Report()]
            width = max(len(report.card_list) for report in valid)
            facts = np.stack([collect_card_facts(report, width) for report in valid], axis=1)
            sums = np.stack([sum_card_facts(report, 0) for report in valid], axis=1)
            self._reported = self._scvs.version, Cards(facts, sums)
        return self._reported[1]

    def _follow(self) -> None:
        nodes = self._handle.nodes
        now = nodes.position, self._scvs.version
        if self._seen == now:
            return
        rows = self._changed_rows(nodes)
        if len(nodes) != self._facts.shape[1]:
            self._resize(len(nodes), self._facts.shape[2])
        for row in range(len(nodes)) if rows is None else rows:
            self._read(row, nodes[row])
        self._seen = now

    def _changed_rows(self, nodes: NodeTable) -> set[int] | None:
        """Return the rows to update; ``None`` for all."""
        if self._seen is None:
            return None
        moved, reported = nodes.changed_since(self._seen[0]), self._scvs.changed_since(self._seen[1])
        if moved is None or reported is None:
            return None
        changed = {node.row for name in reported if (node := nodes.find(name)) is not None}
        return changed | {row for row in moved if row < len(nodes)}

    def _read(self, row: int, node: NodeInfo) -> None:
        reading = self._reader.read_facts(node, self._facts.shape[2])
        if isinstance(reading, Status):
            self._unknown[row] = reading
            self._facts[:, row] = self._sums[:, row] = 0
            return
        self._unknown.pop(row, None)
        facts, self._sums[:, row] = reading
        if facts.shape[1] > self._facts.shape[2]:
            self._resize(self._facts.shape[1], facts.shape[1])
        self._facts[:, row] = facts

    def _resize(self, rows: int, width: int) -> None:
        self._facts = _resized(self._facts, (FACTS, rows, width))
        self._sums = _resized(self._sums, (SUMS, rows))
        self._unknown = {row: status for row, status in self._unknown.items() if row < rows}


def _resized(array: IntArray, shape: tuple[int, ...]) -> IntArray:
    """Return a larger or smaller array with the overlapping part of the old one."""
    new = np.zeros(shape, dtype=np.int64)
    common = tuple(slice(min(sizes)) for sizes in zip(array.shape, shape, strict=True))
    new[common] = array[common]
    return new
