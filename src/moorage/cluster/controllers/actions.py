"""The actions of controllers as values, and the API requests that execute them."""

from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from moorage.kube.api.kinds import BY_TYPE
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.records import EventNote
from moorage.kube.api.struct import Data
from moorage.kube.client.rest import JSON, MERGE_PATCH

NAME: Final = "{name}"
"""Placeholder in a message for the name of the written object, which the server may have generated."""


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object of a kind, from plain data."""

    kind: type[KubeObject]
    data: Data
    event: EventNote | None = None

    @property
    def namespace(self) -> str:
        """The namespace of the new object."""
        return str(self.data["metadata"].get("namespace", ""))


@dataclass(frozen=True, slots=True)
class Patch:
    """Patch an object.

    ``if_unchanged`` fails if the object has changed since it was read: merge patches replace entire lists.
    """

    obj: KubeObject
    patch: Data
    subresource: str = ""
    if_unchanged: bool = False
    content_type: str = MERGE_PATCH
    event: EventNote | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object with a UID precondition. ``grace`` of 0 deletes a pod immediately."""

    obj: KubeObject
    grace: int | None = None
    propagation: str = ""
    event: EventNote | None = None


@dataclass(frozen=True, slots=True)
class EmptyNamespace:
    """Delete all objects in a namespace. When it is empty, remove its finalizer."""

    namespace: KubeObject
    now: float


@dataclass(frozen=True, slots=True)
class RequeueAfter:
    """Reconcile the key after some seconds, even if nothing changes."""

    seconds: float


Write: TypeAlias = Create | Patch | Delete
ControllerAction: TypeAlias = Write | EmptyNamespace | RequeueAfter
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """The request of an action, and the struct of its response."""

    method: str
    path: str
    body: bytes
    kind: type[KubeObject]
    content_type: str = JSON


def build_request(action: Write) -> ActionRequest:
    """Return the API request of an action."""
    match action:
        case Create(kind, data):
            kind_info = BY_TYPE[kind]
            obj = {"apiVersion": kind_info.api_version, "kind": kind_info.name, **data}
            return ActionRequest("POST", kind_info.path(namespace=action.namespace), _encode(obj), kind)
        case Patch(obj, patch, subresource, if_unchanged, content_type):
            if if_unchanged:
                metadata = {**patch.get("metadata", {}), "resourceVersion": obj.metadata.resource_version}
                patch = {**patch, "metadata": metadata}
            path = BY_TYPE[type(obj)].path(obj.name, obj.namespace, subresource)
            return ActionRequest("PATCH", path, _encode(patch), type(obj), content_type)
        case Delete(obj, grace, propagation):
            options: Data = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": obj.uid}}
            if grace is not None:
                options["gracePeriodSeconds"] = grace
            if propagation:
                options["propagationPolicy"] = propagation
            path = BY_TYPE[type(obj)].path(obj.name, obj.namespace)
            return ActionRequest("DELETE", path, _encode(options), type(obj))


def has_effect(action: ControllerAction) -> bool:
    """Return whether an action changes the object that the controller read. A merge patch may only repeat it.

    A controller that writes unchanged objects would keep the cluster busy forever.
    """
    if not isinstance(action, Patch) or action.content_type != MERGE_PATCH:
        return True
    # Only the patched parts of the object are encoded: specs and statuses can be large.
    current = {key: getattr(action.obj, key, None) for key in action.patch}
    return _differs(msgspec.json.decode(_encode(current)), msgspec.json.decode(_encode(action.patch)))


def _differs(current: Data, patch: Data) -> bool:
    for key, value in patch.items():
        if isinstance(value, dict) and isinstance(current.get(key), dict):
            if _differs(current[key], value):
                return True
        elif current.get(key) != value:
            return True
    return False


def status_actions(
    obj: KubeObject, current: Data, desired: Data, *, if_unchanged: bool = False
) -> list[ControllerAction]:
    """Patch the status if it differs. Missing fields are treated as zero, false or empty."""
    changed_fields = {key: value for key, value in desired.items() if current.get(key, type(value)()) != value}
    return [Patch(obj, {"status": changed_fields}, "status", if_unchanged)] if changed_fields else []
