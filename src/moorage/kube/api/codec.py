"""Kubernetes objects in and out of JSON, and the merge patches between their versions."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from moorage.kube.api.custom import CustomObject
from moorage.kube.api.kinds import BUILT_IN, find_kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.struct import Data

T = TypeVar("T")

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Exceptions of decoding invalid data: msgspec has no own error for invalid UTF-8 or unbalanced brackets."""

_MOST_OBJECTS: Final = (Pod, Node)
"""Most objects of a cluster. Their structs keep no reference to the converted data, so it need not be copied."""


def decode(kind: type[T], body: bytes) -> T:
    """Decode JSON into a struct. Null means "absent", as in Go.

    The fast path does not support null in place of a list or number. Such objects are decoded without nulls.
    """
    if issubclass(kind, CustomObject):
        return convert(kind, msgspec.json.decode(body, type=dict[str, Any]))
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError:
        return convert(kind, msgspec.json.decode(body))


def convert(kind: type[T], content: Mapping[str, Any]) -> T:
    """Turn plain data into a struct, dropping nulls."""
    try:
        plain = content if kind in _MOST_OBJECTS and _has_no_null(content) else without_nulls(content)
    except RecursionError as error:
        raise msgspec.ValidationError("it is nested too deeply") from error
    if issubclass(kind, CustomObject):
        return kind.of(plain)
    if getattr(kind, "holds_json", False):
        return msgspec.json.decode(msgspec.json.encode(plain), type=kind)
    return msgspec.convert(plain, kind)


def to_data(obj: KubeObject) -> Data:
    """Turn an object into plain data."""
    if isinstance(obj, CustomObject):
        return {**obj.content, "metadata": msgspec.to_builtins(obj.metadata)}
    data: Data = msgspec.json.decode(msgspec.json.encode(obj)) if obj.holds_json else msgspec.to_builtins(obj)
    return data


def _has_no_null(content: Mapping[str, Any]) -> bool:
    """Return whether data certainly contains no null: encoding it is ten times faster than copying it."""
    try:
        return b"null" not in msgspec.json.encode(content)
    except (TypeError, ValueError, OverflowError):
        return False  # not JSON: the conversion reports the value


def without_nulls(content: Any) -> Any:
    """Omit every null in mappings, at any depth."""
    # Large cluster files have millions of values, mostly strings and numbers.
    if isinstance(content, dict):
        return {
            key: without_nulls(item) if isinstance(item, (dict, list)) else item
            for key, item in content.items()
            if item is not None
        }
    if isinstance(content, list):
        return [without_nulls(item) if isinstance(item, (dict, list)) else item for item in content]
    return content


def encode(obj: KubeObject) -> Data:
    """Turn an object into plain data with its ``apiVersion`` and ``kind``."""
    kind = find_kind(type(obj))
    return {"apiVersion": kind.api_version, "kind": kind.name, **to_data(obj)}


def is_custom(obj: KubeObject) -> bool:
    """Return whether an object is a custom resource."""
    return type(obj) not in BUILT_IN


def has_been_patched(content: Mapping[str, Any], patch: Mapping[str, Any]) -> bool:
    """Return whether an object contains all values of a JSON merge patch, regardless of its version.

    >>> has_been_patched({"metadata": {"resourceVersion": "8"}, "b": 1}, {"metadata": {"resourceVersion": "7"}, "b": 1})
    True
    >>> has_been_patched({"b": {"c": 1}}, {"b": {"c": None}})
    False
    """
    for key, value in patch.items():
        current = content.get(key)
        if isinstance(current, dict) and isinstance(value, dict):
            if not has_been_patched(current, value):
                return False
        elif current != value and key != "resourceVersion":
            return False
    return True


def build_patch(before: KubeObject, after: KubeObject) -> dict[str, Any]:
    """Return the JSON merge patch that makes one version of an object of another."""
    if is_custom(after) or after.holds_json:
        return difference(to_data(before), to_data(after))
    # An update replaces status or metadata: identical parts need not be encoded.
    names = [name for name in after.__struct_fields__ if getattr(before, name) is not getattr(after, name)]
    parts = (type(after)(**{name: getattr(obj, name) for name in names}) for obj in (before, after))
    return difference(*map(to_data, parts))


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON merge patch from one object to the other. Removed fields become null.

    >>> difference({"a": 1, "b": {"c": 1, "d": 2}}, {"b": {"c": 1, "d": 3}})
    {'b': {'d': 3}, 'a': None}
    """
    patch: dict[str, Any] = {}
    for key, new in after.items():
        old = before.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            if inner := difference(old, new):
                patch[key] = inner
        elif old != new:
            patch[key] = new
    patch.update((key, None) for key in before if key not in after)
    return patch
