"""The store seen through our structs, past the API's rules: simulations and tests put things into it as they are."""

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
        found = self.store.get(_storage(kind), f"{namespace}/{name}" if namespace else name)
        return found.typed(kind) if found is not None else None

    def list(self, kind: type[T]) -> Iterator[T]:
        """Go through all objects of a kind, oldest first."""
        return (entry.typed(kind) for entry in self.store.list(_storage(kind)))

    def current(self, thing: T) -> T:
        """Return an object as it is now; :class:`NotFound` if it is gone, or another one has its name."""
        found = self.get(type(thing), thing.name, thing.namespace)
        if found is None or (thing.uid and found.uid != thing.uid):
            raise NotFound(f'{type(thing).__name__.lower()}s "{thing.name}" not found')
        return found

    def create(self, thing: T) -> T:
        """Store a new object; it gets a uid and a creation time if it has none."""
        number = self.store.version + 1
        if not thing.name and thing.metadata.generate_name:
            thing = replace(thing, metadata=replace(thing.metadata, name=f"{thing.metadata.generate_name}{number}"))
        if self.store.get(_storage(type(thing)), thing.key) is not None:
            raise AlreadyExists(f'{type(thing).__name__.lower()}s "{thing.name}" already exists')
        return self.put(thing)

    def put(self, thing: T) -> T:
        """Store an object, whatever was there under its name; it gets a uid and a creation time if it has none."""
        number = self.store.version + 1
        meta = replace(
            thing.metadata,
            uid=thing.uid or f"uid-of-{number}",
            creation_timestamp=thing.metadata.creation_timestamp or format_time(self._clock.now()),
        )
        return self.store.put_typed(_storage(type(thing)), replace(thing, metadata=meta))

    def update(self, thing: T) -> T:
        """Replace an object by a changed one made from its current version."""
        before = self.current(thing)
        if thing.metadata.resource_version not in ("", before.metadata.resource_version):
            found, wanted = before.metadata.resource_version, thing.metadata.resource_version
            raise Conflict(f"{thing.key} was changed meanwhile: it has version {found}, the update is of {wanted}")
        return self._write(before, thing)

    def remove(self, thing: KubeObject) -> None:
        """Take an object out for good."""
        self.current(thing)
        self.store.remove(_storage(type(thing)), thing.key)

    def _write(self, before: T, after: T) -> T:
        resource = _storage(type(after))
        entry = self.store.get(resource, after.key)
        if entry is None or entry.is_typed:
            return self.store.put_typed(resource, after)
        # It was written as JSON: the fields our structs do not know stay as they are.
        data = apply_difference(entry.data, to_data(before), to_data(after))
        return self.store.put(resource, after.key, data).typed(type(after))


@cache
def _storage(kind: type[KubeObject]) -> str:
    return storage.storage_of(kind)


def _kinds() -> Mapping[str, type[KubeObject]]:
    return _kinds_of(len(BY_TYPE))


@cache
def _kinds_of(_count: int) -> Mapping[str, type[KubeObject]]:
    """Find the struct of a resource; asked again when plugins have added kinds."""
    return {storage.storage_of(kind): kind for kind in BY_TYPE}
