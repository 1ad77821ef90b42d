"""Shrinks a cluster with a difference to the smallest one that still has it."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

from tests.conformance.generator import Case

StillDiffers = Callable[[Case], bool]


def shrink(case: Case, still_differs: StillDiffers, *, budget: int = 1000) -> Case:
    """Remove objects, then fields, while the difference remains, within a budget of requests."""
    tries = _Tries(still_differs, budget)
    while True:
        smaller = _without_fields(_without_config(_without_objects(case, tries), tries), tries)
        if smaller == case or tries.left <= 0:
            return smaller
        case = smaller


class _Tries:
    """Counts the remaining requests."""

    def __init__(self, still_differs: StillDiffers, budget: int) -> None:
        self._still_differs = still_differs
        self.left = budget

    def succeeds(self, case: Case) -> bool:
        if self.left <= 0:
            return False
        self.left -= 1
        return self._still_differs(case)


def _without_objects(case: Case, tries: _Tries) -> Case:
    """Remove sequences of objects, from half of the objects down to single ones."""
    size = max(len(case.objects) // 2, 1)
    while True:
        start = 0
        while start < len(case.objects):
            fewer = replace(case, objects=case.objects[:start] + case.objects[start + size :])
            if tries.succeeds(fewer):
                case = fewer
            else:
                start += size
        if size == 1:
            return case
        size //= 2


def _without_config(case: Case, tries: _Tries) -> Case:
    if case.config is None:
        return case
    if tries.succeeds(plain := replace(case, config=None)):
        return plain
    return _simplified(case, tries, get=lambda item: item.config, put=lambda item, part: replace(item, config=part))


def _without_fields(case: Case, tries: _Tries) -> Case:
    for index in range(len(case.objects)):

        def get(item: Case, at: int = index) -> Any:
            return item.objects[at]

        def put(item: Case, part: Any, at: int = index) -> Case:
            return replace(item, objects=[*item.objects[:at], part, *item.objects[at + 1 :]])

        case = _simplified(case, tries, get=get, put=put)
    return case


def _simplified(case: Case, tries: _Tries, *, get: Callable[[Case], Any], put: Callable[[Case, Any], Case]) -> Case:
    """Remove the parts of an object one by one, large parts first."""
    dropped = True
    while dropped:
        dropped = False
        for path in sorted(_paths(get(case)), key=len):
            if not _has(get(case), path):
                continue
            smaller = put(case, _without(get(case), path))
            if tries.succeeds(smaller):
                case, dropped = smaller, True
                break
    return case


def _paths(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all optional parts."""
    entries = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, part in entries:
        here = (*path, key)
        if here not in (("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"), ("profiles",)):
            yield here
        yield from _paths(part, here)


def _has(content: Any, path: tuple[Any, ...]) -> bool:
    for key in path:
        present = key in content if isinstance(content, dict) else isinstance(content, list) and key < len(content)
        if not present:
            return False
        content = content[key]
    return True


def _without(content: Any, path: tuple[Any, ...]) -> Any:
    copied = deepcopy(content)
    parent = copied
    for key in path[:-1]:
        parent = parent[key]
    del parent[path[-1]]
    return copied
