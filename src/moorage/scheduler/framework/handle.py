"""The services for plugins. The engine passes a handle when it constructs a plugin."""

from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from moorage.common.clock import Clock
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.api.quantity import Quantity
from moorage.kube.api.records import EventNote
from moorage.kube.features import FeatureGates
from moorage.scheduler.framework.cycle import CycleState, StateKey
from moorage.scheduler.framework.groups import GroupTree, Proposal
from moorage.scheduler.framework.logs import PluginLog
from moorage.scheduler.framework.metering import Meter, PluginMetrics
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable, RowArray
from moorage.scheduler.framework.plugin import FilterPlugin, Hold, PreFilterExtensions
from moorage.scheduler.framework.status import Status
from moorage.scheduler.framework.victims import Victims

Object_co = TypeVar("Object_co", bound=KubeObject, covariant=True)
K = TypeVar("K", bound=KubeObject)
S = TypeVar("S")


class Lister(Protocol[Object_co]):
    """All objects of a kind, as the API last reported them."""

    @property
    def version(self) -> int:
        """A number that grows whenever one of the objects changes."""
        ...

    def changed_since(self, version: int) -> list[str] | None:
        """Return the keys of objects that changed since a version, or ``None`` if the version is too old."""
        ...

    def get(self, name: str, namespace: str = "") -> Object_co | None:
        """Return one object, or ``None``."""
        ...

    def find(self, key: str) -> Object_co | None:
        """Return the object of this ``namespace/name`` (the name alone for cluster-wide kinds), or ``None``."""
        ...

    def list(self, namespace: str | None = None) -> Iterator[Object_co]:
        """Go through all objects, or those of a namespace, in the order in which they appeared."""
        ...


class ClusterApi(Protocol):
    """The API as the scheduler writes to it: a real server, the embedded one, or the simulator's world."""

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Bind a pod to a node."""
        ...

    async def get(self, obj: K) -> K:
        """Return an object as currently stored. Raise :class:`~moorage.common.errors.NotFound` if it does not exist."""
        ...

    async def create(self, obj: K) -> K:
        """Create an object and return it as stored."""
        ...

    async def update(self, obj: K, *, subresource: str = "") -> K:
        """Write a changed object, and return it as stored.

        Only changed fields are sent, so fields without a struct member are preserved. Raise
        :class:`~moorage.common.errors.Conflict` if the object changed since it was read. The status of a custom
        resource with the status subresource is written only with ``subresource="status"``.
        """
        ...

    async def patch(self, obj: K, patch: Mapping[str, Any], *, subresource: str = "") -> K:
        """Merge a patch into any version of an object, and return the stored object.

        A JSON merge patch: ``None`` removes a field, and lists are replaced.
        """
        ...

    async def patch_status(self, obj: K, patch: Mapping[str, Any]) -> K:
        """Merge something into an object's status, and return the object as stored.

        Conditions are merged by type, but for custom resources.
        """
        ...

    async def delete(self, obj: KubeObject) -> None:
        """Delete an object."""
        ...

    def record(self, event: EventNote) -> None:
        """Record an event for the user. Never waits and never fails."""
        ...


class Nominator(Protocol):
    """Which pods are nominated to which nodes."""

    def nominated_pods(self, node_name: str) -> Collection[Pod]:
        """Return the pods that are nominated to a node and not on it yet."""
        ...

    def nodes_with_nominations(self) -> Collection[str]:
        """Return the nodes that some pod is nominated to."""
        ...

    def node_of(self, pod: Pod) -> str:
        """Return the node a pod is nominated for, or an empty text."""
        ...


class WaitingPod(Protocol):
    """A pod that a Permit plugin holds back."""

    pod: Pod
    """The pod."""

    def allow(self, plugin: str) -> None:
        """Let the pod go as far as this plugin is concerned. It binds when all have let it go."""
        ...

    def reject(self, plugin: str, message: str) -> None:
        """Reject the pod. It goes back to the queue."""
        ...

    def preempt(self, plugin: str, message: str) -> bool:
        """End the wait with an error, so that the pod is retried. Return whether the pod was still waiting."""
        ...


class PreemptionExtender(Protocol):
    """A web service that reviews the choice of victims."""

    name: str
    """The name of the service in messages."""
    is_ignorable: bool
    """Whether preemption continues without the service when it fails."""

    def handles_preemption_for(self, pod: Pod) -> bool:
        """Return whether the service must be called for this pod."""
        ...

    async def process_preemption(
        self, pod: Pod, candidates: Mapping[str, Victims], nodes: NodeTable
    ) -> Mapping[str, Victims]:
        """Return the nodes and victims that the service accepts. Raise ExtenderError if it fails."""
        ...


class Handle(Protocol):
    """The scheduler's services for a plugin. Each plugin of a profile has its own handle."""

    profile: str
    """The name of the profile that the plugin serves: what pods write as ``schedulerName``."""
    log: PluginLog
    """The logger: ``log.info(…)``, or ``log.v(4).info(…)`` for messages that need ``-v=4`` or more."""
    metrics: PluginMetrics
    """Makes counters, gauges and histograms under the plugin's name; make them in the constructor."""
    nodes: NodeTable
    """Every node, as of this cycle."""
    features: FeatureGates
    """The feature gates in force. Read them when the plugin is built, not in its methods."""

    @property
    def cluster(self) -> ClusterApi:
        """Where to write to."""
        ...

    @property
    def clock(self) -> Clock:
        """The clock."""
        ...

    @property
    def meter(self) -> Meter:
        """The kube-scheduler metrics of in-tree plugins. Others have ``metrics``."""
        ...

    def lister(self, kind: type[K]) -> Lister[K]:
        """Return a lister of a kind. A call in the constructor makes the scheduler list and watch the kind.

        Unless ``events_to_register`` is defined, a change of such an object requeues the pods that the plugin rejected.
        """
        ...

    def shared(self, key: StateKey[S], make: Callable[[], S]) -> S:
        """Return an object that plugins of all profiles share. The first caller creates it."""
        ...

    def invalidate(self, *node_names: str) -> None:
        """Recompute the plugin's cached results for these nodes, because its own state for them changed.

        Call it where the state changes, for example in ``reserve`` and ``unreserve``, but not in ``filter`` or
        ``score``. Results of ``pre_filter`` are kept; ``epoch`` discards those as well.
        """
        ...

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        """Return a pod that waits on permit."""
        ...

    def waiting_pods(self) -> Collection[WaitingPod]:
        """Return all pods that wait on permit."""
        ...

    def activate(self, pods: Mapping[str, Pod]) -> None:
        """Retry pods immediately, regardless of their backoff."""
        ...

    def wake_rejected(self) -> None:
        """Retry the pods that the plugin rejected or gates, because its own state changed.

        The effect is that of a cluster event that helps them: pods still backing off are retried after their backoff,
        ``pre_enqueue`` is repeated, and pods now in an attempt are retried if the plugin rejects them. It takes
        about 20 microseconds for each pod. Do not call it in ``pre_enqueue``.
        """
        ...

    def hold(self, node_name: str, requests: Mapping[str, Quantity]) -> Hold:
        """Keep resources of a node from all pods, for example for a reservation: ``{"cpu": "4", "memory": "8Gi"}``.

        Filters and scores count the hold like a pod, which takes one of ``pods``, too. Preemption cannot evict it. It
        exists in this scheduler only, and ends with ``release`` or with the plugin: recreate it in ``start``. The
        method ``usable_holds`` of a Reserve plugin lets pods use it.
        """
        ...

    def resort_queue(self) -> None:
        """Call ``sort_key`` for all queued pods before the next attempt, because the order changed.

        Several calls between two attempts have the cost of one: about five microseconds for each queued pod, and more
        for a slow ``sort_key``.
        """
        ...

    def in_background(self, work: Coroutine[Any, Any, object], *, name: str, must_finish: bool = False) -> None:
        """Run a coroutine in parallel with the scheduling cycles. Exceptions are logged.

        It may be endless: it is cancelled after the plugin was closed. With ``must_finish`` the shutdown waits for it
        for some seconds, and a simulation continues until it is done.
        """
        ...

    def call_later(self, seconds: float, action: Callable[[], None]) -> None:
        """Run something after a while, between cycles; never, if the plugin is closed before."""
        ...


