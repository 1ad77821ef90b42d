"""All objects by kind, as last received from the API, and the log of their changes.

The log is the only source of changes since a position. Rows of nodes and counts have their own logs.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, Generic, TypeVar

from moorage.kube.api.meta import KubeObject

T = TypeVar("T", bound=KubeObject)
C = TypeVar("C")

MAX_LENGTH: Final = 1 << 16
MIN_LENGTH: Final = 1024
"""The minimum length of a change log. It grows with the number of objects."""


class ChangeLog(Generic[C]):
    """A log with positions. A reader remembers ``position`` and later calls ``since`` for the changes after it.

    Only the latest changes are kept: for an older position ``since`` returns ``None``, and the reader starts over.

    >>> log = ChangeLog[int]()
    >>> seen = log.position
    >>> log.note(3)
    >>> log.since(seen)
    [3]
    """

    __slots__ = ("_changes", "_start", "max_length", "position")

    def __init__(self, max_length: int = MAX_LENGTH) -> None:
        self.max_length = max_length
        self._changes: list[C] = []
        self._start = 0
        self.position = 0
        """The end of the log: how many changes there ever were."""

    def note(self, change: C) -> None:
        """Write a change down."""
        self._changes.append(change)
        self.position += 1
        if self.position - self._start > self.max_length:
            # Half at a time, so that forgetting costs next to nothing for each change.
            surplus = (self.position - self._start) // 2
            del self._changes[:surplus]
            self._start += surplus

    def since(self, position: int) -> list[C] | None:
        """Return the changes since a position, or ``None`` if the log is truncated."""
        return None if position < self._start else self._changes[position - self._start :]


class ObjectCache(Generic[T]):
    """All objects of the same kind, and the log of their changes; plugins use it as a Lister."""

    def __init__(self) -> None:
        self._objects: dict[str, T] = {}
        self._by_namespace: dict[str, dict[str, T]] = {}
        self._log = ChangeLog[str](MIN_LENGTH)

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
        """Return the keys of objects changed since a version, or ``None`` if the log is truncated."""
        return self._log.since(version)

    def list(self, namespace: str | None = None) -> Iterator[T]:
        """Iterate over all objects, or those of a namespace, in the order in which they appeared."""
        return iter((self._objects if namespace is None else self._by_namespace.get(namespace, {})).values())

    def put(self, obj: T) -> T | None:
        """Add or replace an object. Return the replaced one."""
        key, meta = obj.key, obj.metadata
        before = self._objects.get(key)
        self._objects[key] = obj
        if meta.namespace not in self._by_namespace:
            self._by_namespace[meta.namespace] = {}
        self._by_namespace[meta.namespace][meta.name] = obj
        if before is None:
            self._log.max_length = min(max(MIN_LENGTH, len(self._objects)), MAX_LENGTH)
        self._log.note(key)
        return before

    def drop(self, obj: KubeObject) -> T | None:
        """Remove an object. Return its cached version."""
        before = self._objects.pop(obj.key, None)
        if before is not None:
            of_namespace = self._by_namespace[obj.namespace]
            del of_namespace[obj.name]
            if not of_namespace:
                del self._by_namespace[obj.namespace]
            self._log.note(obj.key)
        return before


class Objects:
    """A cache per kind, created at first use."""

    def __init__(self) -> None:
        self._caches: dict[type[KubeObject], ObjectCache[Any]] = {}

    def __getitem__(self, kind: type[T]) -> ObjectCache[T]:
        cache = self._caches.get(kind)
        if cache is None:
            cache = self._caches[kind] = ObjectCache()
        return cache

    def forget(self, kinds: Iterable[type[KubeObject]]) -> None:
        """Drop the caches of kinds that are no longer listed."""
        for kind in kinds:
            self._caches.pop(kind, None)

    def kinds(self) -> tuple[type[KubeObject], ...]:
        """Return the listed kinds."""
        return tuple(self._caches)
