"""The scheduler without a live cluster: real plugins, queue and cache over an API that decides what writes do.

==================  ==============================================  =================================
API                 effect of a write                               used by
==================  ==============================================  =================================
DiscardingApi       none                                            dry run, what-if sessions, shadow
InstantApi          immediate. The scheduler is the store           lab trials, learning, benchmarks
SimulatedCluster    the API server's, after a latency; kubelets     simulations
==================  ==============================================  =================================

Changes come from the caller (:meth:`OfflineScheduler.apply`) or from the watch of the API.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec
import structlog
from msgspec.structs import replace

from moorage.common.clock import Clock, VirtualClock
from moorage.common.errors import NotFound
from moorage.common.observers import Observer
from moorage.common.virtual_time import VirtualLoop
from moorage.kube.api.codec import convert, encode, to_data
from moorage.kube.api.custom import CustomObject, RawNode, RawPod
from moorage.kube.api.kinds import BY_TYPE, Kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.client.informer import InformerObserver, OnChanges
from moorage.kube.client.list_watch import Change
from moorage.kube.patches import merge_patch
from moorage.scheduler.engine.task_pool import TaskBackground
from moorage.scheduler.framework.handle import ClusterApi
from moorage.scheduler.state.objects import Objects
from moorage.scheduler.wiring.assembly import ApiAccess, Keeps, Tuning, assemble, find_watched_kinds
from moorage.scheduler.wiring.http_extender import HttpExtender
from moorage.scheduler.wiring.policy import Policy

K = TypeVar("K", bound=KubeObject)

RAW_VIEWS: Final[Mapping[type[KubeObject], type[CustomObject]]] = {Pod: RawPod, Node: RawNode}
MAX_TURNS: Final = 64
"""Turns that other tasks get before :meth:`OfflineScheduler.settle` gives up: they wait for a timer then."""


log = structlog.get_logger(__name__)


class OfflineApi(ApiAccess, Protocol):
    """An API for an offline scheduler."""

    @property
    def background(self) -> TaskBackground:
        """Runs bindings, evictions and status patches."""
        ...


C = TypeVar("C", bound=OfflineApi)


class OfflineScheduler(Generic[C]):
    """A complete scheduler over an offline API. Must be built on the loop that runs it."""

    def __init__(
        self,
        policy: Policy,
        api: C,
        clock: Clock,
        *,
        observers: Sequence[Observer] = (),
        tuning: Tuning | None = None,
    ) -> None:
        self.api = api
        self.clock = clock
        self._parts = assemble(
            policy,
            api,
            clock,
            observers=observers,
            background=api.background,
            tuning=replace(tuning or Tuning(), make_extender=OutsideExtender),
        )
        self.scheduler = self._parts.scheduler
        self.loop = self._parts.loop
        self.apply = self.scheduler.handlers.apply
        """Apply a change of an object immediately. ``before`` or ``after`` is ``None`` for a new or deleted object."""
        self.kinds = frozenset(find_watched_kinds(self.scheduler.objects))
        """The kinds that the scheduler and its plugins watch."""

    def load(self, objects: Iterable[KubeObject], *, arrival_interval: float = 0.0) -> None:
        """Apply the objects that exist at the start. Kinds that are not watched and finished pods are skipped.

        Each pod finds the objects that it refers to: pending pods are last. They arrive ``arrival_interval`` seconds
        of virtual time apart, so that the queue keeps their order.
        """
        phases: tuple[list[KubeObject], ...] = ([], [], [], [])
        if views := self.kinds & {*RAW_VIEWS.values()}:
            names = sorted(view.__name__ for view in views)
            log.warning("raw views have only the fields of Pod and Node in simulations", views=names)
        for obj in objects:
            view = RAW_VIEWS.get(type(obj))
            if view in views:
                phases[0].append(convert(view, encode(obj)))
            if type(obj) in self.kinds and not (isinstance(obj, Pod) and obj.is_finished):
                phases[_load_phase(obj)].append(obj)
        dependencies, nodes, placed, pending = phases
        for kind, same_kind in groupby((*dependencies, *nodes, *placed), type):
            self._parts.deliveries.on_changes(BY_TYPE[kind], [Change(None, obj) for obj in same_kind])
        for pod in pending:
            self._parts.deliveries.on_changes(BY_TYPE[Pod], [Change(None, pod)])
            if arrival_interval:
                assert isinstance(self.clock, VirtualClock), "a real clock advances by itself"
                self.clock.advance(arrival_interval)

    def deliver_between_cycles(self) -> None:
        """Apply changes from the watch between scheduling cycles from now on, instead of immediately."""
        self._parts.deliveries.start_through_loop()

    async def start(self) -> None:
        """Start the plugins."""
        await self.scheduler.lifecycle.start()

    async def settle(self, *, on_step: Callable[[], None] = lambda: None) -> bool:
        """Try all pods that can be tried now, and complete their bindings. No time passes.

        Return False if a binding waits for time to pass, for example for a plugin that delays its pod. ``on_step`` is
        called after each attempt.
        """
        turns = 0
        while turns < MAX_TURNS:
            if await self.loop.step():
                turns = 0
                on_step()
            elif self.is_idle:
                return True
            turns += 1
            await asyncio.sleep(0)
        return False

    @property
    def is_idle(self) -> bool:
        """Whether no binding and no other write is in progress."""
        delayed = len(self.scheduler.services.waiting.all())
        return not self.scheduler.binder.in_flight and len(self.api.background) <= delayed

    async def close(self) -> None:
        """Close the plugins and all connections."""
        await self.scheduler.lifecycle.close()
        self._parts.close()


def _load_phase(obj: KubeObject) -> int:
    if isinstance(obj, Pod):
        return 2 if obj.node_name else 3
    return 1 if isinstance(obj, Node) else 0


def search_all_nodes(policy: Policy) -> Policy:
    """Return a policy that filters all nodes, regardless of ``percentageOfNodesToScore``."""
    config = policy.config
    profiles = tuple(replace(profile, percentage_of_nodes_to_score=None) for profile in config.profiles)
    return Policy(
        replace(config, percentage_of_nodes_to_score=None, profiles=profiles), policy.registry, policy.features
    )


class OutsideExtender(HttpExtender):
    """An extender that is called from virtual time. Its responses take real time."""

    async def _send(self, verb: str, request: Mapping[str, Any]) -> bytes:
        loop = asyncio.get_running_loop()
        if not isinstance(loop, VirtualLoop):
            return await super()._send(verb, request)
        with loop.awaiting_outside():
            return await super()._send(verb, request)


# ── no effect ────────────────────────────────────────────────────────────────────────────────────────────────────────


class NoBackground(TaskBackground):
    """Drops work: evictions and status patches are not carried out."""

    def start(self, work: Coroutine[Any, Any, object], *, name: str) -> None:
        """Drop the work."""
        work.close()

    def spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Drop the work."""
        work.close()

    def call_later(self, seconds: float, action: Callable[[], None]) -> None:
        """Drop the action."""


