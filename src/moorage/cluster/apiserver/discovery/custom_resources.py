"""Custom resource definitions: their served resources, and validation and defaulting by their schemas."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from moorage.cluster.apiserver.discovery.custom_rules import (
    MAX_RULES,
    count_rules,
    definition_problems,
    has_rules,
    rule_problems,
    unenforced,
)
from moorage.cluster.apiserver.discovery.custom_schemas import (
    EMBEDDED,
    NOT_DEFAULTED,
    drop_invalid_nulls,
    fill_defaults,
    has_defaults,
    schema_problems,
    structure_problems,
    undeclared,
)
from moorage.cluster.apiserver.storage.store import Store, StoredChange
from moorage.common.text import shortened
from moorage.kube.api.kinds import KINDS
from moorage.kube.api.meta import format_time
from moorage.kube.api.struct import Data
from moorage.kube.field_errors import FieldError, invalid_value, required_value, too_many_items, unsupported_value
from moorage.kube.resources import Resources, ServedResource
from moorage.kube.status_errors import bad_request, invalid

DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
APPROVAL: Final = "api-approved.kubernetes.io"
APPROVAL_RULES: Final = "see https://github.com/kubernetes/enhancements/pull/1111"
PROTECTED_GROUPS: Final = (".k8s.io", ".kubernetes.io")
ACCEPTED: Final = (
    ("NamesAccepted", "NoConflicts", "no conflicts found"),
    ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
)
COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
MAX_CAUSES: Final = 100
MAX_WARNINGS: Final = 5
PREVENTS_RULES: Final = (
    *("FieldValueRequired", "FieldValueTypeInvalid", "FieldValueTooLong", "FieldValueTooMany"),
    "FieldValueNotSupported",
)
"""Rules are evaluated only for objects without these problems."""
UNCHECKED_RULES: Final = FieldError(
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
    "<nil>",
)


class DefinitionNames(msgspec.Struct, frozen=True, rename="camel"):
    """The names of a custom resource."""

    plural: str = ""
    kind: str = ""
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

    group: str = ""
    names: DefinitionNames = DefinitionNames()
    scope: str = ""
    versions: tuple[DefinedVersion, ...] = ()


class Definition(msgspec.Struct, frozen=True):
    """The relevant part of a CustomResourceDefinition."""

    spec: DefinitionSpec = DefinitionSpec()


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
        self._with_defaults: dict[str, Data] = {}
        self._store = store
        self._resources = resources
        store.subscribe(self._on_change)
        for entry in store.list(DEFINITIONS):
            self._define(entry.key, entry.data)

    def columns(self, resource: ServedResource) -> Sequence[Mapping[str, Any]]:
        """Return the additionalPrinterColumns of a definition."""
        return self._columns.get(f"{resource.api_version}/{resource.name}", ())

    def defaults_filler(self, resource: ServedResource) -> Callable[[Data, int], int] | None:
        """Return a function that sets defaults. Objects may be older than these. ``None`` if there are no defaults."""
        schema = self._with_defaults.get(f"{resource.api_version}/{resource.name}")
        if schema is None:
            return None
        return lambda data, budget: fill_defaults(data, schema, NOT_DEFAULTED, budget)

    def _on_change(self, resource: str, change: StoredChange) -> None:
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
            self._with_defaults.pop(api_version, None)
            if has_defaults(version.schema.openapi):
                self._with_defaults[api_version] = version.schema.openapi
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

    def complete(
        self, resource: ServedResource, data: Data, old: Data | None = None, *, keeps_nulls: bool = False
    ) -> None:
        """Prune undeclared fields, set defaults, and validate. Raise a 422 error that lists the problems.

        The result of server-side apply keeps its nulls, so that invalid ones are reported.
        """
        metadata = data["metadata"]
        for name in [name for name, content in metadata.items() if content is None or content in ({}, [])]:
            del metadata[name]
        schema = self.schemas.get(f"{resource.api_version}/{resource.name}")
        if not schema:
            return
        if not keeps_nulls:
            drop_invalid_nulls(data, schema)
        for parent, name, _ in list(undeclared(data, {**schema, EMBEDDED: True})):
            del parent[name]
        fill_defaults(data, schema, skipped=NOT_DEFAULTED)
        problems = (cause for cause in schema_problems(data, schema, "") if not cause.field.startswith("metadata"))
        # A schema can have long enumerations and patterns, and an object many values that violate it.
        causes = [cause._replace(message=shortened(cause.message)) for cause in islice(problems, MAX_CAUSES)]
        if not any(cause.reason in PREVENTS_RULES for cause in causes):
            causes += islice(rule_problems(data, schema, old), MAX_CAUSES)
        elif has_rules(schema):
            causes.append(UNCHECKED_RULES)
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
    if not spec.group:
        causes.append(required_value("spec.group"))
    elif "." not in spec.group:
        causes.append(invalid_value("spec.group", spec.group, "should be a domain with at least one dot"))
    built_in = [kind for kind in KINDS if kind.group == spec.group]
    if any(spec.names.plural == kind.plural or spec.names.kind == kind.name for kind in built_in):
        causes.append(invalid_value("spec.names", spec.names.kind, f"{name} is a resource of Kubernetes itself"))
    names = {"spec.scope": spec.scope, "spec.names.plural": spec.names.plural, "spec.names.kind": spec.names.kind}
    causes += (required_value(field) for field, text in names.items() if not text)
    if spec.scope not in ("", "Namespaced", "Cluster"):
        causes.append(unsupported_value("spec.scope", spec.scope, ("Cluster", "Namespaced")))
    if sum(version.storage for version in spec.versions) != 1:
        causes.append(invalid_value("spec.versions", [], "must have exactly one version marked as storage version"))
    if f".{spec.group}".endswith(PROTECTED_GROUPS) and APPROVAL not in (data["metadata"].get("annotations") or {}):
        reason = f'protected groups must have approval annotation "{APPROVAL}", {APPROVAL_RULES}'
        causes.append(required_value(f"metadata.annotations[{APPROVAL}]", reason))
    causes += islice(_versions_problems(spec.versions, (data.get("spec") or {}).get("versions", ())), MAX_CAUSES)
    if (data.get("spec") or {}).get("preserveUnknownFields"):
        reason = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        )
        causes.append(invalid_value("spec.preserveUnknownFields", True, reason))
    if causes:
        raise invalid(resource, name, [cause._replace(message=shortened(cause.message)) for cause in causes])
    data["status"] = _definition_status(data, definition, format_time(now))


def _versions_problems(versions: Sequence[DefinedVersion], data: Sequence[Data]) -> Iterator[FieldError]:
    """Yield the errors of all versions. Rules above the limit are not compiled."""
    rules = sum(count_rules(version.schema.openapi) for version in versions)
    if rules > MAX_RULES:
        yield too_many_items("spec.versions[*].schema.openAPIV3Schema.x-kubernetes-validations", rules, MAX_RULES)
        return
    for number, version in enumerate(versions):
        if version.schema.openapi:
            yield from _version_problems(version, data[number], number, len(versions))
        else:
            yield required_value(f"spec.versions[{number}].schema.openAPIV3Schema")


def _version_problems(version: DefinedVersion, data: Data, number: int, count: int) -> Iterator[FieldError]:
    """Yield the errors of the schema, the printed columns and the selectable fields of a version."""
    version_location = f"spec.versions[{number}]"
    # Upstream reports the only version at the place that it has inside of the server.
    version_path = "spec" if count == 1 else version_location
    schema = "spec.validation.openAPIV3Schema" if count == 1 else f"{version_location}.schema.openAPIV3Schema"
    yield from structure_problems(version.schema.openapi, schema)
    yield from definition_problems(version.schema.openapi, schema)
    if data.get("deprecationWarning") is not None and not data.get("deprecated"):
        yield invalid_value(
            f"{version_location}.deprecationWarning",
            data["deprecationWarning"],
            "can only be set for deprecated versions",
        )
    for index, column in enumerate(version.additional_printer_columns):
        location, kind, path = (
            f"{version_path}.additionalPrinterColumns[{index}]",
            column.get("type", ""),
            column.get("jsonPath"),
        )
        if kind not in COLUMN_TYPES:
            yield invalid_value(f"{location}.type", kind, f"must be one of {','.join(COLUMN_TYPES)}")
        if not path:
            yield required_value(f"{location}.JSONPath")
        elif not path.startswith((".", "[")):
            yield invalid_value(f"{location}.JSONPath", path, "is an invalid path: expected [ or .")
    for index, field in enumerate(data.get("selectableFields") or ()):
        if not str(field.get("jsonPath", "")).startswith((".", "[")):
            location = f"{version_path}.selectableFields[{index}].jsonPath"
            yield invalid_value(location, field.get("jsonPath", ""), "is an invalid path: expected [ or .")


def definition_warnings(data: Data) -> tuple[str, ...]:
    """Report the rules of an accepted definition that cannot be evaluated."""
    versions = msgspec.convert(data, Definition).spec.versions
    warnings = (f"{version.name}: {text}" for version in versions for text in unenforced(version.schema.openapi))
    return tuple(islice(warnings, MAX_WARNINGS))


def _definition_status(data: Data, definition: WrittenDefinition, moment: str) -> Data:
    """Return the status with accepted names. Other conditions and stored versions are preserved."""
    spec = definition.spec
    status_before = definition.status or DefinitionStatus()
    conditions = [dict(condition) for condition in status_before.conditions or ()]
    for kind, reason, text in ACCEPTED:
        if all(condition.get("type") != kind for condition in conditions):
            condition = {"type": kind, "status": "True", "reason": reason, "message": text}
            conditions.append({**condition, "lastTransitionTime": moment})
    stored_versions = list(status_before.stored_versions or ())
    stored_versions += [
        version.name for version in spec.versions if version.storage and version.name not in stored_versions
    ]
    names = {"listKind": f"{spec.names.kind}List", "singular": spec.names.kind.lower(), **data["spec"]["names"]}
    data["spec"]["names"] = names
    return {"acceptedNames": names, "storedVersions": stored_versions, "conditions": conditions}
