"""Judging and rating from nothing: every plugin asked afresh. Standing answers must agree with this to the row."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from moorage.api.pod import Pod
from moorage.engine.boundary import ask, failure, require_status
from moorage.engine.judgement import IdArray, Statuses, checked_verdict, filter_error, rejection_numbers
from moorage.engine.profile import Profile
from moorage.errors import PluginError
from moorage.framework.cycle import CycleState
from moorage.framework.nodeinfo import NodeInfo
from moorage.framework.nodetable import NodeTable
from moorage.framework.plugin import FilterPlugin, PreScorePlugin, ScorePlugin
from moorage.framework.status import MAX_NODE_SCORE, MIN_NODE_SCORE, BoolArray, Code, IntArray, Status


def judge_node(filters: Iterable[FilterPlugin], cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
    """Judge one node by all filters in order; the first that objects is the one that counts."""
    for plugin in filters:
        if plugin.name in cycle.skipped_filters:
            continue
        try:
            status = plugin.filter(cycle, pod, node)
        except Exception as error:
            raise PluginError(plugin.name, f'running "{plugin.name}" filter plugin: {error}') from error
        if status is not None and status.code != Code.SUCCESS:
            if not status.is_rejection:
                raise filter_error(plugin.name, status)
            return status.by(plugin.name)
    return None


def judge_nodes(
    filters: Iterable[FilterPlugin], cycle: CycleState, pod: Pod, nodes: NodeTable, statuses: Statuses
) -> IdArray:
    """Judge all nodes of a window; the result numbers, for each, the status of the first plugin that objects."""
    numbers: IdArray = np.zeros(len(nodes), dtype=np.int32)
    alive: BoolArray = np.ones(len(nodes), dtype=np.bool_)
    for plugin in filters:
        if plugin.name not in cycle.skipped_filters:
            apply_filter(plugin, cycle, pod, nodes, statuses, numbers, alive)
    return numbers


def apply_filter(
    plugin: FilterPlugin,
    cycle: CycleState,
    pod: Pod,
    nodes: NodeTable,
    statuses: Statuses,
    numbers: IdArray,
    alive: BoolArray,
) -> None:
    """Let one more filter turn nodes down, among those still alive."""
    try:
        verdict = plugin.filter_nodes(cycle, pod, nodes.among(alive))
    except PluginError:
        raise
    except Exception as error:
        raise PluginError(plugin.name, f'running "{plugin.name}" filter plugin: {error}') from error
    for rejected, number in rejection_numbers(
        checked_verdict(plugin, verdict, alive), plugin.name, alive.copy(), statuses
    ):
        numbers[rejected] = number
        alive &= ~rejected


def run_pre_score(plugin: PreScorePlugin, cycle: CycleState, pod: Pod, nodes: NodeTable) -> None:
    """Ask one pre-score plugin; it may skip its scoring, and anything else but success is an error."""
    status = require_status("PreScore", plugin, ask("PreScore", plugin, plugin.pre_score, cycle, pod, nodes))
    if status is not None:
        if status.code != Code.SKIP:
            raise failure("PreScore", plugin.name, status.message)
        cycle.skipped_scores.add(plugin.name)


def raw_scores(plugin: ScorePlugin, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
    """Ask one plugin to rate a window, and refuse what is not one integer per node."""
    scores = ask("Score", plugin, plugin.score_nodes, cycle, pod, nodes)
    if not isinstance(scores, np.ndarray) or scores.shape != (len(nodes),):
        shape = scores.shape if isinstance(scores, np.ndarray) else type(scores).__name__
        raise failure("Score", plugin.name, f"score_nodes answered {shape} for a window of {len(nodes)} nodes")
    if scores.dtype.kind == "f" and not np.isfinite(scores).all():
        raise failure("Score", plugin.name, "a score is not a number")
    if scores.dtype.kind not in "iu":
        raise failure("Score", plugin.name, f"scores must be integers, not {scores.dtype}")
    return scores.astype(np.int64, copy=False)


def normalized_scores(plugin: ScorePlugin, cycle: CycleState, pod: Pod, nodes: NodeTable, scores: IntArray) -> IntArray:
    """Have a plugin bring its scores into range, and refuse those that are not."""
    normalized = ask("Score", plugin, plugin.normalize_scores, cycle, pod, nodes, scores)
    check_range(plugin.name, normalized)
    return normalized


def check_range(plugin: str, scores: IntArray) -> None:
    """Refuse scores outside 0…100 in upstream's words."""
    if len(scores) and (int(scores.min()) < MIN_NODE_SCORE or int(scores.max()) > MAX_NODE_SCORE):
        bad = next(int(s) for s in scores if not MIN_NODE_SCORE <= s <= MAX_NODE_SCORE)
        text = f"returns an invalid score {bad}, it should in the range of [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}]"
        raise PluginError(plugin, f'plugin "{plugin}" {text} after normalizing')


@dataclass(slots=True)
class PluginScores:
    """What one plugin said of each node of a window."""

    plugin: str
    weight: int
    raw: IntArray
    normalized: IntArray


@dataclass(slots=True)
class Ratings:
    """All scores of a window, and their weighted sums."""

    totals: IntArray
    by_plugin: list[PluginScores] = field(default_factory=list)


def rate_nodes(profile: Profile, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Ratings:
    """Rate the feasible nodes by all score plugins; with none configured, every node is worth 1."""
    if not profile.score:
        return Ratings(np.ones(len(nodes), dtype=np.int64))
    for plugin in profile.pre_score:
        run_pre_score(plugin, cycle, pod, nodes)
    ratings = Ratings(np.zeros(len(nodes), dtype=np.int64))
    for scorer in profile.score:
        if scorer.name not in cycle.skipped_scores:
            raw = raw_scores(scorer, cycle, pod, nodes)
            normalized = normalized_scores(scorer, cycle, pod, nodes, raw.copy())
            weight = profile.weights[scorer.name]
            ratings.by_plugin.append(PluginScores(scorer.name, weight, raw, normalized))
            ratings.totals += weight * normalized
    return ratings
