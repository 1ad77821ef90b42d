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
class Event:
    """Tell users of something that was done for an object, as an event of it."""

    obj: KubeObject
    source: str
    reason: str
    message: str
    now: float
    is_warning: bool = False

    def data(self, name: str, number: int) -> Data:
        """Write the event, given the name of what was written; no two events of an object have the same number."""
        kind, moment = BY_TYPE[type(self.obj)], format_time(self.now)
        metadata = self.obj.metadata
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{self.obj.name}.{int(self.now * 1e9) + number:x}",
                "namespace": self.obj.namespace,
            },
            "involvedObject": {
                "apiVersion": kind.api_version,
                "kind": kind.name,
                "namespace": self.obj.namespace,
                "name": self.obj.name,
                "uid": self.obj.uid,
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
    event: Event | None = None

    @property
    def namespace(self) -> str:
        """Return where it is to live."""
        return str(self.data["metadata"].get("namespace", ""))


@dataclass(frozen=True, slots=True)
class Patch:
    """Merge something into an object.

    ``if_unchanged`` refuses if the object has changed since it was looked at: for lists, which a merge replaces.
    """

    obj: KubeObject
    patch: Data
    subresource: str = ""
    if_unchanged: bool = False
    content_type: str = MERGE_PATCH
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object, that very one; ``grace`` of 0 ends a pod at once."""

    obj: KubeObject
    grace: int | None = None
    propagation: str = ""
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class EmptyNamespace:
    """Delete everything in a namespace, whatever the server serves, and let it go when nothing is left."""

    namespace: KubeObject
    now: float


@dataclass(frozen=True, slots=True)
class RequeueAfter:
    """Look again when so many seconds have passed, even if nothing changes."""

    seconds: float


Write: TypeAlias = Create | Patch | Delete
ControllerAction: TypeAlias = Write | EmptyNamespace | RequeueAfter
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """A request for an action, and the struct its answer decodes into."""

    method: str
    path: str
    body: bytes
    kind: type[KubeObject]
    content_type: str = JSON


def build_request(action: Write) -> ActionRequest:
    """Put an action as a request."""
    match action:
        case Create(kind, data):
            known = BY_TYPE[kind]
            whole = {"apiVersion": known.api_version, "kind": known.name, **data}
            return ActionRequest("POST", known.path(namespace=action.namespace), _encode(whole), kind)
        case Patch(obj):
            return ActionRequest(
                "PATCH", _path(obj, action.subresource), _patch(action), type(obj), action.content_type
            )
        case Delete(obj):
            return ActionRequest("DELETE", _path(obj), _encode(_options(action)), type(obj))


def _path(obj: KubeObject, subresource: str = "") -> str:
    return BY_TYPE[type(obj)].path(obj.name, obj.namespace, subresource)


def _patch(action: Patch) -> bytes:
    if not action.if_unchanged:
        return _encode(action.patch)
    version = action.obj.metadata.resource_version
    metadata = {**action.patch.get("metadata", {}), "resourceVersion": version}
    return _encode({**action.patch, "metadata": metadata})


def _options(action: Delete) -> Data:
    options: Data = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": action.obj.uid}}
    if action.grace is not None:
        options["gracePeriodSeconds"] = action.grace
    if action.propagation:
        options["propagationPolicy"] = action.propagation
    return options


def status_actions(obj: KubeObject, found: Data, wanted: Data, *, if_unchanged: bool = False) -> list[ControllerAction]:
    """Bring a status up to date, if it is not: what is missing counts as zero, false or empty."""
    changed = {key: value for key, value in wanted.items() if found.get(key, type(value)()) != value}
    return [Patch(obj, {"status": changed}, "status", if_unchanged)] if changed else []
