"""The extension points: one base class each. A plugin inherits from those it takes part in.

A pod's way through them: ``pre_enqueue`` (may it enter the queue?), ``less`` (who is first?), then one attempt:
``pre_filter`` → ``filter`` on every node → ``post_filter`` if none is left → ``pre_score`` → ``score`` →
``normalize_scores`` → ``reserve`` → ``permit``; then beside the next attempts: ``pre_bind`` → ``bind`` → ``post_bind``.

Everything up to ``permit`` runs alone in a frozen world: no other pod is placed and no event is applied meanwhile.
A plugin that raises fails the attempt with an error that names the plugin; the pod is tried again after a backoff.
"""

from abc import abstractmethod
from collections.abc import Collection, Hashable, Mapping, Sequence
from enum import IntEnum
from operator import index
from typing import Any, ClassVar

import numpy as np
from msgspec import Struct

from moorage.common.errors import did_you_mean
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.events import EVERY_EVENT, EventRegistration
from moorage.scheduler.framework.node_statuses import NodeStatuses
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.queued import QueuedPod
from moorage.scheduler.framework.status import IntArray, Status, Verdict


class DependsOn(IntEnum):
    """What of the cluster a plugin's answer about a node depends on; each level includes those above it.

    The less, the longer an answer stands: one that depends on the node alone outlives every pod that comes and goes.
    """

    NODE = 0
    """The node: labels, taints, capacity, images."""
    REQUESTS = 1
    """And what the pods on it take of it: requests, ports, their number."""
    PODS = 2
    """And anything else about those pods: labels, annotations, status."""
    CLUSTER = 3
    """And other nodes, or pods on them: the plugin is asked afresh for every pod."""


class Plugin:
    """A plugin of any kind. Its configuration name is the class name unless ``name`` says otherwise.

    The constructor may take ``args`` (an instance of ``Args``, as configured) and ``handle`` (the services of
    ``Handle``), by these names; both are optional. One instance serves one profile: it is
    built, ``start`` is awaited, it is asked about pods, and in the end ``close`` is awaited.
    """

    name: ClassVar[str]
    Args: ClassVar[type[Any] | None] = None
    depends_on: ClassVar[DependsOn] = DependsOn.PODS
    """What of the cluster filter and score answers about a node depend on, besides what ``sign`` and ``epoch`` name."""

    # Four facts that spare calls of in-tree plugins, and mean nothing to their answers; authors need none of them.
    _signs_template: bool = False
    """Whether ``sign`` goes by ``pod.spec`` (but for the node's name) and the epoch alone, so that pods of one template
    are asked about once."""
    _idle_when_skipped: ClassVar[bool] = False
    """Whether a pod that ``pre_filter`` skips is of no concern to ``reserve`` and ``pre_bind`` either."""
    _normalizes_by_value: ClassVar[bool] = False
    """Whether normalising looks at the distinct scores alone, not at which or how many nodes have them."""
    _narrow_is_checked: ClassVar[bool] = False
    """Whether scores of 32 bits lie within 0…100; and were made for the caller, if ``score_nodes`` returned them."""

    _timer: Any = None
    """What takes the time of single calls, while somebody measures; set by the engine."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__

    async def start(self) -> None:
        """Begin to work: called once, when all listers are filled and before the first pod is tried.

        Where replicas elect a leader, only the one that leads calls it. Nothing is scheduled before it returns; what
        takes long, or never ends, belongs into ``handle.in_background``. An error here ends the scheduler.
        """

    async def close(self) -> None:
        """End the work: called once if ``start`` was, when no pod is tried or bound any more.

        The plugin's background work is cancelled afterwards. An error is logged; after a few seconds it is cut short.
        """

    def sign(self, pod: Pod) -> Hashable | None:
        """Return everything of the pod that this plugin's filter and score answers depend on, or ``None``.

        Pods with equal signatures share their answers, which are then recomputed only for nodes that changed. Without
        a signature the plugin is asked afresh for every pod: correct, only slower.
        """
        return None

    def epoch(self) -> Hashable:
        """Return what else the answers depend on besides pod and row; when it changes, they are computed again."""
        return None

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Name the events after which a pod this plugin rejected may be worth another try.

        By default every event is, and every change of an object whose kind the plugin asked its handle to list. An
        empty list means that no event helps: only the five-minute flush does.
        """
        return EVERY_EVENT


