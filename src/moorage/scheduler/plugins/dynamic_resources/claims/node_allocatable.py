"""Devices that stand for CPU, memory or storage of their node (gate DRANodeAllocatableResources).

A device may *be* some of the node's CPUs, or cost some memory for each pod or container that uses it. What that comes
to is written into the pod's status and counts for the pod on its node, as if its containers had asked for it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from moorage.common.errors import MoorageError
from moorage.kube.api.devices import (
    Device,
    DeviceRequestAllocationResult,
    NodeAllocatableOverhead,
    NodeAllocatableResource,
    ResourceClaim,
)
from moorage.kube.api.pod import ClaimMapping, ClaimOverhead, NodeAllocatableClaimStatus, Pod
from moorage.kube.api.quantity import NANO, Quantity, nano_value
from moorage.kube.api.requests import CPU, claimed_nanos, container_nanos, limit_nanos
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.status import Status, combined
from moorage.scheduler.plugins.dynamic_resources.devices.capacity import written
from moorage.scheduler.plugins.dynamic_resources.devices.identifiers import DeviceId

MILLI: Final = NANO // 1000


class MappingError(MoorageError):
    """It cannot be said what a device comes to."""


class HeldClaim(Struct, frozen=True):
    """A claim of a pod on a node: the containers that use it, and the devices that it has or would get there."""

    users: tuple[str, ...]
    claim: ResourceClaim
    results: Sequence[DeviceRequestAllocationResult]


def claim_statuses(
    held: Iterable[HeldClaim], devices: Mapping[DeviceId, Device]
) -> tuple[NodeAllocatableClaimStatus, ...]:
    """Work out what the devices of a pod come to, claim by claim; MappingError if that cannot be said."""
    found = (_status(item, devices) for item in held)
    return tuple(sorted((status for status in found if status is not None), key=lambda item: item.resource_claim_name))


def _status(held: HeldClaim, devices: Mapping[DeviceId, Device]) -> NodeAllocatableClaimStatus | None:
    mapped: dict[str, tuple[int, str]] = {}
    overhead: dict[str, ClaimOverhead] = {}
    found_devices = [devices.get(DeviceId(result.driver, result.pool, result.device)) for result in held.results]
    if not any(device is not None and device.node_allocatable_resources for device in found_devices):
        return None
    for result, device in zip(held.results, found_devices, strict=True):
        if device is None:
            # Upstream's quirk, and kept: where a node reaches one of the devices and not another, the attempt fails.
            where = f"not found in pool {result.pool} for driver {result.driver}"
            text = f"device {result.device}, driver {result.driver}: device {result.device} {where}"
            raise MappingError(f"claim {held.claim.key}, {text}")
        for name, resource in device.node_allocatable_resources.items():
            if resource.mapping is not None:
                try:
                    found = _mapped(name, resource, result)
                except MappingError as error:
                    raise MappingError(f"claim {held.claim.key}, {error}") from error
                if found is not None:
                    mapped[name] = (mapped.get(name, (0, ""))[0] + found[0], found[1])
            if resource.overhead is not None:
                overhead[name] = _added(overhead.get(name, ClaimOverhead(name)), resource.overhead)
    if not mapped and not overhead:
        return None
    return NodeAllocatableClaimStatus(
        resource_claim_name=held.claim.name,
        containers=held.users,
        mapping=tuple(ClaimMapping(name, written(mapped[name][0], like=mapped[name][1])) for name in sorted(mapped)),
        overhead=tuple(overhead[name] for name in sorted(overhead)),
    )


def _added(known: ClaimOverhead, more: NodeAllocatableOverhead) -> ClaimOverhead:
    """Add what another device of the claim costs."""
    return replace(
        known, per_pod=_sum(known.per_pod, more.per_pod), per_container=_sum(known.per_container, more.per_container)
    )


def _sum(left: Quantity | None, right: Quantity | None) -> Quantity | None:
    if left is None or right is None:
        return right if left is None else left
    return written(nano_value(left) + nano_value(right), like=left)


def _mapped(
    name: str, resource: NodeAllocatableResource, result: DeviceRequestAllocationResult
) -> tuple[int, str] | None:
    mapping = resource.mapping
    assert mapping is not None
    if not mapping.capacity_key:
        multiplier = mapping.device_multiplier
        return None if multiplier is None else (nano_value(multiplier), str(multiplier))
    consumed = result.consumed_capacity.get(mapping.capacity_key)
    if consumed is None and result.consumed_capacity:
        return None
    if consumed is None:
        key = f"Capacity key '{mapping.capacity_key}' is set in NodeAllocatableResources for resource {name}"
        raise MappingError(f"device {result.device}: ConsumedCapacity is nil, but {key}")
    multiplier = mapping.capacity_multiplier if mapping.capacity_multiplier is not None else 1
    return nano_value(consumed) * nano_value(multiplier) // NANO, str(consumed)


def list_users(pod: Pod, entry: str) -> tuple[str, ...]:
    """Name the containers of a pod that use one of its claims."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return tuple(
        sorted(item.name for item in containers if any(claim.name == entry for claim in item.resources.claims))
    )


