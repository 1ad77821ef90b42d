"""Identifiers of devices and pools, and the enabled features of device allocation."""

from typing import Final, NamedTuple, Self

from msgspec import Struct

from moorage.kube.api.devices import AllocationResult
from moorage.kube.api.quantity import nano_value
from moorage.kube.features import FeatureGates
from moorage.scheduler.plugins.dynamic_resources.devices.consumable_capacity import qualify


class PoolId(NamedTuple):
    """A pool of a driver."""

    driver: str
    name: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.name}"


class DeviceId(NamedTuple):
    """A device of a pool."""

    driver: str
    pool: str
    name: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.name}"


class DeviceFeatures(Struct, frozen=True):
    """The enabled optional features of device allocation."""

    admin_access: bool = True
    prioritized_list: bool = True
    partitionable: bool = True
    taints: bool = True
    taint_rules: bool = True
    binding_conditions: bool = True
    consumable_capacity: bool = True
    fractional_ranges: bool = True
    extended_resources: bool = True
    list_attributes: bool = False
    compatibility_groups: bool = False
    derived_attributes: bool = False
    optional_node_operations: bool = False
    group_claims: bool = False
    node_allocatable: bool = False
    qualifies_capacities: bool = False
    """Whether the name of a capacity without a domain is one of the driver (from 1.38)."""
    cidr_masks: bool = False
    """Whether selectors may call ``isMask``."""

    @property
    def uses_oldest_allocator(self) -> bool:
        """Whether upstream uses its oldest allocator, the first one that supports the enabled features.

        It does not know constraints on distinct values, and ignores requested capacities.
        """
        return not any(
            (
                *(self.consumable_capacity, self.binding_conditions, self.list_attributes),
                *(self.compatibility_groups, self.derived_attributes, self.optional_node_operations),
            )
        )

    @property
    def heeds_skipped_operations(self) -> bool:
        """Whether devices that skip node operations are treated separately.

        Upstream's stable allocator ignores the field. The experimental allocator supports it, even if only another of
        its four features is enabled.
        """
        return (
            self.list_attributes
            or self.compatibility_groups
            or self.derived_attributes
            or self.optional_node_operations
        )

    @classmethod
    def of(cls, gates: FeatureGates) -> Self:
        """Read the gates."""
        return cls(
            admin_access=gates.enabled("DRAAdminAccess"),
            prioritized_list=gates.enabled("DRAPrioritizedList"),
            partitionable=gates.enabled("DRAPartitionableDevices"),
            taints=gates.enabled("DRADeviceTaints"),
            taint_rules=gates.enabled("DRADeviceTaintRules"),
            binding_conditions=gates.enabled("DRADeviceBindingConditions")
            and gates.enabled("DRAResourceClaimDeviceStatus"),
            consumable_capacity=gates.enabled("DRAConsumableCapacity"),
            fractional_ranges=gates.enabled("DRAFractionalCapacityRange"),
            extended_resources=gates.enabled("DRAExtendedResource"),
            list_attributes=gates.enabled("DRAListTypeAttributes"),
            compatibility_groups=gates.enabled("DRADeviceCompatibilityGroups"),
            derived_attributes=gates.enabled("DRADerivedAttributes"),
            optional_node_operations=gates.enabled("DRAOptionalNodeOperations"),
            group_claims=gates.enabled("DRAWorkloadResourceClaims"),
            node_allocatable=gates.enabled("DRANodeAllocatableResources"),
            qualifies_capacities=gates.since(1, 38),
            cidr_masks=gates.since(1, 38),
        )


ConsumedCapacity = dict[str, int]
_NOTHING: Final[ConsumedCapacity] = {}


class AllocatedDevices:
    """Devices in use; updated incrementally, once per claim.

    Devices with admin access are not in use. For a device shared by several claims, the shares and their consumed
    capacity are counted instead.
    """

    def __init__(self, *, shares: bool = True, qualifies: bool = False) -> None:
        self._shares_count = shares
        self._qualifies = qualifies
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
                for published, quantity in result.consumed_capacity.items():
                    # A driver may publish the other form of a name later.
                    name = qualify(published, result.driver) if self._qualifies else published
                    consumed[name] = consumed.get(name, 0) + sign * nano_value(quantity)
                if not any(consumed.values()):
                    del self._capacity[device]
