"""In-process access to the API, without HTTP: direct calls for requests, structs for changes."""

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

from moorage.cluster.apiserver.api import Api
from moorage.cluster.apiserver.reading.watching import Watch
from moorage.cluster.apiserver.requests.request import ApiRequest, ApiResponse
from moorage.cluster.apiserver.storage.store import Entry, Store, StoredChange, storage_name
from moorage.common.clock import Clock
from moorage.kube.api.kinds import BY_TYPE, Kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.client.api_errors import api_error
from moorage.kube.client.informer import OnChanges
from moorage.kube.client.kubeconfig import Connection
from moorage.kube.client.list_watch import Change
from moorage.kube.client.rest import JSON, ApiClient

LATENCY: Final = 0.001
MAX_WATCH_SECONDS: Final = 1800.0
SAME_MOMENT: Final = 1e-6
"""Timers may fire a rounding error early."""
Before = Callable[[ApiRequest], Awaitable[None]]
"""Called before a request reaches the API. It may simulate latency or raise an error to the caller."""


async def wait_briefly(_request: ApiRequest) -> None:
    """Simulate the latency of a request."""
    await asyncio.sleep(LATENCY)


class InProcessClient(ApiClient):
    """A client of an API in the same process. It opens no sockets, so it works in virtual time."""

    def __init__(self, api: Api, clock: Clock, before: Before = wait_briefly, user_agent: str = "moorage") -> None:
        super().__init__(Connection("http://in.process", "a cluster in this process"), clock=clock)
        self._api = api
        self._before = before
        self._user_agent = user_agent
        self._watches: dict[str, set[asyncio.Event]] = {}
        api.store.subscribe(self._wake)

    def _wake(self, resource: str, _change: StoredChange) -> None:
        for event in self._watches.get(resource, ()):
            event.set()

    async def _execute(self, method: str, path: str, body: bytes, content_type: str) -> ApiResponse | Watch:
        path, _, text = path.partition("?")
        query = dict(parse_qsl(text, keep_blank_values=True)) if text else {}
        request = ApiRequest(method, path, query, body, content_type, user_agent=self._user_agent)
        await self._before(request)
        answer = self._api.answer(request)
        if isinstance(answer, ApiResponse) and answer.status >= 300:
            retry = None if answer.retry_after is None else str(answer.retry_after)
            raise api_error(answer.status, answer.body, retry, self.connection.source)
        return answer

    async def request(
        self, method: str, path: str, body: bytes = b"", content_type: str = JSON, *, seconds: float = 0.0
    ) -> bytes:
        """Execute a request and return the body of the response. Raise an error for other than 2xx responses."""
        answer = await self._execute(method, path, body, content_type)
        assert isinstance(answer, ApiResponse), "watches are streamed"
        return answer.body

    @asynccontextmanager
    async def stream(self, path: str) -> AsyncIterator[AsyncIterable[bytes]]:
        """Open a watch. The block gets its events as they happen."""
        watch = await self._execute("GET", path, b"", JSON)
        assert isinstance(watch, Watch), f"{path} is not a watch"
        event, watches = asyncio.Event(), self._watches.setdefault(watch.resource.storage, set())
        watches.add(event)
        try:
            yield _events(watch, event)
        finally:
            watches.discard(event)


async def _events(watch: Watch, event: asyncio.Event) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    end = loop.time() + (watch.terms.seconds or MAX_WATCH_SECONDS)
    for chunk in watch.begin():
        yield chunk
    while not watch.is_over and loop.time() < end:
        event.clear()
        if data := watch.take():
            yield data
            continue
        try:
            async with asyncio.timeout_at(end):
                await event.wait()
        except TimeoutError:
            return
        await asyncio.sleep(LATENCY)


class Follower(NamedTuple):
    """A subscriber of a kind."""

    kind: Kind
    on_changes: OnChanges


