"""Extended resources backed by device classes: the class of a resource name."""

from typing import Final

from moorage.kube.api.devices import DeviceClass
from moorage.kube.api.meta import parse_time
from moorage.scheduler.framework.handle import Handle, Lister

IMPLICIT_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""Prefix of the resource name that every class has implicitly."""


class ExtendedResourceClasses:
    """Device classes by the extended resource name under which pods request their devices."""

    def __init__(self, classes: Lister[DeviceClass]) -> None:
        self._classes = classes
        self._by_resource: dict[str, DeviceClass] = {}
        self._read_at = -1

    @property
    def version(self) -> int:
        """The version of the classes; it grows with every change."""
        return self._classes.version

    def find(self, resource: str) -> DeviceClass | None:
        """Return the class that backs a resource, if any."""
        if resource.startswith(IMPLICIT_PREFIX):
            return self._classes.get(resource.removeprefix(IMPLICIT_PREFIX))
        if self._read_at != self._classes.version:
            self._read()
        return self._by_resource.get(resource)

    def _read(self) -> None:
        self._by_resource = {}
        # As upstream, the newest class of a resource wins; with equal age, the first by name.
        for item in sorted(self._classes.list(), key=lambda item: item.name, reverse=True):
            resource = item.spec.extended_resource_name
            if resource:
                rival = self._by_resource.get(resource)
                if rival is None or _created(item) >= _created(rival):
                    self._by_resource[resource] = item
        self._read_at = self._classes.version


class NoClasses(ExtendedResourceClasses):
    """No resource is backed by devices; used if the feature is off."""

    def find(self, resource: str) -> DeviceClass | None:
        """Return no class."""
        return None


def extended_classes(handle: Handle) -> ExtendedResourceClasses:
    """Return the classes that back resources; no classes if the feature is off."""
    kind = ExtendedResourceClasses if handle.features.enabled("DRAExtendedResource") else NoClasses
    return kind(handle.lister(DeviceClass))


def _created(item: DeviceClass) -> float:
    moment = item.metadata.creation_timestamp
    return parse_time(moment) if moment else float("-inf")
