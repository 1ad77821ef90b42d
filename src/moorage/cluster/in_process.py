"""The API in the same process, without HTTP: requests are handed over as they are, and changes come as structs."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

from moorage.cluster.apiserver.api import Api
from moorage.cluster.apiserver.reading.watching import Watch
from moorage.cluster.apiserver.requests.request import ApiRequest
from moorage.cluster.apiserver.storage.store import Entry, Store, StoredChange, storage_of
from moorage.cluster.transport import InProcess
from moorage.common.clock import Clock
from moorage.kube.api.kinds import BY_TYPE, Kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.client.api_errors import api_error
from moorage.kube.client.informer import OnChanges
from moorage.kube.client.kubeconfig import Connection
from moorage.kube.client.list_watch import Change
from moorage.kube.client.rest import JSON, ApiClient

SAME_MOMENT: Final = 1e-6
"""Timers may fire a rounding error early."""
Before = Callable[[ApiRequest], Awaitable[None]]
"""Called before a request reaches the API: it may wait, as a network does, or raise what the caller is to get."""


class InProcessClient(ApiClient):
    """A client of an API in the same process."""

    def __init__(self, api: Api, clock: Clock, before: Before, user_agent: str = "moorage") -> None:
        connection = Connection("http://in.process", "a cluster in this process")
        super().__init__(connection, clock=clock, transport=InProcess(api), user_agent=user_agent)
        self._api = api
        self._before = before
        self._user_agent = user_agent

    async def request(
        self, method: str, path: str, body: bytes = b"", content_type: str = JSON, *, seconds: float = 0.0
    ) -> bytes:
        """Hand a request over and return the body of the answer; an answer that is no success is raised."""
        path, _, query = path.partition("?")
        asked = ApiRequest(
            method,
            path,
            query=dict(parse_qsl(query, keep_blank_values=True)) if query else {},
            body=body,
            content_type=content_type,
            user_agent=self._user_agent,
        )
        await self._before(asked)
        answer = self._api.answer(asked)
        assert not isinstance(answer, Watch), "a watch is read as it comes"
        if answer.status >= 300:
            retry = None if answer.retry_after is None else str(answer.retry_after)
            raise api_error(answer.status, answer.body, retry, self.connection.source)
        return answer.body


class Follower(NamedTuple):
    """Somebody who follows a kind."""

    kind: Kind
    on_changes: OnChanges


class StoreWatch:
    """Passes the changes of a store on as structs, each decoded once for all who follow its kind.

    ``delay`` is asked for every change, so that a watch may lag behind by more or less.
    """

    def __init__(self, store: Store, delay: Callable[[], float]) -> None:
        self._store = store
        self._delay = delay
        self._followers: dict[str, list[Follower]] = {}
        self._on_the_way: deque[tuple[str, StoredChange]] = deque()
        self._due: list[float] = []
        """When the next of them arrive, as a heap: whichever delay was drawn, they arrive in their order."""
        self._timer: asyncio.TimerHandle | None = None
        self._is_running = False
        self._seen: dict[str, dict[str, Entry]] | None = None
        self.after_delivery: Callable[[], None] = lambda: None
        """Called whenever a change has been passed on."""
        store.subscribe(self._changed)

    @property
    def is_busy(self) -> bool:
        """Whether changes are on their way, or everything will be listed again."""
        return bool(self._on_the_way) or self._seen is not None

    def follow(self, kind: type[KubeObject], on_changes: OnChanges) -> None:
        """Pass changes of a kind on to somebody, once the watch has been started."""
        follower = Follower(BY_TYPE[kind], on_changes)
        self._followers.setdefault(storage_of(kind), []).append(follower)

    def start(self) -> None:
        """Begin to pass changes on; what is there already is for the follower to read."""
        self._is_running = True

    def cut(self, seconds: float) -> None:
        """Lose what is on its way and what happens for a while; then list, and pass on what has become different."""
        seen = {name: {entry.key: entry for entry in self._store.list(name)} for name in self._followers}
        for resource, change in reversed(self._on_the_way):
            entry = change.before or change.after
            assert entry is not None
            if change.before is None:
                del seen[resource][entry.key]
            else:
                seen[resource][entry.key] = entry
        self._on_the_way.clear()
        self._due.clear()
        if self._seen is None:
            self._seen = seen
            asyncio.get_running_loop().call_later(seconds, self._list_again)

    def _list_again(self) -> None:
        seen, self._seen = self._seen or {}, None
        for resource, before in seen.items():
            now = {entry.key: entry for entry in self._store.list(resource)}
            for kind, on_changes in self._followers[resource]:
                if changes := list(_differences(kind.type, before, now)):
                    on_changes(kind, changes)
        self.after_delivery()

    def _changed(self, resource: str, change: StoredChange) -> None:
        if self._is_running and self._seen is None and resource in self._followers:
            self._on_the_way.append((resource, change))
            loop = asyncio.get_running_loop()
            moment = loop.time() + self._delay()
            heappush(self._due, moment)
            if self._timer is None or moment < self._timer.when():
                self._set_timer(loop)

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have one timer for all that is on its way."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(self._due[0], self._deliver) if self._due else None

    def _deliver(self) -> None:
        """Pass on everything that is due; neighbours of one kind go together."""
        loop, self._timer = asyncio.get_running_loop(), None
        now, arrived = loop.time() + SAME_MOMENT, []
        while self._due and self._due[0] <= now:
            heappop(self._due)
            arrived.append(self._on_the_way.popleft())
        for resource, neighbours in groupby(arrived, key=itemgetter(0)):
            followers = self._followers[resource]
            changes = [typed(followers[0].kind.type, change) for _, change in neighbours]
            for kind, on_changes in followers:
                on_changes(kind, changes)
        self._set_timer(loop)
        if arrived:
            self.after_delivery()


def _differences(
    kind: type[KubeObject], before: Mapping[str, Entry], now: Mapping[str, Entry]
) -> Iterator[Change[Any]]:
    """Compare two lists as an informer does: of an object that is gone, the last version may have been missed."""
    for key, entry in before.items():
        if key not in now or now[key].typed(kind).uid != entry.typed(kind).uid:
            yield Change(entry.typed(kind), None, is_final=False)
    for key, entry in now.items():
        known = before.get(key)
        if known is None or known.typed(kind).uid != entry.typed(kind).uid:
            yield Change(None, entry.typed(kind))
        elif known.version != entry.version:
            yield Change(known.typed(kind), entry.typed(kind))


def _uid(change: Change[Any]) -> str:
    thing = change.before if change.after is None else change.after
    return "" if thing is None else str(thing.uid)


def typed(kind: type[KubeObject], change: StoredChange) -> Change[Any]:
    """Return a change of a store with its objects as structs."""
    before = None if change.before is None else change.before.typed(kind)
    return Change(before, None if change.after is None else change.after.typed(kind))


class StoreInformer:
    """What a :class:`StoreWatch` brings of one kind, where controllers expect an informer.

    ``hidden`` are the uids of objects that are not for them.
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
        self._pass_on(kind, [change for change in changes if _uid(change) not in self._hidden])

    async def synced(self) -> None:
        """There is nothing to wait for: what is there is read at once."""

    async def run(self) -> None:
        """Pass on what is there already; what comes then is brought by the watch."""
        there: Sequence[Change[Any]] = [
            Change(None, entry.typed(self.kind.type)) for entry in self._store.list(storage_of(self.kind.type))
        ]
        self._on_changes(self.kind, there)
