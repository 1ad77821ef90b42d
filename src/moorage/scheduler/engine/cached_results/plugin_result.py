"""The cached results of a plugin for every row, per signature of that plugin.

Each remembers the position in a change log up to which it is valid. Its next use evaluates the rows that changed
since. :mod:`moorage.scheduler.engine.cached_results.combined_result` combines them.
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
"""Up to this number of changed rows, single calls are cheaper than a window of the node table."""

NO_STATE: Final = CycleState()
"""The state of a plugin before its pre-filter was called."""
NO_STATUS_IDS: Final = np.zeros(0, dtype=np.int32)
NO_TOTALS: Final = np.zeros(0, dtype=np.int64)


class CachingPlugin(Struct, frozen=True):
    """A plugin with cached results: everything that its results have in common. ``log`` has the relevant changes."""

    plugin: Plugin
    pre_filters: bool
    pre_scores: bool
    log: ChangeLog[int]

    @classmethod
    def make(cls, plugin: Plugin, profile: Profile, columns: NodeColumns) -> "CachingPlugin":
        """Select the change log that the results of a plugin depend on."""
        log = columns.select_log(plugin.depends_on)
        return cls(plugin, plugin.name in profile.pre_filtering, plugin.name in profile.pre_scoring, log)


class PluginResult:
    """The results of a plugin for one signature: its state, its verdicts and its raw scores, row by row.

    Verdicts and scores are computed at first use. The log contains only the changes that the plugin depends on: a
    plugin that looks at nodes alone is not called again because a pod was added.
    """

    def __init__(self, caching: CachingPlugin, table: StatusTable) -> None:
        self.plugin = caching.plugin
        self._pre_scores = caching.pre_scores
        self.state = NO_STATE if caching.pre_filters else CycleState()
        self.is_prepared = not caching.pre_filters
        """Whether ``pre_filter`` was called, in the order of the profile."""
        self.is_success = self.is_prepared
        """Whether it was called and returned success or skip."""
        self.pre_filtered: PreFilterAnswer = None
        self.skips_filter = False
        self.skips_score = False
        self.status_ids: IdArray = NO_STATUS_IDS
        """Empty until the first rejection."""
        # These bounds only widen until all rows are recomputed: they may be too wide, but never too narrow.
        self.rejects_any = False
        self.raw: IntArray = NO_TOTALS
        self.low = self.high = 0
        self.normalized_constant: tuple[int, int] | None = None
        """A raw score shared by all rows, and its normalized value, for plugins that normalize by value alone."""
        self.version = 0
        """Incremented whenever a raw score changes. Several combined results may share this one."""
        self.generation = 0
        """Incremented whenever all raw scores are recomputed, into another array."""
        self._table = table
        self.log = caching.log
        self._filtered_to: int | None = None
        self.scored_to: int | None = None

    def pre_filter(self, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
        """Return the result of the plugin's pre-filter, which is called once. Errors are not cached."""
        if not self.is_prepared:
            assert isinstance(self.plugin, PreFilterPlugin)
            state = CycleState()
            result = pre_filter(self.plugin, state, pod, nodes)
            self.skips_filter = isinstance(result, Status) and result.code == Code.SKIP
            if self.skips_filter:
                state.skipped_filters.add(self.plugin.name)
            self.state, self.pre_filtered, self.is_prepared = state, result, True
            self.is_success = result is None or self.skips_filter
        return self.pre_filtered

    def filter(self, pod: Pod, nodes: NodeTable) -> None:
        """Update the verdicts."""
        if self._filtered_to == self.log.position:
            return
        plugin = self.plugin
        assert isinstance(plugin, FilterPlugin)
        rows = self._dirty_rows(self._filtered_to, nodes)
        if rows is None:
            self._filter_window(plugin, pod, nodes, None)
        elif len(rows) <= FEW_ROWS:
            for row in rows:
                status = filter_node((plugin,), self.state, pod, nodes[row])
                if status is not None:
                    self._reject_some(len(nodes))
                if self.rejects_any:
                    self.status_ids[row] = FEASIBLE if status is None else self._table.number(status)
        else:
            self._filter_window(plugin, pod, nodes, np.array(rows))
        # Last: after an error of the plugin the rows are re-evaluated.
        self._filtered_to = self.log.position

    def _filter_window(self, plugin: FilterPlugin, pod: Pod, nodes: NodeTable, rows: RowArray | None) -> None:
        """Filter several rows in one call (``None``: all)."""
        window = nodes if rows is None else nodes.take(rows)
        rejections: Iterator[tuple[BoolArray, int]] = iter(())
        if plugin.name not in self.state.skipped_filters:
            rejections = rejected_rows(plugin, self.state, pod, window, self._table, None)
        if rows is None:
            self.rejects_any = False
        elif self.rejects_any:
            self.status_ids[rows] = FEASIBLE
        for rejected, number in rejections:
            self._reject_some(len(nodes))
            self.status_ids[rejected if rows is None else rows[rejected]] = number

    def _reject_some(self, size: int) -> None:
        """Allocate the verdicts before the first rejection is written."""
        if not self.rejects_any:
            self.status_ids = np.zeros(size, dtype=np.int32)
            self.rejects_any = True

    def pre_score(self, pod: Pod, nodes: NodeTable) -> None:
        """Run the plugin's pre-score, if the profile has it."""
        if self._pre_scores:
            assert isinstance(self.plugin, PreScorePlugin)
            pre_score(self.plugin, self.state, pod, nodes)
            self.skips_score = self.plugin.name in self.state.skipped_scores

    def score(self, pod: Pod, nodes: NodeTable) -> None:
        """Update the raw scores."""
        if self.scored_to == self.log.position:
            return
        plugin = self.plugin
        assert isinstance(plugin, ScorePlugin)
        rows = self._dirty_rows(self.scored_to, nodes)
        if self.scored_to is None:
            self.pre_score(pod, nodes)
        if rows is None and not self.skips_score:
            raw = score_nodes(plugin, self.state, pod, nodes)
            # 32 bits promise scores from 0 to 100, so the rows need no scan for the extremes.
            if raw.dtype == np.int32:
                self.raw, self.low, self.high = raw, MIN_NODE_SCORE, MAX_NODE_SCORE
            else:
                # A copy: single rows are overwritten below, and the plugin may keep its array.
                self.raw = raw = np.array(raw)
                self.low, self.high = int(np.minimum.reduce(raw)), int(np.maximum.reduce(raw))
            self.version += 1
            self.generation += 1
        elif rows and not self.skips_score:
            if len(rows) > FEW_ROWS:
                values = score_nodes(plugin, self.state, pod, nodes.take(np.array(rows))).tolist()
                for row, value in zip(rows, values, strict=True):
                    self._write_score(row, value)
            else:
                for row in rows:
                    self._write_score(row, score_node(plugin, self.state, pod, nodes[row]))
        self.scored_to = self.log.position

    def _write_score(self, row: int, value: int) -> None:
        if self.raw.item(row) == value:
            return
        if value < self.low:
            self.low = value
        elif value > self.high:
            self.high = value
        if not MIN_NODE_SCORE <= value <= MAX_NODE_SCORE and self.raw.dtype == np.int32:
            self.raw = self.raw.astype(np.int64)
            self.generation += 1
        self.raw[row] = value
        self.version += 1

    def _dirty_rows(self, position: int | None, nodes: NodeTable) -> list[int] | None:
        """Return the rows to re-evaluate, or ``None`` for all of them."""
        if position is None:
            return None
        rows = self.log.since(position)
        # None: the log no longer reaches back. More changes than rows: one call for all rows is cheaper.
        count = 0 if rows is None else len(rows)
        if rows is None or (count > FEW_ROWS and count > len(nodes)):
            return None
        # Rows repeat in the log, and each is evaluated once. The order does not matter but must be deterministic.
        return rows if count == 1 else list(dict.fromkeys(rows))
