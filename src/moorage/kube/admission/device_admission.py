"""Admission of devices as in kube-apiserver: fields of disabled features are dropped, and new selectors are checked."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from moorage.kube.api.struct import Data
from moorage.kube.cel.tokens import has_name
from moorage.kube.features import FeatureGates
from moorage.kube.field_errors import FieldError, forbidden_field, invalid_value
from moorage.kube.resources import ServedResource

_CLAIM_TEMPLATES: Final = "resourceclaimtemplates.resource.k8s.io"
CLAIMS: Final = frozenset(("resourceclaims.resource.k8s.io", _CLAIM_TEMPLATES))
ADMIN_LABEL: Final = "resource.kubernetes.io/admin-access"
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
_REQUESTS: Final = (f"{_REQUEST}.exactly.selectors", f"{_REQUEST}.firstAvailable.*.selectors")
_SELECTORS: Final[Mapping[str, tuple[str, ...]]] = {
    "deviceclasses.resource.k8s.io": ("spec.selectors",),
    "resourceclaims.resource.k8s.io": tuple(f"spec.{path}" for path in _REQUESTS),
    "resourceclaimtemplates.resource.k8s.io": tuple(f"spec.spec.{path}" for path in _REQUESTS),
}
"""The lists of device selectors, by kind."""


class DeviceAdmission:
    """Drops the fields of disabled features from resource slices and claims, and checks new selectors."""

    def __init__(self, features: FeatureGates) -> None:
        self._off = {
            storage: [
                [path.split(".") for path in paths] for gate, paths in gates.items() if not features.enabled(gate)
            ]
            for storage, gates in _FIELDS.items()
        }
        # New expressions may use only features that every API server supports. Stored ones continue to work.
        self._has_masks = features.compatible_since(1, 38)

    def drop(self, resource: ServedResource, data: Data, old: Mapping[str, Any] | None = None) -> None:
        """Drop the fields of disabled features, unless the object used the feature before."""
        for paths in self._off.get(resource.storage, ()):
            present = [(parent, name) for parent, name in _parents(data, paths) if name in parent]
            # An object that is being changed may share its parts with the old one: those have nothing to drop.
            if present and (old is None or not any(parent.get(name) for parent, name in _parents(old, paths))):
                for parent, name in present:
                    del parent[name]

    def selector_problems(
        self, resource: ServedResource, data: Data, old: Mapping[str, Any] | None = None
    ) -> Iterator[FieldError]:
        """Yield the errors of new selectors that call ``isMask`` before all API servers support it."""
        if self._has_masks:
            return
        for path in _SELECTORS.get(resource.storage, ()):
            old_expressions = {text for _, text in _expressions(old or {}, path)}
            for field, expression in _expressions(data, path):
                if expression not in old_expressions and has_name(expression, "isMask"):
                    text = "compilation failed: ERROR: undeclared reference to 'isMask' (in container '')"
                    yield invalid_value(field, expression, text)


def _expressions(data: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Yield the field path and the text of each expression in the lists at a path."""
    for location, selectors in _locate(data, path.split("."), ""):
        for number, selector in enumerate(selectors if isinstance(selectors, list) else ()):
            cel = selector.get("cel") if isinstance(selector, dict) else None
            expression = cel.get("expression") if isinstance(cel, dict) else None
            if isinstance(expression, str):
                yield f"{location}[{number}].cel.expression", expression


def _locate(data: Any, path: list[str], location: str) -> Iterator[tuple[str, Any]]:
    """Yield the values at a path with their locations. ``*`` selects every item of a list."""
    if not path:
        yield location, data
    elif path[0] == _EACH:
        for number, item in enumerate(data if isinstance(data, list) else ()):
            yield from _locate(item, path[1:], f"{location}[{number}]")
    elif isinstance(data, Mapping) and path[0] in data:
        yield from _locate(data[path[0]], path[1:], f"{location}.{path[0]}".removeprefix("."))


def find_admin_access(resource: ServedResource, data: Data, labels: Mapping[str, str]) -> Iterator[FieldError]:
    """Yield the first request of a new claim for admin access, unless the labels of its namespace permit it."""
    if resource.storage not in CLAIMS or labels.get(ADMIN_LABEL) == "true":
        return
    spec = data.get("spec") or {}
    spec = spec.get("spec") or {} if resource.storage == _CLAIM_TEMPLATES else spec
    for number, request in enumerate((spec.get("devices") or {}).get("requests") or ()):
        if (request.get("exactly") or {}).get("adminAccess"):
            reason = f"admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace"
            yield forbidden_field(f"spec.devices.requests[{number}].adminAccess", reason)
            return


def _parents(data: Any, paths: Iterable[list[str]]) -> Iterator[tuple[Data, str]]:
    """Yield the mappings that may contain the fields, with the name of the field."""
    for path in paths:
        *parent_path, name = path
        yield from ((parent, name) for parent in _reach(data, parent_path) if isinstance(parent, dict))


def _reach(data: Any, path: list[str]) -> Iterator[Any]:
    if not path:
        yield data
        return
    first, *tail = path
    items: Iterable[Any]
    if first == _EACH:
        items = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    else:
        items = (data[first],) if isinstance(data, dict) and first in data else ()
    for item in items:
        yield from _reach(item, tail)
