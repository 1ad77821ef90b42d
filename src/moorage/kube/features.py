"""The feature gates of kube-scheduler: names, stages, defaults and overrides.

The values were read from a running kube-scheduler: `kubernetes_feature_enabled` on its /metrics, and its messages
when gates are set, for every version that 1.37 can emulate.

>>> gates = FeatureGates.parse("GenericWorkload=true")
>>> gates.enabled("GenericWorkload"), gates.enabled("OpportunisticBatching")
(True, True)
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, Self

from msgspec import Struct

from moorage.common.errors import ConfigError, ConfigErrors, did_you_mean

FLAG: Final = "--feature-gates"
COMPONENT: Final = "kube"


class Stage(Enum):
    """How mature a gate is."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"


class Gate(Struct, frozen=True):
    """One gate in one release; a locked gate cannot be changed."""

    name: str
    stage: Stage
    default: bool
    locked: bool = False
    needs: tuple[str, ...] = ()


_SUPPORTED: Final = ("1.34", "1.35", "1.36", "1.37")
OLDEST: Final = _SUPPORTED[0]
"""The oldest release that 1.37 can emulate or work with."""
RELEASE: Final = _SUPPORTED[-1]
_STAGES: Final[Mapping[str, tuple[Stage, bool, bool]]] = {
    "a": (Stage.ALPHA, False, False),
    "b": (Stage.BETA, True, False),
    "o": (Stage.BETA, False, False),
    "g": (Stage.GA, True, False),
    "G": (Stage.GA, True, True),
}
"""Stage, default, and whether the default is locked. A dash means that a release did not have the gate."""
_DRA: Final = "DynamicResourceAllocation"
_TABLE: Final[tuple[tuple[str, ...], ...]] = (
    # A letter for each supported release, the name, and the gates that it needs.
    # Dynamic resources
    ("gGGG", "DynamicResourceAllocation"),
    ("aabG", "DRAExtendedResource", _DRA),
    ("bbGG", "DRAAdminAccess", _DRA),
    ("bbgG", "DRAPrioritizedList", _DRA),
    ("aabg", "DRADeviceTaints", _DRA),
    ("-aog", "DRADeviceTaintRules", "DRADeviceTaints"),
    ("aabb", "DRAPartitionableDevices", _DRA),
    ("aabb", "DRAConsumableCapacity", _DRA),
    # On only with --min-compatibility-version=1.37; kube-scheduler's default is one release lower.
    ("---o", "DRAFractionalCapacityRange", "DRAConsumableCapacity"),
    ("aabb", "DRADeviceBindingConditions", _DRA, "DRAResourceClaimDeviceStatus"),
    ("bbbG", "DRAResourceClaimDeviceStatus"),
    ("bbbb", "DRASchedulerFilterTimeout", _DRA),
    ("--ao", "DRAWorkloadResourceClaims", _DRA, "GenericWorkload"),
    ("--aa", "DRANodeAllocatableResources", _DRA),
    ("---a", "DRAOptionalNodeOperations", _DRA, "NodeDeclaredFeatures"),
    ("--aa", "DRAListTypeAttributes", _DRA),
    ("---a", "DRADeviceCompatibilityGroups", _DRA, "DRAPartitionableDevices"),
    ("---a", "DRADerivedAttributes", _DRA),
    # Volumes
    ("aaab", "StorageCapacityScoring"),
    ("-aab", "VolumeLimitScaling"),
    ("ggGG", "VolumeAttributesClass"),
    # Nodes and pods
    ("-abG", "NodeDeclaredFeatures"),
    ("bbbb", "PodLevelResources"),
    ("---b", "PodLevelResourcesFixDefaulting", "PodLevelResources"),
    ("---b", "PodLevelResourcesFixKubeletQOSClass", "PodLevelResources"),
    ("bGGG", "InPlacePodVerticalScaling"),
    (
        "-abb",
        "InPlacePodLevelResourcesVerticalScaling",
        "InPlacePodVerticalScaling",
        "PodLevelResources",
        "NodeDeclaredFeatures",
    ),
    ("---a", "InPlacePodVerticalScalingSchedulerPreemption", "InPlacePodVerticalScaling"),
    ("bbbb", "MatchLabelKeysInPodTopologySpread"),
    ("bbbb", "MatchLabelKeysInPodTopologySpreadSelectorMerge", "MatchLabelKeysInPodTopologySpread"),
    ("GGGG", "NodeInclusionPolicyInPodTopologySpread"),
    ("GGGG", "MatchLabelKeysInPodAffinity"),
    ("GGGG", "PodSchedulingReadiness"),
    ("abbb", "ContainerRestartRules"),
    ("-abb", "RestartAllContainersOnContainerExits", "ContainerRestartRules", "NodeDeclaredFeatures"),
    ("bbGG", "UserNamespacesSupport"),
    ("-aaa", "UserNamespacesHostNetworkSupport", "UserNamespacesSupport", "NodeDeclaredFeatures"),
    ("-aaa", "TaintTolerationComparisonOperators"),
    ("---a", "VolumeBindMountOptions"),
    # The scheduler itself
    ("-bbb", "OpportunisticBatching"),
    ("bbbb", "SchedulerAsyncPreemption"),
    ("bbbb", "SchedulerPopFromBackoffQ"),
    ("oooo", "SchedulerAsyncAPICalls"),
    ("---a", "SchedulerPreQueueingHints"),
    ("---a", "InterPodAffinityHostnameFastPath"),
    ("abbb", "NominatedNodeNameForExpectation"),
    ("abbb", "ClearingNominatedNodeNameAfterBinding"),
    # Pod groups
    ("-aao", "GenericWorkload"),
    ("--aa", "TopologyAwareWorkloadScheduling", "GenericWorkload"),
    ("---a", "CompositePodGroup", "GenericWorkload", "TopologyAwareWorkloadScheduling"),
    ("---a", "PodGroupPreemptionPolicy", "GenericWorkload"),
    ("--aa", "WorkloadWithJob", "GenericWorkload"),
    # The process
    ("aabb", "ComponentFlagz"),
    ("aabb", "ComponentStatusz"),
    ("oooo", "CoordinatedLeaderElection"),
)

