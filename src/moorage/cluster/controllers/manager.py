"""The controller manager: watches objects, calls the controllers' ``reconcile`` and executes the returned actions.

::

    informers ──> cache ──> work queue ──> reconcile(key, cache) ──> actions ──> API server
                    ▲                                                   │
                    └──────── responses: own writes are visible ────────┘

A key is never reconciled concurrently, so a controller always sees the result of its previous actions. Failed keys are
retried with exponential backoff. A failure affects only its own key.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby, product
from typing import Any, Final, Protocol

import msgspec
import structlog

from moorage.cluster.controllers.actions import (
    NAME,
    ControllerAction,
    Create,
    Delete,
    EmptyNamespace,
    RequeueAfter,
    Write,
    build_request,
    has_effect,
)
from moorage.cluster.controllers.controller_events import SOURCES, add_event, rejection_event, state_event
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.namespaces import empty_namespace
from moorage.common.caches import LRU
from moorage.common.errors import ApiError, Forbidden, MoorageError, NotFound
from moorage.common.text import format_traceback
from moorage.kube.api.kinds import BY_TYPE, Kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.struct import Data
from moorage.kube.client.informer import Informer, OnChanges
from moorage.kube.client.list_watch import Change
from moorage.kube.client.recorder import EventRecorder
from moorage.kube.client.rest import ApiClient, decoded

MAX_REQUESTS: Final = 32
"""Maximum number of concurrent requests of all controllers."""
MAX_WAIT: Final = 86_400.0
"""Longer requeues are shortened to a day: objects may contain durations that timers do not accept."""
MIN_WAIT: Final = 0.001
"""Timers may fire a rounding error early. A minimum prevents a busy loop."""
MAX_RECORDED: Final = 4096
EVENT_SECONDS: Final = 1.0
"""Time limit for the remaining events at the end."""
FIRST_RETRY: Final = 0.1
INVALID: Final = 422
LAST_RETRY: Final = 30.0

log = structlog.get_logger(__name__)


class Controller(Protocol):
    """Brings objects of one kind to their desired state. Its input is the informer cache.

    ``name`` appears in logs. ``kinds`` are listed and watched. ``pause`` is the minimum time between two
    reconciliations of a key, which batches changes.
    """

    @property
    def name(self) -> str: ...

    @property
    def kinds(self) -> Sequence[type[KubeObject]]: ...

    @property
    def pause(self) -> float: ...

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        """Return the keys to reconcile after an object was added, updated or deleted."""
        ...

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Return the actions that bring a key to its desired state, or none if it is reached."""
        ...


class ChangeSource(Protocol):
    """A source of changes of one kind: an informer, or its in-process replacement."""

    @property
    def kind(self) -> Kind: ...

    async def run(self) -> None:
        """List and watch."""

    async def synced(self) -> None:
        """Wait until everything was listed once."""


MakeInformer = Callable[[Kind, OnChanges], ChangeSource]


@dataclass(frozen=True, slots=True)
class Item:
    """An item of the work queue: a key of a controller."""

    controller: int
    key: str


class _Answered(msgspec.Struct):
    """The kind of a response: an object or a Status."""

    kind: str = ""


