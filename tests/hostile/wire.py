"""Encodes objects in Kubernetes' protobuf and in CBOR, also incorrectly."""

import struct
from typing import Any

from moorage.kube.schema import Field, Schema, find_kind_schema

MAGIC = b"k8s\x00"
Data = dict[str, Any]


def protobuf(data: Any) -> bytes:
    """Encode an object according to its schema; other fields are omitted."""
    if not isinstance(data, dict):
        return MAGIC
    api_version, kind = str(data.get("apiVersion", "")), str(data.get("kind", ""))
    schema = find_kind_schema(api_version, kind)
    raw = _struct(data, schema) if schema is not None else b""
    type_meta = _piece(1, api_version.encode(errors="replace")) + _piece(2, kind.encode(errors="replace"))
    return MAGIC + _piece(1, type_meta) + _piece(2, raw)


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    output = bytearray()
    while number > 127:
        output.append(number & 127 | 128)
        number >>= 7
    return bytes((*output, number))


def _piece(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _struct(data: Data, schema: Schema) -> bytes:
    return b"".join(_field(data[name], field) for name, field in schema.by_name.items() if data.get(name) is not None)


def _field(content: Any, field: Field) -> bytes:
    if field.shape == "list" and isinstance(content, list):
        return b"".join(_single(item, field, field.number) for item in content)
    if field.shape == "map" and isinstance(content, dict):
        entries = (
            _piece(1, str(key).encode(errors="replace")) + _single(item, field, 2) for key, item in content.items()
        )
        return b"".join(_piece(field.number, entry) for entry in entries)
    return _single(content, field, field.number)


def _single(content: Any, field: Field, number: int) -> bytes:
    schema = field.schema
    if schema is not None:
        return _piece(number, _struct(content, schema)) if isinstance(content, dict) else b""
    if isinstance(content, bool | int) and field.type in ("int32", "int64", "bool"):
        return _number(number, int(content))
    text = str(content).encode(errors="replace")
    if field.type == "quantity":
        return _piece(number, _piece(1, text))
    if field.type == "intorstring":
        is_text = isinstance(content, str)
        return _piece(number, _number(1, int(is_text)) + (_piece(3, text) if is_text else b""))
    if field.type in ("time", "microtime"):
        return _piece(number, _number(1, 1_767_225_600))
    return _piece(number, text)


def cbor(data: Any) -> bytes:
    """Encode plain data as CBOR, with the self-describing tag."""
    return b"\xd9\xd9\xf7" + _cbor(data)


def _cbor(data: Any) -> bytes:
    match data:
        case None:
            return b"\xf6"
        case bool():
            return b"\xf5" if data else b"\xf4"
        case int() if -(2**63) <= data < 2**63:
            return _head(0, data) if data >= 0 else _head(1, -1 - data)
        case int() | float():
            return b"\xfb" + struct.pack(">d", float(data))
        case str():
            text = data.encode(errors="replace")
            return _head(2, len(text)) + text
        case list():
            return _head(4, len(data)) + b"".join(_cbor(item) for item in data)
        case dict():
            return _head(5, len(data)) + b"".join(_cbor(str(key)) + _cbor(item) for key, item in data.items())
    raise TypeError(type(data))


def _head(major: int, number: int) -> bytes:
    return bytes((major << 5 | 27,)) + number.to_bytes(8, "big")