class DiscardingApi:
    """An API that accepts every write and stores none. By default, background work is also dropped."""

    def __init__(self, background: TaskBackground | None = None) -> None:
        self.background = background if background is not None else NoBackground()

    @property
    def cluster(self) -> ClusterApi:
        """The target of the scheduler's writes."""
        return self

    def follow(self, objects: Objects, on_changes: OnChanges, keeps: Keeps, observer: InformerObserver | None) -> None:
        """Report no changes: nothing changes."""

    def relist(self, kind: Kind, key: str) -> None:
        """Ignore an object that could not be applied: the list would contain the same object."""

    def close(self) -> None:
        """Do nothing: there is no connection."""

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Accept a binding."""

    async def get(self, obj: K) -> K:
        """Return the object itself: it never changes."""
        return obj

    async def create(self, obj: K) -> K:
        """Accept a new object."""
        return obj

    async def update(self, obj: K, *, subresource: str = "") -> K:
        """Accept a changed object."""
        return obj

    async def patch(self, obj: K, patch: Mapping[str, Any], *, subresource: str = "") -> K:
        """Accept a patch."""
        return obj

    async def patch_status(self, obj: K, patch: Mapping[str, Any]) -> K:
        """Accept a status."""
        return obj

    async def delete(self, obj: KubeObject) -> None:
        """Accept a deletion."""

    def record(self, event: object) -> None:
        """Accept an event."""


# ── immediate effect ─────────────────────────────────────────────────────────────────────────────────────────────────


class InstantApi(DiscardingApi):
    """An API that applies every write immediately. It stores nothing: the scheduler's own objects are the store.

    ``on_bound`` and ``on_deleted`` are called after the scheduler has applied the change. Pods have no grace period.
    """

    def __init__(
        self,
        on_bound: Callable[[Pod], None] = lambda _pod: None,
        on_deleted: Callable[[Pod], None] = lambda _pod: None,
    ) -> None:
        super().__init__(TaskBackground())
        self._on_bound, self._on_deleted = on_bound, on_deleted
        self._objects = Objects()
        self._on_changes: OnChanges = _ignore
        self._version = 1

    def follow(self, objects: Objects, on_changes: OnChanges, keeps: Keeps, observer: InformerObserver | None) -> None:
        """Read objects from the scheduler, and report changes to it."""
        self._objects, self._on_changes = objects, on_changes

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Bind a pod, and confirm it."""
        current = self._find(pod)
        if current is None or current.uid != pod.uid:
            raise NotFound(f"pod {pod.key} not found")
        bound_pod = current.on_node(node_name)
        self._report(current, bound_pod)
        self._on_bound(bound_pod)

    async def get(self, obj: K) -> K:
        """Return an object in its current state."""
        current = self._find(obj)
        if current is None:
            raise NotFound(f"{obj.key} not found")
        return current

    async def create(self, obj: K) -> K:
        """Create an object."""
        self._report(None, obj)
        return obj

    async def update(self, obj: K, *, subresource: str = "") -> K:
        """Replace an object."""
        return self._change(await self.get(obj), obj)

    async def patch(self, obj: K, patch: Mapping[str, Any], *, subresource: str = "") -> K:
        """Merge a patch into an object."""
        before = await self.get(obj)
        if set(patch) == {"metadata"} and set(patch["metadata"]) == {"annotations"}:
            annotations = {**before.metadata.annotations, **patch["metadata"]["annotations"]}
            annotations = {name: text for name, text in annotations.items() if text is not None}
            return self._change(before, replace(before, metadata=replace(before.metadata, annotations=annotations)))
        return self._change(before, convert(type(obj), merge_patch(to_data(before), msgspec.to_builtins(patch))))

    async def patch_status(self, obj: K, patch: Mapping[str, Any]) -> K:
        """Apply a nomination. Ignore conditions, which the scheduler does not read."""
        if isinstance(obj, Pod) and "nominatedNodeName" in patch and (before := self._find(obj)) is not None:
            status = replace(before.status, nominated_node_name=patch["nominatedNodeName"] or "")
            self._change(before, replace(before, status=status))
        return self._find(obj) or obj

    async def delete(self, obj: KubeObject) -> None:
        """Delete an object."""
        current = self._find(obj)
        if current is None or current.uid != obj.uid:
            raise NotFound(f"{obj.key} not found")
        self._report(current, None)
        if isinstance(current, Pod):
            self._on_deleted(current)

    def _find(self, obj: K) -> K | None:
        return self._objects[type(obj)].find(obj.key)

    def _change(self, before: K, after: K) -> K:
        self._version += 1
        new_object = replace(after, metadata=replace(after.metadata, resource_version=f"change-{self._version}"))
        self._report(before, new_object)
        return new_object

    def _report(self, before: K | None, after: K | None) -> None:
        kind = BY_TYPE[type(before if after is None else after)]  # type: ignore[index]
        self._on_changes(kind, (Change(before, after),))


def _ignore(_kind: Kind, _changes: Sequence[Change[Any]]) -> None:
    """Report no changes: no scheduler follows yet."""
