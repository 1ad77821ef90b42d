"""The parts of the OpenAPI documents that kubectl reads: types, merge strategies of lists, and query parameters."""

from collections.abc import Mapping
from typing import Final

from moorage.cluster.apiserver.discovery.documents import VERSION
from moorage.kube.api.struct import Data
from moorage.kube.resources import Resources, ServedResource
from moorage.kube.schema import Field, find_schema, tables

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
    "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
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
    """Describe one group and version; ``schemas`` are those of custom kinds. ``None`` if there is no such version."""
    served = [item for item in resources if (item.group, item.version) == (group, version)]
    if not served:
        return None
    components: dict[str, Data] = {}
    paths: dict[str, Data] = {}
    for item in served:
        name = _component(item, components, schemas)
        paths |= _paths(item, name)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": VERSION["gitVersion"]},
        "paths": paths,
        "components": {"schemas": components},
    }


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
    properties |= {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    components[name]["properties"] = properties
    return name


def _add(name: str, components: dict[str, Data]) -> None:
    schema = find_schema(name)
    if name in components or schema is None:
        return
    components[name] = {"type": "object"}
    fields = [field for field in schema.by_name.values() if field.name]
    components[name]["properties"] = {field.name: _property(field, components) for field in fields}
    if required := [field.name for field in fields if field.required]:
        components[name]["required"] = required


def _property(field: Field, components: dict[str, Data]) -> Data:
    if field.type in _SCALARS:
        content = dict(_SCALARS[field.type])
    else:
        _add(field.type, components)
        content = {"allOf": [{"$ref": f"#/components/schemas/{field.type}"}]}
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


def _paths(item: ServedResource, name: str) -> dict[str, Data]:
    root = f"/apis/{item.group}/{item.version}" if item.group else f"/api/{item.version}"
    path = f"{root}/namespaces/{{namespace}}/{item.plural}" if item.namespaced else f"{root}/{item.plural}"
    body = {"content": {"*/*": {"schema": {"$ref": f"#/components/schemas/{name}"}}}}
    query = [{"name": each, "in": "query", "schema": {"type": "string"}} for each in _QUERY]

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
