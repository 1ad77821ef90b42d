"""Kubernetes objects in and out of JSON and YAML, with the place named in every error."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec
import yaml

from moorage.api.kinds import BY_TYPE
from moorage.api.meta import KubeObject
from moorage.api.struct import Data
from moorage.errors import InputError

T = TypeVar("T")

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding rubbish may raise: msgspec has no error of its own for bad UTF-8, or for brackets without end."""
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loose(_Loader):  # type: ignore[misc, valid-type]
    """YAML as Kubernetes reads it: a date stays the text that was written."""


_Loose.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}


def decode(kind: type[T], body: bytes) -> T:
    """Decode JSON into a struct; nulls stand for "absent", as in Go.

    The fast path knows no nulls where a list or number belongs; an object that has some is decoded again without them.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError:
        return convert(kind, msgspec.json.decode(body))


def convert(kind: type[T], content: Mapping[str, Any]) -> T:
    """Turn plain data into a struct, dropping nulls."""
    plain = without_nulls(content)
    if getattr(kind, "holds_json", False):
        return msgspec.json.decode(msgspec.json.encode(plain), type=kind)
    return msgspec.convert(plain, kind)


def to_data(thing: KubeObject) -> Data:
    """Turn an object into plain data."""
    data: Data = msgspec.json.decode(msgspec.json.encode(thing)) if thing.holds_json else msgspec.to_builtins(thing)
    return data


def without_nulls(content: Any) -> Any:
    """Leave out every null in mappings, at any depth."""
    if isinstance(content, dict):
        return {key: without_nulls(item) for key, item in content.items() if item is not None}
    if isinstance(content, list):
        return [without_nulls(item) for item in content]
    return content


def encode(thing: KubeObject) -> Data:
    """Turn an object into plain data with its ``apiVersion`` and ``kind``."""
    kind = BY_TYPE[type(thing)]
    return {"apiVersion": kind.api_version, "kind": kind.name, **to_data(thing)}


def read_documents(text: str, *, source: str) -> Iterator[Any]:
    """Read every YAML (or JSON) document of a text; an error names the source and the line."""
    try:
        yield from (document for document in yaml.load_all(text, Loader=_Loose) if document is not None)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{source}, line {mark.line + 1}, column {mark.column + 1}" if mark else source
        problem = getattr(error, "problem", None) or str(error)
        raise InputError(where, f"the YAML does not parse: {problem}") from error
