"""Every other kind of object the plugins asked for, as last heard of."""

from collections.abc import Iterator
from typing import Any, Final, Generic, TypeVar

from moorage.api.meta import KubeObject

T = TypeVar("T", bound=KubeObject)

LONGEST_LOG: Final = 1 << 16


class Shelf(Generic[T]):
    """All objects of one kind; ``version`` grows whenever one of them changes."""

    def __init__(self) -> None:
        self._objects: dict[str, T] = {}
        self._by_namespace: dict[str, dict[str, T]] = {}
        self._changed: list[str] = []
        self.version = 0

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, name: str, namespace: str = "") -> T | None:
        """Return one object, or ``None``."""
        return self._by_namespace.get(namespace, {}).get(name)

    def find(self, key: str) -> T | None:
        """Return the object of this ``namespace/name`` (the name alone for cluster-wide kinds), or ``None``."""
        return self._objects.get(key)

    def changed_since(self, version: int) -> list[str] | None:
        """Return the keys of what changed since a version, or ``None`` if that is too long ago to tell."""
        if version == self.version:
            return []
        start = version - (self.version - len(self._changed))
        return self._changed[start:] if start >= 0 else None

    def list(self, namespace: str | None = None) -> Iterator[T]:
        """Go through all objects, or those of a namespace, in the order in which they appeared."""
        return iter((self._objects if namespace is None else self._by_namespace.get(namespace, {})).values())

    def put(self, thing: T) -> T | None:
        """Take in an object, new or changed; return what it replaces."""
        key, meta = thing.key, thing.metadata
        before = self._objects.get(key)
        self._objects[key] = thing
        if meta.namespace not in self._by_namespace:
            self._by_namespace[meta.namespace] = {}
        self._by_namespace[meta.namespace][meta.name] = thing
        self._note(key)
        return before

    def drop(self, thing: KubeObject) -> T | None:
        """Take an object out; return it as it was known."""
        before = self._objects.pop(thing.key, None)
        if before is not None:
            del self._by_namespace[thing.namespace][thing.name]
            self._note(thing.key)
        return before

    def _note(self, key: str) -> None:
        self.version += 1
        self._changed.append(key)
        if len(self._changed) > LONGEST_LOG:
            del self._changed[: LONGEST_LOG // 2]


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
