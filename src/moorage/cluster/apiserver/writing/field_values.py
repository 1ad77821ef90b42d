"""Operations of server-side apply on values: compare, merge, and remove fields, by the rules of their types."""

from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from moorage.cluster.apiserver.writing.field_sets import Path
from moorage.cluster.apiserver.writing.field_types import FieldType

ABSENT: Final[Any] = msgspec.UNSET


@dataclass(slots=True)
class Changes:
    """The fields that two versions of an object do not have in common."""

    added: set[Path] = field(default_factory=set)
    modified: set[Path] = field(default_factory=set)
    removed: set[Path] = field(default_factory=set)


class MissingKey(ValueError):
    """An item of a list does not have one of the list's keys."""


def item_key(item: Any, kind: FieldType) -> str:
    """Return the path element of a list item."""
    if kind.list_type == "set" or not isinstance(item, dict):
        return "v:" + msgspec.json.encode(item).decode()
    keys = {name: item.get(name, default) for name, default in kind.list_keys.items()}
    for name, content in keys.items():
        if content is None:
            raise MissingKey(
                f"associative list with keys has an element that omits key field {msgspec.json.encode(name).decode()} "
                "(and doesn't have default value)"
            )
    return "k:" + msgspec.json.encode(keys, order="sorted").decode()


def _items(value: Any, kind: FieldType) -> dict[str, Any]:
    """Return the items of a list by key. The first of equal keys counts."""
    keyed: dict[str, Any] = {}
    for item in value if isinstance(value, list) else ():
        keyed.setdefault(item_key(item, kind), item)
    return keyed


def _is_struct(value: Any, other_value: Any, kind: FieldType) -> bool:
    """Return whether two values have fields with separate owners."""
    return not kind.is_atomic and bool(
        (isinstance(value, dict) and value and not isinstance(other_value, list))
        or (isinstance(other_value, dict) and other_value and not isinstance(value, list))
    )


def _is_keyed(value: Any, other_value: Any, kind: FieldType) -> bool:
    """Return whether two values are lists of items with separate owners."""
    return kind.list_type != "atomic" and bool(
        (isinstance(value, list) and value and not isinstance(other_value, dict))
        or (isinstance(other_value, list) and other_value and not isinstance(value, dict))
    )


def compare(old: Any, new: Any, kind: FieldType, changes: Changes, path: Path = ()) -> Changes:
    """Collect the differences of two values. An absent value is ``ABSENT``."""
    if old == new:
        return changes
    if _is_struct(old, new, kind):
        before, after = (value if isinstance(value, dict) else {} for value in (old, new))
        for name in {**before, **after}:
            was, now = before.get(name, ABSENT), after.get(name, ABSENT)
            compare(was, now, kind.below(name), changes, (*path, f"f:{name}"))
    elif _is_keyed(old, new, kind):
        items_before, items_after, element = _items(old, kind), _items(new, kind), kind.below("")
        for key in {**items_before, **items_after}:
            was, now = items_before.get(key, ABSENT), items_after.get(key, ABSENT)
            compare(was, now, element, changes, (*path, key))
    elif old is not ABSENT and new is not ABSENT:
        changes.modified.add(path)
        return changes
    if path and old is ABSENT:
        changes.added.add(path)
    elif path and new is ABSENT:
        changes.removed.add(path)
    return changes


def field_set(value: Any, kind: FieldType, path: Path = ()) -> Iterator[Path]:
    """Yield the paths that a manager owns when it applies a value."""
    if isinstance(value, dict) and not kind.is_atomic:
        for name, content in value.items():
            field_path = (*path, f"f:{name}")
            yield from field_set(content, kind.below(name), field_path)
            if content is None or content == {} or not kind.declares(name):
                yield field_path
    elif isinstance(value, list) and kind.list_type != "atomic":
        for key, item in _items(value, kind).items():
            yield from field_set(item, kind.below(""), (*path, key))
            yield (*path, key)
    elif path:
        yield path


def merge(live: Any, applied: Any, kind: FieldType) -> Any:
    """Return a live value with the applied fields. The input is not changed."""
    if applied is ABSENT:
        return live
    if isinstance(live, dict) and isinstance(applied, dict) and not kind.is_atomic:
        merged_fields = dict(live)
        for name, content in applied.items():
            merged_fields[name] = merge(live.get(name, ABSENT), content, kind.below(name))
        return merged_fields
    if isinstance(live, list) and isinstance(applied, list) and kind.list_type != "atomic" and (live or applied):
        return _merge_items(_items(live, kind), _items(applied, kind), kind.below(""))
    return applied


def _merge_items(live: dict[str, Any], applied: dict[str, Any], element: FieldType) -> list[Any]:
    """Merge lists by key: applied items have the applied order, and live items follow their predecessors."""
    merged_items: list[Any] = []
    live_keys, applied_keys = list(live), list(applied)
    shared = [key for key in applied_keys if key in live]
    merged_keys: set[str] = set()

    def take(key: str) -> None:
        merged_items.append(merge(live.get(key, ABSENT), applied.get(key, ABSENT), element))
        merged_keys.add(key)
        if shared and shared[0] == key:
            del shared[0]

    while live_keys or applied_keys:
        if live_keys and applied_keys:
            if live_keys[0] == applied_keys[0]:
                take(live_keys[0])
                del live_keys[0], applied_keys[0]
                continue
            if live_keys[0] in applied and shared and shared[0] != live_keys[0]:
                del live_keys[0]  # a shared item that follows later in the applied order
                continue
        if live_keys and live_keys[0] not in applied:
            merged_items.append(live[live_keys.pop(0)])
            continue
        if live_keys and live_keys[0] in merged_keys:
            del live_keys[0]
        if applied_keys:
            take(applied_keys.pop(0))
    return merged_items


def remove(value: Any, paths: Set[Path], kind: FieldType) -> Any:
    """Return a value without some fields; objects and lists that lose their last field become null."""
    if not paths:
        return value
    below: dict[str, set[Path]] = {}
    removed_paths = set()
    for path in paths:
        if len(path) > 1:
            below.setdefault(path[0], set()).add(path[1:])
        else:
            removed_paths.add(path[0])
    if isinstance(value, dict) and value and not kind.is_atomic:
        keyed = ((name, f"f:{name}", content) for name, content in value.items())
        remaining_fields = {
            name: remove(content, below.get(key, set()), kind.below(name))
            for name, key, content in keyed
            if key not in removed_paths
        }
        return remaining_fields or None
    if isinstance(value, list) and value and kind.list_type != "atomic":
        items = ((item_key(item, kind), item) for item in value)
        kept_items = [
            remove(item, below.get(key, set()), kind.below("")) for key, item in items if key not in removed_paths
        ]
        return kept_items or None
    return value


def with_named_fields(paths: Set[Path], kind: FieldType) -> set[Path]:
    """Return paths, and the paths of the structs that contain them."""
    all_paths: set[Path] = set(paths)
    types: dict[Path, FieldType] = {(): kind}
    for path in paths:
        for end in range(1, len(path)):
            parent_path, key = path[:end], path[end - 1]
            if parent_path in types:
                continue
            above = types[path[: end - 1]]
            types[parent_path] = above.below(key[2:] if key.startswith("f:") else "")
            if key.startswith("f:") and above.declares(key[2:]):
                all_paths.add(parent_path)
    return all_paths
