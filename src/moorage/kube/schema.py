"""The fields of the Kubernetes types, from a table that `conformance/fields` generates from the Go types.

It is used to decode protobuf, merge lists, validate input and describe the API.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Final

import msgspec

from moorage.common.caches import cached
from moorage.common.errors import QuantityError
from moorage.kube.api.meta import parse_time
from moorage.kube.api.quantity import nano_value

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
_ZEROS: Final[Mapping[str, Any]] = {"string": "", "int32": 0, "int64": 0, "bool": False}
_PLAIN: Final[Mapping[str, type]] = {"string": str, "bool": bool}
"""Types that take every value of one class."""
_BITS: Final = {"int32": 31, "int64": 63, "intorstring": 31}
_WORDS: Final = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}


class Field(msgspec.Struct, frozen=True, rename="camel"):
    """One field of a type; see `conformance/fields`."""

    number: int
    type: str
    name: str = ""
    shape: str = ""
    omit: bool = False
    required: bool = False
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
    """One type: its fields by name, including inlined fields."""

    def __init__(self, name: str, fields: tuple[Field, ...]) -> None:
        self.name = name
        self.own_fields = fields

    @cached_property
    def by_name(self) -> Mapping[str, Field]:
        """The fields by JSON name."""
        fields: dict[str, Field] = {}
        for field in self.own_fields:
            inlined = field.schema if not field.name else None
            fields.update(inlined.by_name if inlined is not None else {field.name: field})
        return fields

    def field(self, name: str) -> Field | None:
        """Return the field of a name, if there is one."""
        return self.by_name.get(name)

    @cached_property
    def zeros(self) -> Mapping[str, Any]:
        """Defaults of the fields that every object has."""
        plain = (field for field in self.by_name.values() if field.required and not field.omit and not field.shape)
        return {field.name: _ZEROS[field.type] for field in plain if field.type in _ZEROS}

    @cached_property
    def to_complete(self) -> Mapping[str, "tuple[Field, Schema]"]:
        """The fields that have structs with such fields, in themselves or further down."""
        with_structs = ((field, field.schema) for field in self.by_name.values())
        return {
            field.name: (field, below)
            for field, below in with_structs
            if below is not None and _has_zeros(below, frozenset((self.name,)))
        }


@cache
def tables() -> Tables:
    """Read the table, once."""
    return msgspec.json.decode((files("moorage.kube") / "fields.json").read_bytes(), type=Tables)


@cached(4096)
def schema_of(type_name: str) -> Schema | None:
    """Return a type by its name."""
    fields = tables().types.get(type_name)
    return Schema(type_name, fields) if fields is not None else None


@cached(1024)
def schema_of_kind(api_version: str, kind: str) -> Schema | None:
    """Return the type of a kind; ``None`` for custom kinds."""
    name = tables().kinds.get(f"{api_version}/{kind}")
    return schema_of(name) if name is not None else None


def _has_zeros(schema: Schema, above: frozenset[str]) -> bool:
    """Return whether a type has required plain fields, or is made of others that do; some contain themselves."""
    if schema.name in above:
        return False
    below = (field.schema for field in schema.by_name.values())
    return bool(schema.zeros) or any(_has_zeros(item, above | {schema.name}) for item in below if item is not None)


def complete(data: dict[str, Any], schema: Schema) -> None:
    """Write the required fields that are missing, as the API server does: clients may count on their being there."""
    for name, zero in schema.zeros.items():
        if data.get(name) is None:
            data[name] = zero
    for name, (field, below) in schema.to_complete.items():
        content = data.get(name)
        if not content:
            continue
        items = (content,) if not field.shape else content.values() if field.shape == "map" else content
        for item in items:
            if isinstance(item, dict):
                complete(item, below)


def type_problem(data: Mapping[str, Any], schema: Schema, path: tuple[str, ...] = ()) -> str | None:
    """Name the first field whose content is of another type than its own, in the words of Go's decoder."""
    fields = schema.by_name
    for key, content in data.items():
        field = fields.get(key)
        if field is None or content is None:
            continue
        if not field.shape:
            if _PLAIN.get(field.type) is content.__class__:
                continue  # nearly all there is: what a call for each would cost is most of a status patch
            problem = _single_problem(content, field, schema, (*path, key))
        elif not isinstance(content, list if field.shape == "list" else dict):
            problem = _mismatch(content, (*path, key), schema, _PREFIXES[field.shape] + _go_type(field.type))
        else:
            here, items = (*path, key), content.values() if isinstance(content, dict) else content
            problem = next(filter(None, (_single_problem(item, field, schema, here) for item in items)), None)
        if problem is not None:
            return problem
    return None


def _single_problem(content: Any, field: Field, owner: Schema, path: tuple[str, ...]) -> str | None:
    name = field.type
    types = _CHECKS.get(name)
    if types is None:
        below = field.schema
        if below is None:
            return None
        is_struct = isinstance(content, dict)
        return type_problem(content, below, path) if is_struct else _mismatch(content, path, owner, _go_type(name))
    is_right = isinstance(content, types) and (bool in types or not isinstance(content, bool))
    if not is_right or (name in _BITS and not _fits(content, name)):
        return _mismatch(content, path, owner, _go_type(name))
    return _GRAMMARS[name](content) if name in _GRAMMARS else None


def _fits(content: Any, name: str) -> bool:
    """Return whether a whole number is in the range of its type."""
    return not isinstance(content, int) or -(1 << _BITS[name]) <= content < 1 << _BITS[name]


def _mismatch(content: Any, path: tuple[str, ...], owner: Schema, go_type: str) -> str:
    where = ".".join((owner.name.rpartition(".")[2], *path))
    json_type = _WORDS.get(type(content), "null")
    if json_type == "number" and go_type in ("int32", "int64"):
        json_type = f"number {content}"
    return f"json: cannot unmarshal {json_type} into Go struct field {where} of type {go_type}"


def _go_type(name: str) -> str:
    """Name a type as Go does: the last part of its package and its own name."""
    package, _, own = name.rpartition(".")
    return f"{package.rpartition('.')[2]}.{own}" if package else _GO_NAMES.get(name, name)


def _quantity_problem(content: Any) -> str | None:
    try:
        nano_value(content)
    except QuantityError:
        return "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    return None


def _time_problem(content: Any) -> str | None:
    try:
        parse_time(content)
    except ValueError:
        return f'parsing time {msgspec.json.encode(content).decode()} as "2006-01-02T15:04:05Z07:00": invalid timestamp'
    return None


_GRAMMARS: Final[Mapping[str, Callable[[Any], str | None]]] = {
    "quantity": _quantity_problem,
    "time": _time_problem,
    "microtime": _time_problem,
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
