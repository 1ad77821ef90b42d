"""Judging and rating from nothing: every plugin asked afresh. Standing answers must agree with this to the row."""

from collections.abc import Iterable

import numpy as np
from msgspec import Struct, field

from moorage.api.pod import Pod
from moorage.engine.boundary import ask, failure, require_status
from moorage.engine.judgement import IdArray, Statuses, checked_verdict, rejection_numbers
from moorage.engine.prefilter import run_pre_filters
from moorage.engine.profile import Profile
from moorage.errors import PluginError
from moorage.framework.cycle import CycleState
from moorage.framework.nodeinfo import NodeInfo
from moorage.framework.nodetable import NodeTable
from moorage.framework.plugin import FilterPlugin, PreScorePlugin, ScorePlugin
from moorage.framework.status import MAX_NODE_SCORE, MIN_NODE_SCORE, SKIP, BoolArray, Code, IntArray, Status


def judge_node(filters: Iterable[FilterPlugin], cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
    """Judge one node by all filters in order; the first that objects is the one that counts."""
    for plugin in filters:
        if plugin.name in cycle.skipped_filters:
            continue
        status = ask("Filter", plugin, plugin.filter, cycle, pod, node)
        if status is None:
            continue
        if not isinstance(status, Status):
            raise failure("Filter", plugin.name, f"it answered {status!r}, which is neither a Status nor None")
        if status.code != Code.SUCCESS:
            if not status.is_rejection:
                raise failure("Filter", plugin.name, status.message)
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
            for rejected, number in rejected_by(plugin, cycle, pod, nodes, statuses, alive):
                numbers[rejected] = number
                alive = alive & ~rejected
    return numbers


def judge_alone(
    plugin: FilterPlugin, cycle: CycleState, pod: Pod, nodes: NodeTable, statuses: Statuses
) -> IdArray | None:
    """Judge all nodes of a window by one filter; ``None`` if it has nothing against any."""
    if plugin.name in cycle.skipped_filters:
        return None
    alive: BoolArray = np.ones(len(nodes), dtype=np.bool_)
    verdict = checked_verdict(plugin, ask("Filter", plugin, plugin.filter_nodes, cycle, pod, nodes), alive)
    if not verdict.rejections:
        return None
    numbers: IdArray = np.zeros(len(nodes), dtype=np.int32)
    for rejected, number in rejection_numbers(verdict, plugin.name, alive, statuses):
        numbers[rejected] = number
    return numbers if numbers.any() else None


def rejected_by(
    plugin: FilterPlugin, cycle: CycleState, pod: Pod, nodes: NodeTable, statuses: Statuses, alive: BoolArray
) -> Iterable[tuple[BoolArray, int]]:
    """Ask one filter about the rows still alive; return those it turns down, in masks that are disjoint, and why."""
    verdict = ask("Filter", plugin, plugin.filter_nodes, cycle, pod, nodes.among(alive))
    return rejection_numbers(checked_verdict(plugin, verdict, alive), plugin.name, alive, statuses)


def run_pre_score(plugin: PreScorePlugin, cycle: CycleState, pod: Pod, nodes: NodeTable) -> None:
    """Ask one pre-score plugin; it may skip its scoring, and anything else but success is an error."""
    said = ask("PreScore", plugin, plugin.pre_score, cycle, pod, nodes)
    if said is None:
        return
    # What most plugins say of most pods needs no checking.
    if said is not SKIP:
        status = require_status("PreScore", plugin, said)
        if status is None:
            return
        if status.code != Code.SKIP:
            raise failure("PreScore", plugin.name, status.message)
    cycle.skipped_scores.add(plugin.name)


def raw_score(plugin: ScorePlugin, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
    """Ask one plugin to rate one node, and refuse what is not an integer."""
    score = ask("Score", plugin, plugin.score, cycle, pod, node)
    if type(score) is int:
        return score
    if not isinstance(score, (int, np.integer)):
        raise failure("Score", plugin.name, f"scores must be integers, not {score!r}")
    return int(score)


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
    return scores if scores.dtype == np.int64 else scores.astype(np.int64)


def normalized_scores(plugin: ScorePlugin, cycle: CycleState, pod: Pod, nodes: NodeTable, scores: IntArray) -> IntArray:
    """Have a plugin bring its scores into range, and refuse those that are not."""
    normalized = _normalize(plugin, cycle, pod, nodes, scores)
    check_range(plugin.name, normalized)
    return normalized


def _normalize(plugin: ScorePlugin, cycle: CycleState, pod: Pod, nodes: NodeTable, scores: IntArray) -> IntArray:
    normalized = ask("NormalizeScore", plugin, plugin.normalize_scores, cycle, pod, nodes, scores)
    if not isinstance(normalized, np.ndarray) or normalized.shape != scores.shape or normalized.dtype.kind not in "iu":
        problem = f"it answered {normalized!r}, not one integer for each of {len(nodes)} nodes"
        raise failure("NormalizeScore", plugin.name, problem)
    return normalized


def check_range(plugin: str, scores: IntArray) -> None:
    """Refuse scores outside 0…100 in upstream's words."""
    if len(scores) and (np.minimum.reduce(scores) < MIN_NODE_SCORE or np.maximum.reduce(scores) > MAX_NODE_SCORE):
        bad = next(int(s) for s in scores if not MIN_NODE_SCORE <= s <= MAX_NODE_SCORE)
        text = f"returns an invalid score {bad}, it should in the range of [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}]"
        problem = f'plugin "{plugin}" {text} after normalizing'
        raise PluginError(plugin, f"applying score defaultWeights on Score plugins: {problem}")


class PluginScores(Struct):
    """What one plugin said of each node of a window."""

    plugin: str
    weight: int
    raw: IntArray
    normalized: IntArray


class Ratings(Struct):
    """All scores of a window, and their weighted sums."""

    totals: IntArray
    by_plugin: list[PluginScores] = field(default_factory=list)


def rate_nodes(profile: Profile, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Ratings:
    """Rate the feasible nodes by all score plugins; with none configured, every node is worth 1."""
    if not profile.score:
        return Ratings(np.ones(len(nodes), dtype=np.int64))
    for preparer in profile.pre_score:
        run_pre_score(preparer, cycle, pod, nodes)
    scorers = [plugin for plugin in profile.score if plugin.name not in cycle.skipped_scores]
    raw = [raw_scores(plugin, cycle, pod, nodes) for plugin in scorers]
    ratings = Ratings(np.zeros(len(nodes), dtype=np.int64))
    for plugin, scores in zip(scorers, raw, strict=True):
        normalized = _normalize(plugin, cycle, pod, nodes, scores.copy())
        ratings.by_plugin.append(PluginScores(plugin.name, profile.weights[plugin.name], scores, normalized))
    _require_range(ratings.by_plugin)
    for item in ratings.by_plugin:
        ratings.totals += item.weight * item.normalized
    return ratings


def _require_range(rated: list[PluginScores]) -> None:
    """Refuse scores out of range: those of the first node that has one, and there of the first plugin."""
    bad = [(item.normalized < MIN_NODE_SCORE) | (item.normalized > MAX_NODE_SCORE) for item in rated]
    places = [(int(mask.argmax()), at) for at, mask in enumerate(bad) if mask.any()]
    if places:
        place, at = min(places)
        check_range(rated[at].plugin, rated[at].normalized[place : place + 1])


def cycle_before_scoring(profile: Profile, pod: Pod, nodes: NodeTable, window: NodeTable) -> CycleState:
    """Do again what comes before scoring: score plugins may go by what their filters found out."""
    cycle = CycleState()
    run_pre_filters(profile.pre_filter, cycle, pod, nodes)
    judge_nodes(profile.filter, cycle, pod, window, Statuses())
    return cycle
