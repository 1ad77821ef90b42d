"""Claims, volumes and storage classes; nodes, and priority classes."""

from collections.abc import Iterator
from typing import Final

from moorage.kube.admission.checks.amounts import not_less_than_nothing
from moorage.kube.admission.checks.names import POSITIVE
from moorage.kube.admission.checks.placement import taints
from moorage.kube.admission.checks.selectors import label_selector, node_selector
from moorage.kube.api.quantity import nano_value
from moorage.kube.api.struct import Data
from moorage.kube.field_errors import FieldError, forbidden_field, invalid_value, required_value, unsupported_value

MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
BINDING: Final = ("Immediate", "WaitForFirstConsumer")
SYSTEM_CLASSES: Final = ("system-cluster-critical", "system-node-critical")
_PLAIN_FIELDS: Final = frozenset(
    (
        *("capacity", "accessModes", "claimRef", "persistentVolumeReclaimPolicy", "storageClassName", "mountOptions"),
        *("volumeMode", "nodeAffinity", "volumeAttributesClassName"),
    )
)


def claim(data: Data) -> Iterator[FieldError]:
    """Check a claim of a volume."""
    spec = data.get("spec") or {}
    if not spec.get("accessModes"):
        yield required_value("spec.accessModes", "at least 1 access mode is required")
    yield from _access(spec)
    yield from label_selector(spec.get("selector") or {}, "spec.selector")
    amount = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if amount is None:
        yield required_value("spec.resources[storage]")
    elif nano_value(amount) <= 0:
        yield invalid_value("spec.resources[storage]", str(amount), POSITIVE)


def volume(data: Data) -> Iterator[FieldError]:
    """Check a volume."""
    spec = data.get("spec") or {}
    if not spec.get("accessModes"):
        yield required_value("spec.accessModes")
    yield from _access(spec)
    capacity = spec.get("capacity") or {}
    if not capacity:
        yield required_value("spec.capacity")
    if list(capacity) != ["storage"]:
        yield unsupported_value("spec.capacity", capacity, ("storage",))
    for name, amount in capacity.items():
        if nano_value(amount) <= 0:
            yield invalid_value(f"spec.capacity[{name}]", str(amount), POSITIVE)
    if not spec.keys() - _PLAIN_FIELDS:
        yield required_value("spec", "must specify a volume type")
    required_terms = (spec.get("nodeAffinity") or {}).get("required")
    if required_terms is not None:
        yield from node_selector(required_terms, "spec.nodeAffinity.required")


def _access(spec: Data) -> Iterator[FieldError]:
    for mode in spec.get("accessModes") or ():
        if mode not in MODES:
            yield unsupported_value("spec.accessModes", mode, MODES)


def storage_class(data: Data) -> Iterator[FieldError]:
    """Check a storage class."""
    if not data.get("provisioner"):
        yield required_value("provisioner")
    if data.get("reclaimPolicy", "Delete") not in ("Delete", "Retain"):
        yield unsupported_value("reclaimPolicy", data["reclaimPolicy"], ("Delete", "Retain"))
    if data.get("volumeBindingMode", BINDING[0]) not in BINDING:
        yield unsupported_value("volumeBindingMode", data["volumeBindingMode"], BINDING)


def node(data: Data) -> Iterator[FieldError]:
    """Check a node."""
    # The path is upstream's: taints once were an annotation.
    yield from taints((data.get("spec") or {}).get("taints") or [], "metadata.taints")
    status = data.get("status") or {}
    for kind in ("capacity", "allocatable"):
        for name, amount in (status.get(kind) or {}).items():
            yield from not_less_than_nothing(amount, f"status.{kind}.{name}")


def priority_class(data: Data) -> Iterator[FieldError]:
    """Check a priority class."""
    name, value = data["metadata"].get("name", ""), data.get("value", 0)
    if name in SYSTEM_CLASSES:
        return
    if name.startswith("system-"):
        why = "priority class names with 'system-' prefix are reserved for system use only. error: "
        yield forbidden_field("metadata.name", f"{why}{name} is not a known system priority class")
    if value > 1_000_000_000:
        yield forbidden_field("value", "maximum allowed value of a user defined priority is 1000000000")
    policy = data.get("preemptionPolicy", "Never")
    if policy not in ("Never", "PreemptLowerPriority"):
        yield unsupported_value("preemptionPolicy", policy, ("Never", "PreemptLowerPriority"))
