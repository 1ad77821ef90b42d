"""Decoding of Kubernetes' protobuf into the plain data of JSON.

The message classes are built at run time from the table of fields: the encoding depends on field numbers only.
"""

import base64
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message

from moorage.common.caches import cached
from moorage.kube.api.codec import UNREADABLE
from moorage.kube.schema import Field, find_schema, tables
from moorage.kube.status_errors import bad_request

MAGIC: Final = b"k8s\x00"
PACKAGE: Final = "moorage"

_Proto = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "string": _Proto.TYPE_STRING,
    "int32": _Proto.TYPE_INT32,
    "int64": _Proto.TYPE_INT64,
    "bool": _Proto.TYPE_BOOL,
    "double": _Proto.TYPE_DOUBLE,
    "bytes": _Proto.TYPE_BYTES,
}
_JSON_SCHEMA: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_OPAQUE: Final[Mapping[str, tuple[tuple[str, int, str], ...]]] = {
    "time": (("seconds", 1, "int64"), ("nanos", 2, "int32")),
    "microtime": (("seconds", 1, "int64"), ("nanos", 2, "int32")),
    "quantity": (("string", 1, "string"),),
    "intorstring": (("type", 1, "int64"), ("intVal", 2, "int32"), ("strVal", 3, "string")),
    "duration": (("duration", 1, "int64"),),
    "raw": (("raw", 1, "bytes"),),
    "fields": (("raw", 1, "bytes"),),
    "strings": (("items", 1, "[]string"),),
    "json": (("raw", 1, "bytes"),),
    "schemaorschemas": (("schema", 1, _JSON_SCHEMA), ("schemas", 2, f"[]{_JSON_SCHEMA}")),
    "schemaorbool": (("allows", 1, "bool"), ("schema", 2, _JSON_SCHEMA)),
    "schemaorstrings": (("schema", 1, _JSON_SCHEMA), ("strings", 2, "[]string")),
    "typemeta": (("apiVersion", 1, "string"), ("kind", 2, "string")),
    "unknown": (("typeMeta", 1, "typemeta"), ("raw", 2, "bytes"), ("contentEncoding", 3, "string")),
}
"""The messages of types that JSON writes as something else, and of the envelope."""


def decode_protobuf(body: bytes) -> dict[str, Any]:
    """Turn an enveloped message into plain data with its ``apiVersion`` and ``kind``; 400 if it is malformed."""
    if not body.startswith(MAGIC):
        raise bad_request("the body is not Kubernetes protobuf: it does not start with the prefix k8s\\x00")
    envelope: Any = _parse("unknown", body[len(MAGIC) :])
    api_version, kind = envelope.typeMeta.apiVersion, envelope.typeMeta.kind
    # Options are sent with the version of the group they are used in.
    name = tables().kinds.get(f"{api_version}/{kind}") or tables().kinds.get(f"v1/{kind}")
    if name is None:
        raise bad_request(f'no kind "{kind}" is registered for version "{api_version}"; send it as JSON')
    try:
        return {"apiVersion": api_version, "kind": kind, **_struct(_parse(name, envelope.raw), name)}
    except UnicodeDecodeError as error:
        raise bad_request(f"the protobuf has text that is not UTF-8: {error}") from error


def _parse(name: str, body: bytes) -> Message:
    message = _message_class(name)()
    try:
        message.ParseFromString(body)
    except (DecodeError, RecursionError) as error:
        raise bad_request(f"the protobuf does not parse as {name}: {error}") from error
    return message


@cached(1024)
def _message_class(name: str) -> Callable[[], Message]:
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{PACKAGE}.{_flat(name)}"))


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(name="kubernetes.proto", package=PACKAGE, syntax="proto2")
    for name, parts in _OPAQUE.items():
        message = file.message_type.add(name=name)
        for part, number, kind in parts:
            shape = "list" if kind.startswith("[]") else ""
            _describe(message, part, Field(number=number, type=kind.removeprefix("[]"), shape=shape))
    for name, fields in tables().types.items():
        message = file.message_type.add(name=_flat(name))
        for field in fields:
            _describe(message, f"f{field.number}", field)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def _flat(name: str) -> str:
    return name.replace(".", "_").replace("-", "_")


