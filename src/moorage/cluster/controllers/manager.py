"""What runs controllers: lists and watches for all of them, asks each what is to be done, and does it.

::

    informers ──> view ──> keys to look at ──> reconcile(key, view) ──> actions ──> API server
                   ▲                                                        │
                   └──────────────── answers: own writes are seen at once ──┘

A key is never worked on twice at a time, so a controller decides on what its last decision brought about. What fails is
tried again, ever later; whatever it was, it costs the one object.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, groupby
from typing import Any, Final, Protocol

import msgspec
import structlog

from moorage.cluster.controllers.actions import (
    ControllerAction,
    Create,
    Delete,
    EmptyNamespace,
    Event,
    RequeueAfter,
    Write,
    build_request,
)
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.namespaces import empty_namespace
from moorage.common.errors import ApiError, Forbidden, MoorageError, NotFound
from moorage.kube.api.kinds import BY_TYPE, Kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.struct import Data
from moorage.kube.client.informer import Informer, OnChanges
from moorage.kube.client.list_watch import Change
from moorage.kube.client.rest import ApiClient, decoded

MAX_REQUESTS: Final = 32
"""Requests under way at once, of all controllers together."""
MAX_WAIT: Final = 86_400.0
"""Whoever waits longer is looked at once a day: timers take no number of seconds that an object may name."""
MIN_WAIT: Final = 0.001
"""Timers may fire a rounding error early: whoever then waits for the rest must not spin."""
FIRST_RETRY: Final = 0.1
LAST_RETRY: Final = 30.0

log = structlog.get_logger(__name__)


class Controller(Protocol):
    """Brings one kind of object to its wanted state. It holds no state that matters: all it knows is in the view."""

    @property
    def name(self) -> str:
        """What logs call it."""
        ...

    @property
    def kinds(self) -> Sequence[type[KubeObject]]:
        """What it reads of; each is listed and watched."""
        ...

    @property
    def pause(self) -> float:
        """How many seconds to let pass before a key is looked at again: many changes are then one."""
        ...

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        """Return which keys to look at again when an object has come, changed or gone."""
        ...

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Decide what is to be done about a key; nothing, when all is as it should be."""
        ...


class ChangeSource(Protocol):
    """What brings the changes of one kind: an informer, or what stands for one in the same process."""

    @property
    def kind(self) -> Kind:
        """The kind."""
        ...

    async def run(self) -> None:
        """List and watch."""
        ...

    async def synced(self) -> None:
        """Wait until everything was listed once."""
        ...


MakeInformer = Callable[[Kind, OnChanges], ChangeSource]


@dataclass(frozen=True, slots=True)
class Item:
    """A key of a controller, to be looked at."""

    controller: int
    key: str


class _Answered(msgspec.Struct):
    """As much of an answer as it takes to tell an object from a Status."""

    kind: str = ""


