"""Assumed claims and volumes that are not yet written to the API: an overlay over a lister."""

from typing import Generic, TypeVar

from moorage.common.errors import MoorageError
from moorage.kube.api.meta import KubeObject
from moorage.scheduler.framework.handle import Lister

T = TypeVar("T", bound=KubeObject)


class OutOfSyncError(MoorageError):
    """An object changed since it was assumed."""


class AssumeCache(Generic[T]):
    """At most one assumed copy per object, valid only while the object has not changed.

    The cache is passive: it receives no events. A copy is valid while the lister's object has the same resourceVersion;
    any newer version from the API, including our own write, replaces it.
    """

    def __init__(self, lister: Lister[T], resource: str) -> None:
        self._lister = lister
        self._resource = resource
        self._assumed: dict[str, T] = {}

    def get(self, name: str, namespace: str = "") -> T | None:
        observed = self._lister.get(name, namespace)
        return None if observed is None else self.latest(observed)

    def latest(self, observed: T) -> T:
        """Return the assumed copy of an observed object, or the object itself."""
        assumed = self._assumed.get(observed.key) if self._assumed else None
        if assumed is None:
            return observed
        if assumed.metadata.resource_version == observed.metadata.resource_version:
            return assumed
        del self._assumed[observed.key]
        return observed

    def known(self, name: str, namespace: str = "") -> T | None:
        """Return an object as last observed."""
        return self._lister.get(name, namespace)

    def assume(self, obj: T) -> None:
        """Assume a changed copy. Raise OutOfSyncError if the object is deleted or has another version."""
        observed = self._lister.get(obj.name, obj.namespace)
        if observed is None:
            raise OutOfSyncError(f'{self._resource} "{obj.key}" not found')
        observed_version, copied = observed.metadata.resource_version, obj.metadata.resource_version
        if observed_version != copied:
            raise OutOfSyncError(f'"{obj.key}" is out of sync (stored: {observed_version}, assume: {copied})')
        self._assumed[obj.key] = obj

    def restore(self, obj: T) -> None:
        """Drop an assumed copy, unless it has another version."""
        assumed = self._assumed.get(obj.key)
        if assumed is not None and assumed.metadata.resource_version == obj.metadata.resource_version:
            del self._assumed[obj.key]
