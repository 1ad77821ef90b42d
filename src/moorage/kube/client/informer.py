"""Informers: list and watch resources until cancelled, and recover from all server errors."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any, Final, Generic, TypeVar

import structlog

from moorage.common.errors import ApiError, Forbidden, Gone, MoorageError, NotFound
from moorage.common.observers import Observer
from moorage.kube.api.kinds import BUILT_IN, VERSIONS, Kind, find_kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.client.flow_control import WATCH_BACKOFF
from moorage.kube.client.list_watch import UNFINISHED_PODS, Change, Decoding, ListWatch, NextRequest
from moorage.kube.client.rest import ApiClient

T = TypeVar("T", bound=KubeObject)

OnChanges = Callable[[Kind, Sequence[Change[Any]]], None]
"""Called with changes in the order in which they happened; must not wait."""

REPEAT_SECONDS: Final = 300.0
"""Interval in seconds at which a repeated problem is logged."""

MIN_USEFUL_WATCH: Final = 1.0
"""A watch that ends sooner without an event is treated as a failure, to avoid a tight loop."""

log = structlog.get_logger(__name__)


class InformerObserver(Observer):
    """The failures of informers."""

    def object_malformed(self, resource: str) -> None:
        """An object is skipped because it cannot be decoded."""

    def list_watch_failed(self, kind: Kind, error: MoorageError) -> None:
        """A list or a watch failed and will be retried."""

    def apply_failed(self, resource: str) -> None:
        """A change of an object cannot be applied."""


class Informer(Generic[T]):
    """Lists and watches one resource. ``problem`` is the current problem, or ``None``."""

    def __init__(  # noqa: PLR0913 - keywords only, each with a default that most keep
        self,
        client: ApiClient,
        kind: Kind,
        on_changes: OnChanges,
        *,
        namespace: str = "",
        field_selector: str = "",
        observer: InformerObserver | None = None,
        chance: Random | None = None,
        keeps: Callable[[T], bool] | None = None,
    ) -> None:
        self.kind = kind
        self.problem: MoorageError | None = None
        self._client = client
        self._on_changes = on_changes
        self._observer = observer or InformerObserver()
        self._chance = chance or Random()
        decoding: Decoding[T] = Decoding(kind.type, self._observer.object_malformed, keeps)  # type: ignore[arg-type]
        self._machine = ListWatch(
            kind, decoding, namespace=namespace, field_selector=field_selector, chance=self._chance
        )
        self._synced = asyncio.Event()
        self._complaint = ("", 0.0)
        self._failures = 0
        self._stepping: asyncio.Task[None] | None = None
        self._is_relisting = False
        self._following = asyncio.Event()
        self._hurry = asyncio.Event()

    @property
    def machine(self) -> ListWatch[T]:
        """The known objects and the state of the watch."""
        return self._machine

    @property
    def is_synced(self) -> bool:
        """Whether everything was listed once."""
        return self._machine.is_synced

    async def synced(self) -> None:
        """Wait until everything was listed once."""
        await self._synced.wait()

    async def following(self) -> None:
        """Wait until a watch is open, or the server does not serve the kind. End a pause immediately."""
        self._hurry.set()
        await self._following.wait()

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                await self._interruptible_step()
            except Gone as error:
                log.info("resourceVersion expired; listing again", resource=self.kind.plural, error=str(error))
                self._machine.failed(error)
                await self._pause(error)
            except MoorageError as error:
                await self._recover(error)

    def relist(self, key: str) -> None:
        """Relist soon, and deliver one object as new."""
        self._machine.forget(key)
        self._is_relisting = True
        if self._stepping is not None:
            self._stepping.cancel()

    async def _interruptible_step(self) -> None:
        self._stepping = asyncio.create_task(self._step(self._machine.next_request()))
        try:
            await self._stepping
        except asyncio.CancelledError:
            if not self._is_relisting:
                raise
            self._is_relisting = False
            # Wait, because an object that cannot be applied may fail repeatedly.
            await asyncio.sleep(WATCH_BACKOFF.delay(1, self._chance))

    async def _step(self, request: NextRequest) -> None:
        if request.is_watch:
            await self._watch(request)
        else:
            await self._list(await self._in_served_version(request))
            self._settle()

    async def _in_served_version(self, request: NextRequest) -> NextRequest:
        """Read the kind in the version that the server prefers. A new list may find another one after an upgrade."""
        if self.kind not in VERSIONS or self._machine.is_listing:
            return request
        self._machine.use_version(await self._client.discover(self.kind))
        return self._machine.next_request()

    async def _list(self, request: NextRequest) -> None:
        """Process all pages. The server prepares the next page while one is processed."""
        coming = self._ask(request)
        try:
            while True:
                body = await coming
                following = self._machine.following(body)
                if following is not None:
                    coming = self._ask(following)
                    await asyncio.sleep(0)
                self._notify(self._machine.page(body))
                if self._machine.version:
                    return
                if following is None:
                    coming = self._ask(self._machine.next_request())
        finally:
            coming.cancel()

    def _ask(self, request: NextRequest) -> asyncio.Task[bytes]:
        asking = self._client.request("GET", request.path)
        return asyncio.create_task(asking, name=f"page of {self.kind.plural}")

    async def _watch(self, request: NextRequest) -> None:
        loop = asyncio.get_running_loop()
        started, has_data = loop.time(), False
        try:
            async with self._client.stream(request.path) as chunks:
                self._following.set()
                async for data in chunks:
                    self._notify(self._machine.chunk(data))
                    if not has_data:
                        has_data = True
                        self._settle()
        finally:
            self._following.clear()
        if not has_data and loop.time() - started < MIN_USEFUL_WATCH:
            raise ApiError(f"the watch on {self.kind.plural} ended immediately")

    def _notify(self, changes: Sequence[Change[T]]) -> None:
        if changes:
            self._on_changes(self.kind, changes)

    def _settle(self) -> None:
        self.problem = None
        self._failures = 0
        self._complaint = ("", 0.0)
        self._synced.set()

    async def _recover(self, error: MoorageError) -> None:
        if not self._machine.version and (isinstance(error, NotFound) or await self._is_hidden(error)):
            # An older server, or an undefined custom resource: there are no such objects.
            kind = self.kind
            problem = f"the server does not serve {kind.plural} in {kind.api_version}, so no objects are listed"
            hint = f"; install the CustomResourceDefinition {kind.full_name}, no restart is needed"
            self._complain(problem if kind.type in BUILT_IN else f"{problem}{hint}")
            self._machine.absent()
            self._synced.set()
            self._following.set()
        else:
            self._complain(str(error))
        if isinstance(error, ApiError):
            self._machine.failed(error, is_withdrawn=isinstance(error, NotFound) and self.kind in VERSIONS)
        await self._pause(error)

    async def _is_hidden(self, error: MoorageError) -> bool:
        """Return whether a forbidden kind does not exist on the server.

        A server checks permissions before it looks for the kind. Roles of an older release do not name newer kinds, and
        only discovery, which every account may read, shows whether such a kind exists.
        """
        if not isinstance(error, Forbidden):
            return False
        try:
            return not await self._client.serves(self._client.resolve_kind(self.kind.type))
        except MoorageError:
            return False

    def _complain(self, problem: str) -> None:
        """Log a problem. Repeat the same one only every few minutes, since a missing permission remains missing."""
        now = asyncio.get_running_loop().time()
        last, logged_at = self._complaint
        if problem != last or now >= logged_at + REPEAT_SECONDS:
            self._complaint = problem, now
            log.warning("list or watch failed", resource=self.kind.plural, error=problem)
        else:
            log.info("list or watch failed again", v=4, resource=self.kind.plural, error=problem)

    async def _pause(self, error: MoorageError) -> None:
        self.problem = error
        self._failures += 1
        self._observer.list_watch_failed(self.kind, error)
        retry_after = error.retry_after if isinstance(error, ApiError) else None
        self._hurry.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(max(retry_after or 0.0, WATCH_BACKOFF.delay(self._failures, self._chance))):
                await self._hurry.wait()


class Informers:
    """One informer per requested kind. ``keeps`` selects the kinds that keep their original text."""

    def __init__(
        self,
        client: ApiClient,
        kinds: Iterable[type[KubeObject]],
        on_changes: OnChanges,
        *,
        observer: InformerObserver | None = None,
        keeps: Mapping[type[KubeObject], Callable[[Any], bool]] | None = None,
    ) -> None:
        self._client, self._on_changes, self._observer, self._keeps = client, on_changes, observer, keeps or {}
        self._running: asyncio.TaskGroup | None = None
        self._tasks: dict[type[KubeObject], asyncio.Task[None]] = {}
        self.all: tuple[Informer[Any], ...] = tuple(map(self._informer, kinds))

    def _informer(self, kind: type[KubeObject]) -> "Informer[Any]":
        return Informer(
            self._client,
            find_kind(kind),
            self._on_changes,
            field_selector=UNFINISHED_PODS if kind is Pod else "",
            observer=self._observer,
            keeps=self._keeps.get(kind),
        )

    async def add(self, kinds: Iterable[type[KubeObject]], seconds: float) -> None:
        """Follow more kinds. Return when all of them were listed, or follow none and raise ApiError.

        Before :meth:`run` this only adds them: they are listed with the other kinds.
        """
        coming = tuple(map(self._informer, kinds))
        for informer in coming:
            self._start(informer)
        try:
            async with asyncio.timeout(seconds):
                for informer in coming if self._running is not None else ():
                    await informer.synced()
        except BaseException as error:
            self._stop(informer.kind.type for informer in coming)
            if not isinstance(error, TimeoutError):
                raise
            problems = "; ".join(f"{i.kind.plural}: {i.problem or 'no answer'}" for i in coming if not i.is_synced)
            raise ApiError(f"cannot list kinds of plugins within {seconds:g} s: {problems}") from error
        self.all += coming

    def remove(self, kinds: Iterable[type[KubeObject]]) -> None:
        """Stop following some kinds."""
        leaving = set(kinds)
        self.all = tuple(informer for informer in self.all if informer.kind.type not in leaving)
        self._stop(leaving)

    def _start(self, informer: "Informer[Any]") -> None:
        if self._running is not None:
            task = self._running.create_task(informer.run(), name=f"informer of {informer.kind.plural}")
            self._tasks[informer.kind.type] = task

    def _stop(self, kinds: Iterable[type[KubeObject]]) -> None:
        for kind in kinds:
            if (task := self._tasks.pop(kind, None)) is not None:
                task.cancel()

    @property
    def are_synced(self) -> bool:
        """Whether every kind was listed once."""
        return all(informer.is_synced for informer in self.all)

    @property
    def problems(self) -> list[str]:
        """Current problems of the informers, one sentence each."""
        return [f"{informer.kind.plural}: {informer.problem}" for informer in self.all if informer.problem is not None]

    async def synced(self) -> None:
        """Wait until every kind was listed once."""
        for informer in self.all:
            await informer.synced()

    async def following(self) -> None:
        """Wait until every kind is watched, also after an interruption of the watch."""
        await asyncio.gather(*(informer.following() for informer in self.all))

    def relist(self, kind: Kind, key: str) -> None:
        """Relist a kind soon, and deliver one object as new."""
        for informer in self.all:
            if informer.kind == kind:
                informer.relist(key)

    async def run(self) -> None:
        """List and watch every kind until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._running:
                for informer in self.all:
                    self._start(informer)
        finally:
            self._running = None
