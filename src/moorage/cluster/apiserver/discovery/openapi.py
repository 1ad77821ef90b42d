"""The parts of the OpenAPI documents that kubectl reads: types, merge strategies of lists, and query parameters."""

from collections.abc import Mapping
from typing import Final

from moorage.cluster.apiserver.discovery.custom_schemas import KEEPS
from moorage.cluster.apiserver.discovery.descriptions import describe
from moorage.common.version import KUBERNETES
from moorage.kube.api.struct import Data
from moorage.kube.resources import Resources, ServedResource
from moorage.kube.schema import METADATA, Field, find_schema, tables

_SCALARS: Final[Mapping[str, Data]] = {
    "string": {"type": "string"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "bool": {"type": "boolean"},
    "double": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
    "time": {"type": "string", "format": "date-time"},
    "microtime": {"type": "string", "format": "date-time"},
    "duration": {"type": "string"},
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "intorstring": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    "raw": {"type": "object", KEEPS: True},
    "fields": {"type": "object"},
    "strings": {"type": "array", "items": {"type": "string"}},
    "json": {},
    "schemaorschemas": {},
    "schemaorbool": {},
    "schemaorstrings": {},
}
V2_CONTENT_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
V2_PROTOBUF: Final = b"\n\x032.0"
"""The protobuf message of an OpenAPI 2 document without types: only its version, field 1, is set."""
_API: Final = "io.k8s.api."
OPTIONAL_FROM_1_38: Final[Mapping[str, tuple[str, ...]]] = {
    f"{_API}authorization.v1.NonResourceRule": ("verbs",),
    f"{_API}authorization.v1.ResourceRule": ("verbs",),
    f"{_API}authorization.v1.SubjectAccessReviewStatus": ("allowed",),
    f"{_API}authorization.v1.SubjectRulesReviewStatus": ("resourceRules", "nonResourceRules", "incomplete"),
    f"{_API}batch.v1.JobCondition": ("type", "status"),
    f"{_API}batch.v1.PodFailurePolicy": ("rules",),
    f"{_API}core.v1.ISCSIPersistentVolumeSource": ("lun",),
    f"{_API}core.v1.ISCSIVolumeSource": ("lun",),
    f"{_API}core.v1.ModifyVolumeStatus": ("status",),
    f"{_API}core.v1.ScaleIOPersistentVolumeSource": ("secretRef",),
    f"{_API}core.v1.ScaleIOVolumeSource": ("secretRef",),
    f"{_API}networking.v1.IngressPortStatus": ("port", "protocol"),
    f"{_API}storage.v1.CSIDriver": ("spec",),
    f"{_API}storage.v1.CSINode": ("spec",),
    f"{_API}storage.v1.CSINodeSpec": ("drivers",),
    f"{_API}storage.v1.TokenRequest": ("audience",),
    f"{_API}storage.v1.VolumeAttachmentStatus": ("attached",),
    "io.k8s.apimachinery.pkg.apis.meta.v1.Condition": ("message",),
}
"""Fields that the schemas of 1.38 no longer require; Go encodes them as before, so defaults do not change."""
REQUIRED_FROM_1_38: Final[Mapping[str, tuple[str, ...]]] = {
    f"{_API}batch.v1.Job": ("spec",),
    f"{_API}batch.v1.JobTemplateSpec": ("spec",),
    f"{_API}networking.v1.IngressClass": ("spec",),
}
"""Fields that the schemas of 1.38 require."""
_QUERY: Final = ("dryRun", "fieldManager", "fieldValidation", "pretty")


def index(resources: Resources) -> Data:
    """List the documents, one per group and version."""
    paths = {}
    for group, versions in resources.groups().items():
        for version in versions:
            path = f"apis/{group}/{version}" if group else f"api/{version}"
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={resources.changes}"}
    return {"paths": paths}


def document(resources: Resources, group: str, version: str, schemas: Mapping[str, Data]) -> Data | None:
    """Describe one group and version. ``schemas`` are those of custom kinds. ``None`` if there is no such version."""
    served = [item for item in resources if (item.group, item.version) == (group, version)]
    if not served:
        return None
    components: dict[str, Data] = {}
    paths: dict[str, Data] = {}
    for item in served:
        name = _component(item, components, schemas)
        paths |= _paths(item, name)
    if resources.features.since(1, 38):
        _require(components)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": KUBERNETES},
        "paths": paths,
        "components": {"schemas": components},
    }


def version_2(resources: Resources, schemas: Mapping[str, Data]) -> Data:
    """Describe all types as an OpenAPI 2 document, without paths."""
    components: dict[str, Data] = {}
    for item in resources:
        name = _component(item, components, schemas)
        if components[name].get(KEEPS):
            kind = "x-kubernetes-group-version-kind"
            components[name] = {"type": "object", kind: components[name][kind]}
    if resources.features.since(1, 38):
        _require(components)
    definitions = {name: _without_version_3(schema) for name, schema in components.items()}
    info = {"title": "Kubernetes", "version": KUBERNETES}
    return {"swagger": "2.0", "info": info, "paths": {}, "definitions": definitions}


