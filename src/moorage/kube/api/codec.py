"""Kubernetes objects in and out of JSON, with the place named in every error."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from moorage.kube.api.custom import CustomObject
from moorage.kube.api.kinds import kind_of
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.struct import Data

T = TypeVar("T")

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Exceptions of decoding invalid data: msgspec has no own error for invalid UTF-8 or unbalanced brackets."""


def decode(kind: type[T], body: bytes) -> T:
    """Decode JSON into a struct; null means "absent", as in Go.

    The fast path does not support null in place of a list or number; such objects are decoded again without nulls.
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
        plain = without_nulls(content)
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


def without_nulls(content: Any) -> Any:
    """Leave out every null in mappings, at any depth."""
    if isinstance(content, dict):
        return {key: without_nulls(item) for key, item in content.items() if item is not None}
    if isinstance(content, list):
        return [without_nulls(item) for item in content]
    return content


def encode(obj: KubeObject) -> Data:
    """Turn an object into plain data with its ``apiVersion`` and ``kind``."""
    kind = kind_of(type(obj))
    return {"apiVersion": kind.api_version, "kind": kind.name, **to_data(obj)}
