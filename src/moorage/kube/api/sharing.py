"""Deduplication of equal parts of objects.

It happens when objects are decoded and only saves memory: every part is replaced by an equal one.
"""

from sys import intern
from typing import Final, TypeVar

from msgspec.structs import force_setattr

from moorage.common.caches import LRU, MAX_KEY_LABELS, MAX_KEY_LENGTH, MAX_VALUE_LENGTH, AdmissionLRU, short_key
from moorage.kube.api.devices import Device, ResourceClaim, ResourceClaimSpec, ResourceSlice, in_order
from moorage.kube.api.meta import Condition, ObjectMeta, OwnerReference
from moorage.kube.api.node import ContainerImage, Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.quantity import ResourceList
from moorage.kube.api.requests import countable

T = TypeVar("T")

MAX_SHARED: Final = 1 << 11
MAX_LABELS: Final = 16
MAX_CONDITIONS: Final = 16
MAX_OWNERS: Final = 2
"""Larger collections are not shared: cached parts outlive their objects, and users can create thousands."""
MAX_SHARED_IMAGES: Final = 1 << 16

_images: LRU[ContainerImage, ContainerImage] = LRU("shared images", MAX_SHARED_IMAGES, lambda image: image)
_labels: LRU[tuple[tuple[str, str], ...], dict[str, str]] = LRU("shared labels", MAX_SHARED, dict)
_owners: LRU[tuple[OwnerReference, ...], tuple[OwnerReference, ...]] = LRU(
    "shared owners", MAX_SHARED, lambda owners: owners
)
_conditions: LRU[tuple[Condition, ...], tuple[Condition, ...]] = LRU(
    "shared conditions", MAX_SHARED, lambda conditions: conditions
)
_amounts: LRU[tuple[tuple[str, str | int | float], ...], ResourceList] = LRU("shared resource lists", MAX_SHARED, dict)
_counted: LRU[tuple[tuple[str, str | int | float], ...], dict[str, int]] = LRU(
    "allocatable amounts", MAX_SHARED, lambda amounts: countable(dict(amounts))
)
# Drivers may number their devices, and users their claims: unique parts are not cached.
_devices: AdmissionLRU[bytes, tuple[Device, ...]] = AdmissionLRU("shared devices", MAX_SHARED // 2)
_claim_specs: AdmissionLRU[bytes, ResourceClaimSpec] = AdmissionLRU("shared claim specs", MAX_SHARED)


def share_pod(pod: Pod) -> None:
    """Replace parts of a pod by equal ones: pods of an owner differ mostly in their names."""
    metadata, status = pod.metadata, pod.status
    _share_texts(metadata)
    if 0 < len(metadata.labels) <= MAX_LABELS:
        force_setattr(metadata, "labels", _labels.lookup(tuple(metadata.labels.items())))
    if 0 < len(metadata.owner_references) <= MAX_OWNERS:
        force_setattr(metadata, "owner_references", _owners.lookup(metadata.owner_references))
    if status.conditions:
        force_setattr(status, "conditions", _shared_conditions(status.conditions))
    force_setattr(status, "phase", intern(status.phase))


def share_node(node: Node) -> None:
    """Replace parts of a node by equal ones, and count its capacity. Raise QuantityError if it is invalid."""
    metadata, status = node.metadata, node.status
    _share_texts(metadata)
    force_setattr(metadata, "name", intern(metadata.name))  # its pods name it, too
    force_setattr(metadata, "labels", {intern(name): intern(value) for name, value in metadata.labels.items()})
    if len(status.allocatable) <= MAX_KEY_LABELS >= len(status.capacity):
        amounts = tuple(status.allocatable.items())
        node.__dict__["allocatable"] = _counted.lookup(amounts)
        force_setattr(status, "allocatable", _amounts.lookup(amounts))
        force_setattr(status, "capacity", _amounts.lookup(tuple(status.capacity.items())))
    else:
        _ = node.allocatable
    if status.conditions:
        force_setattr(status, "conditions", _shared_conditions(status.conditions))
    if status.images:
        force_setattr(status, "images", tuple([_images.lookup(image) for image in status.images]))


def share_claim(claim: ResourceClaim) -> None:
    """Replace the spec of a claim by an equal one: claims of a template have equal specs."""
    _share_texts(claim.metadata)
    encoded = in_order.encode(claim.spec)
    claim.__dict__["spec_key"] = short_key(encoded)
    force_setattr(claim, "spec", _share(_claim_specs, encoded, claim.spec_key, claim.spec))


def share_slice(piece: ResourceSlice) -> None:
    """Replace the devices of a node by equal ones of another node."""
    _share_texts(piece.metadata)
    encoded = in_order.encode(piece.spec.devices)
    force_setattr(piece.spec, "devices", _share(_devices, encoded, short_key(encoded), piece.spec.devices))


def _share(cache: AdmissionLRU[bytes, T], encoded: bytes, key: bytes, part: T) -> T:
    if len(encoded) > MAX_VALUE_LENGTH:
        return part
    shared = cache.find(key)
    if shared is None:
        cache.put(key, part)
    return part if shared is None else shared


def _share_texts(metadata: ObjectMeta) -> None:
    force_setattr(metadata, "namespace", intern(metadata.namespace))
    if metadata.generate_name:
        force_setattr(metadata, "generate_name", intern(metadata.generate_name))
    if metadata.creation_timestamp is not None:
        force_setattr(metadata, "creation_timestamp", intern(metadata.creation_timestamp))


def _shared_conditions(conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    # Conditions of pending pods may have long and unique messages.
    if len(conditions) > MAX_CONDITIONS or sum([len(item.message) for item in conditions]) > MAX_KEY_LENGTH:
        return conditions
    return _conditions.lookup(conditions)
