"""Devices that map to CPU, memory or storage of their node (gate DRANodeAllocatableResources).

A device may *be* some of the node's CPUs, or cost some memory for each pod or container that uses it. The resulting
amounts are written into the pod's status and count on the node as if the containers had requested them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from moorage.common.errors import MoorageError
from moorage.kube.api.devices import (
    Device,
    DeviceRequestAllocationResult,
    NodeAllocatableResource,
    ResourceClaim,
)
from moorage.kube.api.pod import ClaimMapping, ClaimOverhead, NodeAllocatableClaimStatus, Pod
from moorage.kube.api.quantity import NANO, Quantity, nano_value
from moorage.kube.api.requests import CPU, claimed_nanos, container_nanos, limit_nanos
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.status import Status, combined
from moorage.scheduler.plugins.dynamic_resources.devices.consumable_capacity import format_quantity, qualify
from moorage.scheduler.plugins.dynamic_resources.devices.identifiers import DeviceId

MILLI: Final = NANO // 1000


class MappingError(MoorageError):
    """The node resources of a device cannot be determined."""


class PodClaimOnNode(Struct, frozen=True):
    """A claim of a pod on a node: the containers that use it, and its actual or proposed devices."""

    users: tuple[str, ...]
    claim: ResourceClaim
    results: Sequence[DeviceRequestAllocationResult]


def claim_statuses(
    claims: Iterable[PodClaimOnNode], devices: Mapping[DeviceId, Device], *, qualifies: bool = False
) -> tuple[NodeAllocatableClaimStatus, ...]:
    """Return the node resources of a pod's devices by claim. Raise MappingError if they cannot be determined.

    With ``qualifies``, capacity keys without a domain are names of the driver.
    """
    statuses = (_status(item, devices, qualifies=qualifies) for item in claims)
    return tuple(
        sorted((status for status in statuses if status is not None), key=lambda item: item.resource_claim_name)
    )


def _status(
    claim: PodClaimOnNode, devices: Mapping[DeviceId, Device], *, qualifies: bool
) -> NodeAllocatableClaimStatus | None:
    mapped: dict[str, tuple[int, str]] = {}
    overhead: dict[str, ClaimOverhead] = {}
    claim_devices = [devices.get(DeviceId(result.driver, result.pool, result.device)) for result in claim.results]
    if not any(device is not None and device.node_allocatable_resources for device in claim_devices):
        return None
    for result, device in zip(claim.results, claim_devices, strict=True):
        if device is None:
            # As upstream, the attempt fails if the node reaches only some of the devices.
            where = f"not found in pool {result.pool} for driver {result.driver}"
            text = f"device {result.device}, driver {result.driver}: device {result.device} {where}"
            raise MappingError(f"claim {claim.claim.key}, {text}")
        for name, resource in device.node_allocatable_resources.items():
            if resource.mapping is not None:
                try:
                    amount = _map_resource(name, resource, result, result.driver if qualifies else "")
                except MappingError as error:
                    raise MappingError(f"claim {claim.claim.key}, {error}") from error
                if amount is not None:
                    mapped[name] = (mapped.get(name, (0, ""))[0] + amount[0], amount[1])
            if resource.overhead is not None:
                total, more = overhead.get(name, ClaimOverhead(name)), resource.overhead
                per_pod = _sum(total.per_pod, more.per_pod)
                per_container = _sum(total.per_container, more.per_container)
                overhead[name] = replace(total, per_pod=per_pod, per_container=per_container)
    if not mapped and not overhead:
        return None
    return NodeAllocatableClaimStatus(
        resource_claim_name=claim.claim.name,
        containers=claim.users,
        mapping=tuple(
            ClaimMapping(name, format_quantity(mapped[name][0], like=mapped[name][1])) for name in sorted(mapped)
        ),
        overhead=tuple(overhead[name] for name in sorted(overhead)),
    )


def _sum(left: Quantity | None, right: Quantity | None) -> Quantity | None:
    if left is None or right is None:
        return right if left is None else left
    return format_quantity(nano_value(left) + nano_value(right), like=left)


def _map_resource(
    name: str, resource: NodeAllocatableResource, result: DeviceRequestAllocationResult, driver: str
) -> tuple[int, str] | None:
    mapping = resource.mapping
    assert mapping is not None
    if not mapping.capacity_key:
        multiplier = mapping.device_multiplier
        return None if multiplier is None else (nano_value(multiplier), str(multiplier))
    capacities = {qualify(published, driver): amount for published, amount in result.consumed_capacity.items()}
    consumed = capacities.get(qualify(mapping.capacity_key, driver))
    if consumed is None and result.consumed_capacity:
        return None
    if consumed is None:
        key = f"Capacity key '{mapping.capacity_key}' is set in NodeAllocatableResources for resource {name}"
        raise MappingError(f"device {result.device}: ConsumedCapacity is nil, but {key}")
    multiplier = mapping.capacity_multiplier if mapping.capacity_multiplier is not None else 1
    return nano_value(consumed) * nano_value(multiplier) // NANO, str(consumed)


def list_users(pod: Pod, entry: str) -> tuple[str, ...]:
    """List the containers of a pod that use a claim."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return tuple(
        sorted(item.name for item in containers if any(claim.name == entry for claim in item.resources.claims))
    )


