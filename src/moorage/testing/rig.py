"""A test rig for plugins: a small cluster and the services of a Handle, without a scheduler."""

from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import numpy as np

from moorage.common.clock import VirtualClock
from moorage.kube.api.kinds import find_kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import DEFAULT_SCHEDULER_NAME, Pod
from moorage.kube.api.pod_groups import CompositePodGroup, PodGroup
from moorage.kube.api.quantity import Quantity
from moorage.kube.features import FeatureGates
from moorage.scheduler.framework.cycle import CycleState, StateKey
from moorage.scheduler.framework.groups import GroupTree, Proposal
from moorage.scheduler.framework.handle import ClusterApi, Nominator, PreemptionExtender, WaitingPod
from moorage.scheduler.framework.logs import PluginLog
from moorage.scheduler.framework.metering import SILENT_METER, PluginMeter, PluginMetrics
from moorage.scheduler.framework.node_statuses import NodeStatuses
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable, RowArray
from moorage.scheduler.framework.plugin import (
    FilterPlugin,
    Hold,
    Plugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
)
from moorage.scheduler.framework.status import Code, Status
from moorage.scheduler.queue.nominator import PodNominator
from moorage.scheduler.state.cache import Cache
from moorage.scheduler.state.holds import Holds
from moorage.scheduler.state.objects import ObjectCache, Objects
from moorage.scheduler.state.pod_groups import PodGroups

K = TypeVar("K", bound=KubeObject)
S = TypeVar("S")
AnyPlugin = TypeVar("AnyPlugin", bound=Plugin)


def make_nominator(*pods: Pod) -> PodNominator:
    """Return a nominator with the nominations in the status of some pods."""
    queued = {pod.key: pod for pod in pods}
    nominations = PodNominator(queued.get)
    for pod in pods:
        nominations.add(pod)
    return nominations


