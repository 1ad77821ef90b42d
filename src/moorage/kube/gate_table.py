"""The feature gates of the scheduler by release: names, stages, defaults, dependencies.

The values were read from a running kube-scheduler: `kubernetes_feature_enabled` on its /metrics, and its messages
when gates are set, for every version that 1.37 can emulate.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from msgspec import Struct

RELEASE: Final = "1.37"
OLDEST: Final = "1.34"
"""The oldest release that 1.37 can emulate or work with."""


class Stage(Enum):
    """How mature a gate is."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"


class Gate(Struct, frozen=True):
    """One gate in one release; a locked one keeps its default for ever."""

    name: str
    stage: Stage
    default: bool
    locked: bool = False
    needs: tuple[str, ...] = ()


def _alpha(name: str, *needs: str) -> Gate:
    return Gate(name, Stage.ALPHA, default=False, needs=needs)


def _beta(name: str, *needs: str, default: bool = True) -> Gate:
    return Gate(name, Stage.BETA, default=default, needs=needs)


def _stable(name: str, *needs: str, locked: bool = True) -> Gate:
    return Gate(name, Stage.GA, default=True, locked=locked, needs=needs)


_ALL: Final = (
    # Dynamic resources
    _stable("DynamicResourceAllocation"),
    _stable("DRAExtendedResource", "DynamicResourceAllocation"),
    _stable("DRAAdminAccess", "DynamicResourceAllocation"),
    _stable("DRAPrioritizedList", "DynamicResourceAllocation"),
    _stable("DRADeviceTaints", "DynamicResourceAllocation", locked=False),
    _stable("DRADeviceTaintRules", "DRADeviceTaints", locked=False),
    _beta("DRAPartitionableDevices", "DynamicResourceAllocation"),
    _beta("DRAConsumableCapacity", "DynamicResourceAllocation"),
    # On only with --min-compatibility-version=1.37; kube-scheduler's default is one release lower.
    _beta("DRAFractionalCapacityRange", "DRAConsumableCapacity", default=False),
    _beta("DRADeviceBindingConditions", "DynamicResourceAllocation", "DRAResourceClaimDeviceStatus"),
    _stable("DRAResourceClaimDeviceStatus"),
    _beta("DRASchedulerFilterTimeout", "DynamicResourceAllocation"),
    _beta("DRAWorkloadResourceClaims", "DynamicResourceAllocation", "GenericWorkload", default=False),
    _alpha("DRANodeAllocatableResources", "DynamicResourceAllocation"),
    _alpha("DRAOptionalNodeOperations", "DynamicResourceAllocation", "NodeDeclaredFeatures"),
    _alpha("DRAListTypeAttributes", "DynamicResourceAllocation"),
    _alpha("DRADeviceCompatibilityGroups", "DynamicResourceAllocation", "DRAPartitionableDevices"),
    _alpha("DRADerivedAttributes", "DynamicResourceAllocation"),
    # Volumes
    _beta("StorageCapacityScoring"),
    _beta("VolumeLimitScaling"),
    _stable("VolumeAttributesClass"),
    # Nodes and pods
    _stable("NodeDeclaredFeatures"),
    _beta("PodLevelResources"),
    _beta("PodLevelResourcesFixDefaulting", "PodLevelResources"),
    _beta("PodLevelResourcesFixKubeletQOSClass", "PodLevelResources"),
    _stable("InPlacePodVerticalScaling"),
    _beta(
        "InPlacePodLevelResourcesVerticalScaling",
        "InPlacePodVerticalScaling",
        "PodLevelResources",
        "NodeDeclaredFeatures",
    ),
    _alpha("InPlacePodVerticalScalingSchedulerPreemption", "InPlacePodVerticalScaling"),
    _beta("MatchLabelKeysInPodTopologySpread"),
    _beta("MatchLabelKeysInPodTopologySpreadSelectorMerge", "MatchLabelKeysInPodTopologySpread"),
    _stable("NodeInclusionPolicyInPodTopologySpread"),
    _stable("MatchLabelKeysInPodAffinity"),
    _stable("PodSchedulingReadiness"),
    _beta("ContainerRestartRules"),
    _beta("RestartAllContainersOnContainerExits", "ContainerRestartRules", "NodeDeclaredFeatures"),
    _stable("UserNamespacesSupport"),
    _alpha("UserNamespacesHostNetworkSupport", "UserNamespacesSupport", "NodeDeclaredFeatures"),
    _alpha("TaintTolerationComparisonOperators"),
    _alpha("VolumeBindMountOptions"),
    # The scheduler itself
    _beta("OpportunisticBatching"),
    _beta("SchedulerAsyncPreemption"),
    _beta("SchedulerPopFromBackoffQ"),
    _beta("SchedulerAsyncAPICalls", default=False),
    _alpha("SchedulerPreQueueingHints"),
    _alpha("InterPodAffinityHostnameFastPath"),
    _beta("NominatedNodeNameForExpectation"),
    _beta("ClearingNominatedNodeNameAfterBinding"),
    # Pod groups
    _beta("GenericWorkload", default=False),
    _alpha("TopologyAwareWorkloadScheduling", "GenericWorkload"),
    _alpha("CompositePodGroup", "GenericWorkload", "TopologyAwareWorkloadScheduling"),
    _alpha("PodGroupPreemptionPolicy", "GenericWorkload"),
    _alpha("WorkloadWithJob", "GenericWorkload"),
    # The process
    _beta("ComponentFlagz"),
    _beta("ComponentStatusz"),
    _beta("CoordinatedLeaderElection", default=False),
)


