"""Admission of devices: fields of disabled features are dropped, as in kube-apiserver."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from moorage.kube.api.struct import Data
from moorage.kube.features import FeatureGates
from moorage.kube.resources import ServedResource

_EACH: Final = "*"
"""In a path: every item of a list, or every value of a mapping."""
_DEVICE: Final = "spec.devices.*"
_REQUEST: Final = "devices.requests.*"
_DERIVED: Final = (f"{_REQUEST}.exactly.derivedAttributes", f"{_REQUEST}.firstAvailable.*.derivedAttributes")
_FIELDS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "resourceslices.resource.k8s.io": {
        "DRAOptionalNodeOperations": ("spec.skipNodeOperations",),
        "DRANodeAllocatableResources": (f"{_DEVICE}.nodeAllocatableResources",),
        "DRAListTypeAttributes": tuple(
            f"{_DEVICE}.attributes.*.{name}" for name in ("ints", "bools", "strings", "versions")
        ),
        "DRADeviceCompatibilityGroups": (f"{_DEVICE}.consumesCounters.*.compatibilityGroups",),
    },
    "resourceclaims.resource.k8s.io": {
        "DRADerivedAttributes": tuple(f"spec.{path}" for path in _DERIVED),
        "DRAOptionalNodeOperations": ("status.allocation.devices.results.*.skipNodeOperations",),
    },
    "resourceclaimtemplates.resource.k8s.io": {
        "DRADerivedAttributes": tuple(f"spec.spec.{path}" for path in _DERIVED),
    },
    "pods": {"DRANodeAllocatableResources": ("status.nodeAllocatableResourceClaimStatuses",)},
}
"""The fields of each feature, by kind."""


class DeviceAdmission:
    """Drops the fields of disabled features from resource slices and claims."""

    def __init__(self, features: FeatureGates) -> None:
        self._off = {
            storage: [
                [path.split(".") for path in paths] for gate, paths in gates.items() if not features.enabled(gate)
            ]
            for storage, gates in _FIELDS.items()
        }

    def drop(self, resource: ServedResource, data: Data, old: Mapping[str, Any] | None = None) -> None:
        """Drop the fields of disabled features, unless the object used the feature before."""
        for paths in self._off.get(resource.storage, ()):
            present = [(parent, name) for parent, name in _parents(data, paths) if name in parent]
            # An object that is being changed may share its parts with the old one: those have nothing to drop.
            if present and (old is None or not any(parent.get(name) for parent, name in _parents(old, paths))):
                for parent, name in present:
                    del parent[name]


def _parents(data: Any, paths: Iterable[list[str]]) -> Iterator[tuple[Data, str]]:
    """Yield the mappings that may contain the fields, with the name of the field."""
    for path in paths:
        *way, name = path
        yield from ((parent, name) for parent in _reached(data, way) if isinstance(parent, dict))


def _reached(data: Any, way: list[str]) -> Iterator[Any]:
    if not way:
        yield data
        return
    first, *tail = way
    items: Iterable[Any]
    if first == _EACH:
        items = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    else:
        items = (data[first],) if isinstance(data, dict) and first in data else ()
    for item in items:
        yield from _reached(item, tail)
