"""What a controller can decide to do, as values; and how each is put as a request."""

from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from moorage.api.kinds import BY_TYPE
from moorage.api.meta import KubeObject
from moorage.api.struct import Data
from moorage.client.rest import JSON, MERGE_PATCH


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object of a kind, from plain data."""

    kind: type[KubeObject]
    data: Data

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


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object, that very one; ``grace`` of 0 ends a pod at once."""

    thing: KubeObject
    grace: int | None = None
    propagation: str = ""


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
