"""The feature gates of kube-scheduler: names, stages, defaults and overrides.

The values were read from a running kube-scheduler: `kubernetes_feature_enabled` on its /metrics, and its messages
when gates are set, for every version that 1.37 can emulate. The column of 1.38 follows the published plans; gates whose
row is not confirmed by a published module or a merged change are listed in ``UNCONFIRMED``.

>>> gates = FeatureGates.parse("GenericWorkload=true")
>>> gates.enabled("GenericWorkload"), gates.enabled("OpportunisticBatching")
(True, True)
"""

from collections.abc import Collection, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, Self

from msgspec import Struct

from moorage.common import version
from moorage.common.errors import ConfigError, ConfigErrors, did_you_mean
from moorage.common.version import RELEASE

FLAG: Final = "--feature-gates"
GATES_PAGE: Final = "correct or remove it; the page 'Feature gates' of the documentation lists all gates"
COMPONENT: Final = "kube"


class Stage(Enum):
    """The maturity of a gate."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"


class Gate(Struct, frozen=True):
    """One gate in one release. A locked gate cannot be changed."""

    name: str
    stage: Stage
    default: bool
    locked: bool = False
    needs: tuple[str, ...] = ()


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
    # A letter for each supported release, the name, and the gates that it needs. As in kube-scheduler, an older release
    # has the needs of the binary. A gate that a release has removed is not needed there.
    # Dynamic resources
    ("gGGG-", "DynamicResourceAllocation"),
    ("aabGG", "DRAExtendedResource", _DRA),
    ("bbGGG", "DRAAdminAccess", _DRA),
    ("bbgGG", "DRAPrioritizedList", _DRA),
    ("aabgG", "DRADeviceTaints", _DRA),
    ("-aogG", "DRADeviceTaintRules", "DRADeviceTaints"),
    ("aabbg", "DRAPartitionableDevices", _DRA),
    ("aabbg", "DRAConsumableCapacity", _DRA),
    ("---oo", "DRAFractionalCapacityRange", "DRAConsumableCapacity"),  # see _ON_FROM
    ("aabbg", "DRADeviceBindingConditions", _DRA, "DRAResourceClaimDeviceStatus"),
    ("bbbGG", "DRAResourceClaimDeviceStatus"),
    ("bbbbb", "DRASchedulerFilterTimeout", _DRA),
    ("--aoo", "DRAWorkloadResourceClaims", _DRA, "GenericWorkload"),
    ("--aao", "DRANodeAllocatableResources", _DRA),
    ("---ab", "DRAOptionalNodeOperations", _DRA, "NodeDeclaredFeatures"),
    ("--aaa", "DRAListTypeAttributes", _DRA),
    ("---ab", "DRADeviceCompatibilityGroups", _DRA, "DRAPartitionableDevices"),
    ("---ab", "DRADerivedAttributes", _DRA),
    # Volumes
    ("aaabb", "StorageCapacityScoring"),
    ("-aabg", "VolumeLimitScaling"),
    ("ggGGG", "VolumeAttributesClass"),
    # Nodes and pods
    ("-abGG", "NodeDeclaredFeatures"),
    ("bbbbb", "PodLevelResources"),
    ("---bb", "PodLevelResourcesFixDefaulting", "PodLevelResources"),
    ("---bb", "PodLevelResourcesFixKubeletQOSClass", "PodLevelResources"),
    ("bGGGG", "InPlacePodVerticalScaling"),
    (
        "-abbb",
        "InPlacePodLevelResourcesVerticalScaling",
        "InPlacePodVerticalScaling",
        "PodLevelResources",
        "NodeDeclaredFeatures",
    ),
    ("---ab", "InPlacePodVerticalScalingSchedulerPreemption", "InPlacePodVerticalScaling"),
    ("bbbbb", "MatchLabelKeysInPodTopologySpread"),
    ("bbbbb", "MatchLabelKeysInPodTopologySpreadSelectorMerge", "MatchLabelKeysInPodTopologySpread"),
    ("GGGGG", "NodeInclusionPolicyInPodTopologySpread"),
    ("GGGGG", "MatchLabelKeysInPodAffinity"),
    ("GGGGG", "PodSchedulingReadiness"),
    ("abbbb", "ContainerRestartRules"),
    ("-abbb", "RestartAllContainersOnContainerExits", "ContainerRestartRules", "NodeDeclaredFeatures"),
    ("bbGGG", "UserNamespacesSupport"),
    ("-aaaa", "UserNamespacesHostNetworkSupport", "UserNamespacesSupport", "NodeDeclaredFeatures"),
    ("-aaaa", "TaintTolerationComparisonOperators"),
    ("---aa", "VolumeBindMountOptions"),
    # The scheduler itself
    ("-bbbG", "OpportunisticBatching"),
    ("bbbbb", "SchedulerAsyncPreemption"),
    ("bbbbb", "SchedulerPopFromBackoffQ"),
    ("ooooo", "SchedulerAsyncAPICalls"),
    ("---ab", "SchedulerPreQueueingHints"),
    ("---aa", "InterPodAffinityHostnameFastPath"),
    ("abbbb", "NominatedNodeNameForExpectation"),
    ("abbbb", "ClearingNominatedNodeNameAfterBinding"),
    # Pod groups
    ("-aaog", "GenericWorkload"),
    ("--aab", "TopologyAwareWorkloadScheduling", "GenericWorkload"),
    ("---ao", "CompositePodGroup", "GenericWorkload", "TopologyAwareWorkloadScheduling"),
    ("---aa", "PodGroupPreemptionPolicy", "GenericWorkload"),
    ("--aab", "WorkloadWithJob", "GenericWorkload"),
    # The API server
    ("----a", "ManagedFieldsOptOut"),
    # The process
    ("aabbb", "ComponentFlagz"),
    ("aabbb", "ComponentStatusz"),
    ("ooooo", "CoordinatedLeaderElection"),
)

_ON_FROM: Final = {"DRAFractionalCapacityRange": (1, 37), "DRANodeAllocatableResources": (1, 38)}
"""Beta gates that are on by default if all components of the control plane have at least this release."""

#: Gates with a planned or assumed stage, default or lock in 1.38. A beta gate is assumed to be on by default, unless
#: its API is not served by default.
UNCONFIRMED: Final = frozenset(
    [
        "CompositePodGroup",
        "DRAConsumableCapacity",
        "DRADerivedAttributes",
        "DRADeviceBindingConditions",
        "DRADeviceCompatibilityGroups",
        "DRADeviceTaintRules",
        "DRADeviceTaints",
        "DRANodeAllocatableResources",
        "DRAOptionalNodeOperations",
        "DRAPartitionableDevices",
        "DRAWorkloadResourceClaims",
        "GenericWorkload",
        "InPlacePodVerticalScalingSchedulerPreemption",
        "OpportunisticBatching",
        "SchedulerPreQueueingHints",
        "TopologyAwareWorkloadScheduling",
        "VolumeLimitScaling",
        "WorkloadWithJob",
    ]
)


def _read_gates(column: int) -> Iterator[Gate]:
    removed_gates = {
        name for letters, name, *_ in _TABLE if column and letters[column] == "-" and letters[column - 1] != "-"
    }
    for letters, name, *needs in _TABLE:
        if letters[column] in _STAGES:
            yield Gate(
                name, *_STAGES[letters[column]], needs=tuple(need for need in needs if need not in removed_gates)
            )


#: The gates of every release that can be emulated, the newest first.
RELEASES: Final[Mapping[str, Mapping[str, Gate]]] = MappingProxyType(
    {
        release: MappingProxyType({gate.name: gate for gate in _read_gates(column)})
        for column, release in reversed([*enumerate(version.RELEASES)])
    }
)
GATES: Final = RELEASES[RELEASE]
_ALL_NAMES: Final = frozenset(name for _, name, *_ in _TABLE)

#: Names that set all gates of a stage, except gates that are set by name.
GROUPS: Final[Mapping[str, Stage]] = MappingProxyType({"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA})


class FeatureGates:
    """The enabled gates: defaults of a release and overrides of the user. Immutable, hashable, equal by content."""

    __slots__ = ("_on", "_version", "oldest", "release")

    def __init__(
        self, overrides: Mapping[str, bool] | None = None, *, release: str = RELEASE, oldest: str | None = None
    ) -> None:
        """Apply overrides to the defaults; ConfigErrors lists each one that upstream would reject.

        ``oldest`` is the oldest release in the control plane; one before ``release`` by default.
        """
        overrides = overrides or {}
        self.release = release
        self.oldest = oldest = oldest or previous_release(release)
        self._version = version_pair(release)
        if problems := [*_list_rejections(overrides, release, oldest)]:
            raise ConfigErrors(problems)
        gates = RELEASES[release]
        on = {name for name, gate in gates.items() if _setting(gate, overrides, oldest)}
        if problems := [*_unmet_needs(gates, on)]:
            raise ConfigErrors(problems)
        # A gate that was removed in this release had graduated: its feature is always on.
        self._on = frozenset(on | {name for name in GATES if name not in gates and self.since(1, 38)})

    @classmethod
    def parse(cls, *flags: str) -> Self:
        """Parse the values of all `--feature-gates` flags: `A=true,B=false` or `kube:A=true`."""
        return cls(dict(assignments(*flags)))

    def enabled(self, name: str) -> bool:
        """Return whether a gate is enabled. Raise LookupError for an unknown gate."""
        if name not in _ALL_NAMES:
            raise LookupError(f"no feature gate is named {name!r}")
        return name in self._on

    def since(self, major: int, minor: int) -> bool:
        """Return whether the emulated release is this one or newer. No other code compares releases.

        >>> FeatureGates(release="1.38").since(1, 38), FeatureGates().since(1, 38)
        (True, False)
        """
        return self._version >= (major, minor)

    def compatible_since(self, major: int, minor: int) -> bool:
        """Return whether every component of the control plane has this release or a newer one."""
        return version_pair(self.oldest) >= (major, minor)

    @property
    def gates(self) -> Mapping[str, Gate]:
        """The gates that the release has."""
        return RELEASES[self.release]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FeatureGates) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[frozenset[str], str, str]:
        return self._on, self.release, self.oldest

    def __repr__(self) -> str:
        emulated = [] if self.release == RELEASE else [f"release={self.release!r}"]
        gates = self.gates.items()
        settings = [f"{name}={name in self._on}" for name, gate in gates if gate.default != (name in self._on)]
        return f"FeatureGates({', '.join([*settings, *emulated])})"


def previous_release(release: str) -> str:
    """Return the release before one, or the oldest there is."""
    releases = [*RELEASES]
    return releases[min(releases.index(release) + 1, len(releases) - 1)]


def version_pair(release: str) -> tuple[int, int]:
    """Return a release as numbers, which compare correctly.

    >>> version_pair("1.9") < version_pair("1.38")
    True
    """
    major, minor = release.split(".")
    return int(major), int(minor)


def _list_rejections(overrides: Mapping[str, bool], release: str, oldest: str) -> Iterator[ConfigError]:
    for name, value in overrides.items():
        if name in GROUPS:
            continue
        gates = known_gates(release)
        gate = RELEASES[release].get(name)
        setting = f"cannot set feature gate {name} to {go_bool(value)}, feature is"
        if name not in gates:
            hint = did_you_mean(name, [*gates, *GROUPS]) or GATES_PAGE
            yield ConfigError(FLAG, f"unrecognized feature gate: {name}", hint=hint)
        elif gate is None:
            text = f"{setting} PreAlpha at emulated version {release}, min compatibility version {oldest}"
            yield ConfigError(FLAG, text, hint=f"remove {name}: release {release} did not have it")
        elif gate.locked and value != gate.default:
            hint = f"remove {name}: it has graduated and cannot be changed any more"
            yield ConfigError(FLAG, f"{setting} locked to {go_bool(gate.default)}", hint=hint)


def known_gates(release: str) -> Mapping[str, Gate]:
    """Return the gates that kube-scheduler recognizes: the gates of its release, regardless of the emulated release."""
    return RELEASES[max(release, RELEASE, key=version_pair)]


def _setting(gate: Gate, overrides: Mapping[str, bool], oldest: str) -> bool:
    if gate.name in overrides:
        return overrides[gate.name]
    for group, stage in GROUPS.items():
        if gate.stage is stage and group in overrides:
            return overrides[group]
    return gate.default or (gate.name in _ON_FROM and version_pair(oldest) >= _ON_FROM[gate.name])


def _unmet_needs(gates: Mapping[str, Gate], on: Collection[str]) -> Iterator[ConfigError]:
    for name in sorted(on):
        if unmet_needs := [need for need in gates[name].needs if need not in on]:
            text = f"{name} is enabled, but depends on features that are disabled: [{' '.join(unmet_needs)}]"
            assignments = ",".join(f"{need}=true" for need in unmet_needs)
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
