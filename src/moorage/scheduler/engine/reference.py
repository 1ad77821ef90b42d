"""Filtering and scoring without caches. Cached results must be equal, row by row.

The cross-check compares with it, explanations use it, and a cycle falls back to it after an error of a plugin.
"""

import numpy as np
from msgspec import Struct, field

from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.extension_points import check_range, normalize, pre_filter, pre_score, score_nodes
from moorage.scheduler.engine.profile import Profile
from moorage.scheduler.engine.statuses import IdArray, StatusTable, rejected_rows
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import MAX_NODE_SCORE, MIN_NODE_SCORE, BoolArray, Code, IntArray, Status


class PluginScores(Struct):
    """The scores of one plugin for each node of a window."""

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
    """Filter a window; the result has, for each node, the id of the status of the first plugin that rejects it."""
    status_ids: IdArray = np.zeros(len(nodes), dtype=np.int32)
    alive: BoolArray = np.ones(len(nodes), dtype=np.bool_)
    for plugin in profile.filter:
        if plugin.name not in cycle.skipped_filters:
            for rejected, number in rejected_rows(plugin, cycle, pod, nodes, table, alive):
                status_ids[rejected] = number
                alive = alive & ~rejected
    return status_ids


def score_all(profile: Profile, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Scores:
    """Score the feasible nodes by all score plugins; with none configured, every node is worth 1."""
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
        check_range(scored[at].plugin, scored[at].normalized[row : row + 1])
    for item in scored:
        scores.totals += np.multiply(item.normalized, item.weight, dtype=np.int64)
    return scores
