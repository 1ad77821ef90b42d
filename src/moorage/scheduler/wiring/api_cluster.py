"""The real API server as the scheduler writes to it.

Writes go out so many at a time, the most important pods first, and are tried again where that can help.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from heapq import heappop, heappush
from random import Random
from typing import Any, Final, Protocol, TypeVar, cast

import msgspec
import structlog

from moorage.common.caches import LRU
from moorage.common.clock import Clock, SteadyClock
from moorage.common.errors import ApiError, Conflict, NotFound, ServerError, TooManyRequests, Unreachable
from moorage.kube.api.codec import to_data
from moorage.kube.api.kinds import BY_TYPE, kind_of
from moorage.kube.api.meta import KubeObject, ObjectMeta, format_time
from moorage.kube.api.pod import Pod
from moorage.kube.api.records import Binding
from moorage.kube.api.storage import ObjectReference
from moorage.kube.client.backoff import WATCH_DELAYS, WRITE_DELAYS
from moorage.kube.client.event_note import EventNote
from moorage.kube.client.patches import has_been_patched, is_custom, patch_between
from moorage.kube.client.rest import MERGE_PATCH, STRATEGIC_MERGE_PATCH, ApiClient, decoded
from moorage.kube.client.turns import Turns

T = TypeVar("T", bound=KubeObject)
W = TypeVar("W")
Lookup = Callable[[KubeObject], KubeObject | None]
"""Finds the version of an object that the informers last brought."""

MAX_WRITES: Final = 32
MAX_ATTEMPTS: Final = 4
MAX_WAITS: Final = 10
"""How often we wait because the server asked us to, before the write fails after all."""
MAX_TRIES: Final = 5
"""How often a write is sent whose answer is lost each time."""
DOUBTFUL: Final = (Conflict, ServerError, Unreachable)
MAX_WRITTEN: Final = 512
MAX_LOOKS: Final = 5
"""How often a server is asked for an object that it does not let us read; one that just starts may say so, too."""

RETRIED_STATUSES: Final = (500, 503)
DEFAULT_QPS: Final = 50.0
DEFAULT_BURST: Final = 100

_encoder = msgspec.json.Encoder()
_PODS = BY_TYPE[Pod]

log = structlog.get_logger(__name__)


class Recorder(Protocol):
    """Where events go."""

    def record(self, event: EventNote) -> None:
        """Record an event; never waits and never fails."""
        ...


class ApiCluster:
    """Carries out what the scheduler decides; a :class:`moorage.scheduler.framework.handle.ClusterApi`.

    ``known`` saves reading an object again before it is changed.
    """

    def __init__(
        self,
        client: ApiClient,
        dispatcher: "Dispatcher",
        recorder: Recorder,
        clock: Clock,
        known: Lookup = lambda _thing: None,
    ) -> None:
        self._client = client
        self._dispatcher = dispatcher
        self._recorder = recorder
        self._clock = clock
        self._known = known
        self._written: LRU[str, KubeObject] = LRU("written objects", MAX_WRITTEN)
        """What the server answered to our last writes: the next one may be made before a watch has brought it."""
        self._turns = Turns()
        self._chance = Random()

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Bind a pod to a node.

        If the answer was lost, the pod is looked up, and bound again if it is not: taking a bound pod for unbound would
        give its place on the node to another.
        """
        meta = pod.metadata
        about = ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid)
        body = _encoder.encode(Binding(metadata=about, target=ObjectReference(kind="Node", name=node_name)))
        write = partial(self._client.request, "POST", _PODS.path(meta.name, meta.namespace, "binding"), body)
        run = partial(self._dispatcher.run, write, priority=pod.priority)
        doubt = Doubt()
        while True:
            try:
                if meta.uid in self._turns:
                    # A condition of an earlier attempt that came after the binding would call a bound pod unscheduled.
                    async with self._turns.of(meta.uid):
                        await run()
                else:
                    await run()
            except DOUBTFUL as error:
                current = await self._looked_up(pod, doubt.about(error))
                if current is not None and current.node_name == node_name:
                    return
                if current is None or current.node_name or doubt.is_over:
                    raise
            else:
                return

    def is_writing(self, thing: KubeObject) -> bool:
        """Return whether a status of an object is on its way, or waits for its turn."""
        return thing.metadata.uid in self._turns

    async def _looked_up(self, thing: T, error: ApiError) -> T | None:
        """Read an object that may or may not have been written, however long the server takes; None if it was not."""
        if isinstance(error, Unreachable) and not error.was_sent:
            return None
        log.info("a write is in doubt, asking for the object", object=thing.key, error=str(error))
        failures = 0
        while True:
            try:
                current = await self._client.get(type(thing), thing.name, thing.namespace)
            except ApiError as trouble:
                if isinstance(trouble, NotFound):
                    return None
                failures += 1
                may_pass = isinstance(trouble, ServerError | Unreachable | TooManyRequests)
                if not may_pass and failures >= MAX_LOOKS:
                    return None
                pause = max(trouble.retry_after or 0.0, WATCH_DELAYS.after(failures, self._chance))
                await asyncio.sleep(pause)
            else:
                return current if current.uid == thing.uid else None

    async def get(self, thing: T) -> T:
        """Read an object as it is now."""
        return await self._dispatcher.run(lambda: self._client.get(type(thing), thing.name, thing.namespace))

    async def create(self, thing: T) -> T:
        """Create an object and return it as stored."""
        kind = kind_of(type(thing))
        if kind.namespaced and not thing.namespace:
            raise ValueError(f"{kind.name} {thing.name!r} has no namespace to be created in: set metadata.namespace")
        return await self._dispatcher.run(lambda: self._client.create(thing))

    async def update(self, thing: T, *, subresource: str = "") -> T:
        """Change an object of the same resourceVersion and return it as stored.

        Only the differences are sent: our structs do not know every field, and those of others must survive. If the
        answer was lost, the object is looked up before this fails, and written again if it has not changed: a device or
        a volume whose allocation is stored, or about to be, and that is taken for free, would be given to another.
        """
        before = await self._version_before(thing)
        patch = patch_between(before, thing)
        if not patch:
            return thing
        patch.setdefault("metadata", {})["resourceVersion"] = thing.metadata.resource_version
        path = kind_of(type(thing)).path(thing.name, thing.namespace, subresource)
        body = _encoder.encode(patch)
        doubt = Doubt()
        while True:
            try:
                answer = await self._dispatcher.run(lambda: self._client.request("PATCH", path, body, MERGE_PATCH))
            except NotFound as error:
                raise await self._explained(thing, subresource, error) from error
            except DOUBTFUL as error:
                # A conflict may be with ourselves: what is tried again after its answer was lost is of an old version.
                current = await self._looked_up(thing, doubt.about(error))
                if current is not None and has_been_patched(to_data(current), patch):
                    return current
                version = thing.metadata.resource_version
                if current is None or current.metadata.resource_version != version or doubt.is_over:
                    raise
            else:
                stored = decoded(type(thing), answer)
                self._written.put(thing.uid or thing.key, stored)
                return stored

    async def _version_before(self, thing: T) -> T:
        wanted = thing.metadata.resource_version
        if not wanted:
            raise ValueError(f"{thing.key} has no resourceVersion: get it first and update what you got, or patch it")
        for known in (self._known(thing), self._written.find(thing.uid or thing.key)):
            if known is not None and known.metadata.resource_version == wanted:
                return cast("T", known)
        current = await self.get(thing)
        if current.metadata.resource_version != wanted:
            found = current.metadata.resource_version
            raise Conflict(f"{thing.key} was changed meanwhile: it has version {found}, the update is of {wanted}")
        return current

    async def patch(self, thing: T, patch: Mapping[str, Any], *, subresource: str = "") -> T:
        """Merge something into an object, whichever version it has, and return it as stored; null removes a field.

        This is a JSON merge patch: lists are replaced. Writes about one object go out in the order they were asked for.
        """
        return decoded(type(thing), await self._patch(thing, patch, subresource, MERGE_PATCH))

    async def patch_status(self, thing: T, patch: Mapping[str, Any]) -> T:
        """Merge something into an object's status, and return the object as stored.

        Conditions are merged by type, but for custom resources: those know JSON merge patches only, in which lists are
        replaced.
        """
        status = {"status": self._with_times(thing, patch)}
        content_type = MERGE_PATCH if is_custom(thing) else STRATEGIC_MERGE_PATCH
        return decoded(type(thing), await self._patch(thing, status, "status", content_type))

    async def _patch(self, thing: KubeObject, patch: Mapping[str, Any], subresource: str, content_type: str) -> bytes:
        """Patch an object; writes about one go out in the order in which they were asked for, a binding included."""
        body = _encoder.encode(patch)
        path = kind_of(type(thing)).path(thing.name, thing.namespace, subresource)
        priority = thing.priority if isinstance(thing, Pod) else 0
        try:
            async with self._turns.of(thing.uid or thing.key):
                return await self._dispatcher.run(
                    lambda: self._client.request("PATCH", path, body, content_type),
                    priority=priority,
                    retries_conflicts=True,
                )
        except NotFound as error:
            raise await self._explained(thing, subresource, error) from error

    async def _explained(self, thing: KubeObject, subresource: str, error: NotFound) -> NotFound:
        """Say that a kind has no status of its own: for that the server merely says that the object is not there."""
        if subresource and is_custom(thing):
            try:
                await self.get(thing)
            except ApiError:
                return error
            kind = kind_of(type(thing))
            hint = f"add `subresources: {{{subresource}: {{}}}}` to version {kind.version} of its definition"
            return NotFound(f"{kind.full_name} has no subresource {subresource!r}: {hint}", status=404)
        return error

    def _with_times(self, thing: KubeObject, patch: Mapping[str, Any]) -> Mapping[str, Any]:
        """Say since when each condition is as it is: since now, unless its status stays the same."""
        if "conditions" not in patch or not isinstance(thing, Pod):
            return patch
        known = {condition.type: condition.status for condition in thing.status.conditions}
        now = format_time(self._clock.wall())
        conditions = [
            {"lastTransitionTime": now, **condition}
            if known.get(condition["type"]) != condition["status"]
            else condition
            for condition in patch["conditions"]
        ]
        return {**patch, "conditions": conditions}

    async def delete(self, thing: KubeObject) -> None:
        """Ask for an object to be deleted."""
        await self._dispatcher.run(lambda: self._client.delete(thing))

    def record(self, event: EventNote) -> None:
        """Record an event for the user; never waits and never fails."""
        self._recorder.record(event)


