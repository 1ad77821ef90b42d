"""The extension points, one base class each. A plugin inherits from the base classes of its extension points.

The order for a pod: ``pre_enqueue`` (admission to the queue), ``less`` (queue order), then one attempt:
``pre_filter`` → ``filter`` on every node → ``post_filter`` if no node is feasible → ``pre_score`` → ``score`` →
``normalize_scores`` → ``reserve`` → ``permit``. The binding cycle then runs in parallel with the next attempts:
``pre_bind`` → ``bind`` → ``post_bind``.

The scheduling cycle, up to ``permit``, runs alone: no other pod is placed and no event is applied during it. An
exception in a plugin fails the attempt with an error that names the plugin. The pod is retried after a backoff.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from enum import IntEnum
from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from msgspec import Struct

from moorage.common.errors import did_you_mean
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.events import EVERY_EVENT, EventRegistration
from moorage.scheduler.framework.faults import FaultRecord
from moorage.scheduler.framework.go_names import RENAMED, plain
from moorage.scheduler.framework.node_statuses import NodeStatuses
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import IntArray, Status, Verdict

if TYPE_CHECKING:
    # Pyright reports missing abstract methods only for subclasses of ABC, and isinstance of ABC is slow at run time.
    from abc import ABC
else:
    ABC = object


class DependsOn(IntEnum):
    """The part of the cluster that a plugin's result for a node depends on. Each level includes the previous ones.

    A result is cached until that part changes. A result that depends on the node alone is kept while pods are added
    to the node and removed.
    """

    NODE = 0
    """The node: labels, taints, capacity, images."""
    REQUESTS = 1
    """Also the resources that its pods use: requests, ports and the number of pods."""
    PODS = 2
    """Also all other fields of its pods: labels, annotations, status."""
    CLUSTER = 3
    """Also other nodes and their pods. The plugin is called for every pod."""


class Plugin(ABC):
    """Base class of all plugins. The configuration name is the class name unless ``name`` is set.

    The constructor may take ``args`` (an instance of ``Args``, as configured) and ``handle`` (a ``Handle``), by these
    names. Both are optional. Each profile has its own instance. The scheduler constructs it, awaits ``start``, calls
    its extension points, and awaits ``close`` at the end.
    """

    name: ClassVar[str]
    Args: ClassVar[type[Any] | None] = None
    depends_on: ClassVar[DependsOn] = DependsOn.PODS
    """The part of the cluster that filter and score results depend on, in addition to ``sign`` and ``epoch``."""

    valid_for: ClassVar[float | None] = None
    """The seconds for which cached results remain valid, for results that depend on the time, or ``None``: no limit.

    The results of all nodes expire together, at the multiples of this time on ``handle.clock``.
    """

    # Four properties of in-tree plugins that save calls and do not change results. Authors do not need them.
    _signs_template: bool = False
    """Whether ``sign`` depends only on the epoch and ``pod.spec`` without the node name, so that pods of a template
    are signed once."""
    _idle_when_skipped: ClassVar[bool] = False
    """Whether ``reserve`` and ``pre_bind`` have nothing to do for a pod that ``pre_filter`` skips."""
    _normalizes_by_value: ClassVar[bool] = False
    """Whether normalization depends only on the set of distinct scores."""
    _narrow_is_checked: ClassVar[bool] = False
    """Whether 32-bit scores are within 0…100, and an array from ``score_nodes`` belongs to the caller."""
    _author_function: ClassVar[Callable[..., object] | None] = None
    """The function that a decorator made the class of: errors name it instead of a method."""

    call_timeout: float | None = 60.0
    """The seconds after which an awaited call, such as ``post_filter`` or ``pre_bind``, fails the attempt.

    ``--plugin-timeout`` changes the default. A class, or its constructor, sets it to a larger number if the plugin
    waits for slow systems, or to ``None`` if it handles timeouts itself.
    """

    _timer: Any = None
    """Timer for single calls while plugin metrics are sampled. Set by the engine."""

    @cached_property
    def _faults(self) -> FaultRecord:
        """The exceptions that the plugin raised."""
        return FaultRecord()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__

    async def start(self) -> None:
        """Start the plugin. Called once, when all listers are synced and before the first attempt.

        With leader election, only the leader calls it. No pod is scheduled before it returns. Long or endless work
        belongs in ``handle.in_background``. An exception stops the scheduler.
        """

    async def close(self) -> None:
        """Stop the plugin. Called once if ``start`` was called, after the last attempt and the last binding.

        Background tasks of the plugin are cancelled afterward. An exception is logged. The call is cancelled after a
        few seconds.
        """

    def sign(self, pod: Pod) -> Hashable | None:
        """Return all properties of the pod that filter and score results depend on, or ``None``.

        Pods with equal signatures share cached results, which are recomputed only for nodes that changed. Without a
        signature the plugin is called for every pod, which is correct but slower.
        """
        return None

    def epoch(self) -> Hashable:
        """Return any other input of the results. When it changes, all cached results are recomputed.

        For state that the plugin has for each node, call ``handle.invalidate(node_name)`` instead: it recomputes the
        results of that node only.
        """
        return None

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Return the events that may make a pod schedulable that this plugin rejected.

        The default is every event, and every change of objects that the plugin lists through its handle. With an empty
        list no event requeues the pod. Only the flush after five minutes does.
        """
        return EVERY_EVENT


