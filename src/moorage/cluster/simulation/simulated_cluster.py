"""The embedded cluster in virtual time, without a wire: API server, kubelets, latencies and faults.

:class:`~moorage.cluster.controllers.kubelet.Kubelet` decides on each step of a pod, as in real time. Only its
execution differs: steps are timers, the store replaces the informer cache, and most writes bypass the API. Pod steps
are a quarter of the work.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final, TypeVar

import msgspec
import structlog
from msgspec.structs import replace

from moorage.cluster.apiserver.api import Api
from moorage.cluster.apiserver.requests.request import ApiRequest, ApiResponse, parse_target
from moorage.cluster.apiserver.storage.objects import ObjectStore
from moorage.cluster.apiserver.storage.store import Entry, Store, StoredChange, storage_name
from moorage.cluster.controllers import kubelet
from moorage.cluster.controllers.actions import Create, Patch, RequeueAfter, Write, build_request
from moorage.cluster.controllers.informer_cache import InformerCache, ObjectIndex
from moorage.cluster.controllers.kubelet import Kubelet
from moorage.cluster.controllers.manager import Controller, ControllerManager
from moorage.cluster.in_process import InProcessClient, StoreInformer, StoreWatch
from moorage.common.clock import VirtualClock
from moorage.common.errors import ApiError
from moorage.kube.api.kinds import BY_TYPE, Kind
from moorage.kube.api.meta import Condition, KubeObject, format_time
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod, PodStatus
from moorage.kube.api.records import EventNote
from moorage.kube.client.dispatcher import Dispatcher
from moorage.kube.client.informer import InformerObserver, OnChanges
from moorage.kube.client.list_watch import Change
from moorage.kube.client.rest import MERGE_PATCH, decoded
from moorage.kube.features import FeatureGates
from moorage.scheduler.engine.task_pool import TaskBackground
from moorage.scheduler.state.objects import Objects
from moorage.scheduler.wiring.api_writer import ApiWriter
from moorage.scheduler.wiring.assembly import Keeps, find_watched_kinds
from moorage.scheduler.wiring.scheduling_loop import SchedulingLoop

T = TypeVar("T", bound=KubeObject)
PODS: Final = storage_name(Pod)
MIN_WAIT: Final = 0.001
_FIELDS: Final = {field.encode_name: field.name for field in msgspec.structs.fields(PodStatus)}
_RESOURCES: Final = frozenset(("allocatedResources", "resources", "initContainerStatuses"))
log = structlog.get_logger(__name__)


class SimulatedKubelets:
    """Starts, runs and stops every placed pod."""

    def __init__(self, api: Api, watch: StoreWatch, kubelet: Kubelet, write_seconds: Callable[[], float]) -> None:
        self._api = api
        self._kubelet = kubelet
        self._write_seconds = write_seconds
        self._cache = StoreCache(api.store)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._busy: set[str] = set()
        for kind in kubelet.kinds:
            watch.follow(kind, self._on_changes)

    @property
    def is_idle(self) -> bool:
        """Whether no step of any pod is in progress or due."""
        return not (self._timers or self._busy)

    def start(self) -> None:
        """Reconcile all placed pods."""
        for pod in (entry.typed(Pod) for entry in self._api.store.list(PODS)):
            if pod.node_name:
                self._reconcile(pod.key)

    def _on_changes(self, _kind: Kind, changes: Sequence[Change[Any]]) -> None:
        for change in changes:
            obj = change.after if change.after is not None else change.before
            assert obj is not None
            for key in self._kubelet.affected(obj, self._cache):
                if key not in self._busy:
                    self._reconcile(key)

    def _reconcile(self, key: str) -> None:
        """Reconcile a pod. Its previous timer is cancelled."""
        loop = asyncio.get_running_loop()
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        for action in self._kubelet.reconcile(key, self._cache):
            if isinstance(action, RequeueAfter):
                # Timers may fire a rounding error early. Without a minimum, the pod would spin.
                self._timers[key] = loop.call_later(max(action.seconds, MIN_WAIT), self._due, key)
            elif isinstance(action, Write):
                self._busy.add(key)
                loop.call_later(self._write_seconds(), self._write, key, action)

    def _due(self, key: str) -> None:
        del self._timers[key]
        if key not in self._busy:
            self._reconcile(key)

    def _write(self, key: str, action: Write) -> None:
        self._busy.discard(key)
        entry = self._api.store.get(PODS, key)
        if entry is None or isinstance(action, Create) or entry.typed(Pod).uid != action.obj.uid:
            return
        # The watch event of the write reconciles the pod.
        if (
            isinstance(action, Patch)
            and action.subresource == "status"
            and merge_status(self._api.store, entry, action.patch["status"])
        ):
            return
        request = build_request(action)
        response = self._api.answer(
            ApiRequest(
                request.method, request.path, body=request.body, content_type=request.content_type, user_agent="kubelet"
            )
        )
        assert isinstance(response, ApiResponse), "kubelets do not watch"
        if response.status >= 300:
            log.warning("write of a kubelet rejected", path=request.path, status=response.status)


def merge_status(store: Store, entry: Entry, patch: Mapping[str, Any]) -> bool:
    """Merge fields into the status of a pod that is stored as a struct, as the API does.

    False unless plain replacement is sufficient: the API handles unusual cases.
    """
    if not entry.is_typed or _RESOURCES & patch.keys() or any(isinstance(item, dict) for item in patch.values()):
        return False
    pod = entry.typed(Pod)
    new_status = msgspec.convert(patch, PodStatus)
    changed_fields = {_FIELDS[key]: getattr(new_status, _FIELDS[key]) for key in patch if key in _FIELDS}
    # Cached properties of a pod depend on its spec and its reported resources, not on these fields.
    store.put_typed(PODS, pod, status=msgspec.structs.replace(pod.status, **changed_fields))
    return True


class StoreIndex(ObjectIndex[T]):
    """The stored objects of a kind. Only the methods that kubelets use are supported."""

    def __init__(self, store: Store, kind: type[T]) -> None:
        super().__init__()
        self._store = store
        self._kind = kind
        self._storage = storage_name(kind)

    def get(self, key: str) -> T | None:
        """Return the object of a key, or ``None``."""
        entry = self._store.get(self._storage, key)
        return None if entry is None else entry.typed(self._kind)

    def on_node(self, name: str) -> Collection[T]:
        """Return the pods of a node; used only when a node is added late, fails or recovers."""
        objects = (entry.typed(self._kind) for entry in self._store.list(self._storage))
        return [obj for obj in objects if isinstance(obj, Pod) and obj.node_name == name]


class StoreCache(InformerCache):
    """The store as an informer cache: no object is cached twice."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._indexes = {kind: StoreIndex(store, kind) for kind in (Pod, Node)}


