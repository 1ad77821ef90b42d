"""Writes of the scheduler to a real API server, and the resolution of writes with unknown outcome."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Any, Final, Protocol, TypeVar, cast

import msgspec
import structlog

from moorage.common.caches import LRU
from moorage.common.clock import Clock
from moorage.common.errors import ApiError, Conflict, NotFound, ServerError, TooManyRequests, Unreachable
from moorage.kube.api.codec import build_patch, has_been_patched, is_custom, to_data
from moorage.kube.api.kinds import BY_TYPE, find_kind
from moorage.kube.api.meta import KubeObject, ObjectMeta, format_time
from moorage.kube.api.pod import Pod
from moorage.kube.api.records import Binding, EventNote
from moorage.kube.api.storage import ObjectReference
from moorage.kube.client.dispatcher import Dispatcher
from moorage.kube.client.flow_control import WATCH_BACKOFF
from moorage.kube.client.rest import MERGE_PATCH, STRATEGIC_MERGE_PATCH, ApiClient, decoded

T = TypeVar("T", bound=KubeObject)
Lookup = Callable[[KubeObject], KubeObject | None]
"""Finds the version of an object that the informers delivered last."""

MAX_SENDS: Final = 5
"""Maximum number of times a write is sent if the response is lost each time."""
UNKNOWN_OUTCOME: Final = (Conflict, ServerError, Unreachable)
MAX_WRITTEN: Final = 512
MAX_DENIED_READS: Final = 5
"""Maximum number of denied reads of an object. A server that is starting may deny reads temporarily."""

_encoder = msgspec.json.Encoder()
_PODS = BY_TYPE[Pod]

log = structlog.get_logger(__name__)


class Recorder(Protocol):
    """Records events."""

    def record(self, event: EventNote) -> None:
        """Record an event. Never waits and never fails."""
        ...


class ApiWriter:
    """Write the scheduler's decisions; a :class:`moorage.scheduler.framework.handle.ClusterApi`.

    ``find_cached`` returns cached objects, which saves a read before an update.
    """

    def __init__(
        self,
        client: ApiClient,
        dispatcher: Dispatcher,
        recorder: Recorder,
        clock: Clock,
        find_cached: Lookup = lambda _obj: None,
    ) -> None:
        self._client = client
        self._dispatcher = dispatcher
        self._recorder = recorder
        self._clock = clock
        self._find_cached = find_cached
        self._written_objects: LRU[str, KubeObject] = LRU("written objects", MAX_WRITTEN)
        """Responses to recent updates: the next update may start before a watch delivers them."""
        self._locks = ObjectLocks()
        self._random = Random()

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Bind a pod to a node.

        If the response is lost, read the pod and retry if it is not bound. A bound pod that is treated as unbound
        would give its resources on the node to another pod.
        """
        meta = pod.metadata
        about = ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid)
        body = _encoder.encode(Binding(metadata=about, target=ObjectReference(kind="Node", name=node_name)))
        write = partial(self._client.request, "POST", _PODS.path(meta.name, meta.namespace, "binding"), body)
        run = partial(self._dispatcher.run, write, priority=pod.priority)
        outcome = UnknownOutcome()
        while True:
            try:
                if meta.uid in self._locks:
                    # A condition of an earlier attempt that arrives after the binding would report PodScheduled=False.
                    async with self._locks.lock(meta.uid):
                        await run()
                else:
                    await run()
            except UNKNOWN_OUTCOME as error:
                current = await self._read_back(pod, outcome.add(error))
                if current is not None and current.node_name == node_name:
                    return
                if current is None or current.node_name or outcome.is_final:
                    raise
            else:
                return

    def is_writing(self, obj: KubeObject) -> bool:
        """Return whether a write about an object is running or queued."""
        return obj.metadata.uid in self._locks

    async def _read_back(self, obj: T, error: ApiError) -> T | None:
        """Read an object after a write with unknown outcome, until the server responds; None if it was not written."""
        if isinstance(error, Unreachable) and not error.was_sent:
            return None
        log.info("the outcome of a write is unknown; reading the object", object=obj.key, error=str(error))
        failures = 0
        while True:
            try:
                current = await self._client.get(type(obj), obj.name, obj.namespace)
            except ApiError as read_error:
                if isinstance(read_error, NotFound):
                    return None
                failures += 1
                is_temporary = isinstance(read_error, ServerError | Unreachable | TooManyRequests)
                if not is_temporary and failures >= MAX_DENIED_READS:
                    return None
                pause = max(read_error.retry_after or 0.0, WATCH_BACKOFF.delay(failures, self._random))
                await asyncio.sleep(pause)
            else:
                return current if current.uid == obj.uid else None

    async def get(self, obj: T) -> T:
        """Read the current version of an object."""
        return await self._dispatcher.run(lambda: self._client.get(type(obj), obj.name, obj.namespace))

    async def create(self, obj: T) -> T:
        """Create an object and return it as stored."""
        kind = find_kind(type(obj))
        if kind.namespaced and not obj.namespace:
            raise ValueError(f"{kind.name} {obj.name!r} has no namespace: set metadata.namespace")
        return await self._dispatcher.run(lambda: self._client.create(obj))

    async def update(self, obj: T, *, subresource: str = "") -> T:
        """Change an object of the same resourceVersion and return it as stored.

        Only the differences are sent: our structs do not contain every field, and unknown fields must survive. If the
        response is lost, read the object, and retry if it has not changed. Otherwise a device or volume whose
        allocation is stored, or still arrives, would be treated as free and be allocated twice.
        """
        before = await self._read_previous(obj)
        patch = build_patch(before, obj)
        if not patch:
            return obj
        patch.setdefault("metadata", {})["resourceVersion"] = obj.metadata.resource_version
        path = self._client.resolve_kind(type(obj)).path(obj.name, obj.namespace, subresource)
        body = _encoder.encode(patch)
        outcome = UnknownOutcome()
        while True:
            try:
                response = await self._dispatcher.run(lambda: self._client.request("PATCH", path, body, MERGE_PATCH))
            except NotFound as error:
                raise await self._explain_not_found(obj, subresource, error) from error
            except UNKNOWN_OUTCOME as error:
                # The conflict may be with our own write: a retry after a lost response has an old version.
                current = await self._read_back(obj, outcome.add(error))
                if current is not None and has_been_patched(to_data(current), patch):
                    return current
                version = obj.metadata.resource_version
                if current is None or current.metadata.resource_version != version or outcome.is_final:
                    raise
            else:
                stored_object = decoded(type(obj), response)
                self._written_objects.put(obj.uid or obj.key, stored_object)
                return stored_object

    async def _read_previous(self, obj: T) -> T:
        version = obj.metadata.resource_version
        if not version:
            raise ValueError(f"{obj.key} has no resourceVersion: read it before you update it, or patch it")
        for cached in (self._find_cached(obj), self._written_objects.find(obj.uid or obj.key)):
            if cached is not None and cached.metadata.resource_version == version:
                return cast("T", cached)
        current = await self.get(obj)
        stored_version = current.metadata.resource_version
        if stored_version != version:
            raise Conflict(f"{obj.key} has changed: its version is {stored_version}, the update is for {version}")
        return current

    async def patch(self, obj: T, patch: Mapping[str, Any], *, subresource: str = "") -> T:
        """Apply a JSON merge patch to any version of an object, and return it as stored.

        Null removes a field, and lists are replaced. Writes about one object are sent in the order of the calls.
        """
        return decoded(type(obj), await self._patch(obj, patch, subresource, MERGE_PATCH))

    async def patch_status(self, obj: T, patch: Mapping[str, Any]) -> T:
        """Patch the status of an object, and return the object as stored.

        Conditions are merged by type. Custom resources support only JSON merge patches, which replace lists.
        """
        status = {"status": self._with_transition_times(obj, patch)}
        content_type = MERGE_PATCH if is_custom(obj) else STRATEGIC_MERGE_PATCH
        return decoded(type(obj), await self._patch(obj, status, "status", content_type))

    async def _patch(self, obj: KubeObject, patch: Mapping[str, Any], subresource: str, content_type: str) -> bytes:
        body = _encoder.encode(patch)
        path = self._client.resolve_kind(type(obj)).path(obj.name, obj.namespace, subresource)
        priority = obj.priority if isinstance(obj, Pod) else 0
        try:
            async with self._locks.lock(obj.uid or obj.key):
                return await self._dispatcher.run(
                    lambda: self._client.request("PATCH", path, body, content_type),
                    priority=priority,
                    retries_conflicts=True,
                )
        except NotFound as error:
            raise await self._explain_not_found(obj, subresource, error) from error

    async def _explain_not_found(self, obj: KubeObject, subresource: str, error: NotFound) -> NotFound:
        """Return an error that names a missing subresource. The server only reports that the object is not found."""
        if subresource and is_custom(obj):
            try:
                await self.get(obj)
            except ApiError:
                return error
            kind = find_kind(type(obj))
            hint = f"add `subresources: {{{subresource}: {{}}}}` to version {kind.version} of its definition"
            return NotFound(f"{kind.full_name} has no subresource {subresource!r}: {hint}", status=404)
        return error

    def _with_transition_times(self, obj: KubeObject, patch: Mapping[str, Any]) -> Mapping[str, Any]:
        """Add the current time to each condition with a changed status."""
        if "conditions" not in patch or not isinstance(obj, Pod):
            return patch
        statuses = {condition.type: condition.status for condition in obj.status.conditions}
        now = format_time(self._clock.wall())
        conditions = [
            {"lastTransitionTime": now, **condition}
            if statuses.get(condition["type"]) != condition["status"]
            else condition
            for condition in patch["conditions"]
        ]
        return {**patch, "conditions": conditions}

    async def delete(self, obj: KubeObject) -> None:
        """Request the deletion of an object."""
        await self._dispatcher.run(lambda: self._client.delete(obj))

    def record(self, event: EventNote) -> None:
        """Record an event. Never waits and never fails."""
        self._recorder.record(event)


