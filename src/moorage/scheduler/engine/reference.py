"""Filtering and scoring without caches, and the comparison with cached results: they must be equal, row by row.

The cross-check compares with it, explanations use it, and a cycle falls back to it after an error of a plugin.
"""

from collections.abc import Callable, Mapping
from random import Random

import numpy as np
import structlog
from msgspec import Struct, field

from moorage.common.errors import MoorageError
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.extension_points import check_range, normalize, pre_filter, pre_score, score_nodes
from moorage.scheduler.engine.profile import Profile
from moorage.scheduler.engine.statuses import IdArray, StatusTable, rejected_rows
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.nodetable import NodeTable, RowArray
from moorage.scheduler.framework.status import MAX_NODE_SCORE, MIN_NODE_SCORE, BoolArray, Code, IntArray, Status

log = structlog.get_logger(__name__)


class PluginScores(Struct):
    """The scores of a plugin for each node of a window."""

    plugin: str
    weight: int
    raw: IntArray
    normalized: IntArray


class Scores(Struct):
    """All scores of a window, and their weighted sums."""

    totals: IntArray
    by_plugin: list[PluginScores] = field(default_factory=list)


def pre_filtered_cycle(profile: Profile, pod: Pod, nodes: NodeTable, group: CycleState | None = None) -> CycleState:
    """Run all pre-filters, regardless of their results, and return the resulting state."""
    cycle = CycleState()
    cycle.group = group
    for plugin in profile.pre_filter:
        result = pre_filter(plugin, cycle, pod, nodes)
        if isinstance(result, Status) and result.code == Code.SKIP:
            cycle.skipped_filters.add(plugin.name)
    return cycle


def filter_all(profile: Profile, cycle: CycleState, pod: Pod, nodes: NodeTable, table: StatusTable) -> IdArray:
    """Filter a window. The result has, for each node, the id of the status of the first plugin that rejects it."""
    status_ids: IdArray = np.zeros(len(nodes), dtype=np.int32)
    alive: BoolArray = np.ones(len(nodes), dtype=np.bool_)
    for plugin in profile.filter:
        if plugin.name not in cycle.skipped_filters:
            for rejected, number in rejected_rows(plugin, cycle, pod, nodes, table, alive):
                status_ids[rejected] = number
                alive = alive & ~rejected
    return status_ids


def score_all(profile: Profile, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Scores:
    """Score the feasible nodes by all score plugins. With none configured, every node is worth 1."""
    if not profile.score:
        return Scores(np.ones(len(nodes), dtype=np.int64))
    for preparer in profile.pre_score:
        pre_score(preparer, cycle, pod, nodes)
    scorers = [plugin for plugin in profile.score if plugin.name not in cycle.skipped_scores]
    raw = [score_nodes(plugin, cycle, pod, nodes) for plugin in scorers]
    scores = Scores(np.zeros(len(nodes), dtype=np.int64))
    for plugin, column in zip(scorers, raw, strict=True):
        normalized = normalize(plugin, cycle, pod, nodes, column.copy())
        scores.by_plugin.append(PluginScores(plugin.name, profile.weights[plugin.name], column, normalized))
    # Upstream reports the score out of range of the first such node, and there of the first plugin.
    scored = scores.by_plugin
    bad = [(item.normalized < MIN_NODE_SCORE) | (item.normalized > MAX_NODE_SCORE) for item in scored]
    if first_rows := [(int(mask.argmax()), at) for at, mask in enumerate(bad) if mask.any()]:
        row, at = min(first_rows)
        check_range(scorers[at], scored[at].normalized[row : row + 1])
    for item in scored:
        scores.totals += np.multiply(item.normalized, item.weight, dtype=np.int64)
    return scores


class CrossCheckError(MoorageError):
    """A cached result differs from the uncached one: a plugin's signature or forms are wrong."""


class CrossCheck:
    """Filters and scores without caches in a share of all cycles.

    A difference raises an error. In live cycles it is logged and counted, because a wrong plugin must not block pods.
    """

    def __init__(self, profile: Profile, share: float = 1.0, *, is_live: bool = False) -> None:
        self._profile = profile
        self._share = share
        self._is_live = is_live
        self._chance = Random()
        # Their cached results may differ from new ones until they expire.
        self._expiring = {p.name for p in profile.node_plugins if p.valid_for is not None}
        self._scores_expire = any(plugin.name in self._expiring for plugin in profile.score)
        self.differences = 0
        self.first: CrossCheckError | None = None
        """The first difference. The failed attempt may have been retried since."""

    def verdicts(
        self, pod: Pod, nodes: NodeTable, status_ids: IdArray, table: StatusTable, group: CycleState | None = None
    ) -> None:
        """Compare the statuses of each row."""
        if not self._is_due():
            return
        plain = StatusTable()
        cycle = pre_filtered_cycle(self._profile, pod, nodes, group)
        expected = filter_all(self._profile, cycle, pod, nodes, plain)
        for row in range(len(nodes)):
            cached, uncached = table[int(status_ids[row])], plain[int(expected[row])]
            if cached != uncached and self._expiring.isdisjoint({s.plugin for s in (cached, uncached) if s}):
                self._report(f"{pod.key} on {nodes[row].name}: cached status {cached}, uncached {uncached}")
                return

    def nominated(self, pod: Pod, cached: Mapping[int, int], compute: Callable[[], Mapping[int, int]]) -> None:
        """Compare the rows that are infeasible with their nominated pods."""
        if self._is_due() and cached != (expected := compute()):
            self._report(f"{pod.key}: with nominated pods cached {dict(cached)}, uncached {dict(expected)}")

    def totals(
        self, pod: Pod, nodes: NodeTable, rows: RowArray, totals: IntArray, group: CycleState | None = None
    ) -> None:
        """Compare the totals of the feasible rows."""
        if self._scores_expire or not self._is_due():
            return
        window = nodes.take(rows)
        cycle = pre_filtered_cycle(self._profile, pod, nodes, group)
        # Score plugins may use the state of their filters.
        filter_all(self._profile, cycle, pod, window, StatusTable())
        expected = score_all(self._profile, cycle, pod, window).totals
        for row, cached, uncached in zip(rows, totals, expected, strict=True):
            if cached != uncached:
                self._report(f"{pod.key} on {nodes[int(row)].name}: cached total {cached}, uncached {uncached}")
                return

    def _is_due(self) -> bool:
        return self._share >= 1 or self._chance.random() < self._share

    def _report(self, difference: str) -> None:
        self.differences += 1
        error = CrossCheckError(difference)
        self.first = self.first or error
        if not self._is_live:
            raise error
        log.error("cross-check found a difference", difference=difference)
