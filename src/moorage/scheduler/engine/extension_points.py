"""Calls of plugins: single calls, and the extension points that call all plugins of a profile in order.

Only this module turns a plugin's exception into an error of the attempt, named after the plugin. It can also measure
the time of a single plugin (``plugin._timer``), without changing the call.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import structlog
from msgspec import Struct

from moorage.common.errors import AttemptSuspended, PluginError
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.profile import Profile
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.deadlines import DeadlineExceeded, call_with_timeout
from moorage.scheduler.framework.faults import (
    PLUGIN_FAULTS,
    described_call,
    invalid_result,
    pass_on_interrupt,
    shown,
)
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import (
    FilterPlugin,
    Hold,
    NodeNames,
    Plugin,
    PreFilterAnswer,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    Wait,
)
from moorage.scheduler.framework.status import MAX_NODE_SCORE, MIN_NODE_SCORE, SKIP, Code, IntArray, Status

T = TypeVar("T")
P = TypeVar("P", bound=Plugin)

PRE_FILTER_CODES: Final = (Code.SKIP, Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
LIMIT: Final = 2**63
"""Scores are 64-bit integers."""
MAX_WAIT: Final = 15 * 60.0

log = structlog.get_logger(__name__)


class Point(Struct, frozen=True):
    """An extension point: its name in metrics, and how upstream words an error there."""

    name: str
    wording: str = 'running {point} plugin "{plugin}": {problem}'
    results: str = "return None, or a Status such as Status.unschedulable('why')"
    """The legal results, for the message about another one."""
    python: tuple[str, ...] = ()
    """The methods of a plugin that are called here, if their names do not follow from the name."""

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods of a plugin that are called here, such as ``pre_filter`` for ``PreFilter``."""
        return self.python or (re.sub(r"(?<!^)(?=[A-Z])", "_", self.name).lower(),)


ARRAY: Final = "return an integer array with one score for each node"
NOTHING: Final = "this method must return None"
SIGN: Final = Point("Sign", results="return a hashable value, such as a string, a number or a tuple")
EPOCH: Final = Point("Epoch")
PRE_FILTER: Final = Point(
    "PreFilter",
    results="return None, NodeNames(frozenset({'node'})), Status.skip(), or Status.unschedulable('why')",
)
ADD_POD: Final = Point(
    "PreFilterExtensionAddPod", 'running AddPod on PreFilter plugin "{plugin}": {problem}', python=("add_pod",)
)
REMOVE_POD: Final = Point(
    "PreFilterExtensionRemovePod", 'running RemovePod on PreFilter plugin "{plugin}": {problem}', python=("remove_pod",)
)
FILTER: Final = Point(
    "Filter",
    'running "{plugin}" filter plugin: {problem}',
    "return None to accept the node, or Status.unschedulable('why') to reject it",
    ("filter", "filter_nodes"),
)
FILTER_NODES: Final = Point(
    "Filter",
    FILTER.wording,
    "return Verdict.accept(len(nodes)), or Verdict.reject(where=mask, because=Status.unschedulable('why'))",
    ("filter_nodes",),
)
HOW_MANY: Final = Point("Filter", FILTER.wording, python=("how_many",))
POST_FILTER: Final = Point(
    "PostFilter",
    results="return PostFilterResult(None, nominated_node='node') or PostFilterResult(Status.unschedulable())",
)
PRE_SCORE: Final = Point("PreScore", results="return None, or Status.skip()")
SCORE: Final = Point(
    "Score",
    'running Score plugins: plugin "{plugin}" failed with: {problem}',
    "return an int from 0 to 100 (scores must be integers)",
    ("score", "score_nodes"),
)
NORMALIZE: Final = Point(
    "ScoreExtensionNormalize",
    'running Normalize on Score plugins: plugin "{plugin}" failed with: {problem}',
    ARRAY,
    ("normalize_scores",),
)
USABLE_HOLDS: Final = Point("UsableHolds")
RESERVE: Final = Point("Reserve")
UNRESERVE: Final = Point("Unreserve", results=NOTHING)
PERMIT: Final = Point("Permit", results="return None to allow the pod, Wait(seconds), or Status.unschedulable('why')")
PRE_BIND_PRE_FLIGHT: Final = Point(
    "PreBindPreFlight", 'running PreBindPreFlight "{plugin}": {problem}', "return None, or Status.skip()"
)
PRE_BIND: Final = Point("PreBind")
BIND: Final = Point("Bind", results="return None if the pod is bound, or Status.skip()")
POST_BIND: Final = Point("PostBind", results=NOTHING)