class ControllerManager:
    """Runs controllers against one API server until it is cancelled."""

    def __init__(
        self, client: ApiClient, controllers: Sequence[Controller], make_informer: MakeInformer | None = None
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
        self._looked: dict[Item, float] = {}
        self._failures: dict[Item, int] = {}
        self.failures: Counter[str] = Counter()
        """How often each controller could not do something, by its name."""
        self._news = asyncio.Event()
        self._requests = asyncio.Semaphore(MAX_REQUESTS)
        self._numbers = count()
        self._synced = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be looked at or written, now or later."""
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
        """Return whether an object, as plain data, is known as it is or newer; or is of a kind nobody here watches."""
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
                await self._pump(group)
        finally:
            for timer in self._timers.values():
                timer.cancel()

    def _on_changes(self, kind: Kind, changes: Sequence[Change[Any]]) -> None:
        for change in changes:
            if change.after is not None:
                self.cache[kind.type].put(change.after)
            elif change.before is not None:
                self.cache[kind.type].drop(change.before)
        for change in changes:
            for obj in (change.before, change.after):
                if obj is not None:
                    self._look_at_affected(obj)

    def _look_at_affected(self, obj: KubeObject) -> None:
        for number in self._watchers[type(obj)]:
            controller = self._controllers[number]
            try:
                keys = list(controller.affected(obj, self.cache))
            except Exception:
                # One object that makes no sense to one controller; the watch brings thousands of others.
                self.failures[controller.name] += 1
                log.exception("controller cannot read an object", controller=controller.name, key=obj.key)
                continue
            for key in keys:
                self._look_at(Item(number, key))

    def _look_at(self, item: Item) -> None:
        """Have an item looked at: now, or when it has rested."""
        pause = self._controllers[item.controller].pause
        rested = self._looked.get(item, -pause) + pause
        now = asyncio.get_running_loop().time()
        if pause and rested > now:
            self._look_at_later(item, rested - now)
        else:
            self._ready[item] = None
            self._news.set()

    def _look_at_later(self, item: Item, seconds: float) -> None:
        """Have an item looked at later, or at the moment already set if that is earlier."""
        loop = asyncio.get_running_loop()
        seconds = min(max(seconds, MIN_WAIT), MAX_WAIT)
        known = self._timers.get(item)
        if known is not None:
            if known.when() <= loop.time() + seconds:
                return
            known.cancel()
        self._timers[item] = loop.call_later(seconds, self._due, item)

    def _due(self, item: Item) -> None:
        del self._timers[item]
        self._ready[item] = None
        self._news.set()

    async def _pump(self, group: asyncio.TaskGroup) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            for item in [item for item in self._ready if item not in self._busy]:
                del self._ready[item]
                self._look(item, group)
            await asyncio.sleep(0)

    def _look(self, item: Item, group: asyncio.TaskGroup) -> None:
        controller = self._controllers[item.controller]
        if controller.pause:
            self._looked[item] = asyncio.get_running_loop().time()
        try:
            actions = list(controller.reconcile(item.key, self.cache))
        except Exception as error:
            self._failed(item, error)
            return
        for action in actions:
            if isinstance(action, RequeueAfter):
                self._look_at_later(item, action.seconds)
        writes = [action for action in actions if not isinstance(action, RequeueAfter)]
        if writes:
            self._busy.add(item)
            group.create_task(self._write(item, writes), name=f"{controller.name} of {item.key}")
        else:
            self._succeeded(item)

    def _succeeded(self, item: Item) -> None:
        self._failures.pop(item, None)
        self.cache.refusals.pop((self._controllers[item.controller].name, item.key), None)

    async def _write(self, item: Item, writes: Sequence[Write | EmptyNamespace]) -> None:
        try:
            await self._carry_out_all(writes)
        except Exception as error:
            self._failed(item, error)
        else:
            self._succeeded(item)
            # What was written is not yet what was wanted: look once more.
            self._look_at(item)
        finally:
            self._busy.discard(item)
            if item in self._ready:
                self._news.set()

    async def _carry_out_all(self, writes: Sequence[Write | EmptyNamespace]) -> None:
        """Carry out actions in order; neighbours of one sort go at once."""
        if len(writes) == 1:
            await self._carry_out(writes[0])
            return
        for _, alike in groupby(writes, key=type):
            results = await asyncio.gather(*map(self._carry_out, alike), return_exceptions=True)
            for result in results:
                if isinstance(result, BaseException):
                    raise result

    async def _carry_out(self, action: Write | EmptyNamespace) -> None:
        if isinstance(action, EmptyNamespace):
            await empty_namespace(self._client, action.namespace, action.now)
            return
        asked = build_request(action)
        async with self._requests:
            try:
                body = await self._client.request(asked.method, asked.path, asked.body, asked.content_type)
            except NotFound:
                if isinstance(action, Create):
                    raise
                # Somebody else was faster.
                self.cache[asked.kind].drop(action.obj)
                return
        written = action.obj if not isinstance(action, Create) else None
        if isinstance(action, Delete) and msgspec.json.decode(body, type=_Answered).kind == "Status":
            # Instead of the object, a Status that it is gone already.
            self.cache[asked.kind].drop(action.obj)
        else:
            written = decoded(asked.kind, body)
            self.cache[asked.kind].put(written)
        if action.event is not None and written is not None:
            await self._record(action.event, written.name)

    async def _record(self, event: Event, name: str) -> None:
        data = event.data(name, next(self._numbers))
        path = f"/api/v1/namespaces/{event.obj.namespace}/events"
        async with self._requests:
            try:
                await self._client.request("POST", path, msgspec.json.encode(data))
            except ApiError as error:
                # What it tells of has been done all the same.
                log.debug("an event was not written", reason=event.reason, error=str(error))

    def _failed(self, item: Item, error: Exception) -> None:
        failures = self._failures[item] = self._failures.get(item, 0) + 1
        delay = min(FIRST_RETRY * 2.0 ** min(failures - 1, 20), LAST_RETRY)
        asked = min(error.retry_after or 0.0, LAST_RETRY) if isinstance(error, ApiError) else 0.0
        controller = self._controllers[item.controller].name
        self.failures[controller] += 1
        if isinstance(error, Forbidden):
            self.cache.refusals[controller, item.key] = str(error)
        facts = {"controller": controller, "key": item.key, "error": str(error)[:500], "seconds": delay}
        if isinstance(error, MoorageError):
            # Once is enough: it is tried for as long as the cluster lives.
            (log.warning if failures == 4 else log.debug)("controller will try again", **facts)
        elif failures == 1:
            # Not what a server answers but a mistake, in the object or in ours: say where, once.
            log.error("controller failed and will try again", exc_info=error, **facts)
        asyncio.get_running_loop().call_later(max(delay, asked), partial(self._retry, item))

    def _retry(self, item: Item) -> None:
        self._ready[item] = None
        self._news.set()