class Doubt:
    """Whether a write may be carried out yet, though it seems not to have been.

    What was sent before a connection was cut may reach the server after it was asked for the object. Only another write
    settles that: it is the one that counts, or the first one is, and the server refuses the other.
    """

    def __init__(self) -> None:
        self._tries = 0
        self._was_sent = False
        self._is_conflict = False

    def about(self, error: ApiError) -> ApiError:
        """Take in what a try ended with; what was sent once stays in doubt, even if the server is away now."""
        self._tries += 1
        self._is_conflict = isinstance(error, Conflict)
        if isinstance(error, Unreachable):
            self._was_sent = error.was_sent = self._was_sent or error.was_sent
        return error

    @property
    def is_over(self) -> bool:
        """Whether the server has said no, or was tried often enough."""
        return self._is_conflict or self._tries >= MAX_TRIES


class TokenBucket:
    """So many requests a second on average, and a burst of them at once; used only where the user asks for a limit."""

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._qps = qps
        self._burst = float(burst)
        self._clock = clock
        self._tokens = float(burst)
        self._since = clock.now()

    def take(self) -> float:
        """Take a token that is there, or will be; return the seconds until then."""
        now = self._clock.now()
        self._tokens = min(self._burst, self._tokens + (now - self._since) * self._qps) - 1.0
        self._since = now
        return max(0.0, -self._tokens / self._qps)

    async def pass_through(self) -> None:
        """Wait for a token."""
        if (wait := self.take()) > 0:
            await asyncio.sleep(wait)