class StoreWatch:
    """Delivers the changes of a store as structs. Each is decoded once for all subscribers of its kind.

    ``delay`` is called for every change, so that the latency can vary.
    """

    def __init__(self, store: Store, delay: Callable[[], float]) -> None:
        self._store = store
        self._delay = delay
        self._followers: dict[str, list[Follower]] = {}
        self._on_the_way: deque[tuple[str, StoredChange]] = deque()
        self._due: list[float] = []
        """Delivery times as a heap: changes arrive in order, independent of their delays."""
        self._timer: asyncio.TimerHandle | None = None
        self._is_running = False
        self._snapshot: dict[str, dict[str, Entry]] | None = None
        self.after_delivery: Callable[[], None] = lambda: None
        """Called after every delivery."""
        store.subscribe(self._on_change)

    @property
    def is_busy(self) -> bool:
        """Whether changes are pending, or a relist is scheduled."""
        return bool(self._on_the_way) or self._snapshot is not None

    def follow(self, kind: type[KubeObject], on_changes: OnChanges) -> None:
        """Subscribe to the changes of a kind. They are delivered after the start."""
        follower = Follower(BY_TYPE[kind], on_changes)
        self._followers.setdefault(storage_name(kind), []).append(follower)

    def start(self) -> None:
        """Start the delivery of changes; subscribers read existing objects themselves."""
        self._is_running = True

    def cut(self, seconds: float) -> None:
        """Drop pending changes and all changes for some seconds; then relist and deliver the differences."""
        snapshot = {name: {entry.key: entry for entry in self._store.list(name)} for name in self._followers}
        for resource, change in reversed(self._on_the_way):
            entry = change.before or change.after
            assert entry is not None
            if change.before is None:
                del snapshot[resource][entry.key]
            else:
                snapshot[resource][entry.key] = entry
        self._on_the_way.clear()
        self._due.clear()
        if self._snapshot is None:
            self._snapshot = snapshot
            asyncio.get_running_loop().call_later(seconds, self._list_again)

    def _list_again(self) -> None:
        snapshot, self._snapshot = self._snapshot or {}, None
        for resource, before in snapshot.items():
            now = {entry.key: entry for entry in self._store.list(resource)}
            for kind, on_changes in self._followers[resource]:
                if changes := list(_differences(kind.type, before, now)):
                    on_changes(kind, changes)
        self.after_delivery()

    def _on_change(self, resource: str, change: StoredChange) -> None:
        if self._is_running and self._snapshot is None and resource in self._followers:
            self._on_the_way.append((resource, change))
            loop = asyncio.get_running_loop()
            moment = loop.time() + self._delay()
            heappush(self._due, moment)
            if self._timer is None or moment < self._timer.when():
                self._set_timer(loop)

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(self._due[0], self._deliver) if self._due else None

    def _deliver(self) -> None:
        """Deliver all due changes. Consecutive changes of the same kind are delivered together."""
        loop, self._timer = asyncio.get_running_loop(), None
        now, arrived = loop.time() + SAME_MOMENT, []
        while self._due and self._due[0] <= now:
            heappop(self._due)
            arrived.append(self._on_the_way.popleft())
        for resource, neighbors in groupby(arrived, key=itemgetter(0)):
            stored = [change for _, change in neighbors]
            changes: dict[type[KubeObject], list[Change[Any]]] = {}
            for kind, on_changes in self._followers[resource]:
                struct = kind.type
                if struct not in changes:  # a plugin may follow the same resource with another type, such as RawPod
                    changes[struct] = [
                        Change(item.before and item.before.typed(struct), item.after and item.after.typed(struct))
                        for item in stored
                    ]
                on_changes(kind, changes[struct])
        self._set_timer(loop)
        if arrived:
            self.after_delivery()


def _differences(
    kind: type[KubeObject], before: Mapping[str, Entry], now: Mapping[str, Entry]
) -> Iterator[Change[Any]]:
    """Compare two lists as an informer does: the last version of a deleted object may be unknown."""
    for key, entry in before.items():
        if key not in now or now[key].typed(kind).uid != entry.typed(kind).uid:
            yield Change(entry.typed(kind), None, is_final=False)
    for key, entry in now.items():
        previous = before.get(key)
        if previous is None or previous.typed(kind).uid != entry.typed(kind).uid:
            yield Change(None, entry.typed(kind))
        elif previous.version != entry.version:
            yield Change(previous.typed(kind), entry.typed(kind))


class StoreInformer:
    """Adapts a :class:`StoreWatch` to the interface of an informer of a single kind.

    Objects with ``hidden`` UIDs are not delivered.
    """

    def __init__(
        self, store: Store, watch: StoreWatch, kind: Kind, on_changes: OnChanges, *, hidden: Collection[str] = ()
    ) -> None:
        self.kind = kind
        self._store = store
        self._hidden = hidden
        self._pass_on = on_changes
        watch.follow(kind.type, self._on_changes if hidden else on_changes)

    def _on_changes(self, kind: Kind, changes: Sequence[Change[Any]]) -> None:
        objects = ((change, change.before if change.after is None else change.after) for change in changes)
        self._pass_on(kind, [change for change, obj in objects if obj is None or obj.uid not in self._hidden])

    async def synced(self) -> None:
        """Return immediately: existing objects are read synchronously."""

    async def run(self) -> None:
        """Deliver the existing objects. The watch delivers later changes."""
        existing = (entry.typed(self.kind.type) for entry in self._store.list(storage_name(self.kind.type)))
        self._on_changes(self.kind, [Change(None, obj) for obj in existing])
