"""The fields of the Kubernetes types, from a table that `conformance/fields` generates from the Go types.

It is used to decode protobuf, merge lists, validate input and describe the API.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Final

import msgspec

from moorage.common.caches import cached
from moorage.kube.api.meta import parse_time
from moorage.kube.api.quantity import nano_value

_WORDS: Final = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}
_PREFIXES: Final = {"list": "[]", "map": "map[string]"}


#: Kinds of types that are not published yet, and the kinds that they are expected to equal field for field.
_COPIES: Final = {
    "scheduling.k8s.io/v1/PodGroup": "scheduling.k8s.io/v1beta1/PodGroup",
    "scheduling.k8s.io/v1/Workload": "scheduling.k8s.io/v1beta1/Workload",
    "scheduling.k8s.io/v1beta1/CompositePodGroup": "scheduling.k8s.io/v1alpha3/CompositePodGroup",
}


class PlainType(msgspec.Struct, frozen=True):
    """A type that is not a struct.

    ``classes`` are Python's, ``bits`` the width of whole numbers, ``zero`` the value of required fields without one.
    ``parse`` raises ValueError for texts that are invalid, for which ``problem`` is the message.
    """

    classes: tuple[type, ...]
    go_name: str
    bits: int = 0
    zero: Any = None
    parse: Callable[[Any], object] | None = None
    problem: str = ""


def _decode_base64(text: str) -> None:
    """Raise ValueError for text that is not base64, with the message of Go's decoder."""
    match = _BASE64.match(text)
    assert match is not None
    if match.end() < len(text) or len(re.sub(r"[\r\n]", "", text)) % 4:
        raise ValueError(f"illegal base64 data at input byte {match.end()}")


_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/\r\n]*)={0,2}[\r\n]*")
_QUANTITY: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_TIME: Final = 'parsing time {} as "2006-01-02T15:04:05Z07:00": invalid timestamp'
_PLAIN: Final[Mapping[str, PlainType]] = {
    "string": PlainType((str,), "string", zero=""),
    "int32": PlainType((int,), "int32", 31, zero=0),
    "int64": PlainType((int,), "int64", 63, zero=0),
    "bool": PlainType((bool,), "bool", zero=False),
    "double": PlainType((int, float), "float64"),
    "bytes": PlainType((str,), "[]uint8", parse=_decode_base64),
    "time": PlainType((str,), "v1.Time", parse=parse_time, problem=_TIME),
    "microtime": PlainType((str,), "v1.MicroTime", parse=parse_time, problem=_TIME),
    "duration": PlainType((str,), "v1.Duration"),
    "quantity": PlainType((str, int, float), "resource.Quantity", parse=nano_value, problem=_QUANTITY),
    "intorstring": PlainType((str, int), "intstr.IntOrString", 31),
    "fields": PlainType((dict,), "v1.FieldsV1"),
    "strings": PlainType((list,), "[]string"),
}
_TIMES: Final = frozenset(("time", "microtime"))
METADATA: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_ANY_VALUE: Final = {"string": str, "bool": bool}
"""Types that take every value of a class."""


class Field(msgspec.Struct, frozen=True, rename="camel"):
    """One field of a type. See `conformance/fields`."""

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
        return find_schema(self.type)


class Tables(msgspec.Struct, frozen=True):
    """The complete file."""

    kinds: dict[str, str]
    atomic: frozenset[str]
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

    @cached_property
    def structs(self) -> Mapping[str, "Schema | None"]:
        """The types of the fields by JSON name, or ``None`` for fields that contain no struct."""
        return {name: field.schema for name, field in self.by_name.items()}

    def field(self, name: str) -> Field | None:
        """Return the field of a name, if there is one."""
        return self.by_name.get(name)

    @cached_property
    def zeros(self) -> Mapping[str, Any]:
        """Defaults of the fields that every object has; Go encodes times that are not set as null."""
        single = [field for field in self.by_name.values() if not field.shape and field.type in _PLAIN]
        plain = (field for field in single if field.required and not field.omit)
        zeros = {field.name: _PLAIN[field.type].zero for field in plain}
        times = {field.name: None for field in single if field.omit and field.type in _TIMES}
        return {name: zero for name, zero in zeros.items() if zero is not None} | (
            times if self.name != METADATA else {}
        )

    @cached_property
    def always_encoded(self) -> tuple[str, ...]:
        """The fields that Go encodes even if they are empty: structs that are not pointers."""
        fields = self.by_name.values()
        return tuple(field.name for field in fields if field.omit and not field.shape and field.schema is not None)

    @cached_property
    def to_complete(self) -> Mapping[str, "tuple[Field, Schema]"]:
        """The fields with structs that contain required fields at any depth."""
        with_structs = ((field, field.schema) for field in self.by_name.values())
        return {
            field.name: (field, below)
            for field, below in with_structs
            if below is not None and _has_zeros(below, frozenset((self.name,)))
        }


@cache
def tables() -> Tables:
    """Read the table, once."""
    read = msgspec.json.decode((files("moorage.kube") / "fields.json").read_bytes(), type=Tables)
    copies = {copy: read.kinds[original] for copy, original in _COPIES.items()}
    return msgspec.structs.replace(read, kinds=read.kinds | copies)


@cached(4096)
def find_schema(type_name: str) -> Schema | None:
    """Return a type by its name."""
    fields = tables().types.get(type_name)
    return Schema(type_name, fields) if fields is not None else None


