"""managedFields: the owners of fields, for server-side apply.

Owners are tracked from the first server-side apply of an object. A set of fields is a tree in the API's notation:
``f:name`` for a field, ``k:{…}`` for an item of a list with keys, ``v:…`` for an item of a set, and ``.`` for the
object itself.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from moorage.common.clock import Clock
from moorage.kube.api.meta import format_time
from moorage.kube.api.struct import Data
from moorage.kube.resources import ServedResource
from moorage.kube.schema import Field, Schema, find_kind_schema

Tree = dict[str, Any]
UNOWNED: Final = frozenset(("apiVersion", "kind"))
UNOWNED_METADATA: Final = frozenset(
    (
        *("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp"),
        *("deletionGracePeriodSeconds", "managedFields", "selfLink", "generateName"),
    )
)


def field_tree(data: Data, resource: ServedResource) -> Tree:
    """Return the set of all fields of an object that can have an owner."""
    tree = _tree(data, find_kind_schema(resource.api_version, resource.name), UNOWNED)
    metadata = tree.get("f:metadata", {})
    for name in UNOWNED_METADATA:
        metadata.pop(f"f:{name}", None)
    if not metadata:
        tree.pop("f:metadata", None)
    return tree


def _tree(data: Data, schema: Schema | None, skipped: frozenset[str] = frozenset()) -> Tree:
    return {
        f"f:{name}": _subtree(content, schema.field(name) if schema is not None else None)
        for name, content in data.items()
        if name not in skipped
    }


def _subtree(content: Any, field: Field | None) -> Tree:
    if field is not None and field.list_type == "atomic":
        return {}
    if isinstance(content, dict):
        below = field.schema if field is not None and not field.shape else None
        return _tree(content, below)
    if isinstance(content, list) and field is not None and field.list_type in ("map", "set"):
        has_items = field.list_type == "map"
        return {
            item_key(item, field): {".": {}, **_tree(item, field.schema)}
            if has_items and isinstance(item, dict)
            else {}
            for item in content
        }
    return {}


def item_key(item: Any, field: Field) -> str:
    """Return the merge key of a list item."""
    if field.list_type == "set" or not isinstance(item, dict):
        return "v:" + msgspec.json.encode(item).decode()
    defaults = {"protocol": "TCP"}
    keys = {name: item.get(name, defaults.get(name)) for name in field.list_keys}
    return "k:" + msgspec.json.encode(keys, order="sorted").decode()


def union(first: Tree, second: Tree) -> Tree:
    """Return the fields of either."""
    merged = dict(first)
    for key, below in second.items():
        merged[key] = union(merged[key], below) if key in merged else below
    return merged


def minus(first: Tree, second: Tree) -> Tree:
    """Return the fields of the first that the second does not have; a parent remains while it has children."""
    difference: Tree = {}
    for key, below in first.items():
        if key not in second:
            difference[key] = below
        elif remaining := minus(below, second[key]):
            difference[key] = remaining
    return difference


def leaves(tree: Tree, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the leaves of a set."""
    for key, below in tree.items():
        here = (*path, key)
        if below:
            yield from leaves(below, here)
        else:
            yield here


def changed_fields(old: Any, new: Any, tree: Tree, old_tree: Tree) -> Tree:
    """Return the fields of the new object whose content is not that of the old one."""
    return {
        key: below
        for key, content in tree.items()
        if (below := _changed_below(old, new, key, content, old_tree.get(key))) is not None
    }


def _changed_below(old: Any, new: Any, key: str, tree: Tree, old_tree: Tree | None) -> Tree | None:
    if old_tree is None:
        return tree
    was, now = _step(old, key), _step(new, key)
    if was == now:
        return None
    if not tree or not old_tree:
        return tree
    return changed_fields(was, now, tree, old_tree) or None


def _step(data: Any, key: str) -> Any:
    if key.startswith("f:"):
        return data.get(key[2:]) if isinstance(data, dict) else None
    if key == ".":
        return True
    selector, items = msgspec.json.decode(key[2:]), data if isinstance(data, list) else ()
    matches = (item == selector if key.startswith("v:") else is_item(item, selector) for item in items)
    return next((item for item, is_match in zip(items, matches, strict=True) if is_match), None)


def is_item(item: Any, selector: Mapping[str, Any]) -> bool:
    """Return whether an item of a list has these keys."""
    defaults = {"protocol": "TCP"}
    return isinstance(item, dict) and all(item.get(name, defaults.get(name)) == text for name, text in selector.items())


def note_update(resource: ServedResource, old: Data, new: Data, manager: str, subresource: str, clock: Clock) -> None:
    """Update the owners after an ordinary write: the writer owns the changed fields, if owners are tracked."""
    entries = old["metadata"].get("managedFields")
    if not entries:
        new["metadata"].pop("managedFields", None)
        return
    tree, old_tree = field_tree(new, resource), field_tree(old, resource)
    changed = changed_fields(old, new, tree, old_tree)
    removed = minus(old_tree, tree)
    remaining_entries: list[Data] = []
    own: Tree = {}
    for entry in entries:
        if is_entry_of(entry, manager, "Update", subresource):
            own = entry["fieldsV1"]
        elif fields := minus(minus(entry["fieldsV1"], changed), removed):
            remaining_entries.append({**entry, "fieldsV1": fields})
    own = minus(union(own, changed), removed)
    if own:
        remaining_entries.append(owner(resource, manager, "Update", own, subresource, clock))
    new["metadata"]["managedFields"] = remaining_entries


def is_entry_of(entry: Data, manager: str, operation: str, subresource: str) -> bool:
    """Return whether an entry of managedFields is a manager's own."""
    return (
        entry.get("manager") == manager
        and entry.get("operation") == operation
        and entry.get("subresource", "") == subresource
    )


def owner(resource: ServedResource, manager: str, operation: str, fields: Tree, subresource: str, clock: Clock) -> Data:
    """Return an entry of managedFields."""
    entry = {
        "manager": manager,
        "operation": operation,
        "apiVersion": resource.api_version,
        "time": format_time(clock.now()),
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    return {**entry, "subresource": subresource} if subresource else entry
