"""Identifiers of devices and pools, and the enabled features of device allocation."""

from typing import NamedTuple, Self

from msgspec import Struct

from moorage.kube.features import FeatureGates


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
        )
