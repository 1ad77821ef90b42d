"""The few services a plugin may ask for; the engine hands them out when it builds the plugin."""

from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from moorage.api.meta import KubeObject
from moorage.api.pod import Pod
from moorage.clock import Clock
from moorage.features import FeatureGates
from moorage.framework.cycle import CycleState, StateKey
from moorage.framework.metering import Meter
from moorage.framework.nodeinfo import NodeInfo
from moorage.framework.nodetable import NodeTable, RowArray
from moorage.framework.plugin import FilterPlugin, PreFilterExtensions
from moorage.framework.recording import EventNote
from moorage.framework.status import Status
from moorage.framework.victims import Victims
from moorage.state.claim_index import ClaimIndex
from moorage.state.pod_index import PodIndex

Object_co = TypeVar("Object_co", bound=KubeObject, covariant=True)
K = TypeVar("K", bound=KubeObject)
S = TypeVar("S")


class Lister(Protocol[Object_co]):
    """All objects of a kind, as the scheduler last heard of them."""

    @property
    def version(self) -> int:
        """A number that grows whenever one of the objects changes."""
        ...

    def changed_since(self, version: int) -> list[str] | None:
        """Return the keys of what changed since a version, or ``None`` if that is too long ago to tell."""
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


class Cluster(Protocol):
    """The API as the scheduler writes to it: a real server, the embedded one, or the simulator's world."""

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Bind a pod to a node."""
        ...

    async def get(self, thing: K) -> K:
        """Return an object as it is stored now; raise :class:`~moorage.errors.NotFound` if it is gone."""
        ...

    async def create(self, thing: K) -> K:
        """Create an object and return it as stored."""
        ...

    async def update(self, thing: K, *, subresource: str = "") -> K:
        """Replace an object and return it as stored; :class:`~moorage.errors.Conflict` if it changed meanwhile."""
        ...

    async def patch_status(self, thing: KubeObject, patch: Mapping[str, Any]) -> None:
        """Merge something into an object's status."""
        ...

    async def delete(self, thing: KubeObject) -> None:
        """Ask for an object to be deleted."""
        ...

    def record(self, event: EventNote) -> None:
        """Tell the user something; never waits and never fails."""
        ...


class Nominator(Protocol):
    """Who was promised which node."""

    def nominated_pods(self, node_name: str) -> Collection[Pod]:
        """Return the pods that were promised a node and are not on it yet."""
        ...

    def nodes_with_nominations(self) -> Collection[str]:
        """Return the nodes that are promised to some pod."""
        ...

    def node_of(self, pod: Pod) -> str:
        """Return the node a pod is nominated for, or an empty text."""
        ...


class WaitingPod(Protocol):
    """A pod that a Permit plugin holds back."""

    @property
    def pod(self) -> Pod:
        """The pod."""
        ...

    def allow(self, plugin: str) -> None:
        """Let the pod go as far as this plugin is concerned; it binds when all have let it go."""
        ...

    def reject(self, plugin: str, message: str) -> None:
        """Turn the pod down; it goes back to the queue."""
        ...

    def preempt(self, plugin: str, message: str) -> bool:
        """End the wait with an error, so that the pod is tried again; tell whether that was the first word."""
        ...


class PreemptionExtender(Protocol):
    """A web service that has a say in who is evicted."""

    @property
    def name(self) -> str:
        """What the service is called in messages."""
        ...

    @property
    def is_ignorable(self) -> bool:
        """Whether preemption goes on without the service when it fails."""
        ...

    def handles_preemption_for(self, pod: Pod) -> bool:
        """Tell whether the service wants to be asked about this pod."""
        ...

    async def process_preemption(
        self, pod: Pod, candidates: Mapping[str, Victims], nodes: NodeTable
    ) -> Mapping[str, Victims]:
        """Return the nodes and victims that the service agrees with; ExtenderError says what went wrong."""
        ...


class Handle(Protocol):
    """What a plugin may ask of the scheduler around it."""

    @property
    def nodes(self) -> NodeTable:
        """Every node, as of this cycle."""
        ...

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
        """The pre-filters of the profile whose state follows what-ifs."""
        ...

    @property
    def extenders(self) -> Sequence[PreemptionExtender]:
        """The web services that have a say in preemption, in the order in which they are asked."""
        ...

    @property
    def pods(self) -> PodIndex:
        """Pods on nodes, counted by label selector and by affinity term."""
        ...

    @property
    def claims(self) -> ClaimIndex:
        """Which pods on nodes use which claims, and which disks named in line."""
        ...

    @property
    def features(self) -> FeatureGates:
        """The feature gates in force; read them when the plugin is built, not in its methods."""
        ...

    @property
    def clock(self) -> Clock:
        """What time it is."""
        ...

    @property
    def cluster(self) -> Cluster:
        """Where to write to."""
        ...

    @property
    def nominator(self) -> Nominator:
        """Who was promised which node."""
        ...

    @property
    def meter(self) -> Meter:
        """Where to count what only the plugin knows."""
        ...

    def lister(self, kind: type[K]) -> Lister[K]:
        """Return all objects of a kind; asking makes the scheduler list and watch it."""
        ...

    def shared(self, key: StateKey[S], make: Callable[[], S]) -> S:
        """Return what plugins of all profiles share under a key; the first that asks makes it."""
        ...

    def run_filters(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Judge one node, perhaps a what-if, by all filters of the profile, nominated pods included."""
        ...

    def add_pod(self, cycle: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status | None:
        """Tell the pre-filters of a what-if that a pod was added to a node."""
        ...

    def remove_pod(self, cycle: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> Status | None:
        """Tell the pre-filters of a what-if that a pod was taken off a node."""
        ...

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        """Return a pod that waits on permit."""
        ...

    def waiting_pods(self) -> Collection[WaitingPod]:
        """Return all pods that wait on permit."""
        ...

    def cancel_pre_bind(self, uid: str, reason: str) -> bool:
        """Stop a pod on its way from permit to bind, so that it is tried again; tell whether it was there."""
        ...

    def activate(self, pods: Mapping[str, Pod]) -> None:
        """Have pods tried again at once, whatever their backoff."""
        ...

    def in_background(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Run something beside the scheduling cycles; what it raises is logged."""
        ...

    def call_later(self, seconds: float, action: Callable[[], None]) -> None:
        """Run something after a while, between cycles."""
        ...