class UnknownOutcome:
    """A write that may have succeeded although its response is missing.

    A request that was sent before a connection broke may reach the server after the object is read back. Only another
    write resolves this: either of the two succeeds, and the server rejects the other one.
    """

    def __init__(self) -> None:
        self._sends = 0
        self._was_sent = False
        self._is_conflict = False

    def add(self, error: ApiError) -> ApiError:
        """Add the error of a send. A sent write remains unknown, even if a later send cannot reach the server."""
        self._sends += 1
        self._is_conflict = isinstance(error, Conflict)
        if isinstance(error, Unreachable):
            self._was_sent = error.was_sent = self._was_sent or error.was_sent
        return error

    @property
    def is_final(self) -> bool:
        """Whether the server rejected the write, or the limit of sends is reached."""
        return self._is_conflict or self._sends >= MAX_SENDS


class ObjectLocks:
    """Locks that serialize the writes about one object, in the order of the calls. Unused locks take no memory."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: dict[str, int] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._locks

    @asynccontextmanager
    async def lock(self, uid: str) -> AsyncIterator[None]:
        """Hold the lock of an object."""
        lock = self._locks.get(uid)
        if lock is None:
            lock = self._locks[uid] = asyncio.Lock()
        self._users[uid] = self._users.get(uid, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._users[uid] -= 1
            if not self._users[uid]:
                del self._users[uid], self._locks[uid]
