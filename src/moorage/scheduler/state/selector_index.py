"""Selectors indexed by a required label, so that a label set is compared only with possible matches."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Generic, TypeVar

from moorage.kube.api.selectors import LabelMatcher

T = TypeVar("T")

MAX_PLACES: Final = 64
"""Selectors with more namespaces or values than this are filed for all of them: a product would be too large."""

Namespaces = frozenset[str] | None
"""Some namespaces. ``None`` means all of them."""

Place = tuple[str | None, str, str | None]
"""A namespace (``None``: any), a label key (empty: none is required) and its value (``None``: any)."""


class SelectorIndex(Generic[T]):
    """Items with a selector, each filed under one label that its selector requires.

    A label set is then compared only with the few selectors filed under its labels. The results are candidates: the
    caller still tests the selector.
    """

    def __init__(self) -> None:
        self._filed: dict[Place, dict[T, None]] = {}
        self._keys: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._filed)

    def add(self, item: T, namespaces: Namespaces, matcher: LabelMatcher) -> None:
        """File something under its selector."""
        for slot in places(namespaces, matcher):
            self._filed.setdefault(slot, {})[item] = None
            self._keys[slot[1]] = self._keys.get(slot[1], 0) + 1

    def remove(self, item: T, namespaces: Namespaces, matcher: LabelMatcher) -> None:
        """Take something out that was filed under this selector."""
        for slot in places(namespaces, matcher):
            items = self._filed[slot]
            del items[item]
            if not items:
                del self._filed[slot]
            self._keys[slot[1]] -= 1
            if not self._keys[slot[1]]:
                del self._keys[slot[1]]

    def find(self, namespace: str, labels: Mapping[str, str]) -> list[T]:
        """Return the candidates for a label set of this namespace, each once."""
        if not self._filed:
            return []
        slots: list[Place] = [(namespace, "", None), (None, "", None)] if "" in self._keys else []
        for key, value in labels.items():
            if key in self._keys:
                slots += ((namespace, key, value), (None, key, value), (namespace, key, None), (None, key, None))
        return [item for slot in slots if slot in self._filed for item in self._filed[slot]]


def list_places(namespace: str, labels: Mapping[str, str]) -> Iterator[Place]:
    """Return all places of selectors that may select a label set of this namespace."""
    for name in (namespace, None):
        yield name, "", None
        for key, value in labels.items():
            yield name, key, value
            yield name, key, None


def places(namespaces: Namespaces, matcher: LabelMatcher) -> Iterator[Place]:
    """Return the places of a selector: each label set that it selects has one of them."""
    if matcher.is_nothing:
        return
    # The requirement that fewest label sets can meet: one of some values, any value, or no value.
    best = present = None
    for item in matcher.requirements:
        if item.operator == "In" and (best is None or len(item.values) < len(best.values)):
            best = item
            if len(best.values) == 1:
                break
        elif item.operator == "Exists" and present is None:
            present = item
    if best is not None:
        values: Iterable[str | None] = best.values if len(best.values) <= MAX_PLACES else (None,)
        pairs: list[tuple[str, str | None]] = [(best.key, value) for value in values]
    else:
        pairs = [("" if present is None else present.key, None)]
    for namespace in (None,) if namespaces is None or len(namespaces) > MAX_PLACES else namespaces:
        for key, value in pairs:
            yield namespace, key, value
