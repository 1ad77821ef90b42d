"""A plugin on the bench: a small cluster and the services a plugin may ask for, without a scheduler around them."""

from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import numpy as np

from moorage.common.clock import VirtualClock
from moorage.kube.api.kinds import kind_of
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import DEFAULT_SCHEDULER_NAME, Pod
from moorage.kube.api.pod_groups import CompositePodGroup, PodGroup
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
    Plugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
)
from moorage.scheduler.framework.status import Code, Status
from moorage.scheduler.queue.nominator import PodNominator
from moorage.scheduler.state.cache import Cache
from moorage.scheduler.state.claim_index import ClaimIndex
from moorage.scheduler.state.objects import ObjectCache, Objects
from moorage.scheduler.state.pod_groups import PodGroups
from moorage.scheduler.state.pod_index import PodIndex

K = TypeVar("K", bound=KubeObject)
S = TypeVar("S")


def nominations_of(*pods: Pod) -> PodNominator:
    """Return a nominator that knows these pods, nominated as their status says."""
    queued = {pod.key: pod for pod in pods}
    nominations = PodNominator(queued.get)
    for pod in pods:
        nominations.add(pod)
    return nominations


class Rig:
    """A :class:`~moorage.scheduler.framework.handle.Handle` over a cluster made of plain objects.

    Nodes, pods (those with ``spec.nodeName``) and any other objects are taken in as the scheduler would. The plugins
    in ``filters`` are what :meth:`run_filters` runs.

    >>> from moorage.testing import make_node
    >>> len(Rig(make_node("a"), make_node("b")).nodes)
    2
    """

    def __init__(self, *objects: KubeObject, features: FeatureGates | None = None) -> None:
        self.cache = Cache()
        self.objects = Objects()
        self.features = features or FeatureGates()
        self.clock = VirtualClock()
        self._groups = PodGroups(with_composites=self.features.enabled("CompositePodGroup"))
        if self.features.enabled("GenericWorkload"):
            self.cache.groups = self._groups
        self._shared: dict[StateKey[Any], Any] = {}
        self.nominator: Nominator = nominations_of()
        self._cluster: ClusterApi | None = None
        self.filters: list[FilterPlugin] = []
        self.extenders: list[PreemptionExtender] = []
        self.waiting: dict[str, WaitingPod] = {}
        self.in_pre_bind: dict[str, str] = {}
        self.activated: dict[str, Pod] = {}
        self.background: list[Coroutine[Any, Any, object]] = []
        self.meter: PluginMeter = SILENT_METER
        self.profile = DEFAULT_SCHEDULER_NAME
        self.log = PluginLog("moorage.testing.rig", {"profile": self.profile})
        self.metrics = PluginMetrics(self.meter, "rig", self.profile)
        self.add(*objects)

    def add(self, *objects: KubeObject) -> None:
        """Take objects in, new or changed."""
        for thing in objects:
            if isinstance(thing, Node):
                self.cache.add_node(thing)
            elif isinstance(thing, Pod) and thing.node_name:
                self.cache.add_pod(thing)
            elif isinstance(thing, Pod):
                self._groups.add_waiting(thing)
            elif isinstance(thing, PodGroup | CompositePodGroup):
                self._groups.put(thing)
            self.objects[type(thing)].put(thing)

    @property
    def nodes(self) -> NodeTable:
        """Every node."""
        return self.cache.nodes

    @property
    def pods(self) -> PodIndex:
        """Pods on nodes, counted."""
        return self.cache.pods

    @property
    def claims(self) -> ClaimIndex:
        """Which pods on nodes use which claims."""
        return self.cache.claims

    @property
    def has_groups(self) -> bool:
        """Whether pods may be members of groups."""
        return self.cache.groups is not None

    @property
    def groups(self) -> PodGroups:
        """Groups of pods, and how far their members have come."""
        return self._groups

    @property
    def order(self) -> RowArray:
        """The rows of all nodes in the order in which they are visited."""
        return self.cache.order

    @property
    def extensions(self) -> list[PreFilterExtensions]:
        """Those of the filters whose state follows what-ifs."""
        return [plugin for plugin in self.filters if isinstance(plugin, PreFilterExtensions)]

    @property
    def cluster(self) -> ClusterApi:
        """Where to write to, if the test gave the rig such a thing."""
        if self._cluster is None:
            raise RuntimeError("this rig has no API to write to: set rig.cluster to one")
        return self._cluster

    @cluster.setter
    def cluster(self, cluster: ClusterApi) -> None:
        self._cluster = cluster

    def lister(self, kind: type[K]) -> ObjectCache[K]:
        """Return all objects of a kind."""
        kind_of(kind)  # TypeError, as from the scheduler, if it stands for none
        return self.objects[kind]

    def shared(self, key: StateKey[S], make: Callable[[], S]) -> S:
        """Return what plugins share under a key; the first that asks makes it."""
        if key not in self._shared:
            self._shared[key] = make()
        found: S = self._shared[key]
        return found

    def run_filters(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Filter a node by the rig's filters, in order; first as if the pods nominated to it were there."""
        nominated = [
            other
            for other in self.nominator.nominated_pods(node.name)
            if other.priority >= pod.priority and other.uid != pod.uid
        ]
        if nominated:
            what_if, state = node.copy(), cycle.clone()
            for other in nominated:
                what_if.add_pod(other)
                self.add_pod(state, pod, other, what_if)
            if (status := self._filter(state, pod, what_if)) is not None:
                return status
        return self._filter(cycle, pod, node)

    def _filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        for plugin in self.filters:
            if plugin.name not in cycle.skipped_filters:
                status = plugin.filter(cycle, pod, node)
                if status is not None:
                    return status.by(plugin.name)
        return None

    def add_pod(self, cycle: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status | None:
        """Notify the rig's plugins that a pod was added to a what-if."""
        return self._notify(cycle, lambda plugin: plugin.add_pod(cycle, pod, added, node))

    def remove_pod(self, cycle: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> Status | None:
        """Notify the rig's plugins that a pod was taken off a what-if."""
        return self._notify(cycle, lambda plugin: plugin.remove_pod(cycle, pod, removed, node))

    def _notify(self, cycle: CycleState, call: Callable[[PreFilterExtensions], Status | None]) -> Status | None:
        for plugin in self.extensions:
            if plugin.name not in cycle.skipped_filters:
                status = call(plugin)
                if status is not None:
                    return status.by(plugin.name)
        return None

    @contextmanager
    def without(self, pods: Iterable[Pod]) -> Iterator[None]:
        """Have the cluster be without some pods inside a ``with`` block."""
        lifted = self.cache.lift(pods)
        try:
            yield
        finally:
            self.cache.put_down(lifted)

    async def place_group(self, group: GroupTree) -> tuple[Status | None, Sequence[Proposal]]:
        """Find no place: that takes a scheduler."""
        return Status.error("a rig places no groups"), ()

    def reserve(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Set nothing aside: the rig has no reserve plugins."""
        return None

    def unreserve(self, cycle: CycleState, pod: Pod, node_name: str) -> None:
        """Give nothing back."""

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        """Return a pod that the test put among those that wait on permit."""
        return self.waiting.get(uid)

    def waiting_pods(self) -> Collection[WaitingPod]:
        """Return the pods that the test put among those that wait on permit."""
        return tuple(self.waiting.values())

    def cancel_pre_bind(self, uid: str, reason: str) -> bool:
        """Note why a pod was stopped that the test put in ``in_pre_bind``."""
        if uid in self.in_pre_bind:
            self.in_pre_bind[uid] = reason
        return uid in self.in_pre_bind

    def activate(self, pods: Mapping[str, Pod]) -> None:
        """Note which pods were to be tried again."""
        self.activated.update(pods)

    def in_background(self, work: Coroutine[Any, Any, object], *, name: str, must_finish: bool = False) -> None:
        """Keep the work for the test to await."""
        self.background.append(work)

    def call_later(self, seconds: float, action: Callable[[], None]) -> None:
        """Do nothing: time does not pass by itself on the bench."""


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
    """Score all nodes by the columnar form; so few as a test has are repeated, as there may be a path for few."""
    rows = np.tile(np.arange(len(nodes)), ENOUGH_ROWS)
    scores: list[int] = plugin.score_nodes(cycle, pod, nodes.take(rows)).tolist()
    return scores[: len(nodes)]


ENOUGH_ROWS: Final = 32
FORMS: Final[tuple[FilterForm, ...]] = (one_at_a_time, all_at_once)
SCORE_FORMS: Final[tuple[ScoreForm, ...]] = (score_one_at_a_time, score_all_at_once)


def run_filter(plugin: Plugin, rig: Rig, pod: Pod, form: FilterForm) -> list[Status | None]:
    """Run a plugin's pre-filter, if it has one, and its filter; a pod rejected beforehand is so on every node."""
    cycle, nodes = CycleState(), rig.nodes
    answer = plugin.pre_filter(cycle, pod, nodes) if isinstance(plugin, PreFilterPlugin) else None
    if isinstance(answer, Status):
        return [None if answer.code == Code.SKIP else answer] * len(nodes)
    assert isinstance(plugin, FilterPlugin)
    return form(plugin, cycle, pod, nodes)


def run_score(plugin: Plugin, rig: Rig, pod: Pod, form: ScoreForm) -> list[int] | None:
    """Run a plugin's pre-score, if it has one, its score and its normalising; ``None`` if it sits this pod out."""
    cycle, nodes = CycleState(), rig.nodes
    status = plugin.pre_score(cycle, pod, nodes) if isinstance(plugin, PreScorePlugin) else None
    if status is not None:
        assert status.code == Code.SKIP, f"{plugin.name} answered {status}"
        return None
    assert isinstance(plugin, ScorePlugin)
    scores = np.array(form(plugin, cycle, pod, nodes), dtype=np.int64)
    normalized: list[int] = plugin.normalize_scores(cycle, pod, nodes, scores).tolist()
    return normalized


def attempt(rig: Rig, pod: Pod) -> tuple[CycleState, NodeStatuses]:
    """Run the rig's filters for a pod as the engine does; return what a post-filter would be given."""
    cycle = CycleState()
    for plugin in rig.filters:
        answer = plugin.pre_filter(cycle, pod, rig.nodes) if isinstance(plugin, PreFilterPlugin) else None
        if isinstance(answer, Status):
            assert answer.code == Code.SKIP, f"{plugin.name} answered {answer}"
            cycle.skipped_filters.add(plugin.name)
    found = {node.name: rig.run_filters(cycle, pod, node) for node in rig.nodes}
    explicit = {name: status for name, status in found.items() if status is not None}
    return cycle, NodeStatuses(explicit, Status.unresolvable())
