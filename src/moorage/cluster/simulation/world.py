"""The embedded cluster in virtual time, without a wire: API server, kubelets, latencies and faults."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final, Self, TypeVar

from moorage.cluster.apiserver.api import Api
from moorage.cluster.apiserver.requests.request import ApiRequest, target_of
from moorage.cluster.apiserver.storage.objects import ObjectStore
from moorage.cluster.apiserver.storage.store import StoredChange, storage_of
from moorage.cluster.apiserver.writing.typed import bind_pod
from moorage.cluster.controllers import kubelet
from moorage.cluster.controllers.manager import Controller, ControllerManager
from moorage.cluster.in_process import InProcessClient, StoreInformer, StoreWatch
from moorage.cluster.simulation.kubelets import SimulatedKubelets
from moorage.common.clock import VirtualClock
from moorage.common.errors import ApiError
from moorage.kube.api.kinds import BY_TYPE, Kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.client.dispatcher import Dispatcher
from moorage.kube.client.event_note import EventNote
from moorage.kube.client.informer import OnChanges
from moorage.kube.client.list_watch import Change
from moorage.kube.client.rest import MERGE_PATCH, decoded
from moorage.kube.features import FeatureGates
from moorage.scheduler.engine.binding.binder import TaskBackground
from moorage.scheduler.state.objects import Objects
from moorage.scheduler.wiring.api_writer import ApiWriter
from moorage.scheduler.wiring.loop import SchedulingLoop
from moorage.scheduler.wiring.parts import Keeps, kinds_of

K = TypeVar("K", bound=KubeObject)
Fault = Callable[[str, KubeObject], ApiError | None]
"""Asked before each write of the scheduler with its verb and object; an error it returns is what the writer gets."""

_VERBS: Final = {"POST": "create", "PUT": "update", "DELETE": "delete"}


def no_faults(_verb: str, _thing: KubeObject) -> ApiError | None:
    """Let every write succeed."""
    return None


@dataclass(frozen=True, slots=True)
class Pace:
    """How long things take, in virtual seconds."""

    bind: float = 0.005
    write: float = 0.005
    watch: float = 0.002
    start_container: float = 1.0
    stop_container: float = 2.0
    run: float | None = None
    """How long pods run that are not restarted and do not say; those of jobs do for ``run_job``."""
    run_job: float | None = 5.0


class World:
    """The embedded cluster as the scheduler is connected to it.

    What the scheduler writes goes through the client that it has in production and the API server's own operations.
    ``store`` is what is stored, as structs, past the API's rules. Everything runs on the loop that is running when it
    is used, so a ``VirtualLoop`` makes it a simulation. ``controllers`` work beside the
    kubelets; they do not see the objects whose uids are ``hidden``.
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
        # The names of pods that are made are drawn: the same in every run.
        self.api = Api(clock, features=features, chance=Random(0))
        self.store = ObjectStore(clock, self.api.store)
        self.background = TaskBackground()
        self.events: list[EventNote] = []
        """What the scheduler recorded: writing it to the API would be half of all work."""
        self.bindings: dict[str, str] = {}
        self.evicted: set[str] = set()
        self.on_eviction: Callable[[str], None] = lambda _uid: None
        """Called with the uid of a pod that the scheduler has asked to leave."""
        self._watch = StoreWatch(self.api.store, lambda: self.pace.watch)
        client = InProcessClient(self.api, clock, self._scheduler_request, "kube-scheduler")
        self._writer = ApiWriter(client, Dispatcher(random=Random(0)), self, clock, self._known)
        self._kubelets = self._make_kubelets() if has_kubelets else None
        self._driver = self._drive(controllers, hidden) if controllers else None
        self._driving: asyncio.Task[None] | None = None
        self.failures: Counter[str] = Counter()
        """How often each pod failed since a pod last came, went, was bound or ended, or a node changed."""
        self.api.store.subscribe(self._note_progress)
        self._objects = Objects()
        self._on_changes: OnChanges = lambda _kind, _changes: None

    def _make_kubelets(self) -> SimulatedKubelets:
        pace = self.pace
        lasting = kubelet.KubeletPace(pace.start_container, pace.run, pace.stop_container, pace.run_job)
        every = kubelet.Kubelet(self.clock, lasting, runs_every_node=True)
        return SimulatedKubelets(self.api, self._watch, every, lambda: self.pace.write)

    def _drive(self, controllers: Sequence[Controller], hidden: Collection[str]) -> ControllerManager:
        client = InProcessClient(self.api, self.clock, self._controller_request, "kube-controller-manager")
        return ControllerManager(
            client, controllers, partial(StoreInformer, self.api.store, self._watch, hidden=hidden)
        )

    @property
    def is_busy(self) -> bool:
        """Whether something will still happen by itself: writes, deliveries, containers starting and stopping."""
        return len(self.background) > 0 or self.is_changing_by_itself

    @property
    def is_changing_by_itself(self) -> bool:
        """Whether something other than the scheduler is at work, or will be."""
        driver, kubelets = self._driver, self._kubelets
        is_working = driver is not None and not (driver.is_idle and (driver.is_synced or self._driving is None))
        return self._watch.is_busy or is_working or (kubelets is not None and not kubelets.is_idle)

    @property
    def cluster(self) -> Self:
        """Where the scheduler writes to."""
        return self

    @property
    def refusals(self) -> dict[str, str]:
        """What controllers were not allowed to do, by what it was for."""
        known = self._driver.cache.refusals if self._driver is not None else {}
        return {f"{controller} of {key}": problem for (controller, key), problem in known.items()}

    def follow(self, objects: Objects, on_changes: OnChanges, keeps: Keeps) -> None:
        """Pass changes of the kinds that the scheduler watches on to it."""
        self._objects, self._on_changes = objects, on_changes
        for kind in kinds_of(objects):
            self._watch.follow(kind, on_changes)

    def relist(self, kind: Kind, key: str) -> None:
        """List everything again, as an informer would that lost its place."""
        self._watch.cut(self.pace.watch)

    def close(self) -> None:
        """There is nothing to close."""

    def announce(self) -> None:
        """Have the scheduler know what is there already: a pod finds all it refers to, and those with a node first."""
        kinds: list[type[KubeObject]] = [kind for kind in kinds_of(self._objects) if kind not in (Node, Pod)]
        pods = list(self.store.list(Pod))
        placed, waiting = (pod for pod in pods if pod.node_name), (pod for pod in pods if not pod.node_name)
        things = [thing for kind in kinds for thing in self.store.list(kind)]
        for thing in (*things, *self.store.list(Node), *placed, *waiting):
            self._on_changes(BY_TYPE[type(thing)], [Change(None, thing)])

    def start_watching(self, loop: SchedulingLoop) -> None:
        """Pass every change from now on to the scheduler, wake its loop whenever one has happened, start the others."""
        self._watch.after_delivery = partial(loop.deliver, _nothing)
        self.start_controllers()

    def start_controllers(self) -> None:
        """Have kubelets and controllers work from now on."""
        self._watch.start()
        if self._kubelets is not None:
            self._kubelets.start()
        if self._driver is not None and self._driving is None:
            self._driving = asyncio.get_running_loop().create_task(self._driver.run(), name="controllers")

    def cut_watches(self, seconds: float) -> None:
        """Cut all watches for a while: what was on its way is lost, and found when everything is listed again."""
        self._watch.cut(seconds)

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Bind a pod to a node; it takes a while, and may fail."""
        if self.fault is not no_faults or self._writer.is_writing(pod) or not await self._bound_at_once(pod, node_name):
            await self._writer.bind(pod, node_name)
        self.bindings[pod.uid] = node_name

    async def _bound_at_once(self, pod: Pod, node_name: str) -> bool:
        """Bind a pod that is stored as a struct without a request; False if the API has to look at it."""
        await asyncio.sleep(self.pace.bind)
        entry = self.api.store.get("pods", pod.key)
        return entry is not None and bind_pod(self.api.store, entry, pod.uid, node_name, self.clock.now())

    async def get(self, thing: K) -> K:
        """Return an object as it is now."""
        return await self._writer.get(thing)

    async def create(self, thing: K) -> K:
        """Create an object."""
        return await self._writer.create(thing)

    async def update(self, thing: K, *, subresource: str = "") -> K:
        """Change an object of the same resourceVersion."""
        return await self._writer.update(thing, subresource=subresource)

    async def patch(self, thing: K, patch: Mapping[str, Any], *, subresource: str = "") -> K:
        """Merge something into an object."""
        return await self._writer.patch(thing, patch, subresource=subresource)

    async def patch_status(self, thing: K, patch: Mapping[str, Any]) -> K:
        """Merge something into the status of an object."""
        return await self._writer.patch_status(thing, patch)

    async def delete(self, thing: KubeObject) -> None:
        """Ask for an object to be deleted; a running pod gets the time it needs to stop."""
        await self._writer.delete(thing)
        self.evicted.add(thing.uid)
        self.on_eviction(thing.uid)

    @property
    def evictors(self) -> dict[str, str]:
        """Who evicted whom: the pods for which room was made, by the uid of the one that left."""
        notes = (note for note in self.events if note.reason == "Preempted" and note.related is not None)
        return {note.regarding.uid: note.related.key for note in notes if note.related is not None}

    def record(self, event: EventNote) -> None:
        """Keep an event for whoever looks."""
        self.events.append(event)
        if event.reason == "FailedScheduling":
            self.failures[event.regarding.uid] += 1

    def put_data(self, content: Mapping[str, Any]) -> None:
        """Store an object that is plain data as it is; nothing that is not served."""
        resource = self.api.resources.of_kind(str(content["apiVersion"]), str(content["kind"]))
        if resource is not None:
            metadata = content["metadata"]
            key = resource.key(str(metadata.get("namespace") or "default"), str(metadata["name"]))
            self.api.store.put(resource.storage, key, {**content, "metadata": dict(metadata)})

    def add(self, *objects: KubeObject) -> None:
        """Create objects at once, as they are."""
        for thing in objects:
            self.store.create(thing)

    def remove(self, thing: KubeObject) -> None:
        """Delete an object at once, as a user would: a pod that runs is stopped by its kubelet first."""
        self.store.current(thing)
        answer = self.api.answer(ApiRequest("DELETE", BY_TYPE[type(thing)].path(thing.name, thing.namespace)))
        assert getattr(answer, "status", 0) < 300, f"{thing.key} cannot be deleted: {answer}"

    def _known(self, thing: KubeObject) -> KubeObject | None:
        return self._objects[type(thing)].find(thing.key) if type(thing) in self._objects.kinds() else None

    def _note_progress(self, resource: str, change: StoredChange) -> None:
        if self.failures and resource in ("pods", "nodes") and not _is_status_of_waiting(resource, change):
            self.failures.clear()

    async def _controller_request(self, _request: ApiRequest) -> None:
        await asyncio.sleep(self.pace.write)

    async def _scheduler_request(self, request: ApiRequest) -> None:
        verb = _verb(request)
        await asyncio.sleep(self.pace.bind if verb == "bind" else self.pace.write)
        if verb and self.fault is not no_faults:
            error = self.fault(verb, self._subject(request))
            if error is not None:
                raise error

    def _subject(self, request: ApiRequest) -> KubeObject:
        """Return the object that a write is about."""
        target = target_of(request.path, self.api.resources)
        kind = next(kind for kind in BY_TYPE if storage_of(kind) == target.resource.storage)
        entry = self.api.store.get(target.resource.storage, target.key) if target.name else None
        return decoded(kind, request.body) if entry is None else entry.typed(kind)


def _is_status_of_waiting(resource: str, change: StoredChange) -> bool:
    """Return whether a change is one that a failed attempt makes: the status of a pod that has no node."""
    if resource != "pods" or change.before is None or change.after is None:
        return False
    before, after = change.before.typed(Pod), change.after.typed(Pod)
    return not after.node_name and before.status.phase == after.status.phase


def _verb(request: ApiRequest) -> str:
    """Name a write; reading has no name."""
    if request.path.endswith("/binding"):
        return "bind"
    if request.method == "PATCH":
        return "update" if request.content_type == MERGE_PATCH else "patch"
    return _VERBS.get(request.method, "")


def _nothing() -> None:
    """Be a change that changes nothing but wakes the loop."""