#: The gates of every release that can be emulated, the newest first.
RELEASES: Final[Mapping[str, Mapping[str, Gate]]] = MappingProxyType(
    {
        release: MappingProxyType(
            {
                name: Gate(name, *_STAGES[letters[column]], needs=tuple(needs))
                for letters, name, *needs in _TABLE
                if letters[column] in _STAGES
            }
        )
        for column, release in reversed([*enumerate(_SUPPORTED)])
    }
)
GATES: Final = RELEASES[RELEASE]

#: Names that set all gates of a stage, except gates that are set by name.
GROUPS: Final[Mapping[str, Stage]] = MappingProxyType({"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA})


class FeatureGates:
    """The enabled gates: defaults of a release and overrides of the user. Immutable, hashable, equal by content."""

    __slots__ = ("_on", "oldest", "release")

    def __init__(
        self, overrides: Mapping[str, bool] | None = None, *, release: str = RELEASE, oldest: str | None = None
    ) -> None:
        """Apply overrides to the defaults; ConfigErrors lists each one that upstream would reject.

        ``oldest`` is the oldest release in the control plane; one before ``release`` by default.
        """
        overrides = overrides or {}
        self.release = release
        self.oldest = oldest = oldest or one_before(release)
        if problems := [*_refused(overrides, release, oldest)]:
            raise ConfigErrors(problems)
        if oldest == RELEASE:
            # The only gate whose default depends on every component of the control plane.
            overrides = {"DRAFractionalCapacityRange": overrides.get("DRAConsumableCapacity", True), **overrides}
        self._on = frozenset(name for name, gate in RELEASES[release].items() if _setting(gate, overrides))
        if problems := [*_unmet_needs(self._on)]:
            raise ConfigErrors(problems)

    @classmethod
    def parse(cls, *flags: str) -> Self:
        """Parse the values of all `--feature-gates` flags: `A=true,B=false` or `kube:A=true`."""
        return cls(dict(assignments(*flags)))

    def enabled(self, name: str) -> bool:
        """Return whether a gate is enabled; raise LookupError for an unknown gate."""
        if name not in GATES:
            raise LookupError(f"no feature gate is named {name!r}")
        return name in self._on

    @property
    def gates(self) -> Mapping[str, Gate]:
        """The gates that the release has."""
        return RELEASES[self.release]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FeatureGates) and (self._on, self.release) == (other._on, other.release)

    def __hash__(self) -> int:
        return hash((self._on, self.release))

    def __repr__(self) -> str:
        emulated = [] if self.release == RELEASE else [f"release={self.release!r}"]
        gates = self.gates.items()
        changed = [f"{name}={name in self._on}" for name, gate in gates if gate.default != (name in self._on)]
        return f"FeatureGates({', '.join([*changed, *emulated])})"


def one_before(release: str) -> str:
    """Return the release before one, or the oldest there is."""
    releases = [*RELEASES]
    return releases[min(releases.index(release) + 1, len(releases) - 1)]


def _refused(overrides: Mapping[str, bool], release: str, oldest: str) -> Iterator[ConfigError]:
    for name, value in overrides.items():
        if name in GROUPS:
            continue
        gate = RELEASES[release].get(name)
        setting = f"cannot set feature gate {name} to {go_bool(value)}, feature is"
        if name not in GATES:
            hint = did_you_mean(name, [*GATES, *GROUPS])
            yield ConfigError(FLAG, f"unrecognized feature gate: {name}", hint=hint)
        elif gate is None:
            text = f"{setting} PreAlpha at emulated version {release}, min compatibility version {oldest}"
            yield ConfigError(FLAG, text, hint=f"remove {name}: release {release} did not have it")
        elif gate.locked and value != gate.default:
            hint = f"remove {name}: it has graduated and cannot be changed any more"
            yield ConfigError(FLAG, f"{setting} locked to {go_bool(gate.default)}", hint=hint)


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
    """Parse the values of `--feature-gates` into names and settings, known or unknown."""
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
    # Go's strconv.ParseBool, which accepts only these spellings.
    if value in ("1", "t", "T", "TRUE", "true", "True"):
        return name, True
    if value in ("0", "f", "F", "FALSE", "false", "False"):
        return name, False
    text = f'invalid value of {name}={value}, err: strconv.ParseBool: parsing "{value}": invalid syntax'
    raise ConfigError(FLAG, text, hint="write true or false")


def go_bool(value: bool) -> str:
    """Spell a bool as Go does."""
    return "true" if value else "false"
