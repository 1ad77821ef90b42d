"""The fields of the Kubernetes types: read from a table that `conformance/fields` writes from the Go types.

It serves decoding protobuf, merging lists, checking what is sent and describing the API.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec

from moorage.api.meta import parse_time
from moorage.api.quantity import nano_value
from moorage.errors import QuantityError

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
_BITS: Final = {"int32": 31, "int64": 63, "intorstring": 31}
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
    return msgspec.json.decode((files("moorage.box.apiserver.kinds") / "fields.json").read_bytes(), type=Tables)


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
    """Find fields whose content is of another type than theirs, in the words of Go's decoder."""
    for key, content in data.items():
        field = schema.field(key)
        if field is not None and content is not None:
            yield from _field_problems(content, field, schema, f"{path}.{key}" if path else key)


def _field_problems(content: Any, field: Field, owner: Schema, path: str) -> Iterator[str]:
    wanted = {"list": list, "map": dict}.get(field.shape)
    if wanted is None:
        yield from _single_problems(content, field, owner, path)
    elif not isinstance(content, wanted):
        yield _mismatch(content, path, owner, _PREFIXES[field.shape] + _go_type(field.type))
    else:
        for item in content.values() if isinstance(content, dict) else content:
            yield from _single_problems(item, field, owner, path)


def _single_problems(content: Any, field: Field, owner: Schema, path: str) -> Iterator[str]:
    below = field.schema
    if below is not None:
        if isinstance(content, dict):
            yield from type_problems(content, below, path)
        else:
            yield _mismatch(content, path, owner, _go_type(field.type))
        return
    wanted = _CHECKS.get(field.type)
    if wanted is None:
        return
    is_right = isinstance(content, wanted) and (bool in wanted or not isinstance(content, bool))
    if not is_right or not _fits(content, field.type):
        yield _mismatch(content, path, owner, _go_type(field.type))
    elif field.type in _GRAMMARS:
        yield from _GRAMMARS[field.type](content)


def _fits(content: Any, name: str) -> bool:
    """Return whether a whole number is in the range of its type."""
    bits = _BITS.get(name)
    return bits is None or not isinstance(content, int) or -(1 << bits) <= content < 1 << bits


def _mismatch(content: Any, path: str, owner: Schema, wanted: str) -> str:
    found = _WORDS.get(type(content), "null")
    if found == "number" and wanted in ("int32", "int64"):
        found = f"number {content}"
    return (
        f"json: cannot unmarshal {found} into Go struct field {owner.name.rpartition('.')[2]}.{path} of type {wanted}"
    )


def _go_type(name: str) -> str:
    """Name a type as Go does: the last part of its package and its own name."""
    package, _, own = name.rpartition(".")
    return f"{package.rpartition('.')[2]}.{own}" if package else _GO_NAMES.get(name, name)


def _quantity_problems(content: Any) -> Iterator[str]:
    try:
        nano_value(content)
    except QuantityError:
        yield "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def _time_problems(content: Any) -> Iterator[str]:
    try:
        parse_time(content)
    except ValueError:
        yield f'parsing time {msgspec.json.encode(content).decode()} as "2006-01-02T15:04:05Z07:00": it is none'


_GRAMMARS: Final[Mapping[str, Callable[[Any], Iterator[str]]]] = {
    "quantity": _quantity_problems,
    "time": _time_problems,
    "microtime": _time_problems,
}
_PREFIXES: Final = {"list": "[]", "map": "map[string]"}
_GO_NAMES: Final = {
    "double": "float64",
    "bytes": "[]uint8",
    "time": "v1.Time",
    "microtime": "v1.MicroTime",
    "duration": "v1.Duration",
    "quantity": "resource.Quantity",
    "intorstring": "intstr.IntOrString",
    "fields": "v1.FieldsV1",
    "strings": "[]string",
}


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