class _Earlier(Struct, frozen=True):
    """What was different in a release, compared with the one after it."""

    gates: tuple[Gate, ...]
    absent: tuple[str, ...]


_1_36: Final = _Earlier(
    gates=(
        _beta("DRAExtendedResource", "DynamicResourceAllocation"),
        _stable("DRAPrioritizedList", "DynamicResourceAllocation", locked=False),
        _beta("DRADeviceTaints", "DynamicResourceAllocation"),
        _beta("DRADeviceTaintRules", "DRADeviceTaints", default=False),
        _beta("DRAResourceClaimDeviceStatus"),
        _alpha("DRAWorkloadResourceClaims", "DynamicResourceAllocation", "GenericWorkload"),
        _alpha("StorageCapacityScoring"),
        _alpha("VolumeLimitScaling"),
        _beta("NodeDeclaredFeatures"),
        _alpha("GenericWorkload"),
    ),
    absent=(
        "DRAFractionalCapacityRange",
        "DRAOptionalNodeOperations",
        "DRADeviceCompatibilityGroups",
        "DRADerivedAttributes",
        "PodLevelResourcesFixDefaulting",
        "PodLevelResourcesFixKubeletQOSClass",
        "InPlacePodVerticalScalingSchedulerPreemption",
        "VolumeBindMountOptions",
        "SchedulerPreQueueingHints",
        "InterPodAffinityHostnameFastPath",
        "CompositePodGroup",
        "PodGroupPreemptionPolicy",
    ),
)

_1_35: Final = _Earlier(
    gates=(
        _alpha("DRAExtendedResource", "DynamicResourceAllocation"),
        _beta("DRAAdminAccess", "DynamicResourceAllocation"),
        _beta("DRAPrioritizedList", "DynamicResourceAllocation"),
        _alpha("DRADeviceTaints", "DynamicResourceAllocation"),
        _alpha("DRADeviceTaintRules", "DRADeviceTaints"),
        _alpha("DRAPartitionableDevices", "DynamicResourceAllocation"),
        _alpha("DRAConsumableCapacity", "DynamicResourceAllocation"),
        _alpha("DRADeviceBindingConditions", "DynamicResourceAllocation", "DRAResourceClaimDeviceStatus"),
        _stable("VolumeAttributesClass", locked=False),
        _alpha("NodeDeclaredFeatures"),
        _alpha(
            "InPlacePodLevelResourcesVerticalScaling",
            "InPlacePodVerticalScaling",
            "PodLevelResources",
            "NodeDeclaredFeatures",
        ),
        _alpha("RestartAllContainersOnContainerExits", "ContainerRestartRules", "NodeDeclaredFeatures"),
        _beta("UserNamespacesSupport"),
        _alpha("ComponentFlagz"),
        _alpha("ComponentStatusz"),
    ),
    absent=(
        "DRAWorkloadResourceClaims",
        "DRANodeAllocatableResources",
        "DRAListTypeAttributes",
        "TopologyAwareWorkloadScheduling",
        "WorkloadWithJob",
    ),
)

_1_34: Final = _Earlier(
    gates=(
        _stable("DynamicResourceAllocation", locked=False),
        _beta("InPlacePodVerticalScaling"),
        _alpha("ContainerRestartRules"),
        _alpha("NominatedNodeNameForExpectation"),
        _alpha("ClearingNominatedNodeNameAfterBinding"),
    ),
    absent=(
        "DRADeviceTaintRules",
        "VolumeLimitScaling",
        "NodeDeclaredFeatures",
        "InPlacePodLevelResourcesVerticalScaling",
        "RestartAllContainersOnContainerExits",
        "UserNamespacesHostNetworkSupport",
        "TaintTolerationComparisonOperators",
        "OpportunisticBatching",
        "GenericWorkload",
    ),
)


def _before(later: Mapping[str, Gate], earlier: _Earlier) -> Mapping[str, Gate]:
    changed = {**later, **{gate.name: gate for gate in earlier.gates}}
    return MappingProxyType({name: gate for name, gate in changed.items() if name not in earlier.absent})


GATES: Final[Mapping[str, Gate]] = MappingProxyType({gate.name: gate for gate in _ALL})
_AT_1_36: Final = _before(GATES, _1_36)
_AT_1_35: Final = _before(_AT_1_36, _1_35)

#: The gates of every release that can be emulated.
RELEASES: Final[Mapping[str, Mapping[str, Gate]]] = MappingProxyType(
    {RELEASE: GATES, "1.36": _AT_1_36, "1.35": _AT_1_35, OLDEST: _before(_AT_1_35, _1_34)}
)