Fault = Callable[[str, KubeObject], ApiError | None]
"""Called before each write of the scheduler with its verb and object. A returned error fails the write."""

_VERBS: Final = {"POST": "create", "PUT": "update", "DELETE": "delete"}


def no_faults(_verb: str, _obj: KubeObject) -> ApiError | None:
    """Let every write succeed."""
    return None


@dataclass(frozen=True, slots=True)
class Pace:
    """Latencies of a simulated cluster, in virtual seconds."""

    bind: float = 0.005
    write: float = 0.005
    watch: float = 0.002
    start_container: float = 1.0
    stop_container: float = 2.0
    run: float | None = None
    """Run time of pods that are not restarted and have no annotation for it. ``None`` means forever."""
    run_job: float | None = 5.0
    """The same for pods of Jobs."""


class SimulatedCluster:
    """The embedded cluster in virtual time, as an API for an offline scheduler.

    The scheduler writes through its production client and the API server's own operations. ``store`` gives access to
    the stored objects without the rules of the API. ``controllers`` run in addition to the kubelets. They do not see
    the objects with ``hidden`` UIDs.
    """

    def __init__(
        self,
        clock: VirtualClock,
        *,
        pace: Pace | None = None,
        fault: Fault = no_faults,
        features: FeatureGates | None = None,
        controllers: Sequence[Controller] = (),
        hidden: Collection[str] = (),
        has_kubelets: bool = True,
    ) -> None:
        self.clock = clock
        self.pace = pace or Pace()
        self.fault = fault
        # A fixed seed: generated names are the same in every run.
        self.api = Api(clock, features=features, chance=Random(0))
        self.store = ObjectStore(clock, self.api.store)
        self.background = TaskBackground()
        self.events: list[EventNote] = []
        """The scheduler's events. Writing them to the API would double the CPU time."""
        self.bindings: dict[str, str] = {}
        self.evicted: set[str] = set()
        self.on_eviction: Callable[[str], None] = lambda _uid: None
        """Called with the uid of each pod that the scheduler evicts."""
        self._watch = StoreWatch(self.api.store, lambda: self.pace.watch)
        self.cluster = SimulatedWriter(self)
        """The target of the scheduler's writes."""
        self._kubelets = self._make_kubelets() if has_kubelets else None
        self._driver: ControllerManager | None = None
        if controllers:
            client = InProcessClient(self.api, clock, self._controller_request, "kube-controller-manager")
            make_informer = partial(StoreInformer, self.api.store, self._watch, hidden=hidden)
            self._driver = ControllerManager(client, controllers, make_informer)
        self._driving: asyncio.Task[None] | None = None
        self.failures: Counter[str] = Counter()
        """Failed attempts of each pod since the last progress: a pod added, bound, ended or deleted, a node changed."""
        self.idle_writes = 0
        """Writes of controllers since the last progress. Many of them mean that controllers repeat themselves."""
        self.api.store.subscribe(self._note_progress)
        self._objects = Objects()

    def _make_kubelets(self) -> SimulatedKubelets:
        pace = self.pace
        kubelet_pace = kubelet.KubeletPace(pace.start_container, pace.run, pace.stop_container, pace.run_job)
        all_nodes = kubelet.Kubelet(self.clock, kubelet_pace, runs_every_node=True)
        return SimulatedKubelets(self.api, self._watch, all_nodes, lambda: self.pace.write)

    @property
    def is_busy(self) -> bool:
        """Whether writes, watch events, controllers or kubelets are in progress."""
        return len(self.background) > 0 or self.is_changing_by_itself

    @property
    def is_changing_by_itself(self) -> bool:
        """Whether anything other than the scheduler is in progress or due."""
        driver, kubelets = self._driver, self._kubelets
        is_working = driver is not None and not (driver.is_idle and (driver.is_synced or self._driving is None))
        return self._watch.is_busy or is_working or (kubelets is not None and not kubelets.is_idle)

    @property
    def refusals(self) -> dict[str, str]:
        """Writes of controllers that the API rejected, by controller and object."""
        refusals = self._driver.cache.rejections if self._driver is not None else {}
        return {f"{controller} of {key}": problem for (controller, key), problem in refusals.items()}

    def follow(self, objects: Objects, on_changes: OnChanges, keeps: Keeps, observer: InformerObserver | None) -> None:
        """Report changes of the watched kinds to the scheduler."""
        self._objects = objects
        for kind in find_watched_kinds(objects):
            self._watch.follow(kind, on_changes)

    def relist(self, kind: Kind, key: str) -> None:
        """Relist everything, like an informer after an expired watch."""
        self._watch.cut(self.pace.watch)

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def start_watching(self, loop: SchedulingLoop) -> None:
        """Report all further changes to the scheduler and wake its loop. Start kubelets and controllers."""
        self._watch.after_delivery = partial(loop.deliver, lambda: None)
        self.start_controllers()

    def start_controllers(self) -> None:
        """Start kubelets and controllers."""
        self._watch.start()
        if self._kubelets is not None:
            self._kubelets.start()
        if self._driver is not None and self._driving is None:
            self._driving = asyncio.get_running_loop().create_task(self._driver.run(), name="controllers")

    def cut_watches(self, seconds: float) -> None:
        """Interrupt all watches: events in transit are lost, and the next list recovers them."""
        self._watch.cut(seconds)

    @property
    def evictors(self) -> dict[str, str]:
        """The preemptor of each evicted pod, by the uid of the evicted pod."""
        notes = (note for note in self.events if note.reason == "Preempted" and note.related is not None)
        return {note.regarding.uid: note.related.key for note in notes if note.related is not None}

    def record(self, event: EventNote) -> None:
        """Keep an event."""
        self.events.append(event)
        if event.reason == "FailedScheduling":
            self.failures[event.regarding.uid] += 1

    def put_data(self, content: Mapping[str, Any]) -> None:
        """Store an object as plain data, unless its kind is not served."""
        resource = self.api.resources.find_kind(str(content["apiVersion"]), str(content["kind"]))
        if resource is not None:
            metadata = content["metadata"]
            key = resource.key(str(metadata.get("namespace") or "default"), str(metadata["name"]))
            self.api.store.put(resource.storage, key, {**content, "metadata": dict(metadata)})

    def add(self, *objects: KubeObject) -> None:
        """Create objects immediately, unchanged."""
        for obj in objects:
            self.store.create(obj)

    def remove(self, obj: KubeObject) -> None:
        """Delete an object through the API. A running pod is stopped by its kubelet first."""
        self.store.current(obj)
        response = self.api.answer(ApiRequest("DELETE", BY_TYPE[type(obj)].path(obj.name, obj.namespace)))
        assert getattr(response, "status", 0) < 300, f"{obj.key} cannot be deleted: {response}"

    def find_cached(self, obj: KubeObject) -> KubeObject | None:
        """Return the version of an object that the scheduler has."""
        return self._objects[type(obj)].find(obj.key) if type(obj) in self._objects.kinds() else None

    def _note_progress(self, resource: str, change: StoredChange) -> None:
        if not (self.failures or self.idle_writes) or resource not in ("pods", "nodes"):
            return
        if resource == "pods" and change.before is not None and change.after is not None:
            before, after = change.before.typed(Pod), change.after.typed(Pod)
            if not after.node_name and before.status.phase == after.status.phase:
                # A mere status update of a pending pod, as failed attempts cause it.
                return
        self.failures.clear()
        self.idle_writes = 0

    async def _controller_request(self, _request: ApiRequest) -> None:
        self.idle_writes += 1
        await asyncio.sleep(self.pace.write)

    async def scheduler_request(self, request: ApiRequest) -> None:
        """Delay a request of the scheduler. Raise the error of the fault, if any."""
        verb = _VERBS.get(request.method, "")
        if request.path.endswith("/binding"):
            verb = "bind"
        elif request.method == "PATCH":
            verb = "update" if request.content_type == MERGE_PATCH else "patch"
        await asyncio.sleep(self.pace.bind if verb == "bind" else self.pace.write)
        if verb and self.fault is not no_faults:
            target = parse_target(request.path, self.api.resources)
            kind = next(kind for kind in BY_TYPE if storage_name(kind) == target.resource.storage)
            entry = self.api.store.get(target.resource.storage, target.key) if target.name else None
            obj = decoded(kind, request.body) if entry is None else entry.typed(kind)
            if (error := self.fault(verb, obj)) is not None:
                raise error