class ControllerManager:
    """Runs controllers against one API server until it is cancelled.

    With a ``recorder`` it records the events of kube-controller-manager. Simulations do without them.
    """

    def __init__(
        self,
        client: ApiClient,
        controllers: Sequence[Controller],
        make_informer: MakeInformer | None = None,
        recorder: EventRecorder | None = None,
    ) -> None:
        self.cache = InformerCache()
        self._client = client
        self._controllers = tuple(controllers)
        kinds = dict.fromkeys(kind for controller in self._controllers for kind in controller.kinds)
        self._watchers: dict[type[KubeObject], list[int]] = {
            kind: [number for number, controller in enumerate(self._controllers) if kind in controller.kinds]
            for kind in kinds
        }
        make = make_informer or partial(Informer, client)
        self._informers = [make(BY_TYPE[kind], self._on_changes) for kind in kinds]
        self._ready: dict[Item, None] = {}
        self._busy: set[Item] = set()
        self._timers: dict[Item, asyncio.TimerHandle] = {}
        self._last_reconciled: dict[Item, float] = {}
        self._failures: dict[Item, int] = {}
        self.failures: Counter[str] = Counter()
        """The number of failures of each controller."""
        self._wakeup = asyncio.Event()
        self._requests = asyncio.Semaphore(MAX_REQUESTS)
        self._recorder = recorder
        self._recorded: LRU[tuple[str, str, str], None] = LRU("recorded events", MAX_RECORDED)
        self._synced = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        """Whether the work queue is empty and no write or timer is pending."""
        return not (self._ready or self._busy or self._timers)

    @property
    def is_synced(self) -> bool:
        """Whether everything was listed once, so that controllers decide."""
        return self._synced.is_set()

    async def synced(self) -> None:
        """Wait until everything was listed once."""
        await self._synced.wait()

    @property
    def kinds(self) -> Collection[type[KubeObject]]:
        """The kinds that some controller watches."""
        return self._watchers.keys()

    def has_seen(self, data: Data) -> bool:
        """Return whether the cache has this version of an object or a newer one, or true for unwatched kinds."""
        name, metadata = (data["apiVersion"], data["kind"]), data["metadata"]
        kinds = (kind for kind in self._watchers if (BY_TYPE[kind].api_version, BY_TYPE[kind].name) == name)
        return all(self.cache[kind].has_seen(metadata["uid"], int(metadata["resourceVersion"])) for kind in kinds)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for informer in self._informers:
                    group.create_task(informer.run(), name=f"controllers' informer of {informer.kind.plural}")
                for informer in self._informers:
                    await informer.synced()
                self._synced.set()
                while True:
                    await self._wakeup.wait()
                    self._wakeup.clear()
                    for item in [item for item in self._ready if item not in self._busy]:
                        del self._ready[item]
                        self._reconcile(item, group)
                    await asyncio.sleep(0)
        finally:
            for timer in self._timers.values():
                timer.cancel()
            if self._recorder is not None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(EVENT_SECONDS):
                        await self._recorder.flush()

    def _on_changes(self, kind: Kind, changes: Sequence[Change[Any]]) -> None:
        for change in changes:
            if change.after is not None:
                self.cache[kind.type].put(change.after)
            elif change.before is not None:
                self.cache[kind.type].drop(change.before)
        objects = (obj for change in changes for obj in (change.before, change.after) if obj is not None)
        for obj, number in product(objects, self._watchers[kind.type]):
            controller = self._controllers[number]
            try:
                keys = list(controller.affected(obj, self.cache))
            except Exception:
                # A single bad object must not stop the watch.
                self.failures[controller.name] += 1
                log.exception("controller failed on an object", controller=controller.name, key=obj.key)
                continue
            for key in keys:
                self._enqueue(Item(number, key))

    def _enqueue(self, item: Item) -> None:
        """Queue an item: now, or when its minimum interval is over."""
        pause = self._controllers[item.controller].pause
        rested = self._last_reconciled.get(item, -pause) + pause
        now = asyncio.get_running_loop().time()
        if pause and rested > now:
            self._enqueue_later(item, rested - now)
        else:
            self._make_ready(item)

    def _enqueue_later(self, item: Item, seconds: float) -> None:
        """Queue an item after a delay, unless it is due earlier."""
        loop = asyncio.get_running_loop()
        seconds = min(max(seconds, MIN_WAIT), MAX_WAIT)
        timer = self._timers.get(item)
        if timer is not None:
            if timer.when() <= loop.time() + seconds:
                return
            timer.cancel()
        self._timers[item] = loop.call_later(seconds, self._due, item)

    def _due(self, item: Item) -> None:
        del self._timers[item]
        self._make_ready(item)

    def _make_ready(self, item: Item) -> None:
        self._ready[item] = None
        self._wakeup.set()

    def _reconcile(self, item: Item, group: asyncio.TaskGroup) -> None:
        controller = self._controllers[item.controller]
        if controller.pause:
            self._last_reconciled[item] = asyncio.get_running_loop().time()
        try:
            actions = list(controller.reconcile(item.key, self.cache))
        except Exception as error:
            self._on_failure(item, error)
            return
        for action in actions:
            if isinstance(action, RequeueAfter):
                self._enqueue_later(item, action.seconds)
        writes = [action for action in actions if not isinstance(action, RequeueAfter) and has_effect(action)]
        if self._recorder is not None and (owner := self._owner(item)) is not None:
            writes = [add_event(action, owner) for action in writes]
            # The writes may change the state that the event is about, such as the binding of a claim.
            if not writes and (event := state_event(owner, self.cache)) is not None:
                key = (owner.uid, event.reason, event.note)
                if key not in self._recorded:
                    self._recorded.put(key, None)
                    self._recorder.record_core(event)
        if writes:
            self._busy.add(item)
            group.create_task(self._write(item, writes), name=f"{controller.name} of {item.key}")
        else:
            self._on_success(item)

    def _owner(self, item: Item) -> KubeObject | None:
        """Return the object that an item is about, if its kind has events."""
        kind = self._controllers[item.controller].kinds[0]
        return self.cache[kind].get(item.key) if kind in SOURCES else None

    def _on_success(self, item: Item) -> None:
        self._failures.pop(item, None)
        self.cache.rejections.pop((self._controllers[item.controller].name, item.key), None)

    async def _write(self, item: Item, writes: Sequence[Write | EmptyNamespace]) -> None:
        try:
            has_changed = await self._carry_out_all(writes)
        except Exception as error:
            self._on_failure(item, error)
            is_first = _is_rejection(error) and self._failures[item] == 1
            if is_first and self._recorder is not None and (owner := self._owner(item)) is not None:
                self._recorder.record_core(rejection_event(owner, str(error)))
        else:
            self._on_success(item)
            # One round of actions may not reach the desired state. After a write without effect the next round would be
            # the same.
            if has_changed:
                self._enqueue(item)
        finally:
            self._busy.discard(item)
            if item in self._ready:
                self._wakeup.set()

    async def _carry_out_all(self, writes: Sequence[Write | EmptyNamespace]) -> bool:
        """Execute actions in order, those of one type and kind in parallel. Return whether one of them had an effect.

        A pod is created after its claims. If the server rejects a claim, the pod is not created.
        """
        if len(writes) == 1:
            return await self._carry_out(writes[0])
        has_changed = False
        for _, alike in groupby(writes, key=lambda write: (type(write), getattr(write, "kind", None))):
            results = await asyncio.gather(*map(self._carry_out, alike), return_exceptions=True)
            for result in results:
                if isinstance(result, BaseException):
                    raise result
                has_changed |= result
        return has_changed

    async def _carry_out(self, action: Write | EmptyNamespace) -> bool:
        """Execute an action. Return whether the server changed anything."""
        if isinstance(action, EmptyNamespace):
            await empty_namespace(self._client, action.namespace, action.now)
            return True
        request = build_request(action)
        async with self._requests:
            try:
                body = await self._client.request(request.method, request.path, request.body, request.content_type)
            except NotFound:
                if isinstance(action, Create):
                    raise
                # The object was deleted concurrently.
                self.cache[request.kind].drop(action.obj)
                return True
        before = None if isinstance(action, Create) else action.obj
        is_gone = isinstance(action, Delete) and msgspec.json.decode(body, type=_Answered).kind == "Status"
        obj = before if is_gone else decoded(request.kind, body)
        assert obj is not None
        if is_gone:
            # The response is a Status instead of the object: it is deleted.
            self.cache[request.kind].drop(obj)
        else:
            self.cache[request.kind].put(obj)
        if action.event is not None and self._recorder is not None:
            note = action.event.note.replace(NAME, obj.name)
            self._recorder.record_core(msgspec.structs.replace(action.event, note=note))
        return is_gone or before is None or obj.metadata.resource_version != before.metadata.resource_version

    def _on_failure(self, item: Item, error: Exception) -> None:
        failures = self._failures[item] = self._failures.get(item, 0) + 1
        delay = min(FIRST_RETRY * 2.0 ** min(failures - 1, 20), LAST_RETRY)
        retry_after = min(error.retry_after or 0.0, LAST_RETRY) if isinstance(error, ApiError) else 0.0
        controller = self._controllers[item.controller].name
        self.failures[controller] += 1
        if _is_rejection(error):
            self.cache.rejections[controller, item.key] = str(error)
        facts = {"controller": controller, "key": item.key, "error": str(error)[:500], "seconds": delay}
        if isinstance(error, MoorageError):
            # Log once: the key is retried until it succeeds.
            (log.warning if failures == 4 else log.debug)("controller action failed; retrying", **facts)
        elif failures == 1:
            # Not an API error but a bug or a bad object: log the traceback once.
            log.error("controller raised an exception; retrying", exception=format_traceback(error), **facts)
        asyncio.get_running_loop().call_later(max(delay, retry_after), self._make_ready, item)


def _is_rejection(error: Exception) -> bool:
    """Return whether the server rejects an object: a quota forbids it for example, or it is invalid."""
    return isinstance(error, Forbidden) or (isinstance(error, ApiError) and error.status == INVALID)
