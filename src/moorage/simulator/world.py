"""A cluster that lives in memory and virtual time: the API, its latency and faults, and a kubelet on every node."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import structlog

from moorage.api.devices import ResourceClaim
from moorage.api.kinds import BY_TYPE
from moorage.api.meta import KubeObject, format_time
from moorage.api.pod import Pod
from moorage.assembly.parts import Keeps, kinds_of
from moorage.box.apiserver.objects import Change, ObjectStore
from moorage.client import watch as client_watch
from moorage.client.informer import OnChanges
from moorage.clock import VirtualClock
from moorage.engine.background import TaskBackground
from moorage.engine.loop import SchedulingLoop
from moorage.errors import ApiError, NotFound
from moorage.framework.recording import EventNote
from moorage.state.objects import Objects

K = TypeVar("K", bound=KubeObject)
Fault = Callable[[str, KubeObject], ApiError | None]
"""Asked before each write with its verb and object; an error it returns is what the writer gets."""

log = structlog.get_logger(__name__)


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


class World:
    """The API as the scheduler sees it, and what the rest of the cluster does on its own.

    Satisfies :class:`moorage.framework.handle.Cluster`. Everything runs on the loop that is running when it is used, so
    a :class:`~moorage.simulator.loop.VirtualLoop` makes it a simulation.
    """

    def __init__(self, clock: VirtualClock, *, pace: Pace | None = None, fault: Fault = no_faults) -> None:
        self.clock = clock
        self.pace = pace or Pace()
        self.fault = fault
        self.store = ObjectStore(clock)
        self.background = TaskBackground()
        self.events: list[EventNote] = []
        self.bindings: dict[str, str] = {}
        self.evicted: set[str] = set()
        self._kinds: tuple[type[KubeObject], ...] = ()
        self._on_changes: OnChanges = lambda _kind, _changes: None
        self._loop: SchedulingLoop | None = None
        self._under_way = 0
        self._on_the_wire: deque[Change] = deque()
        self.store.subscribe(self._changed)

    @property
    def is_busy(self) -> bool:
        """Whether something will still happen by itself: writes, deliveries, containers starting and stopping."""
        return self._under_way > 0 or len(self.background) > 0

    @property
    def cluster(self) -> Self:
        """Where the scheduler writes to."""
        return self

    def follow(self, objects: Objects, on_changes: OnChanges, keeps: Keeps) -> None:
        """Keep in mind which kinds the scheduler watches, and what is to be notified of their changes."""
        self._kinds, self._on_changes = kinds_of(objects), on_changes

    def close(self) -> None:
        """There is nothing to close."""

    def start_watching(self, loop: SchedulingLoop) -> None:
        """Pass every change from now on to the scheduler, and wake its loop whenever something has happened."""
        self._loop = loop

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Bind a pod to a node; it takes a while, and may fail."""
        await self._write("bind", pod, self.pace.bind)
        self.store.bind(pod, node_name)
        self.bindings[pod.uid] = node_name

    async def get(self, thing: K) -> K:
        """Return an object as it is now."""
        await asyncio.sleep(self.pace.write)
        return self.store.current(thing)

    async def create(self, thing: K) -> K:
        """Create an object."""
        await self._write("create", thing, self.pace.write)
        return self.store.create(thing)

    async def update(self, thing: K, *, subresource: str = "") -> K:
        """Replace an object of the same resourceVersion."""
        await self._write("update", thing, self.pace.write)
        return self.store.update(thing)

    async def patch_status(self, thing: KubeObject, patch: Mapping[str, Any]) -> None:
        """Merge something into the status of a pod or a claim; what is gone needs none."""
        await self._write("patch", thing, self.pace.write)
        if isinstance(thing, ResourceClaim):
            self.store.patch_claim_status(thing, patch)
        else:
            assert isinstance(thing, Pod), "only the status of pods and claims is patched"
            self.store.patch_pod_status(thing, patch)

    async def delete(self, thing: KubeObject) -> None:
        """Ask for an object to be deleted; a running pod gets the time it needs to stop."""
        await self._write("delete", thing, self.pace.write)
        self.evicted.add(thing.uid)
        self.remove(thing)

    def record(self, event: EventNote) -> None:
        """Keep an event for whoever looks."""
        self.events.append(event)

    def add(self, *objects: KubeObject) -> None:
        """Create objects at once, as a user would."""
        for thing in objects:
            self.store.create(thing)

    def remove(self, thing: KubeObject) -> None:
        """Delete an object at once, as a user would: a pod that runs is stopped by its kubelet first."""
        current = self.store.current(thing)
        if isinstance(current, Pod) and current.node_name and not current.is_finished:
            if not current.is_terminating:
                self._later(self._stop_seconds(current), lambda: self._gone(self.store.current(thing)))
            self.store.mark_deleted(current)
        else:
            self.store.remove(current)

    def _gone(self, pod: KubeObject) -> None:
        self.store.remove(pod)

    def _stop_seconds(self, pod: Pod) -> float:
        grace = pod.spec.termination_grace_period_seconds
        return self.pace.stop_container if grace is None else min(float(grace), self.pace.stop_container)

    async def _write(self, verb: str, thing: KubeObject, seconds: float) -> None:
        await asyncio.sleep(seconds)
        error = self.fault(verb, thing)
        if error is not None:
            raise error

    def _changed(self, change: Change) -> None:
        if self._loop is not None:
            # Timers due at the same moment fire in any order; a watch never reorders its events.
            self._on_the_wire.append(change)
            self._later(self.pace.watch, self._deliver_next)
        pod = change.after
        if isinstance(pod, Pod) and isinstance(change.before, Pod) and pod.node_name and not change.before.node_name:
            self._later(self.pace.start_container, lambda: self._started(pod))

    def _started(self, pod: Pod) -> None:
        now = format_time(self.clock.now())
        self.store.patch_pod_status(pod, {"phase": "Running", "startTime": now})

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        self._under_way += 1
        asyncio.get_running_loop().call_later(seconds, self._do, action)

    def _do(self, action: Callable[[], None]) -> None:
        self._under_way -= 1
        try:
            action()
        except NotFound:
            log.debug("what was to change is gone")
        if self._loop is not None:
            self._loop.deliver(_nothing)

    def _deliver_next(self) -> None:
        change = self._on_the_wire.popleft()
        self.notify(change.before, change.after)

    def notify(self, before: KubeObject | None, after: KubeObject | None) -> None:
        """Notify the scheduler of a change, if it watches the kind."""
        kind = type(before if after is None else after)
        if kind in self._kinds:
            self._on_changes(BY_TYPE[kind], [client_watch.Change(before, after)])


def _nothing() -> None:
    """Be a change that changes nothing but wakes the loop."""
