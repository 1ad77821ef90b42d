"""What one row-local plugin says of every row, shared by all pods that ask it the same."""

from typing import Final

import numpy as np

from moorage.api.pod import Pod
from moorage.engine.evaluation import judge_alone, judge_node, raw_score, raw_scores, run_pre_score
from moorage.engine.judgement import FEASIBLE, IdArray, Statuses
from moorage.engine.prefilter import ask_pre_filter
from moorage.engine.profile import Profile
from moorage.errors import PluginError
from moorage.framework.cycle import CycleState
from moorage.framework.nodetable import NodeTable
from moorage.framework.plugin import (
    FilterPlugin,
    Plugin,
    PreFilterAnswer,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
)
from moorage.framework.status import Code, IntArray, Status
from moorage.state.change_log import ChangeLog
from moorage.state.node_columns import NodeColumns

FEW_ROWS: Final = 6
"""Up to so many changed rows it is cheaper to go node by node than to open a window."""


class PluginAnswer:
    """The standing answer of one plugin to one signature: what it prepared, its verdicts and its raw scores.

    Verdicts and scores are computed when first asked for, and brought up to date by the rows that changed since. A
    plugin that does not look at the pods of a node hears of changes of nodes only.
    """

    def __init__(self, plugin: Plugin, profile: Profile, columns: NodeColumns, statuses: Statuses) -> None:
        self.plugin = plugin
        self._pre_filters = plugin.name in profile.pre_filtering
        self._pre_scores = plugin.name in profile.pre_scoring
        self.cycle = CycleState()
        self.pre_filter: PreFilterAnswer | PluginError = None
        self.is_notable = False
        """Whether the pre-filter said more than "go on" or "skip", which the state already holds."""
        self.skips_filter = False
        self.skips_score = False
        self.numbers: IdArray = np.zeros(0, dtype=np.int32)
        self.rejects_any = False
        self.raw: IntArray = np.zeros(0, dtype=np.int64)
        self.low = self.high = 0
        self.levelled: tuple[int, int] | None = None
        """A raw score that all rows had, and what normalising made of it, for plugins that go by the values alone."""
        self.version = 0
        """Grows whenever a raw score changes: several answers may share this one."""
        self._columns = columns
        self._statuses = statuses
        self._log = _log_for(plugin, columns)
        self._judged_to: int | None = None
        self._rated_to: int | None = None

    def prepare(self, pod: Pod, nodes: NodeTable) -> None:
        """Run the plugin's pre-filter, if the profile has it, and remember what it said, be it an error."""
        if not self._pre_filters:
            return
        assert isinstance(self.plugin, PreFilterPlugin)
        try:
            self.pre_filter = ask_pre_filter(self.plugin, self.cycle, pod, nodes)
        except PluginError as error:
            self.pre_filter = error
        said = self.pre_filter
        self.skips_filter = isinstance(said, Status) and said.code == Code.SKIP
        self.is_notable = said is not None and not self.skips_filter
        if self.skips_filter:
            self.cycle.skipped_filters.add(self.plugin.name)

    def judge(self, pod: Pod, nodes: NodeTable) -> None:
        """Bring the verdicts up to date."""
        if self._judged_to == self._log.position:
            return
        plugin = self.plugin
        assert isinstance(plugin, FilterPlugin)
        rows = self._changed_since(self._judged_to, nodes)
        if rows is None:
            numbers = judge_alone(plugin, self.cycle, pod, nodes, self._statuses)
            self.rejects_any = numbers is not None
            self.numbers = np.zeros(len(nodes), dtype=np.int32) if numbers is None else numbers
        elif len(rows) <= FEW_ROWS:
            for row in rows:
                status = judge_node((plugin,), self.cycle, pod, nodes[row])
                number = FEASIBLE if status is None else self._statuses.number(status)
                self.numbers[row] = number
                self.rejects_any = self.rejects_any or number != FEASIBLE
        else:
            window = nodes.take(np.array(rows))
            numbers = judge_alone(plugin, self.cycle, pod, window, self._statuses)
            self.numbers[rows] = FEASIBLE if numbers is None else numbers
            self.rejects_any = self.rejects_any or numbers is not None
        # Last: after a plugin's error the rows are asked about again.
        self._judged_to = self._log.position

    def prepare_scores(self, pod: Pod, nodes: NodeTable) -> None:
        """Run the plugin's pre-score, if the profile has it."""
        if self._pre_scores:
            assert isinstance(self.plugin, PreScorePlugin)
            run_pre_score(self.plugin, self.cycle, pod, nodes)
            self.skips_score = self.plugin.name in self.cycle.skipped_scores

    def rate(self, pod: Pod, nodes: NodeTable) -> None:
        """Bring the raw scores up to date."""
        if self._rated_to == self._log.position:
            return
        plugin = self.plugin
        assert isinstance(plugin, ScorePlugin)
        rows = self._changed_since(self._rated_to, nodes)
        if self._rated_to is None:
            self.prepare_scores(pod, nodes)
        if rows is None and not self.skips_score:
            self.raw = np.array(raw_scores(plugin, self.cycle, pod, nodes))
            self.low, self.high = int(np.minimum.reduce(self.raw)), int(np.maximum.reduce(self.raw))
            self.version += 1
        elif rows and not self.skips_score:
            self._rate_rows(plugin, pod, nodes, rows)
        self._rated_to = self._log.position

    def _rate_rows(self, plugin: ScorePlugin, pod: Pod, nodes: NodeTable, rows: list[int]) -> None:
        if len(rows) > FEW_ROWS:
            values = raw_scores(plugin, self.cycle, pod, nodes.take(np.array(rows))).tolist()
        else:
            values = [raw_score(plugin, self.cycle, pod, nodes[row]) for row in rows]
        for row, value in zip(rows, values, strict=True):
            if self.raw[row] != value:
                self.raw[row] = value
                if value < self.low:
                    self.low = value
                elif value > self.high:
                    self.high = value
                self.version += 1

    @property
    def constant(self) -> int | None:
        """The raw score that all rows have, if it is known to be one."""
        return self.low if self.low == self.high else None

    def _changed_since(self, position: int | None, nodes: NodeTable) -> list[int] | None:
        """Return the rows to look at again; ``None`` for all of them."""
        if position is None:
            return None
        rows = self._log.since(position)
        if rows is None or (len(rows) > FEW_ROWS and len(rows) > len(nodes)):
            return None
        return list(dict.fromkeys(rows))


def _log_for(plugin: Plugin, columns: NodeColumns) -> ChangeLog[int]:
    if not plugin.looks_at_pods:
        return columns.node_changes
    return columns.changes if plugin.looks_into_pods else columns.resource_changes