class SimulatedWriter(ApiWriter):
    """Writes of the scheduler through its production client."""

    def __init__(self, world: SimulatedCluster) -> None:
        client = InProcessClient(world.api, world.clock, world.scheduler_request, "kube-scheduler")
        super().__init__(client, Dispatcher(random=Random(0)), world, world.clock, world.find_cached)
        self._world = world

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Bind a pod to a node; a pod that is stored as a struct needs no request."""
        world, is_bound = self._world, False
        if world.fault is no_faults and not self.is_writing(pod):
            await asyncio.sleep(world.pace.bind)
            entry = world.api.store.get(PODS, pod.key)
            is_bound = entry is not None and bind_pod(world.api.store, entry, pod.uid, node_name, world.clock.now())
        if not is_bound:
            await super().bind(pod, node_name)
        world.bindings[pod.uid] = node_name

    async def delete(self, obj: KubeObject) -> None:
        """Delete an object. A running pod gets its grace period."""
        await super().delete(obj)
        self._world.evicted.add(obj.uid)
        self._world.on_eviction(obj.uid)


def bind_pod(store: Store, entry: Entry, uid: str, node_name: str, now: float) -> bool:
    """Bind a pod that is stored as a struct, as the API does; False if the API must handle the request."""
    if not entry.is_typed:
        return False
    pod = entry.typed(Pod)
    if pod.metadata.uid != uid or pod.is_terminating or pod.spec.node_name or pod.spec.scheduling_gates:
        return False
    unchanged = tuple(item for item in pod.status.conditions if item.type != "PodScheduled")
    scheduled = Condition("PodScheduled", "True", last_transition_time=format_time(now))
    status = replace(pod.status, nominated_node_name="", conditions=(*unchanged, scheduled))
    store.put_typed(PODS, pod, spec=replace(pod.spec, node_name=node_name), status=status)
    return True
