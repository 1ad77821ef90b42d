"""What one plugin that keeps its answers says of every row, per signature of that plugin.

It remembers the position in a change log up to which it is true; who asks next has the rows looked at again that
changed since. :mod:`moorage.scheduler.engine.answers.standing` combines such answers.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from msgspec import Struct

from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.extension_points import filter_node, pre_filter, pre_score, score_node, score_nodes
from moorage.scheduler.engine.profile import Profile
from moorage.scheduler.engine.statuses import FEASIBLE, IdArray, StatusTable, rejected_rows
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.nodetable import NodeTable, RowArray
from moorage.scheduler.framework.plugin import (
    DependsOn,
    FilterPlugin,
    Plugin,
    PreFilterAnswer,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
)
from moorage.scheduler.framework.status import MAX_NODE_SCORE, MIN_NODE_SCORE, BoolArray, Code, IntArray, Status
from moorage.scheduler.state.cache import NodeColumns
from moorage.scheduler.state.objects import ChangeLog

FEW_ROWS: Final = 6
"""Up to so many changed rows it is cheaper to go node by node than to open a window."""

NO_STATE: Final = CycleState()
"""What a plugin has stored before its pre-filter was asked."""
NO_STATUS_IDS: Final = np.zeros(0, dtype=np.int32)
NO_TOTALS: Final = np.zeros(0, dtype=np.int64)


class KeepingPlugin(Struct, frozen=True):
    """A plugin that keeps its answers: what is the same for all of them. ``log`` has the changes they depend on."""

    plugin: Plugin
    pre_filters: bool
    pre_scores: bool
    log: ChangeLog[int]


def keeper_of(plugin: Plugin, profile: Profile, columns: NodeColumns) -> KeepingPlugin:
    """Find out what answers of a plugin have in common."""
    match plugin.depends_on:
        case DependsOn.NODE:
            log = columns.node_changes
        case DependsOn.REQUESTS:
            log = columns.resource_changes
        case _:
            log = columns.changes
    return KeepingPlugin(plugin, plugin.name in profile.pre_filtering, plugin.name in profile.pre_scoring, log)


class PluginAnswer:
    """What one plugin that goes row by row says to one signature: what it prepared, its verdicts, its raw scores.

    Verdicts and scores are computed when first asked for. The log it follows is that of what the plugin depends on:
    one that looks at nodes alone is not asked again because a pod came.
    """

    def __init__(self, keeper: KeepingPlugin, table: StatusTable) -> None:
        self.plugin = keeper.plugin
        self._pre_scores = keeper.pre_scores
        self.cycle = NO_STATE if keeper.pre_filters else CycleState()
        self.is_prepared = not keeper.pre_filters
        """Whether ``pre_filter`` was asked, in the turn that the plugin has in the profile."""
        self.is_quiet = self.is_prepared
        """Whether it was, and said no more than "go on"."""
        self.pre_filtered: PreFilterAnswer = None
        self.skips_filter = False
        self.skips_score = False
        self.status_ids: IdArray = NO_STATUS_IDS
        """None as long as nothing was rejected."""
        # These three only widen until all rows are computed again: they may be too cautious, never wrong.
        self.rejects_any = False
        self.raw: IntArray = NO_TOTALS
        self.low = self.high = 0
        self.normalized_constant: tuple[int, int] | None = None
        """A raw score that all rows had, and what normalising made of it, for plugins that go by the values alone."""
        self.version = 0
        """Grows whenever a raw score changes: several answers may share this one."""
        self.generation = 0
        """Grows whenever all raw scores are computed anew, into another array."""
        self._table = table
        self.log = keeper.log
        self._filtered_to: int | None = None
        self.scored_to: int | None = None

    def pre_filter(self, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
        """Return what the plugin's pre-filter says, asking it the first time; an error is not remembered."""
        if not self.is_prepared:
            assert isinstance(self.plugin, PreFilterPlugin)
            cycle = CycleState()
            answer = pre_filter(self.plugin, cycle, pod, nodes)
            self.skips_filter = isinstance(answer, Status) and answer.code == Code.SKIP
            if self.skips_filter:
                cycle.skipped_filters.add(self.plugin.name)
            self.cycle, self.pre_filtered, self.is_prepared = cycle, answer, True
            self.is_quiet = answer is None or self.skips_filter
        return self.pre_filtered

    def filter(self, pod: Pod, nodes: NodeTable) -> None:
        """Bring the verdicts up to date."""
        if self._filtered_to == self.log.position:
            return
        plugin = self.plugin
        assert isinstance(plugin, FilterPlugin)
        rows = self._dirty_rows(self._filtered_to, nodes)
        if rows is None:
            self._filter_window(plugin, pod, nodes, None)
        elif len(rows) <= FEW_ROWS:
            for row in rows:
                status = filter_node((plugin,), self.cycle, pod, nodes[row])
                if status is not None:
                    self._reject_some(len(nodes))
                if self.rejects_any:
                    self.status_ids[row] = FEASIBLE if status is None else self._table.number(status)
        else:
            self._filter_window(plugin, pod, nodes, np.array(rows))
        # Last: after a plugin's error the rows are asked about again.
        self._filtered_to = self.log.position

    def _filter_window(self, plugin: FilterPlugin, pod: Pod, nodes: NodeTable, rows: RowArray | None) -> None:
        """Filter some rows at once (``None``: all)."""
        window = nodes if rows is None else nodes.take(rows)
        found: Iterator[tuple[BoolArray, int]] = iter(())
        if plugin.name not in self.cycle.skipped_filters:
            found = rejected_rows(plugin, self.cycle, pod, window, self._table, None)
        if rows is None:
            self.rejects_any = False
        elif self.rejects_any:
            self.status_ids[rows] = FEASIBLE
        for rejected, number in found:
            self._reject_some(len(nodes))
            self.status_ids[rejected if rows is None else rows[rejected]] = number

    def _reject_some(self, size: int) -> None:
        """Have verdicts to write to: before the first rejection there are none."""
        if not self.rejects_any:
            self.status_ids = np.zeros(size, dtype=np.int32)
            self.rejects_any = True

    def pre_score(self, pod: Pod, nodes: NodeTable) -> None:
        """Run the plugin's pre-score, if the profile has it."""
        if self._pre_scores:
            assert isinstance(self.plugin, PreScorePlugin)
            pre_score(self.plugin, self.cycle, pod, nodes)
            self.skips_score = self.plugin.name in self.cycle.skipped_scores

    def score(self, pod: Pod, nodes: NodeTable) -> None:
        """Bring the raw scores up to date."""
        if self.scored_to == self.log.position:
            return
        plugin = self.plugin
        assert isinstance(plugin, ScorePlugin)
        rows = self._dirty_rows(self.scored_to, nodes)
        if self.scored_to is None:
            self.pre_score(pod, nodes)
        if rows is None and not self.skips_score:
            raw = score_nodes(plugin, self.cycle, pod, nodes)
            if raw.dtype == np.int32:
                self.raw, self.low, self.high = raw, MIN_NODE_SCORE, MAX_NODE_SCORE
            else:
                self.raw = raw = np.array(raw)
                self.low, self.high = int(np.minimum.reduce(raw)), int(np.maximum.reduce(raw))
            self.version += 1
            self.generation += 1
        elif rows and not self.skips_score:
            self._score_rows(plugin, pod, nodes, rows)
        self.scored_to = self.log.position

    def _score_rows(self, plugin: ScorePlugin, pod: Pod, nodes: NodeTable, rows: list[int]) -> None:
        if len(rows) > FEW_ROWS:
            values = score_nodes(plugin, self.cycle, pod, nodes.take(np.array(rows))).tolist()
        else:
            values = [score_node(plugin, self.cycle, pod, nodes[row]) for row in rows]
        for row, value in zip(rows, values, strict=True):
            if self.raw[row] != value:
                if not MIN_NODE_SCORE <= value <= MAX_NODE_SCORE and self.raw.dtype == np.int32:
                    self.raw = self.raw.astype(np.int64)
                    self.generation += 1
                self.raw[row] = value
                if value < self.low:
                    self.low = value
                elif value > self.high:
                    self.high = value
                self.version += 1

    def _dirty_rows(self, position: int | None, nodes: NodeTable) -> list[int] | None:
        """Return the rows to look at again; ``None`` for all of them."""
        if position is None:
            return None
        rows = self.log.since(position)
        if rows is None or (len(rows) > FEW_ROWS and len(rows) > len(nodes)):
            return None
        return list(dict.fromkeys(rows))