class PreemptionHandle(Handle, Protocol):
    """Additional services for preemption: the profile's filters on modified nodes, and nominated pods.

    A plugin that annotates its ``handle`` parameter with this type gets the same object.
    """

    @property
    def order(self) -> RowArray:
        """The rows of all nodes in the order in which they are visited."""
        ...

    @property
    def filters(self) -> Sequence[FilterPlugin]:
        """The filters of the profile, in order."""
        ...

    @property
    def extensions(self) -> Sequence[PreFilterExtensions]:
        """The pre-filters of the profile that update their state for what-ifs."""
        ...

    @property
    def extenders(self) -> Sequence[PreemptionExtender]:
        """The web services that review preemption, in the order of their calls."""
        ...

    @property
    def nominator(self) -> Nominator:
        """Which pods are nominated to which nodes."""
        ...

    def run_filters(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Filter one node, perhaps a what-if, by all filters of the profile, nominated pods included."""
        ...

    def add_pod(self, cycle: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status | None:
        """Have the pre-filters of a what-if follow a pod that is added to a node."""
        ...

    def remove_pod(self, cycle: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> Status | None:
        """Have the pre-filters of a what-if follow a pod that is taken off a node."""
        ...

    def cancel_pre_bind(self, uid: str, reason: str) -> bool:
        """Stop a pod between permit and bind, so that it is retried. Return whether it was in these phases."""
        ...

    def without(self, pods: Iterable[Pod]) -> AbstractContextManager[None]:
        """Have the cluster be without some pods inside a ``with`` block, within one cycle."""
        ...

    async def place_group(self, group: GroupTree) -> tuple[Status | None, Sequence[Proposal]]:
        """Find nodes for the current group in the present state of the cluster, without placing it.

        If no node is feasible, the status contains the reason.
        """
        ...

    def reserve(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Run the reserve plugins of the profile for a pod on a node."""
        ...

    def unreserve(self, cycle: CycleState, pod: Pod, node_name: str) -> None:
        """Have the reserve plugins of the profile give that back."""
        ...
