"""Typed access to the store without the API's rules, for simulations and tests."""

from collections.abc import Iterator
from functools import cache
from typing import TypeVar

from msgspec.structs import replace

from moorage.cluster.apiserver.storage import store as storage
from moorage.common.clock import Clock
from moorage.common.errors import AlreadyExists, Conflict, NotFound
from moorage.kube.api.codec import to_data
from moorage.kube.api.meta import KubeObject, format_time
from moorage.kube.plain_data import apply_difference

T = TypeVar("T", bound=KubeObject)


class ObjectStore:
    """All objects of a cluster, as structs."""

    def __init__(self, clock: Clock, store: storage.Store | None = None) -> None:
        self.store = store or storage.Store()
        self._clock = clock

    def get(self, kind: type[T], name: str, namespace: str = "") -> T | None:
        """Return one object, or ``None``."""
        entry = self.store.get(_storage(kind), f"{namespace}/{name}" if namespace else name)
        return entry.typed(kind) if entry is not None else None

    def list(self, kind: type[T]) -> Iterator[T]:
        """Return all objects of a kind, oldest first."""
        return (entry.typed(kind) for entry in self.store.list(_storage(kind)))

    def current(self, obj: T) -> T:
        """Return the current version of an object; :class:`NotFound` if it was deleted or replaced."""
        current_object = self.get(type(obj), obj.name, obj.namespace)
        if current_object is None or (obj.uid and current_object.uid != obj.uid):
            raise NotFound(f'{type(obj).__name__.lower()}s "{obj.name}" not found')
        return current_object

    def create(self, obj: T) -> T:
        """Store a new object. It gets a uid and a creation time if it has none."""
        number = self.store.version + 1
        if not obj.name and obj.metadata.generate_name:
            obj = replace(obj, metadata=replace(obj.metadata, name=f"{obj.metadata.generate_name}{number}"))
        if self.store.get(_storage(type(obj)), obj.key) is not None:
            raise AlreadyExists(f'{type(obj).__name__.lower()}s "{obj.name}" already exists')
        return self.put(obj)

    def put(self, obj: T) -> T:
        """Store an object, also over an existing one. It gets a UID and a creation time if it has none."""
        number = self.store.version + 1
        meta = replace(
            obj.metadata,
            uid=obj.uid or f"uid-of-{number}",
            creation_timestamp=obj.metadata.creation_timestamp or format_time(self._clock.now()),
        )
        return self.store.put_typed(_storage(type(obj)), replace(obj, metadata=meta))

    def update(self, obj: T) -> T:
        """Replace the current version of an object."""
        before = self.current(obj)
        if obj.metadata.resource_version not in ("", before.metadata.resource_version):
            stored_version, base_version = before.metadata.resource_version, obj.metadata.resource_version
            raise Conflict(
                f"{obj.key} was modified: it has version {stored_version}, the update is based on {base_version}"
            )
        resource = _storage(type(obj))
        entry = self.store.get(resource, obj.key)
        if entry is None or entry.is_typed:
            return self.store.put_typed(resource, obj)
        # The entry was written as JSON: fields that are not in our structs are preserved.
        data = apply_difference(entry.data, to_data(before), to_data(obj))
        return self.store.put(resource, obj.key, data).typed(type(obj))

    def remove(self, obj: KubeObject) -> None:
        """Delete an object immediately."""
        self.current(obj)
        self.store.remove(_storage(type(obj)), obj.key)


@cache
def _storage(kind: type[KubeObject]) -> str:
    return storage.storage_name(kind)
