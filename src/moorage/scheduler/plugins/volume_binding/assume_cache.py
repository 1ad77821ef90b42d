"""What was decided about claims and volumes and is not yet in the API: an overlay over a lister."""

from typing import Generic, TypeVar

from moorage.common.errors import MoorageError
from moorage.kube.api.meta import KubeObject
from moorage.scheduler.framework.handle import Lister

T = TypeVar("T", bound=KubeObject)


class OutOfSyncError(MoorageError):
    """An object changed since the decision about it was made."""


class AssumeCache(Generic[T]):
    """At most one assumed copy per object, seen only while the object itself has not changed.

    It is passive: no event reaches it. A copy counts as long as the lister's object has the same resourceVersion, so
    anything newer from the API, our own write included, puts an end to it.
    """

    def __init__(self, lister: Lister[T], resource: str) -> None:
        self._lister = lister
        self._resource = resource
        self._assumed: dict[str, T] = {}

    def get(self, name: str, namespace: str = "") -> T | None:
        """Return an object, as assumed if it is."""
        known = self._lister.get(name, namespace)
        return None if known is None else self.latest(known)

    def latest(self, known: T) -> T:
        """Return what stands for an object that the lister has: the assumed copy, or the object itself."""
        assumed = self._assumed.get(known.key) if self._assumed else None
        if assumed is None:
            return known
        if assumed.metadata.resource_version == known.metadata.resource_version:
            return assumed
        del self._assumed[known.key]
        return known

    def known(self, name: str, namespace: str = "") -> T | None:
        """Return an object as the API last showed it."""
        return self._lister.get(name, namespace)

    def assume(self, thing: T) -> None:
        """Let a changed copy stand for an object; raise if the object is gone or no longer the one it was made from."""
        known = self._lister.get(thing.name, thing.namespace)
        if known is None:
            raise OutOfSyncError(f'{self._resource} "{thing.key}" not found')
        stored, copied = known.metadata.resource_version, thing.metadata.resource_version
        if stored != copied:
            raise OutOfSyncError(f'"{thing.key}" is out of sync (stored: {stored}, assume: {copied})')
        self._assumed[thing.key] = thing

    def restore(self, thing: T) -> None:
        """Drop an assumed copy, unless it was made from another version of the object."""
        assumed = self._assumed.get(thing.key)
        if assumed is not None and assumed.metadata.resource_version == thing.metadata.resource_version:
            del self._assumed[thing.key]
