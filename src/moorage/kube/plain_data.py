"""Objects as plain data: following a path, and applying the changes of a struct."""

from typing import Any


def apply_difference(data: Any, before: Any, after: Any) -> Any:
    """Apply the difference between ``before`` and ``after`` to ``data``. Fields without a struct member are kept.

    The items of lists of equal length are taken to be the same items; a list that grew or shrank is replaced.

    >>> stored = {"image": "web", "ports": [{"name": "a", "x": 1}]}
    >>> apply_difference(stored, {"ports": [{}]}, {"ports": [{"protocol": "TCP"}]})
    {'image': 'web', 'ports': [{'name': 'a', 'x': 1, 'protocol': 'TCP'}]}
    """
    if isinstance(data, dict) and isinstance(after, dict) and isinstance(before, dict):
        for key, new in after.items():
            old = before.get(key)
            if new != old:
                data[key] = apply_difference(data.get(key), old, new)
        for key in before:
            if key not in after:
                data.pop(key, None)
        return data
    if isinstance(data, list) and isinstance(after, list | tuple) and isinstance(before, list | tuple):
        if len(data) == len(after) == len(before):
            return [apply_difference(*items) for items in zip(data, before, after, strict=True)]
        return list(after)
    if isinstance(after, dict):
        return dict(after)
    return list(after) if isinstance(after, tuple) else after


def find(data: Any, path: str, default: Any = "") -> Any:
    """Follow a dotted path through mappings."""
    for name in path.split("."):
        if not isinstance(data, dict) or data.get(name) is None:
            return default
        data = data[name]
    return data
