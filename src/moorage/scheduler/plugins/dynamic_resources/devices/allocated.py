"""The devices in use by stored and pending allocations."""

from typing import Final

from moorage.kube.api.devices import AllocationResult
from moorage.kube.api.quantity import nano_value
from moorage.scheduler.plugins.dynamic_resources.devices.identifiers import DeviceId

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

    def is_shared(self, device: DeviceId) -> bool:
        """Return whether a claim uses a share of a device."""
        return device in self._shares

    def is_taken(self, device: DeviceId) -> bool:
        """Return whether a device is in use in any way."""
        return device in self.whole or device in self._shares

    def consumed(self, device: DeviceId) -> ConsumedCapacity:
        """Return how much of a device's capacities its shares consume, in billionths."""
        return self._capacity.get(device, _NOTHING)

    def add(self, allocation: AllocationResult, sign: int = 1) -> None:
        """Count the devices of an allocation, or stop counting them (``sign`` -1)."""
        for result in allocation.devices.results:
            if result.admin_access:
                continue
            device = DeviceId(result.driver, result.pool, result.device)
            is_share = self._shares_count and result.share_id is not None
            counts = self._shares if is_share else self.whole
            counts[device] = counts.get(device, 0) + sign
            if not counts[device]:
                del counts[device]
            if is_share:
                consumed = self._capacity.setdefault(device, {})
                for name, quantity in result.consumed_capacity.items():
                    consumed[name] = consumed.get(name, 0) + sign * nano_value(quantity)
                if not any(consumed.values()):
                    del self._capacity[device]