class PreEnqueuePlugin(Plugin):
    """Decides whether a pod may enter the queue at all."""

    @abstractmethod
    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Let the pod into the active or backoff queue, or hold it back with a Status.

        A pod held back is *gated*: it gets no attempt, event or condition until one of this plugin's events lets
        it be asked again.
        """

    def reconsidered(self) -> Collection[str] | None:
        """Return the keys of pods that may be let in by now, of those held back before; each need be named once.

        Asked at each of the plugin's events, so that thousands of gated pods need not be asked about one by one. None
        says that it could be any of them.
        """
        return None


class QueueSortPlugin(Plugin):
    """Decides which pod is tried first. Exactly one is enabled, the same in all profiles. Define either method."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        require_one_of(cls, QueueSortPlugin, "less", "sort_key")

    def less(self, left: QueuedPod, right: QueuedPod) -> bool:
        """Return whether ``left`` goes before ``right``."""
        return bool(self.sort_key(left) < self.sort_key(right))

    def sort_key(self, queued: QueuedPod) -> Any:
        """Return something that sorts as the pods should; faster than ``less``, which it overrides in the queue."""
        return _ByLess(self, queued)


class _ByLess:
    """Sorts by a plugin's ``less``."""

    __slots__ = ("plugin", "queued")

    def __init__(self, plugin: QueueSortPlugin, queued: QueuedPod) -> None:
        self.plugin = plugin
        self.queued = queued

    def __lt__(self, other: "_ByLess") -> bool:
        return self.plugin.less(self.queued, other.queued)

    # Without it two pods of the same rank would never count as equal, and the queue could not fall back on their turn.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByLess) and not self < other and not other < self

    __hash__ = None  # type: ignore[assignment]


class NodeNames(Struct, frozen=True):
    """A pre-filter's answer that only these nodes are worth looking at."""

    names: frozenset[str]


PreFilterAnswer = Status | NodeNames | None


class PreFilterPlugin(Plugin):
    """Looks at the pod, and if need be at the whole cluster, before nodes are filtered."""

    @abstractmethod
    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
        """Prepare what ``filter`` needs in ``cycle``; ``nodes`` is every node.

        ``None`` goes on; :class:`NodeNames` restricts the search to some nodes; ``Status.skip()`` leaves this
        plugin's filter out for this pod; ``Status.unschedulable`` rejects the pod on all nodes after the other
        pre-filters ran, ``Status.unresolvable`` at once. In both cases post-filters still run.
        """