class Rig:
    """A :class:`~moorage.scheduler.framework.handle.Handle` over a cluster made of plain objects.

    Nodes, pods with ``spec.nodeName`` and other objects are cached as in the scheduler. :meth:`run_filters` runs the
    plugins in ``filters``.

    >>> from moorage.testing import make_node
    >>> len(Rig(make_node("a"), make_node("b")).nodes)
    2
    """

    def __init__(self, *objects: KubeObject, features: FeatureGates | None = None) -> None:
        self.cache = Cache()
        self.objects = Objects()
        self.features = features or FeatureGates()
        self.clock = VirtualClock()
        self.nodes, self.pods, self.claims = self.cache.nodes, self.cache.pods, self.cache.claims
        self.has_groups = self.features.enabled("GenericWorkload")
        self.groups = PodGroups(with_composites=self.features.enabled("CompositePodGroup"))
        if self.has_groups:
            self.cache.groups = self.groups
        self._shared: dict[StateKey[Any], Any] = {}
        self.nominator: Nominator = make_nominator()
        self._cluster: ClusterApi | None = None
        self.filters: list[FilterPlugin] = []
        self.extenders: list[PreemptionExtender] = []
        self.waiting: dict[str, WaitingPod] = {}
        self.in_pre_bind: dict[str, str] = {}
        self.activated: dict[str, Pod] = {}
        self.invalidated: list[str] = []
        self.holds = Holds(self.cache, lambda _placeholder: None)
        self.requests: list[str] = []
        """The calls of ``wake_rejected`` and ``resort_queue``."""
        self.background: list[Coroutine[Any, Any, object]] = []
        self.meter: PluginMeter = SILENT_METER
        self.profile = DEFAULT_SCHEDULER_NAME
        self.log = PluginLog("moorage.testing.rig", {"profile": self.profile})
        self.metrics = PluginMetrics(self.meter, "rig", self.profile)
        self.add(*objects)

    def add(self, *objects: KubeObject) -> None:
        """Add or update objects."""
        for obj in objects:
            if isinstance(obj, Node):
                self.cache.add_node(obj)
            elif isinstance(obj, Pod) and obj.node_name:
                self.cache.add_pod(obj)
            elif isinstance(obj, Pod):
                self.groups.add_waiting(obj)
            elif isinstance(obj, PodGroup | CompositePodGroup):
                self.groups.put(obj)
            self.objects[type(obj)].put(obj)

    @property
    def order(self) -> RowArray:
        """The rows of all nodes in visiting order."""
        return self.cache.order

    @property
    def extensions(self) -> list[PreFilterExtensions]:
        """The filters with PreFilterExtensions."""
        return [plugin for plugin in self.filters if isinstance(plugin, PreFilterExtensions)]

    @property
    def cluster(self) -> ClusterApi:
        """The target of writes, if the test has set one."""
        if self._cluster is None:
            raise RuntimeError("this rig has no API: set rig.cluster first")
        return self._cluster

    @cluster.setter
    def cluster(self, cluster: ClusterApi) -> None:
        self._cluster = cluster

    def lister(self, kind: type[K]) -> ObjectCache[K]:
        """Return all objects of a kind."""
        find_kind(kind)  # TypeError, as in the scheduler, if it is not registered
        return self.objects[kind]

    def shared(self, key: StateKey[S], make: Callable[[], S]) -> S:
        """Return the shared value of a key. The first caller creates it."""
        if key not in self._shared:
            self._shared[key] = make()
        value: S = self._shared[key]
        return value

    def run_filters(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Run the filters on a node in order, first with the pods that are nominated to it."""
        nominated = [
            nominated_pod
            for nominated_pod in self.nominator.nominated_pods(node.name)
            if nominated_pod.priority >= pod.priority and nominated_pod.uid != pod.uid
        ]
        if nominated:
            copy, state = node.copy(), cycle.clone()
            for nominated_pod in nominated:
                copy.add_pod(nominated_pod)
                self.add_pod(state, pod, nominated_pod, copy)
            if (status := self._filter(state, pod, copy)) is not None:
                return status
        return self._filter(cycle, pod, node)

    def _filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return _first_status(self.filters, cycle, lambda plugin: plugin.filter(cycle, pod, node))

    def add_pod(self, cycle: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status | None:
        """Notify the filters that a pod was added to a copy of a node."""
        return _first_status(self.extensions, cycle, lambda plugin: plugin.add_pod(cycle, pod, added, node))

    def remove_pod(self, cycle: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> Status | None:
        """Notify the filters that a pod was removed from a copy of a node."""
        return _first_status(self.extensions, cycle, lambda plugin: plugin.remove_pod(cycle, pod, removed, node))

    @contextmanager
    def without(self, pods: Iterable[Pod]) -> Iterator[None]:
        """Remove some pods from the cluster inside a ``with`` block."""
        lifted = self.cache.lift(pods)
        try:
            yield
        finally:
            self.cache.restore_lifted(lifted)

    async def place_group(self, group: GroupTree) -> tuple[Status | None, Sequence[Proposal]]:
        """Return an error: placing groups needs a scheduler."""
        return Status.error("a rig cannot place groups"), ()

    def reserve(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Do nothing: the rig has no Reserve plugins."""
        return None

    def unreserve(self, cycle: CycleState, pod: Pod, node_name: str) -> None:
        """Do nothing: the rig has no Reserve plugins."""

    def invalidate(self, *node_names: str) -> None:
        """Record the names of the nodes."""
        self.invalidated += node_names

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        """Return a pod of ``waiting``, which the test fills."""
        return self.waiting.get(uid)

    def waiting_pods(self) -> Collection[WaitingPod]:
        """Return the pods of ``waiting``, which the test fills."""
        return tuple(self.waiting.values())

    def cancel_pre_bind(self, uid: str, reason: str) -> bool:
        """Record the reason for a pod of ``in_pre_bind``, which the test fills."""
        if uid in self.in_pre_bind:
            self.in_pre_bind[uid] = reason
        return uid in self.in_pre_bind

    def activate(self, pods: Mapping[str, Pod]) -> None:
        """Record the activated pods."""
        self.activated.update(pods)

    def wake_rejected(self) -> None:
        """Record the call."""
        self.requests.append("wake_rejected")

    def hold(self, node_name: str, requests: Mapping[str, Quantity]) -> Hold:
        """Keep resources of a node from all pods."""
        return self.holds.add(self, "rig", node_name, requests)

    def resort_queue(self) -> None:
        """Record the call."""
        self.requests.append("resort_queue")

    def in_background(self, work: Coroutine[Any, Any, object], *, name: str, must_finish: bool = False) -> None:
        """Keep the work for the test to await."""
        self.background.append(work)

    def call_later(self, seconds: float, action: Callable[[], None]) -> None:
        """Do nothing: time does not pass in a rig."""


def _first_status(
    plugins: Iterable[AnyPlugin], cycle: CycleState, call: Callable[[AnyPlugin], Status | None]
) -> Status | None:
    """Call the plugins that do not skip the pod. Return the first status."""
    for plugin in plugins:
        if plugin.name not in cycle.skipped_filters and (status := call(plugin)) is not None:
            return status.by(plugin.name)
    return None


FilterForm = Callable[[FilterPlugin, CycleState, Pod, NodeTable], list[Status | None]]
ScoreForm = Callable[[ScorePlugin, CycleState, Pod, NodeTable], list[int]]


def one_at_a_time(plugin: FilterPlugin, cycle: CycleState, pod: Pod, nodes: NodeTable) -> list[Status | None]:
    """Filter each node by the per-node form."""
    return [plugin.filter(cycle, pod, node) for node in nodes]


def all_at_once(plugin: FilterPlugin, cycle: CycleState, pod: Pod, nodes: NodeTable) -> list[Status | None]:
    """Filter all nodes by the columnar form."""
    verdict = plugin.filter_nodes(cycle, pod, nodes)
    return [verdict.status_at(row) for row in range(len(nodes))]


def score_one_at_a_time(plugin: ScorePlugin, cycle: CycleState, pod: Pod, nodes: NodeTable) -> list[int]:
    """Score each node by the per-node form."""
    return [plugin.score(cycle, pod, node) for node in nodes]


def score_all_at_once(plugin: ScorePlugin, cycle: CycleState, pod: Pod, nodes: NodeTable) -> list[int]:
    """Score all nodes by the columnar form. Rows are repeated, since plugins may treat few rows differently."""
    rows = np.tile(np.arange(len(nodes)), ENOUGH_ROWS)
    scores: list[int] = plugin.score_nodes(cycle, pod, nodes.take(rows)).tolist()
    return scores[: len(nodes)]


ENOUGH_ROWS: Final = 32
FORMS: Final[tuple[FilterForm, ...]] = (one_at_a_time, all_at_once)
SCORE_FORMS: Final[tuple[ScoreForm, ...]] = (score_one_at_a_time, score_all_at_once)


def run_filter(plugin: Plugin, rig: Rig, pod: Pod, form: FilterForm) -> list[Status | None]:
    """Run PreFilter, if the plugin has one, and Filter. A PreFilter rejection counts for every node."""
    cycle, nodes = CycleState(), rig.nodes
    result = plugin.pre_filter(cycle, pod, nodes) if isinstance(plugin, PreFilterPlugin) else None
    if isinstance(result, Status):
        return [None if result.code == Code.SKIP else result] * len(nodes)
    assert isinstance(plugin, FilterPlugin)
    return form(plugin, cycle, pod, nodes)


def run_score(plugin: Plugin, rig: Rig, pod: Pod, form: ScoreForm) -> list[int] | None:
    """Run PreScore, if the plugin has one, Score and normalization. Return ``None`` if PreScore returns Skip."""
    cycle, nodes = CycleState(), rig.nodes
    status = plugin.pre_score(cycle, pod, nodes) if isinstance(plugin, PreScorePlugin) else None
    if status is not None:
        assert status.code == Code.SKIP, f"{plugin.name} returned {status}"
        return None
    assert isinstance(plugin, ScorePlugin)
    scores = np.array(form(plugin, cycle, pod, nodes), dtype=np.int64)
    normalized: list[int] = plugin.normalize_scores(cycle, pod, nodes, scores).tolist()
    return normalized


def attempt(rig: Rig, pod: Pod) -> tuple[CycleState, NodeStatuses]:
    """Run the filters for a pod as the engine does. Return the arguments of a PostFilter plugin."""
    cycle = CycleState()
    for plugin in rig.filters:
        result = plugin.pre_filter(cycle, pod, rig.nodes) if isinstance(plugin, PreFilterPlugin) else None
        if isinstance(result, Status):
            assert result.code == Code.SKIP, f"{plugin.name} returned {result}"
            cycle.skipped_filters.add(plugin.name)
    statuses = {node.name: rig.run_filters(cycle, pod, node) for node in rig.nodes}
    explicit = {name: status for name, status in statuses.items() if status is not None}
    return cycle, NodeStatuses(explicit, Status.unresolvable())
