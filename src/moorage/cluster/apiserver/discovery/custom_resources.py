"""Custom resource definitions: their served resources, and validation and defaulting by their schemas."""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import islice
from typing import Any, Final

import msgspec

from moorage.cluster.apiserver.storage.store import Store, StoredChange
from moorage.common.text import shortened
from moorage.kube.api.kinds import KINDS
from moorage.kube.api.meta import format_time
from moorage.kube.api.struct import Data
from moorage.kube.field_errors import FieldError, invalid_value, required_value, too_many_items
from moorage.kube.resources import Resources, ServedResource
from moorage.kube.schema import find_schema
from moorage.kube.status_errors import bad_request, invalid

DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
EMBEDDED: Final = "x-kubernetes-embedded-resource"
APPROVAL: Final = "api-approved.kubernetes.io"
APPROVAL_RULES: Final = "see https://github.com/kubernetes/enhancements/pull/1111"
PROTECTED_GROUPS: Final = (".k8s.io", ".kubernetes.io")
METADATA: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
ACCEPTED: Final = (
    ("NamesAccepted", "NoConflicts", "no conflicts found"),
    ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
)
MAX_CAUSES: Final = 100
MAX_DEFAULTS: Final = 3 << 20
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
_TYPE_NAMES: Final = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}


class DefinitionNames(msgspec.Struct, frozen=True, rename="camel"):
    """The names of a custom resource."""

    plural: str
    kind: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


class VersionSchema(msgspec.Struct, frozen=True):
    """The schema of a version."""

    openapi: dict[str, Any] = msgspec.field(default_factory=dict, name="openAPIV3Schema")


class DefinedVersion(msgspec.Struct, frozen=True, rename="camel"):
    """One version of a custom resource."""

    name: str
    served: bool = True
    storage: bool = False
    schema: VersionSchema = VersionSchema()
    subresources: dict[str, Any] = {}
    additional_printer_columns: tuple[dict[str, Any], ...] = ()


class DefinitionSpec(msgspec.Struct, frozen=True):
    """The spec of a definition."""

    group: str
    names: DefinitionNames
    scope: str
    versions: tuple[DefinedVersion, ...]


class Definition(msgspec.Struct, frozen=True):
    """The relevant part of a CustomResourceDefinition."""

    spec: DefinitionSpec


class DefinitionStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The parts of the status that are preserved."""

    conditions: tuple[Data, ...] | None = None
    stored_versions: tuple[str, ...] | None = None


class WrittenDefinition(Definition, frozen=True):
    """A CustomResourceDefinition as a client writes it."""

    status: DefinitionStatus | None = None


class CustomResources:
    """Updates the served resources when definitions in the store change."""

    def __init__(self, store: Store, resources: Resources) -> None:
        self.schemas: dict[str, Data] = {}
        self._columns: dict[str, Sequence[Mapping[str, Any]]] = {}
        self._store = store
        self._resources = resources
        store.subscribe(self._changed)
        for entry in store.list(DEFINITIONS):
            self._define(entry.key, entry.data)

    def columns(self, resource: ServedResource) -> Sequence[Mapping[str, Any]]:
        """Return the additionalPrinterColumns of a definition."""
        return self._columns.get(f"{resource.api_version}/{resource.name}", ())

    def _changed(self, resource: str, change: StoredChange) -> None:
        if resource != DEFINITIONS:
            return
        if change.after is not None:
            self._define(change.after.key, change.after.data)
        elif change.before is not None:
            self._resources.withdraw(change.before.key)

    def _define(self, key: str, data: Data) -> None:
        spec = msgspec.convert(data, Definition).spec
        served = [version for version in spec.versions if version.served]
        resources = []
        for version in served:
            api_version = f"{spec.group}/{version.name}/{spec.names.kind}"
            self.schemas[api_version] = version.schema.openapi
            self._columns[api_version] = version.additional_printer_columns
            parts = tuple(part for part in ("status", "scale") if part in version.subresources)
            resources.append(
                ServedResource(
                    spec.names.kind,
                    spec.group,
                    version.name,
                    spec.names.plural,
                    spec.scope == "Namespaced",
                    short_names=spec.names.short_names,
                    categories=spec.names.categories,
                    subresources=parts,
                    storage=key,
                    is_custom=True,
                    converts=len(served) > 1,
                )
            )
        self._resources.define(key, resources)

    def remove_objects(self, definition: str) -> None:
        """Delete all objects of a deleted definition."""
        for entry in self._store.list(definition):
            self._store.remove(definition, entry.key)

    def unknown_fields(self, resource: ServedResource, data: Data) -> list[str]:
        """Return the paths of the fields of an object that its schema does not declare."""
        schema = self.schemas.get(f"{resource.api_version}/{resource.name}")
        return [path for _, _, path in undeclared(data, {**schema, EMBEDDED: True})] if schema else []

    def complete(self, resource: ServedResource, data: Data) -> None:
        """Prune undeclared fields, set defaults, and validate; raise a 422 error that lists the problems."""
        schema = self.schemas.get(f"{resource.api_version}/{resource.name}")
        if not schema:
            return
        drop_invalid_nulls(data, schema)
        for parent, name, _ in list(undeclared(data, {**schema, EMBEDDED: True})):
            del parent[name]
        fill_defaults(data, schema, skipped=("apiVersion", "kind", "metadata"))
        problems = (cause for cause in schema_problems(data, schema, "") if not cause.field.startswith("metadata"))
        # A schema can have long enumerations and patterns, and an object many values that violate it.
        causes = [cause._replace(message=shortened(cause.message)) for cause in islice(problems, MAX_CAUSES)]
        if causes:
            raise invalid(resource, data["metadata"].get("name", ""), causes)


def complete_definition(resource: ServedResource, data: Data, now: float) -> None:
    """Check a definition and set the status of accepted names."""
    try:
        definition = msgspec.convert(data, WrittenDefinition)
    except (msgspec.ValidationError, ValueError) as error:
        kind = f'{resource.name} in version "{resource.version}"'
        raise bad_request(f"{kind} cannot be handled as a {resource.name}: {error}") from error
    spec = definition.spec
    name = data["metadata"].get("name", "")
    causes = []
    if name != f"{spec.names.plural}.{spec.group}":
        causes.append(invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    if "." not in spec.group:
        causes.append(invalid_value("spec.group", spec.group, "should be a domain with at least one dot"))
    built_in = [kind for kind in KINDS if kind.group == spec.group]
    if any(spec.names.plural == kind.plural or spec.names.kind == kind.name for kind in built_in):
        causes.append(invalid_value("spec.names", spec.names.kind, f"{name} is a resource of Kubernetes itself"))
    if spec.scope not in ("Namespaced", "Cluster"):
        causes.append(invalid_value("spec.scope", spec.scope, "write Namespaced or Cluster"))
    if sum(version.storage for version in spec.versions) != 1:
        causes.append(invalid_value("spec.versions", [], "must have exactly one version marked as storage version"))
    if f".{spec.group}".endswith(PROTECTED_GROUPS) and APPROVAL not in (data["metadata"].get("annotations") or {}):
        why = f'protected groups must have approval annotation "{APPROVAL}", {APPROVAL_RULES}'
        causes.append(required_value(f"metadata.annotations[{APPROVAL}]", why))
    for number, version in enumerate(spec.versions):
        if not version.schema.openapi:
            causes.append(required_value(f"spec.versions[{number}].schema.openAPIV3Schema"))
    if data["spec"].get("preserveUnknownFields"):
        why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        causes.append(invalid_value("spec.preserveUnknownFields", True, why))
    if causes:
        raise invalid(resource, name, causes)
    data["status"] = _definition_status(data, definition, format_time(now))


def _definition_status(data: Data, definition: WrittenDefinition, moment: str) -> Data:
    """Return the status with accepted names; other conditions and stored versions are preserved."""
    spec = definition.spec
    status_before = definition.status or DefinitionStatus()
    conditions = [dict(condition) for condition in status_before.conditions or ()]
    for kind, reason, text in ACCEPTED:
        if all(condition.get("type") != kind for condition in conditions):
            condition = {"type": kind, "status": "True", "reason": reason, "message": text}
            conditions.append({**condition, "lastTransitionTime": moment})
    stored = list(status_before.stored_versions or ())
    stored += [version.name for version in spec.versions if version.storage and version.name not in stored]
    names = {"listKind": f"{spec.names.kind}List", "singular": spec.names.kind.lower(), **data["spec"]["names"]}
    data["spec"]["names"] = names
    return {"acceptedNames": names, "storedVersions": stored, "conditions": conditions}


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


def fill_defaults(data: Any, schema: Mapping[str, Any], skipped: Sequence[str] = (), left: int = MAX_DEFAULTS) -> int:
    """Set missing fields that have a default, at any depth; return how many bytes of defaults are still allowed."""
    if isinstance(data, dict):
        for name, below in _properties(schema).items():
            if not isinstance(below, dict) or name in skipped:
                continue
            if name not in data and "default" in below:
                left -= len(msgspec.json.encode(below["default"]))
                if left < 0:
                    raise bad_request(f"the defaults of the schema add more than {MAX_DEFAULTS >> 20} MiB")
                data[name] = deepcopy(below["default"])
            if name in data:
                left = fill_defaults(data[name], below, left=left)
    items = schema.get("items")
    if isinstance(data, list) and isinstance(items, dict):
        for item in data:
            left = fill_defaults(item, items, left=left)
    return left


def undeclared(data: Any, schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[Data, str, str]]:
    """Yield the fields that a schema does not declare: their parents, names and paths."""
    items = schema.get("items")
    if isinstance(data, list) and isinstance(items, dict):
        for number, item in enumerate(data):
            yield from undeclared(item, items, f"{path}[{number}]")
    if not isinstance(data, dict):
        return
    properties, additional = _properties(schema), schema.get("additionalProperties")
    is_object = schema.get(EMBEDDED) is True
    keeps = schema.get("x-kubernetes-preserve-unknown-fields") is True or additional is True
    for name, content in data.items():
        here = f"{path}.{name}" if path else name
        if is_object and name in ("apiVersion", "kind"):
            continue
        if is_object and name == "metadata":
            metadata = find_schema(METADATA)
            assert metadata is not None
            names = content if isinstance(content, dict) else ()
            yield from ((content, field, f"{here}.{field}") for field in names if metadata.field(field) is None)
        elif isinstance(properties.get(name), dict):
            yield from undeclared(content, properties[name], here)
        elif isinstance(additional, dict):
            yield from undeclared(content, additional, here)
        elif not keeps:
            yield data, name, here


def schema_problems(data: Any, schema: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """Yield the schema violations of data: types, required fields, enumerations and ranges."""
    types = _TYPES.get(str(schema.get("type", ""))) if schema.get("x-kubernetes-int-or-string") is not True else None
    if data is None and schema.get("nullable") is True:
        return
    # In Python a bool is an int, in JSON it is not.
    if types is not None and not (isinstance(data, types) and (bool in types or not isinstance(data, bool))):
        type_name = _TYPE_NAMES.get(type(data), "null")
        why = f'Invalid value: "{type_name}": {path or "the object"} must be of type {schema["type"]}'
        yield FieldError("FieldValueTypeInvalid", why, path)
        return
    choices = schema.get("enum")
    if isinstance(choices, list) and data not in choices:
        supported = ", ".join(f'"{item}"' for item in choices)
        yield FieldError("FieldValueNotSupported", f"Unsupported value: {data!r}: supported values: {supported}", path)
    if isinstance(data, int | float) and not isinstance(data, bool):
        least, most = schema.get("minimum"), schema.get("maximum")
        if isinstance(least, int | float) and data < least:
            yield invalid_value(path, data, f"{path} in body should be greater than or equal to {least}")
        if isinstance(most, int | float) and data > most:
            yield invalid_value(path, data, f"{path} in body should be less than or equal to {most}")
    yield from _text_and_size_problems(data, schema, path)
    if isinstance(data, dict):
        yield from _object_problems(data, schema, path)
    elif isinstance(data, list) and isinstance(schema.get("items"), dict):
        for number, item in enumerate(data):
            yield from schema_problems(item, schema["items"], f"{path}[{number}]")


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
    """Return whether a pattern occurs in a text; true for invalid patterns, and if RE2 is not installed.

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