def refusal(pod: Pod, statuses: Sequence[NodeAllocatableClaimStatus], node: NodeInfo) -> Status | None:
    """Return why a node cannot provide the node resources of a pod's devices."""
    extra = claimed_nanos(statuses)
    if (status := _find_uncovered(pod, extra, statuses)) is not None:
        return status
    return _too_large(pod, extra, node)


def _find_uncovered(
    pod: Pod, extra: Mapping[str, int], statuses: Sequence[NodeAllocatableClaimStatus]
) -> Status | None:
    """Compare with the pod-level requests and limits, if there are any."""
    level = pod.spec.resources
    if level is None:
        return None
    requested = container_nanos(pod)
    for name, amount in sorted(extra.items()):
        if name in level.requests and nano_value(level.requests[name]) < requested.get(name, 0) + amount:
            text = "is insufficient to cover the aggregated container and node-allocatable DRA requests"
            return Status.unresolvable(f"pod level request for {name} {text}")
        if name not in level.limits:
            continue
        pod_limit = nano_value(level.limits[name])
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            own = claimed_nanos(
                replace(status, containers=status.containers[:1])
                for status in statuses
                if container.name in status.containers
            )
            limit = container.resources.limits.get(name)
            if limit is not None and name in own and pod_limit < nano_value(limit) + own[name]:
                text = f"is insufficient to cover the limit and DRA overhead for container {container.name}"
                return Status.unresolvable(f"pod level limit for {name} {text}")
        # Only huge pages have a pod-level limit: for other resources, container limits may exceed it.
        if name.startswith("hugepages-") and pod_limit < limit_nanos(pod).get(name, 0) + amount:
            text = "is insufficient to cover the aggregated container and node-allocatable DRA limits"
            return Status.unresolvable(f"pod level limit for {name} {text}")
    return None


def _too_large(pod: Pod, extra: Mapping[str, int], node: NodeInfo) -> Status | None:
    statuses = []
    level = pod.spec.resources.requests if pod.spec.resources is not None else {}
    for name, amount in sorted(extra.items()):
        units = -(-amount // (MILLI if name == CPU else NANO))
        required = pod.requests.get(name, 0) + (0 if name in level else units)
        capacity = node.allocatable.get(name, 0)
        if required > capacity - node.requested.get(name, 0):
            reason = f"Insufficient {name}"
            statuses.append(Status.unresolvable(reason) if required > capacity else Status.unschedulable(reason))
    return combined(statuses) if statuses else None
