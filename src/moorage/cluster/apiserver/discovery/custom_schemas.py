"""Schemas of custom resources: pruning, defaults and validation."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from datetime import date, datetime
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Any, Final

import msgspec

from moorage.kube.api.struct import Data
from moorage.kube.field_errors import (
    FieldError,
    duplicate_value,
    forbidden_field,
    format_value,
    invalid_value,
    required_value,
    too_many_items,
    unsupported_value,
)
from moorage.kube.schema import METADATA, find_schema
from moorage.kube.status_errors import bad_request

EMBEDDED: Final = "x-kubernetes-embedded-resource"
KEEPS: Final = "x-kubernetes-preserve-unknown-fields"
LIST_TYPE: Final = "x-kubernetes-list-type"
LIST_KEYS: Final = "x-kubernetes-list-map-keys"
MAX_DEFAULTS: Final = 3 << 20
NOT_DEFAULTED: Final = ("apiVersion", "kind", "metadata")
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
_TYPE_NAMES: Final = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}


UNSUPPORTED: Final = ("$ref", "id", "definitions", "dependencies", "patternProperties", "additionalItems")
"""Keywords of JSON schema that structural schemas cannot have."""
_QUADRATIC: Final = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"


def structure_problems(schema: Mapping[str, Any], path: str, position: str = "at the root") -> Iterator[FieldError]:
    """Yield what keeps a schema from being structural. kube-apiserver rejects definitions with such schemas."""
    kind, is_int_or_string, keeps = schema.get("type"), schema.get("x-kubernetes-int-or-string"), schema.get(KEEPS)
    if not kind and is_int_or_string is not True and keeps is not True:
        yield required_value(f"{path}.type", f"must not be empty {position}")
    yield from (forbidden_field(f"{path}.{name}", f"{name} is not supported") for name in UNSUPPORTED if name in schema)
    if "$schema" in schema:
        yield invalid_value(path, "", "OpenAPIV3Schema 'schema' is not supported")
    if schema.get("uniqueItems") is True:
        yield forbidden_field(f"{path}.uniqueItems", _QUADRATIC)
    if schema.get("nullable") is True and position == "at the root":
        yield forbidden_field(f"{path}.nullable", "nullable cannot be true at the root")
    properties, additional, items = schema.get("properties"), schema.get("additionalProperties"), schema.get("items")
    if additional is False:
        yield forbidden_field(f"{path}.additionalProperties", "additionalProperties cannot be set to false")
    if properties and additional is not None:
        yield forbidden_field(
            f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive"
        )
    if schema.get(EMBEDDED) is True and not properties and keeps is not True:
        reason = f"must not be empty if {EMBEDDED} is true without {KEEPS}"
        yield required_value(f"{path}.properties", reason)
    yield from _list_type_problems(schema, path)
    for name, below in properties.items() if isinstance(properties, dict) else ():
        if isinstance(below, dict) and not (position == "at the root" and name == "metadata"):
            yield from structure_problems(below, f"{path}.properties[{name}]", "for specified object fields")
    if isinstance(items, dict):
        yield from structure_problems(items, f"{path}.items", "for specified array items")
    elif isinstance(items, list):
        yield forbidden_field(f"{path}.items", "items must be a schema object and not an array")
    elif kind == "array":
        yield required_value(f"{path}.items", "must be specified")
    if isinstance(additional, dict):
        location = "for specified object fields"
        yield from structure_problems(additional, f"{path}.additionalProperties", location)


def _list_type_problems(schema: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    kind, list_type, map_type = schema.get("type"), schema.get(LIST_TYPE), schema.get("x-kubernetes-map-type")
    keys = schema.get(LIST_KEYS) or ()
    if list_type is not None:
        if kind != "array":
            yield invalid_value(f"{path}.type", kind or "", f"must be array if {LIST_TYPE} is specified")
        if list_type not in ("atomic", "map", "set"):
            yield unsupported_value(f"{path}.{LIST_TYPE}", list_type, ("atomic", "map", "set"))
    if keys and list_type != "map":
        yield required_value(f"{path}.{LIST_TYPE}", f"must be map if {LIST_KEYS} is non-empty")
    if list_type == "map":
        if not keys:
            yield required_value(f"{path}.{LIST_KEYS}", f"must not be empty if {LIST_TYPE} is map")
        items = schema.get("items") if isinstance(schema.get("items"), dict) else {}
        declared, required = _properties(items or {}), (items or {}).get("required") or ()
        for key in keys:
            if key not in declared:
                yield invalid_value(f"{path}.{LIST_KEYS}", list(keys), "entries must all be names of item properties")
            elif key not in required and "default" not in declared[key]:
                reason = f"this property is in {LIST_KEYS}, so it must have a default or be a required property"
                yield required_value(f"{path}.items.properties[{key}].default", reason)
    if map_type is not None and map_type not in ("atomic", "granular"):
        yield unsupported_value(f"{path}.x-kubernetes-map-type", map_type, ("atomic", "granular"))


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def drop_invalid_nulls(data: Any, schema: Mapping[str, Any]) -> None:
    """Remove the nulls of fields that are not nullable."""
    items, additional = schema.get("items"), schema.get("additionalProperties")
    if isinstance(data, dict):
        properties = _properties(schema)
        for name, content in list(data.items()):
            below = properties.get(name, additional)
            if isinstance(below, dict):
                if content is None and below.get("nullable") is not True:
                    del data[name]
                drop_invalid_nulls(content, below)
    elif isinstance(data, list) and isinstance(items, dict):
        for item in data:
            drop_invalid_nulls(item, items)


def fill_defaults(data: Any, schema: Mapping[str, Any], skipped: Sequence[str] = (), budget: int = MAX_DEFAULTS) -> int:
    """Set missing fields that have a default, at any depth. Return how many bytes of defaults are still allowed."""
    if isinstance(data, dict):
        for name, below in _properties(schema).items():
            if not isinstance(below, dict) or name in skipped:
                continue
            if name not in data and "default" in below:
                budget -= len(msgspec.json.encode(below["default"]))
                if budget < 0:
                    raise bad_request(f"the defaults of the schema add more than {MAX_DEFAULTS >> 20} MiB")
                data[name] = deepcopy(below["default"])
            if name in data:
                budget = fill_defaults(data[name], below, budget=budget)
        additional = schema.get("additionalProperties")
        if isinstance(additional, dict):
            for name in data.keys() - _properties(schema).keys():
                budget = fill_defaults(data[name], additional, budget=budget)
    items = schema.get("items")
    if isinstance(data, list) and isinstance(items, dict):
        for item in data:
            budget = fill_defaults(item, items, budget=budget)
    return budget


def has_defaults(schema: Any) -> bool:
    """Return whether a schema has a default below its root."""
    if not isinstance(schema, Mapping):
        return False
    below = (*_properties(schema).values(), schema.get("additionalProperties"), schema.get("items"))
    return any(isinstance(item, Mapping) and ("default" in item or has_defaults(item)) for item in below)


def undeclared(data: Any, schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[Data, str, str]]:
    """Yield the fields that a schema does not declare: their parents, names and paths."""
    items = schema.get("items")
    if isinstance(data, list) and isinstance(items, dict):
        if schema.get(KEEPS) is True:
            items = {**items, KEEPS: True}
        for number, item in enumerate(data):
            yield from undeclared(item, items, f"{path}[{number}]")
    if not isinstance(data, dict):
        return
    properties, additional = _properties(schema), schema.get("additionalProperties")
    is_object = schema.get(EMBEDDED) is True
    keeps = schema.get(KEEPS) is True or additional is True
    for name, content in data.items():
        field_path = f"{path}.{name}" if path else name
        if is_object and name in ("apiVersion", "kind"):
            continue
        if is_object and name == "metadata":
            metadata = find_schema(METADATA)
            assert metadata is not None
            names = content if isinstance(content, dict) else ()
            yield from ((content, field, f"{field_path}.{field}") for field in names if metadata.field(field) is None)
        elif isinstance(properties.get(name), dict):
            yield from undeclared(content, properties[name], field_path)
        elif isinstance(additional, dict):
            yield from undeclared(content, additional, field_path)
        elif not keeps:
            yield data, name, field_path


def schema_problems(data: Any, schema: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """Yield the schema violations of data: types, required fields, enumerations, formats, ranges and combinations."""
    is_either = schema.get("x-kubernetes-int-or-string") is True
    types = (int, str) if is_either else _TYPES.get(str(schema.get("type", "")))
    if data is None and schema.get("nullable") is True:
        return
    # In Python a bool is an int, in JSON it is not, and 1.0 is an integer.
    is_whole = isinstance(data, float) and types == (int,) and data.is_integer()
    if (
        types is not None
        and not is_whole
        and not (isinstance(data, types) and (bool in types) == isinstance(data, bool))
    ):
        type_name = _TYPE_NAMES.get(type(data), "null")
        location = f"{path} in body" if path else "the object"
        expected = "integer,string" if is_either else schema["type"]
        reason = f'Invalid value: "{type_name}": {location} must be of type {expected}: "{type_name}"'
        yield FieldError("FieldValueTypeInvalid", reason, path)
        return
    choices = schema.get("enum")
    if isinstance(choices, list) and not any(is_equal(data, choice) for choice in choices):
        yield unsupported_value(path, data, choices)
    if isinstance(data, int | float) and not isinstance(data, bool):
        yield from _number_problems(data, schema, path)
    yield from _text_and_size_problems(data, schema, path)
    if isinstance(data, dict):
        yield from _object_problems(data, schema, path)
    elif isinstance(data, list):
        if isinstance(schema.get("items"), dict):
            for number, item in enumerate(data):
                yield from schema_problems(item, schema["items"], f"{path}[{number}]")
        yield from _list_problems(data, schema, path)
    yield from _combination_problems(data, schema, path)


def is_equal(left: Any, right: Any) -> bool:
    """Return whether two JSON values are equal. Unlike in Python, ``True`` is not 1."""
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def _number_problems(data: float, schema: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    least, most, factor = schema.get("minimum"), schema.get("maximum"), schema.get("multipleOf")
    if isinstance(least, int | float) and (data < least or (data == least and schema.get("exclusiveMinimum") is True)):
        word = "greater than" if schema.get("exclusiveMinimum") is True else "greater than or equal to"
        yield invalid_value(path, data, f"{path} in body should be {word} {least}")
    if isinstance(most, int | float) and (data > most or (data == most and schema.get("exclusiveMaximum") is True)):
        word = "less than" if schema.get("exclusiveMaximum") is True else "less than or equal to"
        yield invalid_value(path, data, f"{path} in body should be {word} {most}")
    if isinstance(factor, int | float) and factor > 0 and abs(data / factor - round(data / factor)) > 1e-9:
        yield invalid_value(path, data, f"{path} in body should be a multiple of {factor}")
    limit = {"int32": 31, "int64": 63}.get(str(schema.get("format")))
    if limit is not None and not -(2**limit) <= data < 2**limit:
        yield invalid_value(path, data, f"Checked value must be of type integer with format {schema['format']}")


def _list_problems(data: list[Any], schema: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """Check that the items of a set, and the keys of a list map, are unique."""
    keys: set[bytes] = set()
    for number, item in enumerate(data):
        match schema.get(LIST_TYPE):
            case "set":
                key = item
            case "map" if isinstance(item, dict):
                key = {name: item[name] for name in schema.get(LIST_KEYS) or () if name in item}
            case _:
                return
        encoded = msgspec.json.encode(key, order="sorted")
        if encoded in keys:
            yield duplicate_value(f"{path}[{number}]", key)
        keys.add(encoded)


def _combination_problems(data: Any, schema: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """Check ``allOf``, ``anyOf``, ``oneOf`` and ``not``, which cannot declare types."""
    location = f"{path} in body" if path else ""

    def is_valid(part: Mapping[str, Any]) -> bool:
        return next(schema_problems(data, part, path), None) is None

    def parts(keyword: str) -> list[Mapping[str, Any]]:
        schemas = schema.get(keyword)
        return [part for part in schemas if isinstance(part, dict)] if isinstance(schemas, list) else []

    all_of, any_of, one_of, excluded = parts("allOf"), parts("anyOf"), parts("oneOf"), schema.get("not")
    for part in all_of:
        yield from schema_problems(data, part, path)
    if any_of and not any(map(is_valid, any_of)):
        yield invalid_value(path, data, f"{location} must validate at least one schema (anyOf)".strip())
        yield from schema_problems(data, any_of[0], path)
    if one_of and (count := sum(map(is_valid, one_of))) != 1:
        detail = "Found none valid" if not count else f"Found {count} valid alternatives"
        yield invalid_value(path, data, f"{location} must validate one and only one schema (oneOf). {detail}".strip())
    if isinstance(excluded, dict) and is_valid(excluded):
        yield invalid_value(path, data, f"{location} must not validate the schema (not)".strip())


_SIZES: Final[Mapping[type, tuple[str, str]]] = {
    str: ("Length", "chars long"),
    list: ("Items", "items"),
    dict: ("Properties", "properties"),
}
"""The keywords that limit the size of each type, and the unit in messages."""


def _text_and_size_problems(data: Any, schema: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """Check the pattern of a text, and the size of a text, list or object."""
    pattern = schema.get("pattern")
    if isinstance(data, str) and isinstance(pattern, str) and not _matches(pattern, data):
        yield invalid_value(path, data, f"{path} in body should match '{pattern}'")
    check = FORMATS.get(str(schema.get("format"))) if isinstance(data, str) else None
    if check is not None and not check(data):
        yield invalid_value(path, data, f"{path} in body must be of type {schema['format']}: {format_value(data)}")
    if (size := _SIZES.get(type(data))) is None:
        return
    keyword, unit = size
    least, most = schema.get(f"min{keyword}"), schema.get(f"max{keyword}")
    if isinstance(least, int) and len(data) < least:
        yield invalid_value(path, data, f"{path} in body should be at least {least} {unit}")
    if isinstance(most, int) and len(data) > most:
        if isinstance(data, str):
            yield FieldError("FieldValueTooLong", f"Too long: may not be more than {most} bytes", path)
        else:
            yield too_many_items(path, len(data), most)


def _matches(pattern: str, text: str) -> bool:
    """Return whether a pattern occurs in a text, or true for invalid patterns, and if RE2 is not installed.

    Python's own engine would backtrack, so a pattern could block the server.
    """
    try:
        import re2
    except ImportError:
        return True
    try:
        return re2.search(pattern, text) is not None
    except re2.error:
        return True


def _object_problems(data: Data, schema: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    required = schema.get("required")
    for name in required if isinstance(required, list) else ():
        if name not in data:
            yield required_value(f"{path}.{name}" if path else str(name))
    properties = _properties(schema)
    additional = schema.get("additionalProperties")
    for name, content in data.items():
        below = properties.get(name, additional)
        if isinstance(below, dict):
            yield from schema_problems(content, below, f"{path}.{name}" if path else name)


def _succeeds(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return check


def _parse_time(text: str) -> None:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:?\d\d)?", text):
        raise ValueError(text)
    datetime.fromisoformat(re.sub(r"\.\d+", "", text).upper())


_LABEL: Final = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
FORMATS: Final[Mapping[str, Callable[[str], object]]] = {
    "date-time": _succeeds(_parse_time),
    "datetime": _succeeds(_parse_time),
    "date": _succeeds(date.fromisoformat),
    "duration": re.compile(r"[+-]?\s*(\d+(\.\d*)?|\.\d+)\s*([a-zµμ]+)\s*(\d+(\.\d*)?\s*[a-zµμ]+\s*)*|0").fullmatch,
    "ipv4": _succeeds(IPv4Address),
    "ipv6": _succeeds(IPv6Address),
    "cidr": lambda text: "/" in text and _succeeds(partial(ip_network, strict=False))(text),
    "mac": re.compile(r"([0-9A-Fa-f]{2}[:-]){5}([0-9A-Fa-f]{2}[:-]){0,2}[0-9A-Fa-f]{2}").fullmatch,
    "uuid": re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}").fullmatch,
    "byte": re.compile(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?").fullmatch,
    "uri": re.compile(r"/.*|[A-Za-z][A-Za-z0-9+.-]*:[^\s]+").fullmatch,
    "email": re.compile(r".*<?[^@\s<>]+@[^@\s<>]+>?").fullmatch,
    "hostname": re.compile(rf"(?=.{{1,255}}\Z){_LABEL}(\.{_LABEL})*\.?").fullmatch,
}
"""The formats that are checked. Other formats are documentation."""
