"""Every other kind of object the plugins asked for, as the API last reported them."""

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from moorage.api.meta import KubeObject
from moorage.state.change_log import ChangeLog

T = TypeVar("T", bound=KubeObject)


class ObjectCache(Generic[T]):
    """All objects of one kind, and a log of what changed; plugins see it as a Lister."""

    def __init__(self) -> None:
        self._objects: dict[str, T] = {}
        self._by_namespace: dict[str, dict[str, T]] = {}
        self._log = ChangeLog[str]()

    @property
    def version(self) -> int:
        """A number that grows whenever one of the objects changes."""
        return self._log.position

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
        return self._log.since(version)

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
        self._log.note(key)
        return before

    def drop(self, thing: KubeObject) -> T | None:
        """Take an object out; return it as it was known."""
        before = self._objects.pop(thing.key, None)
        if before is not None:
            del self._by_namespace[thing.namespace][thing.name]
            self._log.note(thing.key)
        return before


class Objects:
    """A cache per kind, made when first asked for."""

    def __init__(self) -> None:
        self._caches: dict[type[KubeObject], ObjectCache[Any]] = {}

    def __getitem__(self, kind: type[T]) -> ObjectCache[T]:
        cache = self._caches.get(kind)
        if cache is None:
            cache = self._caches[kind] = ObjectCache()
        return cache

    def kinds(self) -> tuple[type[KubeObject], ...]:
        """Return the kinds somebody asked for."""
        return tuple(self._caches)
