"""Every other kind of object the plugins asked for, as last heard of."""

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from moorage.api.meta import KubeObject

T = TypeVar("T", bound=KubeObject)


class Shelf(Generic[T]):
    """All objects of one kind; ``version`` grows whenever one of them changes."""

    def __init__(self) -> None:
        self._objects: dict[str, T] = {}
        self._by_namespace: dict[str, dict[str, T]] = {}
        self.version = 0

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, name: str, namespace: str = "") -> T | None:
        """Return one object, or ``None``."""
        return self._by_namespace.get(namespace, {}).get(name)

    def list(self, namespace: str | None = None) -> Iterator[T]:
        """Go through all objects, or those of a namespace, in the order in which they appeared."""
        return iter((self._objects if namespace is None else self._by_namespace.get(namespace, {})).values())

    def put(self, thing: T) -> T | None:
        """Take in an object, new or changed; return what it replaces."""
        before = self._objects.get(thing.key)
        self._objects[thing.key] = thing
        self._by_namespace.setdefault(thing.namespace, {})[thing.name] = thing
        self.version += 1
        return before

    def drop(self, thing: KubeObject) -> T | None:
        """Take an object out; return it as it was known."""
        before = self._objects.pop(thing.key, None)
        if before is not None:
            del self._by_namespace[thing.namespace][thing.name]
            self.version += 1
        return before


class Objects:
    """A shelf per kind, made when first asked for."""

    def __init__(self) -> None:
        self._shelves: dict[type[KubeObject], Shelf[Any]] = {}

    def __getitem__(self, kind: type[T]) -> Shelf[T]:
        shelf = self._shelves.get(kind)
        if shelf is None:
            shelf = self._shelves[kind] = Shelf()
        return shelf

    def kinds(self) -> tuple[type[KubeObject], ...]:
        """Return the kinds somebody asked for."""
        return tuple(self._shelves)
