"""Upstream's feature gates that a scheduler notices: names, stages, defaults, and what one may set.

>>> gates = FeatureGates.parse("GenericWorkload=true")
>>> gates.enabled("GenericWorkload"), gates.enabled("OpportunisticBatching")
(True, True)
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, Self

from moorage.errors import ConfigError, ConfigErrors, did_you_mean

FLAG: Final = "--feature-gates"
COMPONENT: Final = "kube"


class Stage(Enum):
    """How mature a gate is."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate at effective version 1.37; a locked one keeps its default for ever."""

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

GATES: Final[Mapping[str, Gate]] = MappingProxyType({gate.name: gate for gate in _ALL})

#: Gates that stand for every gate of a stage which is not set by name.
GROUPS: Final[Mapping[str, Stage]] = MappingProxyType({"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA})


class FeatureGates:
    """Which gates are on: upstream's defaults and what the user changed. Immutable, hashable, equal by content."""

    __slots__ = ("_on",)

    def __init__(self, overrides: Mapping[str, bool] | None = None) -> None:
        """Apply overrides to the defaults; ConfigErrors lists each one that upstream would refuse."""
        overrides = overrides or {}
        if problems := [*_refused(overrides)]:
            raise ConfigErrors(problems)
        self._on = frozenset(gate.name for gate in _ALL if _setting(gate, overrides))
        if problems := [*_unmet_needs(self._on)]:
            raise ConfigErrors(problems)

    @classmethod
    def parse(cls, *flags: str) -> Self:
        """Read what `--feature-gates` was given, each time it was given: `A=true,B=false` or `kube:A=true`."""
        return cls(dict(assignments(*flags)))

    def enabled(self, name: str) -> bool:
        """Tell whether a gate is on; a name that is no gate at all is a mistake in the program."""
        if name not in GATES:
            raise LookupError(f"no feature gate is named {name!r}")
        return name in self._on

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FeatureGates) and self._on == other._on

    def __hash__(self) -> int:
        return hash(self._on)

    def __repr__(self) -> str:
        changed = [f"{name}={name in self._on}" for name, gate in GATES.items() if gate.default != (name in self._on)]
        return f"FeatureGates({', '.join(changed)})"


def _refused(overrides: Mapping[str, bool]) -> Iterator[ConfigError]:
    for name, value in overrides.items():
        if name in GROUPS:
            continue
        gate = GATES.get(name)
        if gate is None:
            hint = did_you_mean(name, [*GATES, *GROUPS])
            yield ConfigError(FLAG, f"unrecognized feature gate: {name}", hint=hint)
        elif gate.locked and value != gate.default:
            fixed = _go_bool(gate.default)
            yield ConfigError(
                FLAG,
                f"cannot set feature gate {name} to {_go_bool(value)}, feature is locked to {fixed}",
                hint=f"remove {name}: it has graduated and cannot be changed any more",
            )


def _setting(gate: Gate, overrides: Mapping[str, bool]) -> bool:
    if gate.name in overrides:
        return overrides[gate.name]
    for group, stage in GROUPS.items():
        if gate.stage is stage and group in overrides:
            return overrides[group]
    return gate.default


def _unmet_needs(on: Iterable[str]) -> Iterator[ConfigError]:
    for name in sorted(on):
        if missing := [need for need in GATES[name].needs if need not in on]:
            text = f"{name} is enabled, but depends on features that are disabled: [{' '.join(missing)}]"
            assignments = ",".join(f"{need}=true" for need in missing)
            yield ConfigError(FLAG, text, hint=f"add {assignments}, or {name}=false")


def assignments(*flags: str) -> Iterator[tuple[str, bool]]:
    """Read what `--feature-gates` was given into names and settings, known or not."""
    items = [item.strip() for item in ",".join(flags).split(",") if item.strip()]
    prefixed = [item for item in items if ":" in item]
    if prefixed and len(prefixed) < len(items):
        text = "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use"
        raise ConfigError(FLAG, text)
    for item in items:
        component, _, assignment = item.rpartition(":")
        if component not in ("", COMPONENT):
            raise ConfigError(FLAG, f"component not registered: {component}", hint="the only component is kube")
        yield _assignment(assignment)


def _assignment(text: str) -> tuple[str, bool]:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise ConfigError(FLAG, f"missing bool value for {name}", hint=f"write {name}=true or {name}=false")
    # Go's strconv.ParseBool, which knows these spellings and no others.
    if value in ("1", "t", "T", "TRUE", "true", "True"):
        return name, True
    if value in ("0", "f", "F", "FALSE", "false", "False"):
        return name, False
    text = f'invalid value of {name}={value}, err: strconv.ParseBool: parsing "{value}": invalid syntax'
    raise ConfigError(FLAG, text, hint="write true or false")


def _go_bool(value: bool) -> str:
    return "true" if value else "false"
