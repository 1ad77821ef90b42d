"""The fields of the Kubernetes types: read from a table that `conformance/fields` writes from the Go types.

It serves decoding protobuf, merging lists, checking what is sent and describing the API.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec

_CHECKS: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "int32": (int,),
    "int64": (int,),
    "bool": (bool,),
    "double": (int, float),
    "bytes": (str,),
    "time": (str,),
    "microtime": (str,),
    "duration": (str,),
    "quantity": (str, int, float),
    "intorstring": (str, int),
    "fields": (dict,),
    "strings": (list,),
}
_WORDS: Final = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}


class Field(msgspec.Struct, frozen=True, rename="camel"):
    """One field of a type; see `conformance/fields`."""

    number: int
    type: str
    name: str = ""
    shape: str = ""
    omit: bool = False
    merge_key: str = ""
    strategy: str = ""
    list_type: str = ""
    list_keys: tuple[str, ...] = ()

    @property
    def schema(self) -> "Schema | None":
        """The type of the field's content, if it is a struct."""
        return schema_of(self.type)


class Tables(msgspec.Struct, frozen=True):
    """The whole file."""

    kinds: dict[str, str]
    types: dict[str, tuple[Field, ...]]


class Schema:
    """One type: its fields by name, those that stand in for a part of it included."""

    def __init__(self, name: str, fields: tuple[Field, ...]) -> None:
        self.name = name
        self.own_fields = fields
        self._by_name: dict[str, Field] | None = None

    @property
    def by_name(self) -> Mapping[str, Field]:
        """The fields as they are named in JSON."""
        if self._by_name is None:
            self._by_name = {}
            for field in self.own_fields:
                inlined = field.schema if not field.name else None
                self._by_name.update(inlined.by_name if inlined is not None else {field.name: field})
        return self._by_name

    def field(self, name: str) -> Field | None:
        """Return the field of a name, if there is one."""
        return self.by_name.get(name)


@cache
def tables() -> Tables:
    """Read the table, once."""
    return msgspec.json.decode((files("moorage.apiserver") / "fields.json").read_bytes(), type=Tables)


@cache
def schema_of(type_name: str) -> Schema | None:
    """Return a type by its name."""
    fields = tables().types.get(type_name)
    return Schema(type_name, fields) if fields is not None else None


@cache
def schema_of_kind(api_version: str, kind: str) -> Schema | None:
    """Return the type of a kind; ``None`` for custom kinds."""
    name = tables().kinds.get(f"{api_version}/{kind}")
    return schema_of(name) if name is not None else None


def type_problems(data: Mapping[str, Any], schema: Schema, path: str = "") -> Iterator[str]:
    """Find fields whose content is of another JSON type than theirs."""
    for key, content in data.items():
        field = schema.field(key)
        if field is not None and content is not None:
            yield from _field_problems(content, field, f"{path}.{key}" if path else key)


def _field_problems(content: Any, field: Field, path: str) -> Iterator[str]:
    if field.shape == "list":
        if not isinstance(content, list):
            yield _mismatch(content, path, "array")
            return
        for item in content:
            yield from _single_problems(item, field, path)
    elif field.shape == "map":
        if not isinstance(content, dict):
            yield _mismatch(content, path, "object")
            return
        for item in content.values():
            yield from _single_problems(item, field, path)
    else:
        yield from _single_problems(content, field, path)


def _single_problems(content: Any, field: Field, path: str) -> Iterator[str]:
    below = field.schema
    if below is not None:
        if isinstance(content, dict):
            yield from type_problems(content, below, path)
        else:
            yield _mismatch(content, path, "object")
        return
    wanted = _CHECKS.get(field.type)
    if wanted is None:
        return
    is_right = isinstance(content, wanted) and (bool in wanted or not isinstance(content, bool))
    if not is_right:
        yield _mismatch(content, path, _WORDS[wanted[0]])


def _mismatch(content: Any, path: str, wanted: str) -> str:
    return f"json: cannot unmarshal {_WORDS.get(type(content), 'null')} into field {path} of type {wanted}"


def unknown_fields(data: Mapping[str, Any], schema: Schema, path: str = "") -> Iterator[str]:
    """Find fields that the type does not have."""
    for key, content in data.items():
        here = f"{path}.{key}" if path else key
        if not path and key in ("apiVersion", "kind"):
            continue
        field = schema.field(key)
        if field is None:
            yield here
            continue
        below = field.schema
        if below is None:
            continue
        if field.shape == "list" and isinstance(content, list):
            for number, item in enumerate(content):
                if isinstance(item, dict):
                    yield from unknown_fields(item, below, f"{here}[{number}]")
        elif field.shape == "map" and isinstance(content, dict):
            for name, item in content.items():
                if isinstance(item, dict):
                    yield from unknown_fields(item, below, f"{here}.{name}")
        elif isinstance(content, dict):
            yield from unknown_fields(content, below, here)
