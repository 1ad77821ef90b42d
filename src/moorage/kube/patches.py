"""JSON patch (RFC 6902), merge patch (RFC 7386) and Kubernetes' strategic merge patch, on plain data."""

import copy
from typing import Any, Final

import msgspec

from moorage.common.errors import ApiError
from moorage.kube.schema import Field, Schema
from moorage.kube.status_errors import bad_request

DIRECTIVE: Final = "$patch"
DELETE_PRIMITIVES: Final = "$deleteFromPrimitiveList/"
ORDER: Final = "$setElementOrder/"
RETAIN: Final = "$retainKeys"
MAX_OPERATIONS: Final = 10_000
MAX_COPIED: Final = 3 * 1024 * 1024
"""The bytes that copy operations of one patch may add: repeated copies grow exponentially."""


def merge_patch(target: Any, patch: Any) -> Any:
    """Merge: mappings by key, null removes, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, content in patch.items():
        if content is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), content)
    return merged


def json_patch(target: Any, operations: Any) -> Any:
    """Apply a list of operations to a copy; the first that fails rejects them all."""
    if not isinstance(operations, list) or len(operations) > MAX_OPERATIONS:
        raise bad_request(f"a JSON patch is a list of at most {MAX_OPERATIONS} operations")
    document = {"": copy.deepcopy(target)}
    copied = 0
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise bad_request("an operation of a JSON patch is an object with op and path")
        if operation.get("op") == "copy":
            copied += len(msgspec.json.encode(_find(document, _source(operation))))
            if copied > MAX_COPIED:
                why = f"the accumulated size increase of copy is {copied}, exceeding the limit {MAX_COPIED}"
                raise _cannot(f"Unable to complete the copy, {why}")
        _carry_out(document, operation)
    if "" not in document:
        raise bad_request("the JSON patch removes the whole object; delete it instead")
    return document[""]


def _carry_out(document: dict[str, Any], operation: dict[str, Any]) -> None:
    name, path = operation.get("op"), operation["path"]
    match name:
        case "add":
            _add(document, path, _value(operation))
        case "remove":
            _remove(document, path)
        case "replace":
            _find(document, path)
            _remove(document, path)
            _add(document, path, _value(operation))
        case "move":
            _add(document, path, _remove(document, _source(operation)))
        case "copy":
            _add(document, path, copy.deepcopy(_find(document, _source(operation))))
        case "test":
            if _find(document, path) != operation.get("value"):
                raise _cannot(f"testing value {path} failed")
        case _:
            raise _cannot(f"{name!r} is no operation; write add, remove, replace, move, copy or test")


def _value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise bad_request(f"{operation['op']} {operation['path']}: an operation that writes needs a value")
    return copy.deepcopy(operation["value"])


def _source(operation: dict[str, Any]) -> str:
    source = operation.get("from")
    if not isinstance(source, str):
        raise bad_request(f"{operation['op']} {operation['path']}: 'from' is missing")
    return source


def _cannot(why: str) -> ApiError:
    message = f"the server rejected our request due to an error in our request: {why}"
    return ApiError(message, status=422, reason="Invalid")


def _steps(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise bad_request(f"{path!r} is not a JSON pointer: it starts with a slash")
    return [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")]


def _find(document: Any, path: str) -> Any:
    value = document
    for step in _steps(path):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list):
            value = value[_index(value, step, path)]
        else:
            raise _cannot(f"nothing is at {path}")
    return value


def _index(items: list[Any], step: str, path: str) -> int:
    if not step.isdecimal() or not step.isascii() or len(step) > 9 or int(step) >= len(items):
        raise _cannot(f"nothing is at {path}")
    return int(step)


def _parent(document: Any, path: str) -> tuple[Any, str]:
    *above, last = _steps(path)
    return (_find(document, "/".join(above)), last) if path else (document, "")


def _add(document: Any, path: str, content: Any) -> None:
    parent, last = _parent(document, path)
    if isinstance(parent, dict):
        parent[last] = content
    elif isinstance(parent, list):
        at = len(parent) if last in ("-", str(len(parent))) else _index(parent, last, path)
        parent.insert(at, content)
    else:
        raise _cannot(f"nothing can be added at {path}")


def _remove(document: Any, path: str) -> Any:
    removed = _find(document, path)
    parent, last = _parent(document, path)
    if isinstance(parent, dict):
        del parent[last]
    else:
        del parent[_index(parent, last, path)]
    return removed


def strategic_merge(target: Any, patch: Any, schema: Schema | None) -> Any:
    """Merge by the schema of the type: lists with a merge key item by item, other lists as a unit."""
    if not isinstance(patch, dict):
        return patch
    if patch.get(DIRECTIVE) == "replace":
        return {key: content for key, content in patch.items() if key != DIRECTIVE}
    if patch.get(DIRECTIVE) == "delete":
        return {}
    merged = dict(target) if isinstance(target, dict) else {}
    if isinstance(retained := patch.get(RETAIN), list):
        merged = {key: content for key, content in merged.items() if key in retained}
    for key, content in patch.items():
        if key in (DIRECTIVE, RETAIN) or key.startswith(ORDER):
            continue
        if key.startswith(DELETE_PRIMITIVES):
            name = key.removeprefix(DELETE_PRIMITIVES)
            if isinstance(merged.get(name), list) and isinstance(content, list):
                merged[name] = [item for item in merged[name] if item not in content]
        elif content is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged_field(merged.get(key), content, schema.field(key) if schema else None)
    _reorder(merged, target if isinstance(target, dict) else {}, patch, schema)
    return merged


def _merged_field(old: Any, new: Any, field: Field | None) -> Any:
    if isinstance(new, dict):
        below = field.schema if field is not None and not field.shape else None
        return strategic_merge(old, new, below)
    if isinstance(new, list) and field is not None and "merge" in field.strategy:
        if not field.merge_key:
            existing = old if isinstance(old, list) else []
            return existing + [item for item in new if item not in existing]
        return _merged_list(old, new, field)
    return new


def _merged_list(old: Any, new: list[Any], field: Field) -> list[Any]:
    key = field.merge_key
    items: list[Any] = list(old) if isinstance(old, list) else []
    if any(isinstance(item, dict) and item.get(DIRECTIVE) == "replace" for item in new):
        return [item for item in new if not (isinstance(item, dict) and DIRECTIVE in item)]
    for item in new:
        if not isinstance(item, dict):
            raise bad_request(f"the items of {field.name} are objects, found {item!r}")
        if key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        matching = [n for n, live in enumerate(items) if isinstance(live, dict) and live.get(key) == item[key]]
        if item.get(DIRECTIVE) == "delete":
            items = [live for n, live in enumerate(items) if n not in matching]
        elif matching:
            items[matching[0]] = strategic_merge(items[matching[0]], item, field.schema)
        else:
            items.append(strategic_merge({}, item, field.schema))
    return items


def _reorder(merged: dict[str, Any], live: dict[str, Any], patch: dict[str, Any], schema: Schema | None) -> None:
    """Order merged lists: items of the patch in its order, all other items in the live order."""
    for key in {name.removeprefix(ORDER) for name in patch}:
        field = schema.field(key) if schema else None
        is_merged = field is not None and "merge" in field.strategy
        patched = patch.get(f"{ORDER}{key}", patch.get(key) if is_merged else None)
        if not isinstance(patched, list) or not isinstance(merged.get(key), list):
            continue
        merge_key = field.merge_key if field is not None else ""
        live_items = live.get(key)
        before = [_identity(item, merge_key) for item in live_items] if isinstance(live_items, list) else []
        merged[key] = _in_order(merged[key], [_identity(item, merge_key) for item in patched], before, merge_key)


def _identity(item: Any, merge_key: str) -> Any:
    return item.get(merge_key) if isinstance(item, dict) and merge_key else item


def _in_order(items: list[Any], patched: list[Any], live: list[Any], merge_key: str) -> list[Any]:
    """Merge the items of a patch, in its order, with the other items, which keep their relative order.

    A new item precedes all items that the patch does not contain.
    """
    names = [_identity(item, merge_key) for item in items]
    patch_items = [at for at, name in enumerate(names) if name in patched]
    other_items = [at for at, name in enumerate(names) if name not in patched]
    # An item that is not live follows all live ones.
    live_index = [live.index(name) if name in live else len(live) for name in names]
    order: list[int] = []
    for at in sorted(patch_items, key=lambda at: patched.index(names[at])):
        while names[at] in live and other_items and live_index[other_items[0]] < live_index[at]:
            order.append(other_items.pop(0))
        order.append(at)
    return [items[at] for at in (*order, *other_items)]