def refusal(pod: Pod, statuses: Sequence[NodeAllocatableClaimStatus], node: NodeInfo) -> Status | None:
    """Return why a pod cannot have its devices on a node: what they come to is not left."""
    extra = claimed_nanos(statuses)
    if (status := _uncovered(pod, extra, statuses)) is not None:
        return status
    return _too_large(pod, extra, node)


def _uncovered(pod: Pod, extra: Mapping[str, int], statuses: Sequence[NodeAllocatableClaimStatus]) -> Status | None:
    """Compare with what the pod as a whole may have, where it says so."""
    level = pod.spec.resources
    if level is None:
        return None
    asked = container_nanos(pod)
    for name, amount in sorted(extra.items()):
        if name in level.requests and nano_value(level.requests[name]) < asked.get(name, 0) + amount:
            text = "is insufficient to cover the aggregated container and node-allocatable DRA requests"
            return Status.unresolvable(f"pod level request for {name} {text}")
        if name not in level.limits:
            continue
        most = nano_value(level.limits[name])
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            own = claimed_nanos(_for_one(status) for status in statuses if container.name in status.containers)
            limit = container.resources.limits.get(name)
            if limit is not None and name in own and most < nano_value(limit) + own[name]:
                text = f"is insufficient to cover the limit and DRA overhead for container {container.name}"
                return Status.unresolvable(f"pod level limit for {name} {text}")
        # Only huge pages are limited as a whole: the limits of containers may exceed what the pod may have of the rest.
        if name.startswith("hugepages-") and most < limit_nanos(pod).get(name, 0) + amount:
            text = "is insufficient to cover the aggregated container and node-allocatable DRA limits"
            return Status.unresolvable(f"pod level limit for {name} {text}")
    return None


def _for_one(status: NodeAllocatableClaimStatus) -> NodeAllocatableClaimStatus:
    """Return what a claim comes to for one of its containers."""
    return replace(status, containers=status.containers[:1])


def _too_large(pod: Pod, extra: Mapping[str, int], node: NodeInfo) -> Status | None:
    found = []
    level = pod.spec.resources.requests if pod.spec.resources is not None else {}
    for name, amount in sorted(extra.items()):
        needed = pod.requests.get(name, 0) + (0 if name in level else _units(name, amount))
        capacity = node.allocatable.get(name, 0)
        if needed > capacity - node.requested.get(name, 0):
            reason = f"Insufficient {name}"
            found.append(Status.unresolvable(reason) if needed > capacity else Status.unschedulable(reason))
    return combined(found) if found else None


def _units(name: str, nanos: int) -> int:
    return -(-nanos // (MILLI if name == CPU else NANO))
