"""Patches of objects, which preserve fields without a struct member."""

from collections.abc import Mapping
from typing import Any

from moorage.kube.api.codec import to_data
from moorage.kube.api.kinds import BUILT_IN
from moorage.kube.api.meta import KubeObject


def is_custom(obj: KubeObject) -> bool:
    """Return whether an object is a custom resource."""
    return type(obj) not in BUILT_IN


def has_been_patched(content: Mapping[str, Any], patch: Mapping[str, Any]) -> bool:
    """Return whether an object contains all values of a JSON merge patch, regardless of its version.

    >>> has_been_patched({"metadata": {"resourceVersion": "8"}, "b": 1}, {"metadata": {"resourceVersion": "7"}, "b": 1})
    True
    >>> has_been_patched({"b": {"c": 1}}, {"b": {"c": None}})
    False
    """
    for key, value in patch.items():
        current = content.get(key)
        if isinstance(current, dict) and isinstance(value, dict):
            if not has_been_patched(current, value):
                return False
        elif current != value and key != "resourceVersion":
            return False
    return True


def patch_between(before: KubeObject, after: KubeObject) -> dict[str, Any]:
    """Return the JSON merge patch that makes one version of an object of another."""
    if is_custom(after) or after.holds_json:
        return difference(to_data(before), to_data(after))
    # An update replaces status or metadata: identical parts need not be encoded.
    names = [name for name in after.__struct_fields__ if getattr(before, name) is not getattr(after, name)]
    return difference(to_data(_part(before, names)), to_data(_part(after, names)))


def _part(obj: KubeObject, names: list[str]) -> KubeObject:
    return type(obj)(**{name: getattr(obj, name) for name in names})


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON merge patch from one object to the other; removed fields become null.

    >>> difference({"a": 1, "b": {"c": 1, "d": 2}}, {"b": {"c": 1, "d": 3}})
    {'b': {'d': 3}, 'a': None}
    """
    patch: dict[str, Any] = {}
    for key, new in after.items():
        old = before.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            if inner := difference(old, new):
                patch[key] = inner
        elif old != new:
            patch[key] = new
    patch.update((key, None) for key in before if key not in after)
    return patch
