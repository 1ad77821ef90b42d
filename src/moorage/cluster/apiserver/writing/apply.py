"""Server-side apply: a manager says which fields it wants, and owns them from then on."""

import copy
from typing import Any

import msgspec

from moorage.cluster.apiserver.writing.managed_fields import (
    Tree,
    changed_fields,
    fields_of,
    is_entry_of,
    is_item,
    item_key,
    leaves,
    minus,
    owner,
    union,
)
from moorage.common.clock import Clock
from moorage.common.errors import Conflict
from moorage.kube.api.struct import Data
from moorage.kube.field_errors import required_value
from moorage.kube.resources import ServedResource
from moorage.kube.schema import Field, Schema, schema_of_kind
from moorage.kube.status_errors import invalid_options

BEFORE_FIRST_APPLY = "before-first-apply"


def applied(resource: ServedResource, live: Data, wanted: Data, manager: str, *, force: bool, clock: Clock) -> Data:
    """Return an object with a manager's fields applied; 409 names the fields that others own and want otherwise."""
    schema = schema_of_kind(resource.api_version, resource.name)
    entries = live["metadata"].get("managedFields") or []
    if not entries and "uid" in live["metadata"]:
        entries = [owner(resource, BEFORE_FIRST_APPLY, "Update", fields_of(live, resource), "", clock)]
    wanted["metadata"].pop("managedFields", None)
    fields = fields_of(wanted, resource)
    mine: Tree = next((item["fieldsV1"] for item in entries if is_entry_of(item, manager, "Apply", "")), {})
    others = [item for item in entries if not is_entry_of(item, manager, "Apply", "")]
    merged: Data = _merge(copy.deepcopy(live), wanted, schema)
    changed = changed_fields(live, merged, fields, fields_of(live, resource))
    conflicts = [(item, _common(item["fieldsV1"], changed)) for item in others]
    if not force:
        _refuse([(item, found) for item, found in conflicts if found])
    owned_by_others: Tree = {}
    for item in others:
        owned_by_others = union(owned_by_others, item["fieldsV1"])
    _drop(merged, minus(minus(mine, fields), owned_by_others))
    kept = [{**item, "fieldsV1": left} for item, found in conflicts if (left := minus(item["fieldsV1"], found))]
    merged["metadata"]["managedFields"] = [*kept, owner(resource, manager, "Apply", fields, "", clock)]
    return merged


def _merge(live: Any, wanted: Any, schema: Schema | None) -> Any:
    if not isinstance(live, dict) or not isinstance(wanted, dict):
        return wanted
    for name, content in wanted.items():
        live[name] = _merge_field(live.get(name), content, schema.field(name) if schema is not None else None)
    return live


def _merge_field(live: Any, wanted: Any, field: Field | None) -> Any:
    if field is not None and field.list_type == "atomic":
        return wanted
    if isinstance(wanted, dict):
        return _merge(live, wanted, field.schema if field is not None and not field.shape else None)
    if not isinstance(wanted, list) or not isinstance(live, list) or field is None:
        return wanted
    if field.list_type == "set":
        return live + [item for item in wanted if item not in live]
    if field.list_type != "map":
        return wanted
    places = {item_key(item, field): number for number, item in enumerate(live)}
    for item in wanted:
        place = places.get(item_key(item, field))
        if place is None:
            live.append(item)
        else:
            live[place] = _merge(live[place], item, field.schema)
    return live


def _common(first: Tree, second: Tree) -> Tree:
    """Return the leaves that both have."""
    found: Tree = {}
    for key, below in first.items():
        if key not in second or key == ".":
            continue
        if not below or not second[key]:
            found[key] = below
        elif inner := _common(below, second[key]):
            found[key] = inner
    return found


def _drop(data: Any, tree: Tree) -> None:
    """Take fields out that nobody wants any more."""
    for key, below in tree.items():
        if key == ".":
            continue
        if key.startswith("f:") and isinstance(data, dict):
            if below and isinstance(data.get(key[2:]), dict | list):
                _drop(data[key[2:]], below)
            else:
                data.pop(key[2:], None)
        elif isinstance(data, list):
            _drop_item(data, key, below)


def _drop_item(data: list[Any], key: str, below: Tree) -> None:
    wanted = msgspec.json.decode(key[2:])
    for item in list(data):
        is_it = item == wanted if key.startswith("v:") else is_item(item, wanted)
        if is_it and ("." in below or key.startswith("v:")):
            data.remove(item)
        elif is_it:
            _drop(item, below)


def _refuse(conflicts: list[tuple[Data, Tree]]) -> None:
    if not conflicts:
        return
    causes = []
    for entry, found in conflicts:
        who = f'conflict with "{entry["manager"]}"' + (
            "" if entry["operation"] == "Apply" else f" using {entry['apiVersion']}"
        )
        causes += [{"reason": "FieldManagerConflict", "message": who, "field": _path(leaf)} for leaf in leaves(found)]
    listed = ", ".join(f"{cause['message']}: {cause['field']}" for cause in causes)
    number = len(causes)
    raise Conflict(
        f"Apply failed with {number} conflict{'' if number == 1 else 's'}: {listed}",
        status=409,
        reason="Conflict",
        details={"causes": causes},
    )


def _path(leaf: tuple[str, ...]) -> str:
    """Write a path as the API does in its messages: ``.spec.containers[name="a"].image``."""
    text = ""
    for key in leaf:
        if key.startswith("f:"):
            text += f".{key[2:]}"
        elif key.startswith("k:"):
            keys = msgspec.json.decode(key[2:])
            text += "[" + ",".join(f"{name}={msgspec.json.encode(item).decode()}" for name, item in keys.items()) + "]"
        elif key.startswith("v:"):
            text += f"[={key[2:]}]"
    return text


def first_applied(resource: ServedResource, wanted: Data, manager: str, clock: Clock) -> Data:
    """Return a new object that its manager owns all fields of."""
    wanted["metadata"].pop("managedFields", None)
    wanted["metadata"]["managedFields"] = [owner(resource, manager, "Apply", fields_of(wanted, resource), "", clock)]
    return wanted


def check_manager(manager: str) -> None:
    """Refuse an apply that does not say who applies."""
    if not manager:
        raise invalid_options("PatchOptions", required_value("fieldManager", "is required for apply patch"))
