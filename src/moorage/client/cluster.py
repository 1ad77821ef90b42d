"""The real API server as the scheduler writes to it."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any, Protocol, TypeVar, cast

import msgspec
import structlog

from moorage.api.kinds import BY_TYPE
from moorage.api.meta import KubeObject, ObjectMeta, format_time
from moorage.api.pod import Pod
from moorage.api.records import Binding
from moorage.api.storage import ObjectReference
from moorage.client.backoff import WATCH_DELAYS
from moorage.client.dispatcher import Dispatcher
from moorage.client.rest import MERGE_PATCH, STRATEGIC_MERGE_PATCH, ApiClient, decoded
from moorage.client.turns import Turns
from moorage.clock import Clock
from moorage.errors import ApiError, Conflict, ServerError, Unreachable
from moorage.framework.recording import EventNote

T = TypeVar("T", bound=KubeObject)
Lookup = Callable[[KubeObject], KubeObject | None]
"""Finds the version of an object that the informers last told of."""

_encoder = msgspec.json.Encoder()
_PODS = BY_TYPE[Pod]

log = structlog.get_logger(__name__)


class Recorder(Protocol):
    """Where events go."""

    def record(self, event: EventNote) -> None:
        """Record an event; never waits and never fails."""
        ...


class ApiCluster:
    """Carries out what the scheduler decides; a :class:`moorage.framework.handle.Cluster`.

    ``known`` saves reading an object again before it is changed.
    """

    def __init__(
        self,
        client: ApiClient,
        dispatcher: Dispatcher,
        recorder: Recorder,
        clock: Clock,
        known: Lookup = lambda _thing: None,
    ) -> None:
        self._client = client
        self._dispatcher = dispatcher
        self._recorder = recorder
        self._clock = clock
        self._known = known
        self._turns = Turns()
        self._chance = Random()

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Bind a pod to a node.

        If the answer was lost, the pod is looked up before this fails: taking a bound pod for unbound would give its
        place on the node to another.
        """
        meta = pod.metadata
        about = ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid)
        body = _encoder.encode(Binding(metadata=about, target=ObjectReference(kind="Node", name=node_name)))
        write = partial(self._client.request, "POST", _PODS.path(meta.name, meta.namespace, "binding"), body)
        try:
            if meta.uid in self._turns:
                # A word on an earlier attempt that came after the binding would call a bound pod unscheduled.
                async with self._turns.of(meta.uid):
                    await self._dispatcher.run(write, priority=pod.priority)
            else:
                await self._dispatcher.run(write, priority=pod.priority)
        except (Conflict, ServerError, Unreachable) as error:
            current = await self._looked_up(pod, error)
            if current is None or current.node_name != node_name:
                raise

    async def _looked_up(self, thing: T, error: ApiError) -> T | None:
        """Read an object that may or may not have been written, however long the server takes; None if it was not."""
        if isinstance(error, Unreachable) and not error.was_sent:
            return None
        log.info("a write is in doubt, asking for the object", object=thing.key, error=str(error))
        failures = 0
        while True:
            try:
                current = await self._client.get(type(thing), thing.name, thing.namespace)
            except (ServerError, Unreachable) as trouble:
                failures += 1
                pause = max(trouble.retry_after or 0.0, WATCH_DELAYS.after(failures, self._chance))
                await asyncio.sleep(pause)
            except ApiError:
                return None
            else:
                return current if current.uid == thing.uid else None

    async def get(self, thing: T) -> T:
        """Read an object as it is now."""
        return await self._dispatcher.run(lambda: self._client.get(type(thing), thing.name, thing.namespace))

    async def create(self, thing: T) -> T:
        """Create an object and return it as stored."""
        return await self._dispatcher.run(lambda: self._client.create(thing))

    async def update(self, thing: T, *, subresource: str = "") -> T:
        """Change an object of the same resourceVersion and return it as stored.

        Only the differences are sent: our structs do not know every field, and those of others must survive. If the
        answer was lost, the object is looked up before this fails: a device or a volume whose allocation is stored, and
        that is taken for free, would be given to another.
        """
        before = await self._version_before(thing)
        patch = difference(msgspec.to_builtins(before), msgspec.to_builtins(thing))
        if not patch:
            return thing
        patch.setdefault("metadata", {})["resourceVersion"] = thing.metadata.resource_version
        path = BY_TYPE[type(thing)].path(thing.name, thing.namespace, subresource)
        body = _encoder.encode(patch)
        try:
            answer = await self._dispatcher.run(lambda: self._client.request("PATCH", path, body, MERGE_PATCH))
        except (Conflict, ServerError, Unreachable) as error:
            # A conflict may be with ourselves: what is tried again after its answer was lost is of an old version.
            current = await self._looked_up(thing, error)
            if current is None or not has_been_patched(msgspec.to_builtins(current), patch):
                raise
            return current
        return decoded(type(thing), answer)

    async def _version_before(self, thing: T) -> T:
        wanted = thing.metadata.resource_version
        known = self._known(thing)
        if known is not None and known.metadata.resource_version == wanted:
            return cast("T", known)
        current = await self.get(thing)
        if current.metadata.resource_version != wanted:
            found = current.metadata.resource_version
            raise Conflict(f"{thing.key} was changed meanwhile: it has version {found}, the update is of {wanted}")
        return current

    async def patch_status(self, thing: KubeObject, patch: Mapping[str, Any]) -> None:
        """Merge something into an object's status; conditions are merged by type.

        What is told of one object is written in the order in which it is told, a binding included.
        """
        body = _encoder.encode({"status": self._with_times(thing, patch)})
        path = BY_TYPE[type(thing)].path(thing.name, thing.namespace, "status")
        priority = thing.priority if isinstance(thing, Pod) else 0
        async with self._turns.of(thing.uid):
            await self._dispatcher.run(
                lambda: self._client.request("PATCH", path, body, STRATEGIC_MERGE_PATCH),
                priority=priority,
                retries_conflicts=True,
            )

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
        """Tell the user something; never waits and never fails."""
        self._recorder.record(event)


def has_been_patched(content: Mapping[str, Any], patch: Mapping[str, Any]) -> bool:
    """Tell whether an object has all that a JSON merge patch of ours says, whichever version it is.

    >>> has_been_patched({"metadata": {"resourceVersion": "8"}, "b": 1}, {"metadata": {"resourceVersion": "7"}, "b": 1})
    True
    >>> has_been_patched({"b": {"c": 1}}, {"b": {"c": None}})
    False
    """
    for key, wanted in patch.items():
        found = content.get(key)
        if isinstance(found, Mapping) and isinstance(wanted, Mapping):
            if not has_been_patched(found, wanted):
                return False
        elif found != wanted and key != "resourceVersion":
            return False
    return True


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON merge patch that makes one of the other: what is gone becomes null.

    >>> difference({"a": 1, "b": {"c": 1, "d": 2}}, {"b": {"c": 1, "d": 3}})
    {'b': {'d': 3}, 'a': None}
    """
    patch: dict[str, Any] = {}
    for key, new in after.items():
        old = before.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            if inner := difference(old, new):
                patch[key] = inner
        elif old != new:
            patch[key] = new
    patch.update((key, None) for key in before if key not in after)
    return patch