def _require(components: dict[str, Data]) -> None:
    """Apply the changes of required fields in 1.38."""
    for name in components.keys() & (OPTIONAL_FROM_1_38.keys() | REQUIRED_FROM_1_38.keys()):
        optional = OPTIONAL_FROM_1_38.get(name, ())
        required = [field for field in components[name].pop("required", ()) if field not in optional]
        if required := [*required, *REQUIRED_FROM_1_38.get(name, ())]:
            components[name]["required"] = required


def _without_version_3(schema: Data) -> Data:
    """Convert a schema to OpenAPI 2, which has no alternatives and no null.

    Types of nullable values and of integers or strings are omitted, as are the fields of objects that keep
    unknown ones: clients would reject valid objects otherwise.
    """
    if "$ref" in schema or (len(schema.get("allOf") or ()) == 1 and "$ref" in schema["allOf"][0]):
        path = schema.get("$ref") or schema["allOf"][0]["$ref"]
        common_fields = {key: content for key, content in schema.items() if key not in ("allOf", "$ref")}
        return {**common_fields, "$ref": path.replace("#/components/schemas/", "#/definitions/")}
    left_out = {"allOf", "anyOf", "oneOf", "not", "nullable", "default"}
    if schema.get("nullable") or schema.get(KEEPS):
        left_out |= {"type", "items", "properties"}
    if schema.get("x-kubernetes-int-or-string"):
        left_out.add("type")
    converted = {key: content for key, content in schema.items() if key not in left_out}
    for key in ("items", "additionalProperties"):
        if isinstance(converted.get(key), dict):
            converted[key] = _without_version_3(converted[key])
    if isinstance(converted.get("properties"), dict):
        converted["properties"] = {name: _without_version_3(item) for name, item in converted["properties"].items()}
    return converted


def _kind_data(item: ServedResource) -> Data:
    return {"group": item.group, "version": item.version, "kind": item.name}


def _component(item: ServedResource, components: dict[str, Data], schemas: Mapping[str, Data]) -> str:
    name = tables().kinds.get(f"{item.api_version}/{item.name}", "")
    if name:
        _add(name, components)
    else:
        name = f"{'.'.join(reversed(item.group.split('.')))}.{item.version}.{item.name}"
        components[name] = dict(schemas.get(f"{item.api_version}/{item.name}", {"type": "object"}))
    components[name] = {**components[name], "x-kubernetes-group-version-kind": [_kind_data(item)]}
    properties = dict(components[name].get("properties") or {})
    for field in ("apiVersion", "kind"):
        properties[field] = {"type": "string", "description": describe(name, field, is_object=True)}
    if item.is_custom:
        _add(METADATA, components)
        properties["metadata"] = {"description": describe(name, "metadata", is_object=True)} | _reference(METADATA)
    components[name]["properties"] = properties
    return name


def _add(name: str, components: dict[str, Data]) -> None:
    schema = find_schema(name)
    if name in components or schema is None:
        return
    components[name] = {"type": "object"}
    if text := describe(name):
        components[name]["description"] = text
    fields = [field for field in schema.by_name.values() if field.name]
    is_object = schema.field("metadata") is not None
    properties = {}
    for field in fields:
        text = describe(name, field.name, is_object=is_object)
        properties[field.name] = _property(field, components) | ({"description": text} if text else {})
    components[name]["properties"] = properties
    if required := [field.name for field in fields if field.required]:
        components[name]["required"] = required


def _property(field: Field, components: dict[str, Data]) -> Data:
    if field.type in _SCALARS:
        content = dict(_SCALARS[field.type])
    else:
        _add(field.type, components)
        content = _reference(field.type)
    if field.shape == "list":
        content = {"type": "array", "items": content}
    elif field.shape == "map":
        content = {"type": "object", "additionalProperties": content}
    marks = {
        "x-kubernetes-patch-merge-key": field.merge_key,
        "x-kubernetes-patch-strategy": field.strategy,
        "x-kubernetes-list-type": field.list_type if field.shape == "list" else "",
        "x-kubernetes-list-map-keys": list(field.list_keys),
    }
    return content | {key: mark for key, mark in marks.items() if mark}


def _reference(name: str) -> Data:
    return {"allOf": [{"$ref": f"#/components/schemas/{name}"}]}


def _paths(item: ServedResource, name: str) -> dict[str, Data]:
    root = f"/apis/{item.group}/{item.version}" if item.group else f"/api/{item.version}"
    path = f"{root}/namespaces/{{namespace}}/{item.plural}" if item.namespaced else f"{root}/{item.plural}"
    body = {"content": {"*/*": {"schema": {"$ref": f"#/components/schemas/{name}"}}}}
    query = [{"name": parameter, "in": "query", "schema": {"type": "string"}} for parameter in _QUERY]

    def operation(action: str) -> Data:
        return {
            "parameters": query,
            "requestBody": body,
            "responses": {"200": {"description": "OK", **body}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": _kind_data(item),
        }

    if "patch" not in item.verbs:
        return {path: {"post": operation("post")}}
    operations = {"put": operation("put"), "patch": operation("patch"), "get": operation("get")}
    return {path: {"post": operation("post")}, f"{path}/{{name}}": operations}