class Dispatcher:
    """Lets writes through by priority.

    A write runs in the coroutine that asks for it: no task is made, and while there is room nothing is queued.
    """

    def __init__(
        self,
        *,
        most: int = MAX_WRITES,
        limit: TokenBucket | None = None,
        chance: Random | None = None,
    ) -> None:
        self._free = most
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._sequence = 0
        self._limit = limit
        self._chance = chance or Random()

    @property
    def waiting(self) -> int:
        """How many writes wait for their turn."""
        return len(self._waiting)

    async def run(self, write: Callable[[], Awaitable[W]], *, priority: int = 0, retries_conflicts: bool = False) -> W:
        """Carry out a write when its turn comes; ApiError if it is refused, or keeps failing."""
        if self._free:
            self._free -= 1
        else:
            await self._wait_for_turn(priority)
        try:
            if self._limit is not None:
                await self._limit.pass_through()
            return await write()
        except ApiError as error:
            return await self._try_again(write, error, retries_conflicts)
        finally:
            self._leave()

    async def _try_again(self, write: Callable[[], Awaitable[W]], error: ApiError, retries_conflicts: bool) -> W:
        failures = waits = 0
        in_doubt = False
        while True:
            in_doubt |= isinstance(error, ServerError)
            if in_doubt and isinstance(error, Unreachable):
                error.was_sent = True  # an earlier try was, and may have been carried out
            if error.retry_after is not None and isinstance(error, TooManyRequests | ServerError):
                waits += 1
                if waits > MAX_WAITS:
                    raise error
                await asyncio.sleep(error.retry_after)
            else:
                failures += 1
                if failures >= MAX_ATTEMPTS or not is_passing(error, retries_conflicts):
                    raise error
                await asyncio.sleep(WRITE_DELAYS.after(failures, self._chance))
            if self._limit is not None:
                await self._limit.pass_through()
            try:
                return await write()
            except ApiError as again:
                error = again

    async def _wait_for_turn(self, priority: int) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._sequence += 1
        heappush(self._waiting, (-priority, self._sequence, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave()
            raise

    def _leave(self) -> None:
        """Hand the place to the next in line, or keep it free."""
        while self._waiting:
            turn = heappop(self._waiting)[2]
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


def is_passing(error: ApiError, conflicts_pass: bool) -> bool:
    """Tell whether the same request may well succeed in a moment."""
    if isinstance(error, Unreachable):
        return not error.was_sent
    return error.status in RETRIED_STATUSES or (conflicts_pass and isinstance(error, Conflict))


def limit_of(qps: float | None, burst: int | None, clock: Clock | None = None) -> TokenBucket | None:
    """Return the limit a configuration asks for: none where nothing is written, and none where qps is negative.

    As upstream, a qps of 0 stands for 50 and a burst of 0 for 100.
    """
    if (qps is None and burst is None) or (qps is not None and qps < 0):
        return None
    return TokenBucket(qps or DEFAULT_QPS, burst or DEFAULT_BURST, clock or SteadyClock())
