"""What stands in a pod's way on each node: every plugin's answer, not only the first one's.

A scheduler stops at the first plugin that rejects a node. To know what would help, one has to know whether that plugin
was the only one.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np
from msgspec import Struct, field

from moorage.api.pod import Pod
from moorage.engine.cycle.found import ExtendedNodes
from moorage.engine.extension_points import pre_filter
from moorage.engine.outcomes import NOT_EXAMINED
from moorage.engine.statuses import StatusTable, rejected_rows
from moorage.errors import PluginError
from moorage.framework.cycle import CycleState
from moorage.framework.nodetable import NodeTable, RowArray
from moorage.framework.plugin import NodeNames
from moorage.framework.status import Code, Status
from moorage.whatif.session import Attempt, Session

NARROWED: Final = Status.unresolvable("node(s) didn't match the names that the pod asks for")


class Obstacles(Struct):
    """Per row the statuses with which plugins reject it; ``everywhere`` are those that reject the pod as such."""

    rows: list[dict[str, Status]]
    everywhere: dict[str, Status] = field(default_factory=dict)

    def plugins(self) -> list[str]:
        """Name everybody who rejects something, in the order in which they are met."""
        met = dict.fromkeys(self.everywhere)
        for row in self.rows:
            met.update(dict.fromkeys(row))
        return list(met)

    def of(self, row: int) -> dict[str, Status]:
        """Return what stands in the way on one row, with what does everywhere."""
        return {**self.everywhere, **self.rows[row]}

    def where_only(self, names: Iterable[str], *, but_for_preemption: bool = False) -> list[int]:
        """Find the rows on which nobody else stands in the way; preemption may clear what is not unresolvable."""
        allowed = frozenset(names)
        if not self._are_in(self.everywhere, allowed, but_for_preemption=False):
            return []
        return [
            row
            for row, found in enumerate(self.rows)
            if self._are_in(found, allowed, but_for_preemption=but_for_preemption)
        ]

    @staticmethod
    def _are_in(found: dict[str, Status], allowed: frozenset[str], *, but_for_preemption: bool) -> bool:
        return all(
            name in allowed or (but_for_preemption and status.code == Code.UNSCHEDULABLE)
            for name, status in found.items()
        )


def find_obstacles(session: Session, pod: Pod, attempt: Attempt) -> Obstacles:
    """Ask every filter about every node."""
    profile, nodes = session.cycle_of(pod).profile, session.scheduler.cache.nodes
    obstacles = Obstacles([{} for _ in range(len(nodes))])
    state = CycleState()
    skipped: set[str] = set()
    for preparing in profile.pre_filter:
        try:
            said = pre_filter(preparing, state, pod, nodes)
        except PluginError as error:
            said = Status.error(str(error))
        if isinstance(said, NodeNames):
            _narrow(obstacles, nodes, said, preparing.name)
        elif isinstance(said, Status):
            skipped.add(preparing.name)
            if said.code == Code.SKIP:
                state.skipped_filters.add(preparing.name)
            else:
                obstacles.everywhere[preparing.name] = said.by(preparing.name)
    table = StatusTable()
    for plugin in profile.filter:
        if plugin.name in skipped:
            continue
        try:
            for rejected, number in rejected_rows(plugin, state, pod, nodes, table, None):
                status = table[number]
                assert status is not None
                for row in np.flatnonzero(rejected):
                    obstacles.rows[int(row)].setdefault(plugin.name, status)
        except PluginError as error:
            obstacles.everywhere.setdefault(plugin.name, Status.error(str(error)).by(plugin.name))
    _add_nominated(obstacles, nodes, attempt)
    return obstacles


def _narrow(obstacles: Obstacles, nodes: NodeTable, said: NodeNames, plugin: str) -> None:
    for row, info in enumerate(nodes):
        if info.name not in said.names:
            obstacles.rows[row].setdefault(plugin, NARROWED.by(plugin))


def _add_nominated(obstacles: Obstacles, nodes: NodeTable, attempt: Attempt) -> None:
    """Add what only the attempt itself met: nodes that others are nominated to, and what extenders said."""
    found = attempt.found.found if isinstance(attempt.found, ExtendedNodes) else attempt.found
    if found is None or found.diagnosis.pre_filter is not None:
        return
    statuses = found.diagnosis.statuses
    for row, met in enumerate(obstacles.rows):
        if not met and not attempt.fits_on(row):
            status = statuses[nodes[row].name]
            if status is not NOT_EXAMINED:
                met[status.plugin] = status


def rows_of(names: Iterable[str], nodes: NodeTable) -> RowArray:
    """Look the rows of some nodes up."""
    found = (nodes.find(name) for name in names)
    return np.array([info.row for info in found if info is not None], dtype=np.int64)
