"""Calls of the extension points of groups, which single pods do not have, in upstream's words."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from moorage.common.errors import PluginError
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.extension_points import (
    Point,
    call_plugin,
    call_plugin_async,
    failure,
    invalid,
    require_status,
)
from moorage.scheduler.engine.profile import Profile
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.faults import described, shown
from moorage.scheduler.framework.group_plugins import (
    GroupPostFilterResult,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
)
from moorage.scheduler.framework.groups import DescribedGroup, GroupTree, Placement
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import MAX_NODE_SCORE, MIN_NODE_SCORE, Code, IntArray, Status

PLACEMENT_GENERATE: Final = Point("PlacementGenerate", python=("generate_placements", "placement_of"))
NO_PLACEMENTS: Final = "no feasible placements found"
PLACEMENT_FEASIBLE: Final = Point("PlacementFeasible", "failed to evaluate placement feasibility: {problem}")
PLACEMENT_SCORE: Final = Point(
    "PlacementScore",
    'running PlacementScore plugins: plugin "{plugin}" failed with: {problem}',
    python=("score_placement", "score_placements"),
)
NORMALIZE_PLACEMENT: Final = Point(
    "PlacementScoreExtensionNormalize",
    'running NormalizePlacementScore on PlacementScore plugins: plugin "{plugin}" failed with: {problem}',
    python=("normalize_placement_scores",),
)
POD_GROUP_POST_FILTER: Final = Point("PodGroupPostFilter", "{problem}", python=("post_filter_group",))


def placement_feasible(profile: Profile, group: GroupTree, remaining: int, scheduled: int) -> Status | None:
    """Return whether enough of a group is placed, or can be; without a plugin that decides, always.

    As in Permit, all plugins are called until one rejects the group. The group waits if any plugin waits. Groups that a
    plugin describes need their quorum as well, independent of this result.
    """
    waits: Status | None = None
    for plugin in profile.placement_feasible:
        answer = call_plugin(PLACEMENT_FEASIBLE, plugin, plugin.placement_feasible, group, remaining, scheduled)
        status = require_status(PLACEMENT_FEASIBLE, plugin, answer)
        if status is not None:
            if status.code is Code.ERROR:
                raise failure(PLACEMENT_FEASIBLE, plugin.name, status.message)
            if status.code is not Code.WAIT:
                return status
            waits = waits or status
    if waits is not None:
        return waits
    return group.quorum_status(remaining, scheduled) if isinstance(group.group, DescribedGroup) else None


def generate_placements(
    profile: Profile, cycle: CycleState, group: GroupTree, nodes: NodeTable
) -> Sequence[Placement] | Status:
    """Return the parts of the cluster to try for a group; without plugins, the entire cluster."""
    if not profile.placement_generate:
        return (Placement("", nodes),)
    parts: list[Sequence[Placement]] = []
    for plugin in profile.placement_generate:
        answer = _generate(plugin, cycle, group, nodes)
        if isinstance(answer, Status) or len(profile.placement_generate) == 1:
            return answer
        _check_names(plugin, answer)
        # A plugin that returns the cluster unchanged does not constrain the group.
        if len(answer) != 1 or len(answer[0].nodes) != len(nodes):
            parts.append(answer)
    return intersect_placements(parts) if parts else (Placement("", nodes),)


def _generate(
    plugin: PlacementGeneratePlugin, cycle: CycleState, group: GroupTree, nodes: NodeTable
) -> Sequence[Placement] | Status:
    answer = call_plugin(PLACEMENT_GENERATE, plugin, plugin.generate_placements, cycle, group, nodes)
    if isinstance(answer, Status):
        return answer
    if not isinstance(answer, list | tuple) or not all(
        isinstance(part, Placement) and isinstance(part.name, str) and isinstance(part.nodes, NodeTable)
        for part in answer
    ):
        raise invalid(PLACEMENT_GENERATE, plugin, f"returned {shown(answer)}, which is not a list of placements")
    # Each group gets its own status: the group cycle adds a reason once for each group that shares a status.
    return answer or Status.unschedulable(NO_PLACEMENTS)


def _check_names(plugin: PlacementGeneratePlugin, placements: Sequence[Placement]) -> None:
    """Raise PluginError for names that cannot be combined with those of other plugins."""
    names: set[str] = set()
    for placement in placements:
        if "/" in placement.name or placement.name in names:
            problem = "contains a slash" if "/" in placement.name else "is not unique"
            raise invalid(
                PLACEMENT_GENERATE, plugin, f"returned the placement {placement.name!r}, whose name {problem}"
            )
        names.add(placement.name)


def intersect_placements(parts: Sequence[Sequence[Placement]]) -> Sequence[Placement] | Status:
    """Combine the placements of several plugins: each with each, without empty intersections (from 1.38)."""
    combined = parts[0]
    for placements in parts[1:]:
        shared = (
            (f"{left.name}/{right.name}", left.nodes.take(np.flatnonzero(np.isin(left.nodes.rows, right.nodes.rows))))
            for left in combined
            for right in placements
        )
        combined = [Placement(name, nodes) for name, nodes in shared if len(nodes)]
    return combined or Status.unschedulable(NO_PLACEMENTS)


class PlacementScores(Struct):
    """The weighted scores of placements by plugin, and their sums."""

    placements: Sequence[Placement]
    totals: IntArray
    by_plugin: dict[str, IntArray]


def score_placements(
    profile: Profile, cycle: CycleState, group: GroupTree, placements: Sequence[Placement]
) -> PlacementScores:
    """Return the weighted sum of all scores for each placement."""
    count = len(placements)
    all_scores: list[tuple[PlacementScorePlugin, IntArray]] = []
    for plugin in profile.placement_score:
        raw = call_plugin(PLACEMENT_SCORE, plugin, plugin.score_placements, cycle, group, placements)
        all_scores.append((plugin, _check(PLACEMENT_SCORE, plugin, raw, count)))
    for position, (plugin, scores) in enumerate(all_scores):
        method = plugin.normalize_placement_scores
        normalized = call_plugin(NORMALIZE_PLACEMENT, plugin, method, cycle, group, placements, scores)
        all_scores[position] = plugin, _check(NORMALIZE_PLACEMENT, plugin, normalized, count)
    scored = PlacementScores(placements, np.zeros(count, dtype=np.int64), {})
    for plugin, scores in all_scores:
        for score in scores.tolist():
            if not MIN_NODE_SCORE <= score <= MAX_NODE_SCORE:
                text = f"returns an invalid score {score}, it should in the range of"
                problem = f'plugin "{plugin.name}" {text} [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing'
                raise PluginError(plugin.name, f"applying score defaultWeights on PlacementScore plugins: {problem}")
        weighted = scored.by_plugin[plugin.name] = profile.placement_weights[plugin.name] * scores
        scored.totals += weighted
    return scored


def _check(point: Point, plugin: PlacementScorePlugin, scores: object, count: int) -> IntArray:
    if not isinstance(scores, np.ndarray) or scores.shape != (count,) or scores.dtype.kind not in "iu":
        raise invalid(point, plugin, f"returned {shown(scores)}, not one integer for each of {count} placements")
    return scores.astype(np.int64)


class GroupPostFiltered(Struct, frozen=True):
    """The result of the post-filters of a group: a message, and perhaps nominations."""

    message: str
    code: Code
    nominated: Mapping[str, str] = {}
    victims: tuple[Pod, ...] = ()


NOT_RUN: Final = GroupPostFiltered("", Code.UNSCHEDULABLE)
"""The result without preemption."""


async def post_filter_group(profile: Profile, cycle: CycleState, group: GroupTree) -> GroupPostFiltered:
    """Run the post-filters in order, until one succeeds or returns an unresolvable status."""
    reasons: list[str] = []
    for plugin in profile.group_post_filter:
        try:
            result = await call_plugin_async(POD_GROUP_POST_FILTER, plugin, plugin.post_filter_group, cycle, group)
        except PluginError as error:
            cause = error.__cause__
            return _make_failure(
                plugin.name, str(error) if cause is None else described(cause, f"{plugin.name}.post_filter_group")
            )
        if not (
            # The type of every field, because structs accept any value.
            isinstance(result, GroupPostFilterResult)
            and isinstance(result.status, Status | None)
            and isinstance(result.message, str)
            and isinstance(result.victims, tuple)
            and all(isinstance(victim, Pod) for victim in result.victims)
            and isinstance(result.nominated, dict)
            and all(isinstance(text, str) for pair in result.nominated.items() for text in pair)
        ):
            problem = f"returned {shown(result)}, which is not a GroupPostFilterResult"
            return _make_failure(plugin.name, str(invalid(POD_GROUP_POST_FILTER, plugin, problem)))
        status = result.status
        if status is None:
            return GroupPostFiltered(result.message, Code.SUCCESS, result.nominated, result.victims)
        if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return GroupPostFiltered(status.message, status.code)
        if status.code is not Code.UNSCHEDULABLE:
            return _make_failure(plugin.name, status.message)
        reasons += status.reasons
    return GroupPostFiltered(", ".join(reasons), Code.UNSCHEDULABLE)


def _make_failure(plugin: str, problem: str) -> GroupPostFiltered:
    return GroupPostFiltered(f'error in "{plugin}" PodGroupPostFilter plugins: {problem}', Code.ERROR)
