"""The devices in use by stored and pending allocations."""

from collections.abc import Iterator
from typing import Final

from moorage.kube.api.devices import AllocationResult, DeviceRequestAllocationResult
from moorage.kube.api.quantity import nano_value
from moorage.scheduler.plugins.dynamic_resources.devices.identifiers import DeviceId, PoolId

ConsumedCapacity = dict[str, int]
_NOTHING: Final[ConsumedCapacity] = {}


class AllocatedDevices:
    """Devices in use; updated incrementally, once per claim.

    Devices with admin access are not in use. For a device shared by several claims, the shares and their consumed
    capacity are counted instead.
    """

    def __init__(self, *, shares: bool = True) -> None:
        self._shares_count = shares
        self.whole: dict[DeviceId, int] = {}
        """The exclusively used devices, and the number of their claims."""
        self._shares: dict[DeviceId, int] = {}
        self._capacity: dict[DeviceId, ConsumedCapacity] = {}

    def takes_whole(self, device: DeviceId) -> bool:
        """Return whether a device is used exclusively."""
        return device in self.whole

    def is_shared(self, device: DeviceId) -> bool:
        """Return whether a claim uses a share of a device."""
        return device in self._shares

    def is_taken(self, device: DeviceId) -> bool:
        """Return whether a device is in use in any way."""
        return device in self.whole or device in self._shares

    def consumed(self, device: DeviceId) -> ConsumedCapacity:
        """Return how much of a device's capacities its shares consume, in billionths."""
        return self._capacity.get(device, _NOTHING)

    def add(self, allocation: AllocationResult) -> None:
        """Count the devices of an allocation."""
        for device, result in _claims_on_node(allocation):
            if self._is_share(result):
                _count(self._shares, device, 1)
                _consume(self._capacity, device, result, 1)
            else:
                _count(self.whole, device, 1)

    def remove(self, allocation: AllocationResult) -> None:
        """Stop counting the devices of an allocation."""
        for device, result in _claims_on_node(allocation):
            if self._is_share(result):
                _count(self._shares, device, -1)
                _consume(self._capacity, device, result, -1)
            else:
                _count(self.whole, device, -1)

    def _is_share(self, result: DeviceRequestAllocationResult) -> bool:
        return self._shares_count and result.share_id is not None


def list_pools(allocation: AllocationResult) -> set[PoolId]:
    """Return the pools of an allocation's devices."""
    return {PoolId(result.driver, result.pool) for result in allocation.devices.results}


def _claims_on_node(allocation: AllocationResult) -> Iterator[tuple[DeviceId, DeviceRequestAllocationResult]]:
    for result in allocation.devices.results:
        if not result.admin_access:
            yield DeviceId(result.driver, result.pool, result.device), result


def _count(counts: dict[DeviceId, int], device: DeviceId, change: int) -> None:
    count = counts.get(device, 0) + change
    if count:
        counts[device] = count
    else:
        del counts[device]


def _consume(
    capacity: dict[DeviceId, ConsumedCapacity], device: DeviceId, result: DeviceRequestAllocationResult, sign: int
) -> None:
    consumed = capacity.setdefault(device, {})
    for name, quantity in result.consumed_capacity.items():
        consumed[name] = consumed.get(name, 0) + sign * nano_value(quantity)
    if not any(consumed.values()):
        del capacity[device]