class PreFilterExtensions(PreFilterPlugin):
    """A pre-filter whose state follows what-ifs: preemption and nominated pods add and remove pods."""

    @abstractmethod
    def add_pod(self, cycle: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status | None:
        """Change the state in ``cycle`` as if ``added`` were on the node; not called if ``pre_filter`` skipped."""

    @abstractmethod
    def remove_pod(self, cycle: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> Status | None:
        """Change the state in ``cycle`` as if ``removed`` were gone from the node."""


class FilterPlugin(Plugin):
    """Decides which nodes can run a pod. Define either method; the other follows from it.

    ``filter`` is asked for single nodes and what-ifs (preemption, nominated pods), ``filter_nodes`` for the cluster.
    When both are defined they must agree: ``moorage.testing.check_plugin`` compares them.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        require_one_of(cls, FilterPlugin, "filter", "filter_nodes")

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Filter one node: ``None`` to accept it, or a Status saying why not.

        A node rejected as ``unschedulable`` is one where preemption may help; as ``unresolvable``, not. An error
        fails the whole attempt. The reasons of the first plugin that rejects a node are the ones users see.
        """
        return self.filter_nodes(cycle, pod, NodeTable.of(node)).status_at(0)

    def filter_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Verdict:
        """Filter every node of a window at once. Override this when ``filter`` is too slow."""
        verdicts = ((row, self.filter(cycle, pod, node)) for row, node in nodes.candidates())
        return Verdict.from_rows(len(nodes), verdicts)

    def how_many(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray | None:
        """Say of each node how many pods just like this one ``filter`` would accept there, one after the other.

        Asked only of filters with ``DependsOn.REQUESTS``, for groups that may go to one of many parts of the cluster;
        ``None`` (it cannot be told) has the pods tried one by one in each of them. Numbers below 0 count as 0.
        """
        return None


class CountingPlugin(Plugin):
    """A filter that merely adds up what pods ask for, so that whether one more fits is found by subtracting."""

    @abstractmethod
    def left_over(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> dict[str, int]:
        """Return what is left of each resource that counts once the pod is on the node, which ``filter`` accepts.

        Another pod may join exactly if it asks no more than that of any of them; every pod takes one of ``pods``.
        """

    def filter_without(
        self, cycle: CycleState, pod: Pod, nodes: NodeTable, gone: Mapping[str, IntArray]
    ) -> Verdict | None:
        """Say what ``filter`` would say of each node with so much less taken there; ``None`` if that takes a copy."""
        return None


class PostFilterResult(Struct, frozen=True):
    """What a post-filter did about a pod that fits nowhere.

    ``nominated_node`` is ``None`` to leave the pod's nomination as it is, ``""`` to clear it, or the node to nominate.
    ``message`` is what users read when there is no status, that is, when help was found.
    """

    status: Status | None
    nominated_node: str | None = None
    victims: tuple[Pod, ...] = ()
    message: str = ""


class PostFilterPlugin(Plugin):
    """Does something for a pod that fits on no node, such as making room."""

    @abstractmethod
    async def post_filter(self, cycle: CycleState, pod: Pod, statuses: NodeStatuses) -> PostFilterResult:
        """Try to help; a status of ``None`` ends the search for help, ``unschedulable`` lets the next plugin try.

        The world stays frozen while this waits.
        """


class PreScorePlugin(Plugin):
    """Looks at the feasible nodes together before they are scored."""

    @abstractmethod
    def pre_score(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        """Prepare what ``score`` needs; ``Status.skip()`` leaves this plugin's score out. Other statuses are errors."""


class ScorePlugin(Plugin):
    """Ranks feasible nodes. Define either ``score`` or ``score_nodes``; the other follows from it."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        require_one_of(cls, ScorePlugin, "score", "score_nodes")

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Score one node; after normalising, between 0 and 100, the more the better."""
        return int(self.score_nodes(cycle, pod, NodeTable.of(node))[0])

    def score_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """Score every node of a window at once. Override this when ``score`` is too slow."""
        # Without `index` a fraction would be cut off in silence.
        return np.fromiter((index(self.score(cycle, pod, node)) for node in nodes), dtype=np.int64, count=len(nodes))

    def normalize_scores(self, cycle: CycleState, pod: Pod, nodes: NodeTable, scores: IntArray) -> IntArray:
        """Bring the raw scores of all feasible nodes into 0…100; by default they are there already."""
        return scores


class ReservePlugin(Plugin):
    """Keeps books of its own about what a pod takes on the node it was given."""

    @abstractmethod
    def reserve(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Set something aside for the pod; a Status undoes the placement."""

    @abstractmethod
    def unreserve(self, cycle: CycleState, pod: Pod, node_name: str) -> None:
        """Give it back: called in reverse order for all reserve plugins, also those that never reserved. Must not fail.

        It never waits: what it has to write, it hands to ``handle.in_background(…, must_finish=True)``.
        """


class Wait(Struct, frozen=True):
    """A permit plugin's answer that the pod has to wait, at most this long (15 minutes are the limit)."""

    seconds: float


class PermitPlugin(Plugin):
    """Decides last before a pod is bound: allow, reject, or wait."""

    @abstractmethod
    def permit(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | Wait | None:
        """Let the pod be bound, reject it, or hold it until ``handle.waiting_pod(uid).allow`` is called."""


class PreBindPlugin(Plugin):
    """Prepares what must be in place before a pod is bound, such as its volumes."""

    allows_parallel: ClassVar[bool] = False
    """Whether neighbours in the configured order that say so, too, may run at the same time."""

    @abstractmethod
    def pre_bind_pre_flight(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Say beforehand whether ``pre_bind`` has anything to do: ``None`` if so, ``Status.skip()`` if not."""

    @abstractmethod
    async def pre_bind(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Do the work; anything but ``None`` undoes the placement."""


class BindPlugin(Plugin):
    """Writes to the API which node a pod runs on."""

    @abstractmethod
    async def bind(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Bind the pod, or leave it to the next bind plugin with ``Status.skip()``."""


class PostBindPlugin(Plugin):
    """Called for every pod that was bound."""

    @abstractmethod
    async def post_bind(self, cycle: CycleState, pod: Pod, node_name: str) -> None:
        """Clean up, or take note; nothing depends on it."""


def require_one_of(cls: type, base: type, *methods: str) -> None:
    """Refuse a class that defines none of some methods which are derived from each other."""
    if all(getattr(cls, method) is getattr(base, method) for method in methods):
        near = (f"; {own} is not asked for, {hint}" for own in vars(cls) if (hint := did_you_mean(own, methods)))
        problem = f"{cls.__name__} must define {' or '.join(methods)}: each is derived from the other"
        raise TypeError(problem + next(near, ""))


def default_normalize(scores: IntArray, *, reverse: bool = False) -> IntArray:
    """Scale scores so that the largest becomes 100; reversed, so that it becomes 0. All zeros stay equal."""
    top = int(scores.max(initial=0))
    if top == 0:
        return np.full_like(scores, 100) if reverse else scores
    scaled = 100 * scores // top
    return 100 - scaled if reverse else scaled