class CallTimer(Protocol):
    """Takes the time of single calls of a plugin."""

    def call(self, point: Point, plugin: str, method: Callable[..., T], arguments: tuple[Any, ...]) -> T:
        """Make a call and take its time."""
        ...

    async def wait(
        self, point: Point, plugin: str, method: Callable[..., Awaitable[T]], arguments: tuple[Any, ...]
    ) -> T:
        """Make a call that waits, and take its time."""
        ...


def call_plugin(point: Point, plugin: Plugin, method: Callable[..., T], *arguments: Any) -> T:
    """Call a plugin. Its exceptions become a PluginError that names the extension point and the plugin."""
    try:
        if plugin._timer is None:
            return method(*arguments)
        answer: T = plugin._timer.call(point, plugin.name, method, arguments)
    except (PluginError, AttemptSuspended):
        raise
    except PLUGIN_FAULTS as error:
        pass_on_interrupt(error)
        raise raised(point, plugin, error) from error
    return answer


async def call_plugin_async(point: Point, plugin: Plugin, method: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """Call an async method of a plugin. Its exceptions and timeouts become a PluginError."""
    if plugin.call_timeout is not None:
        method = partial(_call_in_time, point, plugin, method)
    try:
        if plugin._timer is None:
            return await method(*arguments)
        answer: T = await plugin._timer.wait(point, plugin.name, method, arguments)
    except PluginError:
        raise
    except PLUGIN_FAULTS as error:
        pass_on_interrupt(error)
        raise raised(point, plugin, error) from error
    return answer


async def _call_in_time(point: Point, plugin: Plugin, method: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """Await a call of a plugin until its timeout, so that a plugin that waits forever fails one attempt only."""
    assert plugin.call_timeout is not None
    try:
        return await call_with_timeout(plugin.call_timeout, method, *arguments)
    except DeadlineExceeded as error:
        raise invalid(point, plugin, f"{error} (call_timeout)") from None


def call_each(point: Point, plugins: Sequence[P], method: Callable[[P], T]) -> tuple[T, ...]:
    """Call one short method of each plugin, too often for a boundary around every call.

    If a call raises, the plugins are called one by one to find the cause.
    """
    try:
        answers = tuple(map(method, plugins))
        if len(answers) == len(plugins):  # a StopIteration would end the map
            return answers
    except PLUGIN_FAULTS as error:  # re-raised by the boundary, unless the failure does not repeat
        pass_on_interrupt(error)
    return tuple([call_plugin(point, plugin, method, plugin) for plugin in plugins])


def raised(point: Point, plugin: Plugin, error: BaseException) -> PluginError:
    """Record an exception of a plugin. Return the error of the attempt, with the method, type, file and line."""
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, StopIteration):
        error = error.__cause__  # a generator between here and the plugin replaced it
    problem = described_call(plugin, point.methods, error)
    plugin._faults.note(plugin.name, error, problem)
    return failure(point, plugin.name, problem)


def failure(point: Point, plugin: str, problem: str) -> PluginError:
    """Word an error as upstream does."""
    return PluginError(plugin, point.wording.format(point=point.name, plugin=plugin, problem=problem))


def invalid(point: Point, plugin: Plugin, problem: str) -> PluginError:
    """Record an invalid result or a timeout. Return the error of the attempt, with the method, file and line."""
    problem = invalid_result(plugin, point.methods, problem)
    plugin._faults.note_invalid(plugin.name, point.name, problem)
    return failure(point, plugin.name, problem)


def wrong_result(point: Point, plugin: Plugin, answer: object) -> PluginError:
    """Return the error for an illegal result: the method with its file and line, the value, and the legal results."""
    value = f"Status({answer.code.label})" if isinstance(answer, Status) else shown(answer)
    return invalid(point, plugin, f"returned {value}: {point.results}")


def require_status(point: Point, plugin: Plugin, answer: object) -> Status | None:
    """Raise for a result that is neither a Status nor ``None``. Success is ``None``."""
    if answer is None:
        return None
    if not isinstance(answer, Status):
        raise wrong_result(point, plugin, answer)
    return None if answer.code == Code.SUCCESS else answer


def require_nothing(point: Point, plugin: Plugin, answer: object) -> None:
    """Raise for a result of a method that must return ``None``: its author expects an effect."""
    if answer is not None:
        raise wrong_result(point, plugin, answer)


def rejection(point: Point, plugin: Plugin, status: Status) -> Status:
    """Return a rejection with its plugin's name. Any other status is an error of the attempt."""
    if status.is_rejection:
        return status.by(plugin.name)
    raise (
        failure(point, plugin.name, status.message)
        if status.code is Code.ERROR
        else wrong_result(point, plugin, status)
    )


def pre_filter(plugin: PreFilterPlugin, cycle: CycleState, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
    """Call one pre-filter, and raise for an invalid result."""
    answer = call_plugin(PRE_FILTER, plugin, plugin.pre_filter, cycle, pod, nodes)
    if answer is None or answer is SKIP or (isinstance(answer, NodeNames) and isinstance(answer.names, frozenset)):
        return answer
    if not isinstance(answer, Status):
        raise wrong_result(PRE_FILTER, plugin, answer)
    if answer.code == Code.SUCCESS:
        return None
    if answer.code not in PRE_FILTER_CODES:
        if answer.code is Code.WAIT:
            raise wrong_result(PRE_FILTER, plugin, answer)
        raise failure(PRE_FILTER, plugin.name, answer.message)
    return answer


def filter_node(filters: Iterable[FilterPlugin], cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
    """Run all filters on one node, in order. Return the first rejection."""
    for plugin in filters:
        if plugin.name in cycle.skipped_filters:
            continue
        status = call_plugin(FILTER, plugin, plugin.filter, cycle, pod, node)
        if status is not None and (status := require_status(FILTER, plugin, status)) is not None:
            return rejection(FILTER, plugin, status)
    return None


def how_many(plugin: FilterPlugin, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray | None:
    """Return how many of these pods each node can take according to one filter, or ``None`` if it cannot count."""
    counts = call_plugin(HOW_MANY, plugin, plugin.how_many, cycle, pod, nodes)
    if counts is None:
        return None
    if not isinstance(counts, np.ndarray) or counts.shape != (len(nodes),) or counts.dtype.kind not in "iu":
        raise invalid(HOW_MANY, plugin, f"returned {shown(counts)}, not one integer for each of {len(nodes)} nodes")
    return counts


def pre_score(plugin: PreScorePlugin, cycle: CycleState, pod: Pod, nodes: NodeTable) -> None:
    """Call one pre-score plugin. It may skip its scores, and any other status is an error."""
    answer = call_plugin(PRE_SCORE, plugin, plugin.pre_score, cycle, pod, nodes)
    if answer is None:
        return
    # The usual results need no validation.
    if answer is not SKIP:
        status = require_status(PRE_SCORE, plugin, answer)
        if status is None:
            return
        if status.code != Code.SKIP:
            raise failure(PRE_SCORE, plugin.name, status.message)
    cycle.skipped_scores.add(plugin.name)


def score_node(plugin: ScorePlugin, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
    """Score one node by one plugin. Raise if the score is not an integer."""
    score = call_plugin(SCORE, plugin, plugin.score, cycle, pod, node)
    if type(score) is int and -LIMIT <= score < LIMIT:
        return score
    if not isinstance(score, (int, np.integer)) or not -LIMIT <= score < LIMIT:
        raise wrong_result(SCORE, plugin, score)
    return int(score)


def score_nodes(plugin: ScorePlugin, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
    """Score a window by one plugin. Raise unless it returns one integer per node.

    The column may be of 32 bits if the plugin has narrow columns that need no checking.
    """
    scores = call_plugin(SCORE, plugin, plugin.score_nodes, cycle, pod, nodes)
    if isinstance(scores, np.ndarray) and scores.dtype.kind == "O":
        wrong = (score for score in scores if not isinstance(score, (int, np.integer)) or not -LIMIT <= score < LIMIT)
        raise wrong_result(SCORE, plugin, next(wrong, scores))
    if not isinstance(scores, np.ndarray) or scores.shape != (len(nodes),):
        shape = scores.shape if isinstance(scores, np.ndarray) else type(scores).__name__
        raise invalid(SCORE, plugin, f"returned {shape} for a window of {len(nodes)} nodes: {ARRAY}")
    if scores.dtype.kind == "f" and not np.isfinite(scores).all():
        raise invalid(SCORE, plugin, "returned a score that is not a number")
    if scores.dtype.kind not in "iu":
        raise invalid(SCORE, plugin, f"returned {scores.dtype}: scores must be integers")
    if scores.dtype == np.int64 or (scores.dtype == np.int32 and plugin._narrow_is_checked):
        return scores
    return scores.astype(np.int64)


def normalize(plugin: ScorePlugin, cycle: CycleState, pod: Pod, nodes: NodeTable, scores: IntArray) -> IntArray:
    """Normalize the scores of a plugin. Raise unless it returns one integer per node."""
    normalized = call_plugin(NORMALIZE, plugin, plugin.normalize_scores, cycle, pod, nodes, scores)
    if not isinstance(normalized, np.ndarray) or normalized.shape != scores.shape or normalized.dtype.kind not in "iu":
        raise wrong_result(NORMALIZE, plugin, normalized)
    return normalized


def check_range(plugin: ScorePlugin, scores: IntArray) -> None:
    """Reject normalized scores outside 0…100 in upstream's words."""
    if len(scores) and (np.minimum.reduce(scores) < MIN_NODE_SCORE or np.maximum.reduce(scores) > MAX_NODE_SCORE):
        bad = next(int(s) for s in scores if not MIN_NODE_SCORE <= s <= MAX_NODE_SCORE)
        text = f"returns an invalid score {bad}, it should in the range of [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}]"
        problem = f'plugin "{plugin.name}" {text} after normalizing'
        limits = f"{MIN_NODE_SCORE} to {MAX_NODE_SCORE}"
        hint = f"return an integer from {limits}"
        hint += "" if plugin._author_function else ", or default_normalize(scores) from normalize_scores"
        invalid(SCORE, plugin, f"returned {bad}: {hint}")
        raise PluginError(plugin.name, f"applying score defaultWeights on Score plugins: {problem}")


def change_what_if(
    point: Point, profile: Profile, cycle: CycleState, pod: Pod, changed_pod: Pod, node: NodeInfo
) -> Status | None:
    """Notify the pre-filters that a pod was added to a what-if, or removed from it."""
    for plugin in profile.extensions:
        if plugin.name not in cycle.skipped_filters:
            method = plugin.add_pod if point is ADD_POD else plugin.remove_pod
            status = require_status(point, plugin, call_plugin(point, plugin, method, cycle, pod, changed_pod, node))
            if status is not None:
                text = point.wording.format(plugin=plugin.name, problem=status.message)
                return Status.error(text).by(plugin.name)
    return None


def usable_holds(profile: Profile, pod: Pod) -> list[Hold]:
    """Return the holds of all plugins that a pod may use."""
    usable: list[Hold] = []
    for plugin in profile.reserve:
        for hold in call_plugin(USABLE_HOLDS, plugin, lambda plugin: list(plugin.usable_holds(pod)), plugin):
            if not isinstance(hold, Hold):
                raise invalid(USABLE_HOLDS, plugin, f"returned {shown(hold)}, not a result of handle.hold")
            usable.append(hold)
    return usable


def idle(profile: Profile, cycle: CycleState) -> frozenset[str]:
    """Return the plugins that skipped this pod in pre-filter, and that have no work from reserve on."""
    return profile.idle_when_skipped & cycle.skipped_filters


def reserve(profile: Profile, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
    """Run all reserve plugins; stop at the first rejection."""
    without = idle(profile, cycle)
    if profile.reserving <= without:
        return None
    for plugin in profile.reserve:
        if plugin.name in without:
            continue
        answer = call_plugin(RESERVE, plugin, plugin.reserve, cycle, pod, node_name)
        if answer is not None and (status := require_status(RESERVE, plugin, answer)) is not None:
            return rejection(RESERVE, plugin, status)
    return None


def unreserve(profile: Profile, cycle: CycleState, pod: Pod, node_name: str) -> None:
    """Run unreserve of all reserve plugins, the last one first. Errors do not stop the loop."""
    for plugin in reversed(profile.reserve):
        try:
            require_nothing(UNRESERVE, plugin, call_plugin(UNRESERVE, plugin, plugin.unreserve, cycle, pod, node_name))
        except PluginError as error:
            log.warning("unreserve failed", plugin=plugin.name, pod=pod.key, error=str(error))


def permit(profile: Profile, cycle: CycleState, pod: Pod, node_name: str) -> Status | dict[str, float] | None:
    """Run the permit plugins. Return a rejection, the plugins to wait for with their timeouts, or ``None``."""
    waits: dict[str, float] = {}
    for plugin in profile.permit:
        answer = call_plugin(PERMIT, plugin, plugin.permit, cycle, pod, node_name)
        if isinstance(answer, Wait):
            seconds = answer.seconds
            if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not seconds >= 0:
                problem = f"returned {shown(answer)}: write Wait(seconds) with a number of 0 or more"
                raise invalid(PERMIT, plugin, problem)
            waits[plugin.name] = min(seconds, MAX_WAIT)
        elif (status := require_status(PERMIT, plugin, answer)) is not None:
            return rejection(PERMIT, plugin, status)
    return waits or None
