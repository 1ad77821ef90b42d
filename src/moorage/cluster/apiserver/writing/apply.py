"""Server-side apply: a field manager applies fields and owns them."""

import copy
from typing import Any

import msgspec

from moorage.cluster.apiserver.writing.managed_fields import (
    Tree,
    changed_fields,
    field_tree,
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
from moorage.kube.resources import ServedResource
from moorage.kube.schema import Field, Schema, find_kind_schema

BEFORE_FIRST_APPLY = "before-first-apply"


def applied(resource: ServedResource, live: Data, desired: Data, manager: str, *, force: bool, clock: Clock) -> Data:
    """Return an object with a manager's fields applied; 409 lists conflicts with the fields of other managers."""
    schema = find_kind_schema(resource.api_version, resource.name)
    entries = live["metadata"].get("managedFields") or []
    if not entries and "uid" in live["metadata"]:
        entries = [owner(resource, BEFORE_FIRST_APPLY, "Update", field_tree(live, resource), "", clock)]
    desired["metadata"].pop("managedFields", None)
    fields = field_tree(desired, resource)
    previous: Tree = next((item["fieldsV1"] for item in entries if is_entry_of(item, manager, "Apply", "")), {})
    foreign = [item for item in entries if not is_entry_of(item, manager, "Apply", "")]
    merged: Data = _merge(copy.deepcopy(live), desired, schema)
    changed = changed_fields(live, merged, fields, field_tree(live, resource))
    conflicts = [(item, _common(item["fieldsV1"], changed)) for item in foreign]
    if not force:
        _raise_conflict([(item, overlap) for item, overlap in conflicts if overlap])
    # Metadata remains even if nothing in it has an owner.
    owned: Tree = union({"f:metadata": {}}, fields)
    for item in foreign:
        owned = union(owned, item["fieldsV1"])
    _drop(merged, previous, owned)
    remaining_entries = [
        {**item, "fieldsV1": remaining}
        for item, overlap in conflicts
        if (remaining := minus(item["fieldsV1"], overlap))
    ]
    merged["metadata"]["managedFields"] = [*remaining_entries, owner(resource, manager, "Apply", fields, "", clock)]
    return merged


def _merge(live: Any, desired: Any, schema: Schema | None) -> Any:
    if not isinstance(live, dict) or not isinstance(desired, dict):
        return desired
    for name, content in desired.items():
        live[name] = _merge_field(live.get(name), content, schema.field(name) if schema is not None else None)
    return live


def _merge_field(live: Any, desired: Any, field: Field | None) -> Any:
    if field is not None and field.list_type == "atomic":
        return desired
    if isinstance(desired, dict):
        return _merge(live, desired, field.schema if field is not None and not field.shape else None)
    if not isinstance(desired, list) or not isinstance(live, list) or field is None:
        return desired
    if field.list_type == "set":
        return live + [item for item in desired if item not in live]
    if field.list_type != "map":
        return desired
    positions = {item_key(item, field): number for number, item in enumerate(live)}
    for item in desired:
        position = positions.get(item_key(item, field))
        if position is None:
            live.append(item)
        else:
            live[position] = _merge(live[position], item, field.schema)
    return live


def _common(first: Tree, second: Tree) -> Tree:
    """Return the leaves that both have."""
    common: Tree = {}
    for key, below in first.items():
        if key not in second or key == ".":
            continue
        if not below or not second[key]:
            common[key] = below
        elif inner := _common(below, second[key]):
            common[key] = inner
    return common


def _drop(data: Any, previous: Tree, owned: Tree) -> None:
    """Remove fields that no manager owns any more; a field is removed with its defaults when nothing in it is owned."""
    for key, below in previous.items():
        if key == ".":
            continue
        if key.startswith("f:") and isinstance(data, dict):
            if key not in owned:
                data.pop(key[2:], None)
            elif below:
                _drop(data.get(key[2:]), below, owned[key])
        elif isinstance(data, list):
            desired = msgspec.json.decode(key[2:])
            for item in list(data):
                is_match = item == desired if key.startswith("v:") else is_item(item, desired)
                if is_match and key not in owned and ("." in below or key.startswith("v:")):
                    data.remove(item)
                elif is_match:
                    _drop(item, below, owned.get(key, {}))


def _raise_conflict(conflicts: list[tuple[Data, Tree]]) -> None:
    if not conflicts:
        return
    causes = []
    for entry, fields in conflicts:
        message = f'conflict with "{entry["manager"]}"' + (
            "" if entry["operation"] == "Apply" else f" using {entry['apiVersion']}"
        )
        causes += [
            {"reason": "FieldManagerConflict", "message": message, "field": _path(leaf)} for leaf in leaves(fields)
        ]
    summary = ", ".join(f"{cause['message']}: {cause['field']}" for cause in causes)
    number = len(causes)
    raise Conflict(
        f"Apply failed with {number} conflict{'' if number == 1 else 's'}: {summary}",
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


def first_applied(resource: ServedResource, desired: Data, manager: str, clock: Clock) -> Data:
    """Return a new object with all its fields owned by a manager."""
    desired["metadata"].pop("managedFields", None)
    desired["metadata"]["managedFields"] = [owner(resource, manager, "Apply", field_tree(desired, resource), "", clock)]
    return desired