def _describe(message: descriptor_pb2.DescriptorProto, name: str, field: Field) -> None:
    described = message.field.add(name=name, number=field.number, label=_Proto.LABEL_OPTIONAL)
    if field.shape:
        described.label = _Proto.LABEL_REPEATED
    if field.shape == "map":
        entry = message.nested_type.add(name=f"{name.capitalize()}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=_Proto.LABEL_OPTIONAL, type=_Proto.TYPE_STRING)
        _set_type(entry.field.add(name="value", number=2, label=_Proto.LABEL_OPTIONAL), field.type)
        described.type = _Proto.TYPE_MESSAGE
        described.type_name = f".{PACKAGE}.{message.name}.{entry.name}"
    else:
        _set_type(described, field.type)


def _set_type(described: descriptor_pb2.FieldDescriptorProto, kind: str) -> None:
    if kind in _SCALARS:
        described.type = _SCALARS[kind]
    else:
        described.type = _Proto.TYPE_MESSAGE
        described.type_name = f".{PACKAGE}.{_flat(kind)}"


def _struct(message: Message, name: str) -> dict[str, Any]:
    """Convert a message to the JSON form of its type. Zero values that JSON omits are omitted."""
    schema = find_schema(name)
    assert schema is not None, name
    by_number = {field.number: field for field in schema.own_fields}
    data: dict[str, Any] = {}
    for described, content in message.ListFields():
        field = by_number[described.number]
        plain: Any
        if field.shape == "list":
            plain = [_single(item, field.type) for item in content]
        elif field.shape == "map":
            plain = {key: _single(content[key], field.type) for key in content}
        else:
            plain = _single(content, field.type)
        if not field.name:
            data.update(plain)
        elif plain is not None and not (field.omit and plain in ("", 0, False, [], {})):
            data[field.name] = plain
    return data


def _single(content: Any, kind: str) -> Any:
    convert = _CONVERSIONS.get(kind)
    if convert is not None:
        return convert(content)
    if kind == "string":
        return _text(content)
    return content if kind in _SCALARS else _struct(content, kind)


def _text(content: Any) -> str:
    """Return text. The parser returns invalid UTF-8 as bytes, or raises."""
    return content.decode() if isinstance(content, bytes) else str(content)


def _time(message: Any, pattern: str = "%Y-%m-%dT%H:%M:%SZ") -> str | None:
    if not message.seconds and not message.nanos:
        return None
    try:
        moment = datetime.fromtimestamp(message.seconds, UTC).replace(microsecond=message.nanos // 1000)
        return moment.strftime(pattern)
    except (OverflowError, ValueError, OSError) as error:
        raise bad_request(f"{message.seconds} s is not a time: {error}") from error


def _decode_embedded(message: Any) -> Any:
    if not message.raw:
        return None
    try:
        return msgspec.json.decode(message.raw)
    except UNREADABLE as error:
        raise bad_request(f"an embedded object is not JSON: {error}") from error


def _schema_or(alternative: str) -> Callable[[Any], Any]:
    """Return a converter for a field that is either a schema or another type."""

    def convert(message: Any) -> Any:
        if message.HasField("schema"):
            return _struct(message.schema, _JSON_SCHEMA)
        value = getattr(message, alternative)
        if alternative == "schemas":
            return [_struct(item, _JSON_SCHEMA) for item in value]
        return value if isinstance(value, bool) else [_text(item) for item in value]

    return convert


_CONVERSIONS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "bytes": lambda content: base64.b64encode(content).decode(),
    "time": _time,
    "microtime": lambda message: _time(message, "%Y-%m-%dT%H:%M:%S.%fZ"),
    "quantity": lambda message: _text(message.string),
    "intorstring": lambda message: _text(message.strVal) if message.type else message.intVal,
    "duration": lambda message: f"{message.duration / 1e9:g}s",
    "raw": _decode_embedded,
    "fields": _decode_embedded,
    "json": _decode_embedded,
    "schemaorschemas": _schema_or("schemas"),
    "schemaorbool": _schema_or("allows"),
    "schemaorstrings": _schema_or("strings"),
    "strings": lambda message: [_text(item) for item in message.items],
}
