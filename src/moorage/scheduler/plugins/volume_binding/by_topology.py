"""Items usable from some nodes: finds the first item for a node's labels without testing all of them."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Generic, TypeVar

from moorage.kube.api.selectors import LabelMatcher, NodeMatcher, Requirement

T = TypeVar("T")


class ByTopology(Generic[T]):
    """Items in order of preference, each with the nodes that can use it (``None``: all nodes).

    Clusters have thousands of local disks, each bound to one host name: items that require values of a single label are
    looked up by label value; only the other items are tested one by one.
    """

    def __init__(self, items: Iterable[tuple[T, NodeMatcher | LabelMatcher | None]]) -> None:
        self._items: list[T] = []
        self._tests: list[tuple[int, Callable[[Mapping[str, str]], bool]]] = []
        self._by_label: dict[str, dict[str, list[int]]] = {}
        self.keys: set[str] = set()
        for item, reach in items:
            self._add(item, reach)

    def first(self, labels: Mapping[str, str], excluded: Callable[[T], bool]) -> T | None:
        """Return the most preferred item for a node with these labels, without excluded items."""
        best = len(self._items)
        for key, by_value in self._by_label.items():
            for index in by_value.get(labels[key], ()) if key in labels else ():
                if index >= best:
                    break
                if not excluded(self._items[index]):
                    best = index
        for index, usable in self._tests:
            if index >= best:
                break
            if not excluded(self._items[index]) and usable(labels):
                best = index
        return self._items[best] if best < len(self._items) else None

    def _add(self, item: T, reach: NodeMatcher | LabelMatcher | None) -> None:
        index = len(self._items)
        self._items.append(item)
        if reach is None:
            self._tests.append((index, lambda _: True))
            return
        self.keys.update(requirement.key for requirement in list_requirements(reach))
        if isinstance(reach, NodeMatcher) and (len(reach.terms) != 1 or reach.terms[0].matches_nothing):
            only = None
        else:
            requirements = list_requirements(reach)
            only = requirements[0] if len(requirements) == 1 and requirements[0].operator == "In" else None
        if only is None:
            matches = reach.matches if isinstance(reach, LabelMatcher) else partial(reach.matches, name="")
            self._tests.append((index, matches))
            return
        by_value = self._by_label.setdefault(only.key, {})
        for value in only.values:
            by_value.setdefault(value, []).append(index)


def list_requirements(reach: NodeMatcher | LabelMatcher) -> tuple[Requirement, ...]:
    """Return all label requirements of a selector."""
    if isinstance(reach, LabelMatcher):
        return reach.requirements
    return tuple(requirement for term in reach.terms for requirement in term.expressions)