@cached(1024)
def find_kind_schema(api_version: str, kind: str) -> Schema | None:
    """Return the type of a kind, or ``None`` for custom kinds."""
    name = tables().kinds.get(f"{api_version}/{kind}")
    return find_schema(name) if name is not None else None


@cache
def _kind_types() -> frozenset[str]:
    """Return the types that are kinds, also where other types contain them."""
    return frozenset(tables().kinds.values())


def _has_zeros(schema: Schema, above: frozenset[str]) -> bool:
    """Return whether a type has required plain fields at any depth. Types can be recursive."""
    if schema.name in above:
        return False
    below = (field.schema for field in schema.by_name.values())
    return bool(schema.zeros) or any(_has_zeros(item, above | {schema.name}) for item in below if item is not None)


def complete(data: dict[str, Any], schema: Schema) -> None:
    """Add missing required fields, as the API server does, because clients rely on them."""
    for name, zero in schema.zeros.items():
        if data.get(name) is None:
            data[name] = zero
    for name, (field, below) in schema.to_complete.items():
        content = data.get(name)
        if content is None:
            continue
        items = (content,) if not field.shape else content.values() if field.shape == "map" else content
        for item in items:
            if isinstance(item, dict):
                complete(item, below)


def empty_null_texts(data: dict[str, Any], schema: Schema) -> None:
    """Replace nulls in maps of strings by empty strings, as Go's decoder does."""
    for key, content in data.items():
        field = schema.by_name.get(key)
        if field is None or not content:
            continue
        if field.shape == "map" and field.type == "string" and isinstance(content, dict):
            data[key] = {name: "" if text is None else text for name, text in content.items()}
        elif (below := field.schema) is not None:
            # The types are not checked yet: any content may have any type.
            items: Iterable[Any] = content if isinstance(content, list) else (content,)
            if isinstance(content, dict) and field.shape == "map":
                items = content.values()
            for item in items:
                if isinstance(item, dict):
                    empty_null_texts(item, below)


def type_problem(data: Mapping[str, Any], schema: Schema, path: tuple[str, ...] = ()) -> str | None:
    """Return the message of Go's decoder for the first field with a wrong type."""
    fields = schema.by_name
    for key, content in data.items():
        field = fields.get(key)
        if field is None or content is None:
            continue
        if not field.shape:
            if _ANY_VALUE.get(field.type) is content.__class__:
                continue  # nearly all fields: a call for each would be most of the cost of a status patch
            problem = _single_problem(content, field, schema, (*path, key))
        elif not isinstance(content, list if field.shape == "list" else dict):
            problem = _mismatch(content, (*path, key), schema, _PREFIXES[field.shape] + _go_type(field.type))
        else:
            field_path, items = (*path, key), content.values() if isinstance(content, dict) else content
            problem = next(filter(None, (_single_problem(item, field, schema, field_path) for item in items)), None)
        if problem is not None:
            return problem
    return None


def _single_problem(content: Any, field: Field, owner: Schema, path: tuple[str, ...]) -> str | None:
    plain = _PLAIN.get(field.type)
    if plain is None:
        below = field.schema
        if below is None or isinstance(content, dict):
            return None if below is None else type_problem(content, below, path)
        return _mismatch(content, path, owner, _go_type(field.type))
    is_right = isinstance(content, plain.classes) and (bool in plain.classes or not isinstance(content, bool))
    fits = not plain.bits or not isinstance(content, int) or -(1 << plain.bits) <= content < 1 << plain.bits
    if not is_right or not fits:
        return _mismatch(content, path, owner, plain.go_name)
    try:
        if plain.parse is not None:
            plain.parse(content)
    except ValueError as error:
        return str(error) if not plain.problem else plain.problem.replace("{}", msgspec.json.encode(content).decode())
    return None


def _mismatch(content: Any, path: tuple[str, ...], owner: Schema, go_type: str) -> str:
    location = ".".join((owner.name.rpartition(".")[2], *path))
    json_type = _WORDS.get(type(content), "null")
    if json_type == "number" and go_type in ("int32", "int64"):
        json_type = f"number {content}"
    return f"json: cannot unmarshal {json_type} into Go struct field {location} of type {go_type}"


def _go_type(name: str) -> str:
    """Name a type as Go does: the last part of its package and its own name."""
    package, _, own = name.rpartition(".")
    if package:
        return f"{package.rpartition('.')[2]}.{own}"
    return _PLAIN[name].go_name if name in _PLAIN else name


def unknown_fields(data: Mapping[str, Any], schema: Schema) -> Iterator[str]:
    """Find fields that the type does not have."""
    for path, _key, _owner in locate_unknown_fields(data, schema):
        yield path


def locate_unknown_fields(data: Mapping[str, Any], schema: Schema, path: str = "") -> Iterator[tuple[str, str, Schema]]:
    """Find fields that the type does not have; return the path, the key, and the type of each."""
    structs = schema.structs
    for key, content in data.items():
        below = structs.get(key)
        if below is None and key in structs:
            continue
        field_path = f"{path}.{key}" if path else key
        if below is None:
            if key not in ("apiVersion", "kind") or (path and schema.name not in _kind_types()):
                yield field_path, key, schema
            continue
        field = schema.by_name[key]
        if field.shape == "list" and isinstance(content, list):
            items = [(f"{field_path}[{number}]", item) for number, item in enumerate(content)]
        elif field.shape == "map" and isinstance(content, dict):
            items = [(f"{field_path}.{name}", item) for name, item in content.items()]
        else:
            items = [(field_path, content)]
        for location, item in items:
            if isinstance(item, dict):
                yield from locate_unknown_fields(item, below, location)
