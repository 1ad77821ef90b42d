"""JSON patch (RFC 6902), merge patch (RFC 7386) and Kubernetes' strategic merge patch, on plain data."""

import copy
import re
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
"""The bytes that copy operations of a patch may add: repeated copies grow exponentially."""


class FailedTest(ApiError):
    """A test operation of a JSON patch found another value."""


def merge_patch(target: Any, patch: Any) -> Any:
    """Merge: mappings by key, null removes, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, content in patch.items():
        if content is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), content)
    return result


def json_patch(target: Any, operations: Any) -> Any:
    """Apply a list of operations to a copy as kube-apiserver does. The first that fails rejects them all.

    Unlike RFC 6902, ``replace`` adds an absent key, and negative indices count from the end.
    """
    if not isinstance(operations, list) or len(operations) > MAX_OPERATIONS:
        raise bad_request(f"a JSON patch is a list of at most {MAX_OPERATIONS} operations")
    document = copy.deepcopy(target)
    copied = 0
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise bad_request("an operation of a JSON patch is an object with op and path")
        if operation.get("op") == "copy":
            copied += len(msgspec.json.encode(_read(document, operation, _source(operation))))
            if copied > MAX_COPIED:
                reason = f"the accumulated size increase of copy is {copied}, exceeding the limit {MAX_COPIED}"
                raise _cannot(f"Unable to complete the copy, {reason}")
        if operation.get("op") == "replace" and not operation["path"]:
            document = copy.deepcopy(operation.get("value"))
        else:
            _carry_out(document, operation)
    return document


def _carry_out(document: Any, operation: dict[str, Any]) -> None:
    path = operation["path"]
    match operation.get("op"):
        case "add":
            _add(document, operation, copy.deepcopy(operation.get("value")))
        case "remove":
            _remove(document, operation, path)
        case "replace":
            container, key = _container(document, operation, path)
            at = _index(container, key, operation) if isinstance(container, list) else key
            container[at] = copy.deepcopy(operation.get("value"))
        case "move":
            content = _read(document, operation, _source(operation))
            _remove(document, operation, _source(operation))
            _add(document, operation, content)
        case "copy":
            _add(document, operation, copy.deepcopy(_read(document, operation, _source(operation))))
        case "test":
            content = _read(document, operation, path) if path else document
            if content != operation.get("value"):
                error = _cannot(f"testing value {path} failed: test failed")
                raise FailedTest(str(error), status=error.status, reason=error.reason)
        case name:
            raise _cannot(f"Unexpected kind: {name}")


def _source(operation: dict[str, Any]) -> str:
    source = operation.get("from")
    if not isinstance(source, str):
        raise bad_request(f"{operation['op']} {operation['path']}: 'from' is missing")
    return source


def _cannot(reason: str) -> ApiError:
    message = f"the server rejected our request due to an error in our request: {reason}"
    return ApiError(message, status=422, reason="Invalid")


def _container(document: Any, operation: dict[str, Any], path: str) -> tuple[Any, str]:
    """Return the object or the list that a path ends in, and its key."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")]
    container = document if len(steps) > 1 else None
    for key in steps[1:-1]:
        if isinstance(container, list):
            container = container[_index(container, key, operation)]
        else:
            container = container.get(key) if isinstance(container, dict) else None
    if not isinstance(container, dict | list):
        raise _cannot(f'{operation["op"]} operation does not apply: doc is missing path: "{path}": missing value')
    return container, steps[-1]


def _index(items: list[Any], key: str, operation: dict[str, Any], *, end: int = 0) -> int:
    """Return the index of an item. ``end`` is 1 if the position behind the last item is valid."""
    location = f"error in {operation['op']} for path: '{operation['path']}': "
    if re.fullmatch(r"[+-]?[0-9]{1,9}", key) is None:
        raise _cannot(f"{location}value was not a proper array index: '{key}'")
    number, size = int(key), len(items) + end
    if not -size <= number < size:
        raise _cannot(f"{location}Unable to access invalid index: {number}: invalid index referenced")
    return number % size


def _read(document: Any, operation: dict[str, Any], path: str) -> Any:
    container, key = _container(document, operation, path)
    if isinstance(container, list):
        return container[_index(container, key, operation)]
    return container.get(key)


def _add(document: Any, operation: dict[str, Any], content: Any) -> None:
    container, key = _container(document, operation, operation["path"])
    if isinstance(container, dict):
        container[key] = content
    else:
        container.insert(len(container) if key == "-" else _index(container, key, operation, end=1), content)


def _remove(document: Any, operation: dict[str, Any], path: str) -> None:
    container, key = _container(document, operation, path)
    if isinstance(container, list):
        del container[_index(container, key, operation)]
    elif key in container:
        del container[key]
    else:
        raise _cannot(f"error in remove for path: '{path}': Unable to remove nonexistent key: {key}: missing value")


def strategic_merge(target: Any, patch: Any, schema: Schema | None) -> Any:
    """Merge by the schema of the type: lists with a merge key item by item, other lists as a unit."""
    if not isinstance(patch, dict):
        return patch
    if patch.get(DIRECTIVE) == "replace":
        return {key: content for key, content in patch.items() if key != DIRECTIVE}
    if patch.get(DIRECTIVE) == "delete":
        return {}
    result = dict(target) if isinstance(target, dict) else {}
    if isinstance(retained := patch.get(RETAIN), list):
        result = {key: content for key, content in result.items() if key in retained}
    for key, content in patch.items():
        if key in (DIRECTIVE, RETAIN) or key.startswith(ORDER):
            continue
        if key.startswith(DELETE_PRIMITIVES):
            name = key.removeprefix(DELETE_PRIMITIVES)
            if isinstance(result.get(name), list) and isinstance(content, list):
                result[name] = [item for item in result[name] if item not in content]
        elif content is None:
            result.pop(key, None)
        else:
            result[key] = _merged_field(result.get(key), content, schema.field(key) if schema else None)
    _reorder(result, target if isinstance(target, dict) else {}, patch, schema)
    return result


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