class PreEnqueuePlugin(Plugin):
    """Decides whether a pod may enter the active queue."""

    @abstractmethod
    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Return ``None`` to admit the pod to the active or backoff queue, or a Status to reject it.

        A rejected pod is *gated*: it gets no attempt, event or condition until one of this plugin's events causes
        another call.
        """

    def reconsidered(self) -> Collection[str] | None:
        """Return the keys of gated pods that may be admitted now. Each key needs to be returned once.

        Called at each of the plugin's events: it avoids checking thousands of gated pods one by one. ``None``
        means that any gated pod may be admitted.
        """
        return None


class QueuedPod(Protocol):
    """A pending pod or group, for QueueSort plugins, with the history of its attempts."""

    pod: Pod
    """The pod; of a group, one of its pods."""
    priority: int
    """Its priority; of a group, that of the group."""
    timestamp: float
    """When it was last queued after a failure, or first. Moves between queues do not change it."""
    initial_attempt_timestamp: float | None
    """When it was first ready to be tried."""
    attempts: int
    """The number of its attempts."""


class QueueSortPlugin(Plugin):
    """Orders the queue. All profiles enable the same single plugin. Define either method."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        require_one_of(cls, QueueSortPlugin, "less", "sort_key")

    def less(self, left: QueuedPod, right: QueuedPod) -> bool:
        """Return whether ``left`` is scheduled before ``right``."""
        return bool(self.sort_key(left) < self.sort_key(right))

    def sort_key(self, queued: QueuedPod) -> Any:
        """Return a sort key for a pod. The queue uses it instead of ``less``. It is faster."""
        return _ByLess(self, queued)


class _ByLess:
    """Sort key that calls ``less``."""

    __slots__ = ("plugin", "queued")

    def __init__(self, plugin: QueueSortPlugin, queued: QueuedPod) -> None:
        self.plugin = plugin
        self.queued = queued

    def __lt__(self, other: "_ByLess") -> bool:
        is_less = self.plugin.less(self.queued, other.queued)
        if is_less is None:
            raise TypeError("return True or False, not None")
        return is_less

    # The queue orders equal pods by arrival, so pods of the same rank must compare as equal.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByLess) and not self < other and not other < self

    __hash__ = None  # type: ignore[assignment]


class Hold:
    """Resources of a node that ``handle.hold`` keeps unavailable to pods until ``release``."""

    def __init__(self, pod: Pod, owner: object, end: Callable[["Hold"], None]) -> None:
        self._pod, self._owner, self._end = pod, owner, end

    @property
    def node_name(self) -> str:
        """The node."""
        return self._pod.node_name

    def release(self) -> None:
        """Make the resources available, and requeue pods that may fit now. A second call has no effect."""
        self._end(self)


class NodeNames(Struct, frozen=True):
    """A pre-filter result that restricts the search to these nodes."""

    names: frozenset[str]


PreFilterAnswer = Status | NodeNames | None


