"""What a controller can decide to do, as values; and how each is put as a request."""

from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from moorage.kube.api.kinds import BY_TYPE
from moorage.kube.api.meta import KubeObject, format_time
from moorage.kube.api.struct import Data
from moorage.kube.client.rest import JSON, MERGE_PATCH

NAME: Final = "{name}"
"""Stands in a message for the name of the object that was written: the server may have chosen it."""


@dataclass(frozen=True, slots=True)
class Tell:
    """Tell users of something that was done for an object, as an event of it."""

    thing: KubeObject
    source: str
    reason: str
    message: str
    now: float
    is_warning: bool = False

    def event(self, name: str, number: int) -> Data:
        """Write the event, given the name of what was written; no two events of an object have the same number."""
        kind, moment = BY_TYPE[type(self.thing)], format_time(self.now)
        metadata = self.thing.metadata
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{self.thing.name}.{int(self.now * 1e9) + number:x}",
                "namespace": self.thing.namespace,
            },
            "involvedObject": {
                "apiVersion": kind.api_version,
                "kind": kind.name,
                "namespace": self.thing.namespace,
                "name": self.thing.name,
                "uid": self.thing.uid,
                "resourceVersion": metadata.resource_version,
            },
            "reason": self.reason,
            "message": self.message.replace(NAME, name),
            "type": "Warning" if self.is_warning else "Normal",
            "source": {"component": self.source},
            "reportingComponent": self.source,
            "reportingInstance": "",
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "count": 1,
        }


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object of a kind, from plain data."""

    kind: type[KubeObject]
    data: Data
    tell: Tell | None = None

    @property
    def namespace(self) -> str:
        """Return where it is to live."""
        return str(self.data["metadata"].get("namespace", ""))


@dataclass(frozen=True, slots=True)
class Patch:
    """Merge something into an object.

    ``if_unchanged`` refuses if the object has changed since it was looked at: for lists, which a merge replaces.
    """

    thing: KubeObject
    patch: Data
    subresource: str = ""
    if_unchanged: bool = False
    content_type: str = MERGE_PATCH
    tell: Tell | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object, that very one; ``grace`` of 0 ends a pod at once."""

    thing: KubeObject
    grace: int | None = None
    propagation: str = ""
    tell: Tell | None = None


@dataclass(frozen=True, slots=True)
class Sweep:
    """Delete everything in a namespace, whatever the server serves, and let it go when nothing is left."""

    namespace: KubeObject
    now: float


@dataclass(frozen=True, slots=True)
class After:
    """Look again when so many seconds have passed, even if nothing changes."""

    seconds: float


Write: TypeAlias = Create | Patch | Delete
ControllerAction: TypeAlias = Write | Sweep | After
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """A request for an action, and the struct its answer decodes into."""

    method: str
    path: str
    body: bytes
    kind: type[KubeObject]
    content_type: str = JSON


def request_of(action: Write) -> ActionRequest:
    """Put an action as a request."""
    match action:
        case Create(kind, data):
            known = BY_TYPE[kind]
            whole = {"apiVersion": known.api_version, "kind": known.name, **data}
            return ActionRequest("POST", known.path(namespace=action.namespace), _encode(whole), kind)
        case Patch(thing):
            return ActionRequest(
                "PATCH", _path(thing, action.subresource), _patch(action), type(thing), action.content_type
            )
        case Delete(thing):
            return ActionRequest("DELETE", _path(thing), _encode(_options(action)), type(thing))


def _path(thing: KubeObject, subresource: str = "") -> str:
    return BY_TYPE[type(thing)].path(thing.name, thing.namespace, subresource)


def _patch(action: Patch) -> bytes:
    if not action.if_unchanged:
        return _encode(action.patch)
    version = action.thing.metadata.resource_version
    metadata = {**action.patch.get("metadata", {}), "resourceVersion": version}
    return _encode({**action.patch, "metadata": metadata})


def _options(action: Delete) -> Data:
    options: Data = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": action.thing.uid}}
    if action.grace is not None:
        options["gracePeriodSeconds"] = action.grace
    if action.propagation:
        options["propagationPolicy"] = action.propagation
    return options


def status_actions(
    thing: KubeObject, found: Data, wanted: Data, *, if_unchanged: bool = False
) -> list[ControllerAction]:
    """Bring a status up to date, if it is not: what is missing counts as zero, false or empty."""
    changed = {key: value for key, value in wanted.items() if found.get(key, type(value)()) != value}
    return [Patch(thing, {"status": changed}, "status", if_unchanged)] if changed else []
