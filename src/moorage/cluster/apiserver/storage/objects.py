"""Typed access to the store without the API's rules, for simulations and tests."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from msgspec.structs import replace

from moorage.cluster.apiserver.storage import store as storage
from moorage.common.clock import Clock
from moorage.common.errors import AlreadyExists, Conflict, NotFound
from moorage.kube.api.codec import to_data
from moorage.kube.api.kinds import BY_TYPE
from moorage.kube.api.meta import KubeObject, format_time
from moorage.kube.plain_data import apply_difference

T = TypeVar("T", bound=KubeObject)


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """One change: ``before`` is ``None`` for a creation, ``after`` for a deletion."""

    version: int
    before: KubeObject | None
    after: KubeObject | None


class ObjectStore:
    """All objects of a cluster, as structs."""

    def __init__(self, clock: Clock, store: storage.Store | None = None) -> None:
        self.store = store or storage.Store()
        self._clock = clock

    def subscribe(self, callback: Callable[[ObjectChange], None]) -> None:
        """Call back with every change from now on, of the kinds that have a struct."""

        def typed(resource: str, change: storage.StoredChange) -> None:
            kind = _kinds().get(resource)
            if kind is not None:
                before = change.before.typed(kind) if change.before is not None else None
                callback(
                    ObjectChange(change.version, before, change.after.typed(kind) if change.after is not None else None)
                )

        self.store.subscribe(typed)

    def get(self, kind: type[T], name: str, namespace: str = "") -> T | None:
        """Return one object, or ``None``."""
        entry = self.store.get(_storage(kind), f"{namespace}/{name}" if namespace else name)
        return entry.typed(kind) if entry is not None else None

    def list(self, kind: type[T]) -> Iterator[T]:
        """Go through all objects of a kind, oldest first."""
        return (entry.typed(kind) for entry in self.store.list(_storage(kind)))

    def current(self, obj: T) -> T:
        """Return the current version of an object; :class:`NotFound` if it was deleted or replaced."""
        stored = self.get(type(obj), obj.name, obj.namespace)
        if stored is None or (obj.uid and stored.uid != obj.uid):
            raise NotFound(f'{type(obj).__name__.lower()}s "{obj.name}" not found')
        return stored

    def create(self, obj: T) -> T:
        """Store a new object; it gets a uid and a creation time if it has none."""
        number = self.store.version + 1
        if not obj.name and obj.metadata.generate_name:
            obj = replace(obj, metadata=replace(obj.metadata, name=f"{obj.metadata.generate_name}{number}"))
        if self.store.get(_storage(type(obj)), obj.key) is not None:
            raise AlreadyExists(f'{type(obj).__name__.lower()}s "{obj.name}" already exists')
        return self.put(obj)

    def put(self, obj: T) -> T:
        """Store an object, whatever was there under its name; it gets a uid and a creation time if it has none."""
        number = self.store.version + 1
        meta = replace(
            obj.metadata,
            uid=obj.uid or f"uid-of-{number}",
            creation_timestamp=obj.metadata.creation_timestamp or format_time(self._clock.now()),
        )
        return self.store.put_typed(_storage(type(obj)), replace(obj, metadata=meta))

    def update(self, obj: T) -> T:
        """Replace an object by a changed one made from its current version."""
        before = self.current(obj)
        if obj.metadata.resource_version not in ("", before.metadata.resource_version):
            stored_version, base_version = before.metadata.resource_version, obj.metadata.resource_version
            raise Conflict(
                f"{obj.key} was modified: it has version {stored_version}, the update is based on {base_version}"
            )
        return self._write(before, obj)

    def remove(self, obj: KubeObject) -> None:
        """Delete an object immediately."""
        self.current(obj)
        self.store.remove(_storage(type(obj)), obj.key)

    def _write(self, before: T, after: T) -> T:
        resource = _storage(type(after))
        entry = self.store.get(resource, after.key)
        if entry is None or entry.is_typed:
            return self.store.put_typed(resource, after)
        # The entry was written as JSON: fields that are not in our structs are preserved.
        data = apply_difference(entry.data, to_data(before), to_data(after))
        return self.store.put(resource, after.key, data).typed(type(after))


@cache
def _storage(kind: type[KubeObject]) -> str:
    return storage.storage_of(kind)


def _kinds() -> Mapping[str, type[KubeObject]]:
    return _kinds_of(len(BY_TYPE))


@cache
def _kinds_of(_count: int) -> Mapping[str, type[KubeObject]]:
    """Return the struct of a resource; looked up again after plugins have added kinds."""
    return {storage.storage_of(kind): kind for kind in BY_TYPE}