class PreFilterPlugin(Plugin):
    """Evaluates the pod, and the entire cluster if necessary, before nodes are filtered."""

    @abstractmethod
    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
        """Store the state for ``filter`` in ``cycle``. ``nodes`` contains all nodes.

        Legal results: ``None`` to continue; :class:`NodeNames` to restrict the search; ``Status.skip()`` to skip this
        plugin's filter for the pod. ``Status.unschedulable`` to reject the pod on all nodes after the other pre-filters
        ran. ``Status.unresolvable`` to reject it immediately. Post-filters run after both rejections.
        """


class PreFilterExtensions(PreFilterPlugin):
    """A pre-filter with state that can be updated for added and removed pods (preemption, nominated pods)."""

    @abstractmethod
    def add_pod(self, cycle: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status | None:
        """Update the state in ``cycle`` as if ``added`` were on the node; not called if ``pre_filter`` skipped."""

    @abstractmethod
    def remove_pod(self, cycle: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> Status | None:
        """Update the state in ``cycle`` as if ``removed`` were not on the node."""


class FilterPlugin(Plugin):
    """Decides which nodes can run a pod. Define either method. The other is derived from it.

    The scheduler calls ``filter`` for single nodes (preemption, nominated pods) and ``filter_nodes`` for the cluster.
    If both are defined, they must agree: ``moorage.testing.check_plugin`` compares them.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        require_one_of(cls, FilterPlugin, "filter", "filter_nodes")

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Return ``None`` if the node is feasible, or a Status with the reason.

        Preemption may help on an ``unschedulable`` node, but not on an ``unresolvable`` one. An error fails the
        attempt. Users see the reasons of the first plugin that rejects a node.
        """
        return self.filter_nodes(cycle, pod, NodeTable.of(node)).status_at(0)

    def filter_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Verdict:
        """Filter all nodes of a table in one call. Override it when ``filter`` is too slow."""
        verdicts = ((row, self.filter(cycle, pod, node)) for row, node in nodes.candidates())
        return Verdict.from_rows(len(nodes), verdicts)

    def how_many(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray | None:
        """Return for each node how many pods identical to this one ``filter`` would accept, one after another.

        Called only for filters with ``DependsOn.REQUESTS``, for groups with several possible placements. ``None``
        (unknown) makes the scheduler try the pods one by one in each placement. Negative numbers are treated as 0.
        """
        return None


class CountingPlugin(Plugin):
    """A filter that compares sums of requests, so that a subtraction decides whether another pod fits."""

    @abstractmethod
    def left_over(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> dict[str, int]:
        """Return the remaining amount of each relevant resource with the pod on the node, which ``filter`` accepts.

        Another pod fits if and only if it requests at most these amounts. Every pod takes one of ``pods``.
        """

    def filter_without(
        self, cycle: CycleState, pod: Pod, nodes: NodeTable, gone: Mapping[str, IntArray]
    ) -> Verdict | None:
        """Filter each node as if these amounts were free there. Return ``None`` if that needs a copy of the nodes."""
        return None


class PostFilterResult(Struct, frozen=True):
    """The result of a post-filter for a pod without a feasible node.

    ``nominated_node`` is ``None`` to keep the pod's nomination, ``""`` to clear it, or the node to nominate. Users see
    ``message`` if ``status`` is ``None``, that is, if the post-filter succeeded.
    """

    status: Status | None
    nominated_node: str | None = None
    victims: tuple[Pod, ...] = ()
    message: str = ""


class PostFilterPlugin(Plugin):
    """Acts for a pod without a feasible node, for example by preemption."""

    @abstractmethod
    async def post_filter(self, cycle: CycleState, pod: Pod, statuses: NodeStatuses) -> PostFilterResult:
        """Try to make the pod schedulable. ``None`` as status means success. Otherwise the next plugin runs.

        No events are applied while this call waits.
        """


class PreScorePlugin(Plugin):
    """Evaluates all feasible nodes before they are scored."""

    @abstractmethod
    def pre_score(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        """Store the state for ``score``. ``Status.skip()`` skips this plugin's score. Other statuses are errors."""


class ScorePlugin(Plugin):
    """Ranks feasible nodes. Define either ``score`` or ``score_nodes``. The other is derived from it."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        require_one_of(cls, ScorePlugin, "score", "score_nodes")

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Return the score of a node. Higher is better. Normalized scores are between 0 and 100."""
        return int(self.score_nodes(cycle, pod, NodeTable.of(node))[0])

    def score_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """Score all nodes of a table in one call. Override it when ``score`` is too slow."""
        scores = [self.score(cycle, pod, node) for node in nodes]
        try:
            # `index` raises for fractions, which NumPy would truncate silently.
            return np.fromiter(map(index, scores), dtype=np.int64, count=len(scores))
        except (TypeError, OverflowError):  # the engine reports the value
            return np.fromiter(scores, dtype=np.object_, count=len(scores))

    def normalize_scores(self, cycle: CycleState, pod: Pod, nodes: NodeTable, scores: IntArray) -> IntArray:
        """Map the raw scores of all feasible nodes to 0…100. The default returns them unchanged."""
        return scores


class ReservePlugin(Plugin):
    """Tracks the resources that a pod uses on its node."""

    @abstractmethod
    def reserve(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Reserve resources for the pod on the node. A Status reverts the placement."""

    @abstractmethod
    def unreserve(self, cycle: CycleState, pod: Pod, node_name: str) -> None:
        """Release the reservation. Called in reverse order for all reserve plugins, even if ``reserve`` did not run.

        It must not fail and cannot wait. Pass writes to ``handle.in_background(…, must_finish=True)``.
        """

    def usable_holds(self, pod: Pod) -> Iterable[Hold]:
        """Return the holds of ``handle.hold`` that this pod may use, for example because a reservation is for it.

        Called before each attempt of a single pod while holds exist. During the attempt the resources of these holds
        are available to the pod. Release the used ones in ``reserve``. Unused holds return after the attempt.
        """
        return ()


class Wait(Struct, frozen=True):
    """A permit result that makes the pod wait, for at most this time (limit: 15 minutes)."""

    seconds: float


class PermitPlugin(Plugin):
    """Allows, rejects or delays a pod before it is bound."""

    @abstractmethod
    def permit(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | Wait | None:
        """Return ``None`` to allow the pod, a Status to reject it, or ``Wait`` (see ``handle.waiting_pod``)."""


class PreBindPlugin(Plugin):
    """Does work that must be complete before a pod is bound, such as provisioning its volumes."""

    allows_parallel: ClassVar[bool] = False
    """Whether adjacent plugins in the configured order that also set it may run in parallel."""

    @abstractmethod
    def pre_bind_pre_flight(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Return ``None`` if ``pre_bind`` has work to do, or ``Status.skip()`` if not."""

    @abstractmethod
    async def pre_bind(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Do the work. Any Status reverts the placement."""


class BindPlugin(Plugin):
    """Binds a pod to its node through the API."""

    @abstractmethod
    async def bind(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Bind the pod, or return ``Status.skip()`` to let the next bind plugin do it."""


class PostBindPlugin(Plugin):
    """Notified of every bound pod."""

    @abstractmethod
    async def post_bind(self, cycle: CycleState, pod: Pod, node_name: str) -> None:
        """Clean up. The result has no effect."""


def require_one_of(cls: type, base: type, *methods: str) -> None:
    """Raise TypeError for a class that defines none of several methods that are derived from each other."""
    if all(getattr(cls, method) is getattr(base, method) for method in methods):
        hints = ((own, did_you_mean(RENAMED.get(plain(own), own), methods)) for own in vars(cls))
        near = (f"; {own} is never called, {hint}" for own, hint in hints if hint)
        problem = (
            f"{cls.__name__} defines neither {' nor '.join(methods)}: define one of them, Moorage derives the other"
        )
        raise TypeError(problem + next(near, ""))


def default_normalize(scores: IntArray, *, reverse: bool = False) -> IntArray:
    """Scale scores so that the largest becomes 100; reversed, so that it becomes 0. All zeros remain equal."""
    top = int(scores.max(initial=0))
    if top == 0:
        return np.full_like(scores, 100) if reverse else scores
    scaled = 100 * scores // top
    return 100 - scaled if reverse else scaled
