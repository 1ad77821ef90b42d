"""Ownership of the fields of a kind: which structs, maps and lists are atomic and have a single owner.

A type defines whether the value is atomic, and the types of its fields or items. Built-in kinds have
generated tables, custom kinds the schema of their definition.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Protocol

from moorage.common.caches import cached
from moorage.kube.api.struct import Data
from moorage.kube.schema import METADATA, Field, Schema, find_kind_schema, find_schema, tables


class FieldType(Protocol):
    """The type of a value, as far as ownership is concerned."""

    @property
    def is_atomic(self) -> bool:
        """Whether a struct or a map has a single owner."""

    @property
    def list_type(self) -> str:
        """``map`` for lists with keys, ``set``, or ``atomic``."""

    @property
    def list_keys(self) -> Mapping[str, Any]:
        """The keys of the items of a list, with their defaults."""

    def declares(self, name: str) -> bool:
        """Return whether this is a struct with a field of this name. The keys of a map are not declared."""

    def below(self, name: str) -> "FieldType":
        """Return the type of a field, of the values of a map, or of the items of a list."""


@dataclass(frozen=True, slots=True)
class Undeclared:
    """Values without a schema: each key of an object has an owner, and a list has a single owner."""

    is_atomic: bool = False
    list_type: str = "atomic"
    list_keys: Mapping[str, Any] = field(default_factory=dict)

    def declares(self, name: str) -> bool:
        """Return whether the type has a field of this name."""
        return False

    def below(self, name: str) -> FieldType:
        """Return the type of a field, value or item."""
        return self


DEDUCED: Final = Undeclared()
ATOMIC: Final = Undeclared(is_atomic=True)


class BuiltInType:
    """A type of the generated tables: a struct, or a list or map of structs."""

    def __init__(self, schema: Schema | None, table: Field | None = None) -> None:
        self._schema = schema
        self._shape = table.shape if table is not None else ""
        own = table.list_type if table is not None else ""
        is_atomic_struct = schema is not None and not self._shape and schema.name in tables().atomic
        self.is_atomic = own == "atomic" or is_atomic_struct
        self.list_type = own or "atomic"
        keys = table.list_keys if table is not None else ()
        self.list_keys = {key: _key_default(schema, key) for key in keys}
        self._types: dict[str, FieldType] = {}

    def declares(self, name: str) -> bool:
        """Return whether the type has a field of this name."""
        return not self._shape and self._schema is not None and name in self._schema.by_name

    def below(self, name: str) -> FieldType:
        """Return the type of a field, value or item."""
        if self._shape:
            return self._element
        field_type = self._types.get(name)
        if field_type is None:
            field_type = self._types[name] = self._field(name)
        return field_type

    @cached_property
    def _element(self) -> FieldType:
        return BuiltInType(self._schema) if self._schema is not None else ATOMIC

    def _field(self, name: str) -> FieldType:
        table = self._schema.field(name) if self._schema is not None else None
        if table is None or (table.schema is None and not table.shape):
            return ATOMIC
        return BuiltInType(table.schema, table)


def _key_default(schema: Schema | None, key: str) -> str | None:
    """Return the default of a list key that items can omit: the protocol of ports, and names of references."""
    if key == "protocol":
        return "TCP"
    table = schema.field(key) if schema is not None else None
    return "" if table is not None and table.type == "string" and not table.required else None


class CustomType:
    """A type of the schema in a CustomResourceDefinition."""

    def __init__(self, schema: Mapping[str, Any], *, is_object: bool = False) -> None:
        self._schema = schema
        self._is_object = is_object or schema.get("x-kubernetes-embedded-resource") is True
        self.is_atomic = schema.get("x-kubernetes-map-type") == "atomic"
        self.list_type = str(schema.get("x-kubernetes-list-type", "atomic"))
        items = schema.get("items")
        properties = items.get("properties", {}) if isinstance(items, dict) else {}
        keys = schema.get("x-kubernetes-list-map-keys") or ()
        self.list_keys = {key: properties.get(key, {}).get("default") for key in keys}

    def declares(self, name: str) -> bool:
        """Return whether the type has a field of this name."""
        is_header = self._is_object and name in ("apiVersion", "kind", "metadata")
        return is_header or name in (self._schema.get("properties") or {})

    def below(self, name: str) -> FieldType:
        """Return the type of a field, value or item."""
        if name == "metadata" and self._is_object:
            return BuiltInType(find_schema(METADATA))
        schema = (self._schema.get("properties") or {}).get(name)
        for keyword in ("additionalProperties", "items"):
            if not isinstance(schema, dict):
                schema = self._schema.get(keyword)
        return CustomType(schema) if isinstance(schema, dict) else DEDUCED


@cached(256)
def built_in_type(api_version: str, kind: str) -> FieldType | None:
    """Return the type of a built-in kind."""
    schema = find_kind_schema(api_version, kind)
    return BuiltInType(schema) if schema is not None else None


class FieldTypes:
    """The types of all kinds. ``schemas`` are those of the custom kinds, by version and kind."""

    def __init__(self, schemas: Mapping[str, Data]) -> None:
        self._schemas = schemas

    def find(self, data: Data) -> FieldType:
        """Return the type of an object."""
        built_in = built_in_type(data["apiVersion"], data["kind"])
        if built_in is not None:
            return built_in
        schema = self._schemas.get(f"{data['apiVersion']}/{data['kind']}") or {}
        return CustomType(schema, is_object=True)
