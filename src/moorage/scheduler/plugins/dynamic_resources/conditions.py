"""Devices that have to be prepared before a pod may be bound: whether they are, have failed, or took too long."""

from collections.abc import Iterator

from moorage.common.errors import MoorageError
from moorage.kube.api.devices import AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim
from moorage.kube.api.meta import Condition, parse_time


class DeviceBindingError(MoorageError):
    """A device will not get ready."""


class DeviceBindingTimeoutError(DeviceBindingError):
    """A device had its time."""


def is_ready(claim: ResourceClaim) -> bool:
    """Return whether all devices of a claim are prepared; raise :class:`DeviceBindingError` if one has failed."""
    if claim.status.allocation is None:
        return False
    for result in conditional(claim):
        status = _status_of(claim, result)
        if status is None:
            return False
        conditions = {condition.type: condition for condition in reversed(status.conditions)}
        for name in result.binding_failure_conditions:
            failed = conditions.get(name)
            if failed is not None and failed.status == "True":
                raise DeviceBindingError(_failure(claim, failed))
        if any(name not in conditions or conditions[name].status != "True" for name in result.binding_conditions):
            return False
    return True


def is_late(claim: ResourceClaim, *, now: float, timeout: float) -> bool:
    """Return whether a claim's devices had their time to get ready."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None or next(conditional(claim), None) is None:
        return False
    return parse_time(allocation.allocation_timestamp) + timeout < now


def is_stuck(claim: ResourceClaim, *, now: float, timeout: float) -> bool:
    """Return whether a claim has to be deallocated before a pod can use it: its devices failed, or are late."""
    try:
        return not is_ready(claim) and is_late(claim, now=now, timeout=timeout)
    except DeviceBindingError:
        return True


def has_conditions(claim: ResourceClaim) -> bool:
    """Return whether a claim's devices have to be prepared."""
    return next(conditional(claim), None) is not None


def conditional(claim: ResourceClaim) -> Iterator[DeviceRequestAllocationResult]:
    """Yield the devices of a claim that have to be prepared."""
    allocation = claim.status.allocation
    return (result for result in (allocation.devices.results if allocation else ()) if result.binding_conditions)


def _status_of(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> AllocatedDeviceStatus | None:
    for status in claim.status.devices:
        if (status.driver, status.pool, status.device) == (result.driver, result.pool, result.device):
            return status
    return None


def _failure(claim: ResourceClaim, failed: Condition) -> str:
    message = failed.message.replace("\\", "\\\\").replace('"', '\\"')
    return f'device binding failed: claim={claim.name}, reason={failed.reason}, message="{message}"'
