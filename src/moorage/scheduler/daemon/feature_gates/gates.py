"""The feature gates of a command line: supported gates, and gates that change nothing here.

kube-scheduler accepts every gate of Kubernetes, and manifests set one list for all components; so gates of the kubelet
or the API server are accepted here, too. A gate that cannot be switched off here is refused by name, never ignored.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from moorage.common.errors import ConfigError, ConfigErrors, did_you_mean
from moorage.kube.features import (
    COMPONENT,
    FLAG,
    GATES,
    GROUPS,
    OLDEST,
    RELEASE,
    RELEASES,
    FeatureGates,
    Stage,
    assignments,
    go_bool,
    one_before,
)
from moorage.scheduler.daemon.feature_gates.other_components import ELSEWHERE, LOCKED_OFF, LOCKED_ON

EMULATED: Final = "--emulated-version"
COMPATIBLE: Final = "--min-compatibility-version"
_VERSION: Final = re.compile(r"1\.\d+")
_WITH_PATCH: Final = re.compile(r"1\.\d+\.\d+")

#: Gates that are ours to know and whose setting changes nothing here, with the reason.
MOOT: Final[Mapping[str, str]] = {
    "OpportunisticBatching": "cached results replace it and never change a decision",
    "SchedulerAsyncAPICalls": "writes never delay a cycle, with or without it",
    "SchedulerPreQueueingHints": "rejected pods are always filed by plugin",
    "InterPodAffinityHostnameFastPath": "affinity by host name is always a look-up",
    "ClearingNominatedNodeNameAfterBinding": "the API server does that",
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": "the API server does that",
    "PodLevelResourcesFixDefaulting": "the API server does that",
    "PodLevelResourcesFixKubeletQOSClass": "the kubelet does that",
    "ContainerRestartRules": "the API server and the kubelet do that",
    "UserNamespacesSupport": "the kubelet does that",
    "RestartAllContainersOnContainerExits": "what a pod needs of its node is read from its spec in any case",
    "UserNamespacesHostNetworkSupport": "what a pod needs of its node is read from its spec in any case",
    "VolumeBindMountOptions": "what a pod needs of its node is read from its spec in any case",
    "WorkloadWithJob": "the job controller does that; the one of `moorage up` does, too",
}

#: Gates that an emulated release can still switch off, but we cannot, with what we would have to leave out.
PERMANENT: Final[Mapping[str, str]] = {
    "DynamicResourceAllocation": "device claims",
    "VolumeAttributesClass": "the classes of volumes",
    "InPlacePodVerticalScaling": "the kubelet's report of a resize",
}


class GateChoice(Struct, frozen=True):
    """The gates in force, and gates worth a log line: those without effect, and those no longer supported."""

    features: FeatureGates
    moot: Mapping[str, str] = field(default_factory=dict)
    unsupported: tuple[str, ...] = ()
    """Alpha features of an emulated release: upstream has them, and tests them no more."""


def choose_gates(flags: Sequence[str], emulated: Sequence[str] = (), compatible: Sequence[str] = ()) -> GateChoice:
    """Read --feature-gates, --emulated-version and --min-compatibility-version; ConfigErrors lists invalid values."""
    release, oldest = _releases(emulated, compatible)
    gate_values = dict(assignments(*flags))
    if problems := [*_unknown(gate_values), *_locked(gate_values, release)]:
        raise ConfigErrors(problems)
    own = {name: value for name, value in gate_values.items() if name not in ELSEWHERE}
    features = FeatureGates(own, release=release, oldest=oldest)
    if problems := [*_permanent(features)]:
        raise ConfigErrors(problems)
    moot = {name: MOOT.get(name, "it belongs to another component") for name in gate_values if _is_moot(name)}
    return GateChoice(features, moot, tuple(_unsupported(features)))


def all_gates(flags: Sequence[str]) -> FeatureGates:
    """Read --feature-gates where nothing is to be run: what we cannot switch off may be off, too."""
    gate_values = dict(assignments(*flags))
    if problems := [*_unknown(gate_values), *_locked(gate_values, RELEASE)]:
        raise ConfigErrors(problems)
    return FeatureGates({name: value for name, value in gate_values.items() if name not in ELSEWHERE})


def _is_moot(name: str) -> bool:
    return name in MOOT or name in ELSEWHERE


def _unknown(gate_values: Mapping[str, bool]) -> Iterator[ConfigError]:
    for name in gate_values:
        if name not in GATES and name not in GROUPS and name not in ELSEWHERE:
            hint = did_you_mean(name, [*GATES, *GROUPS, *ELSEWHERE])
            yield ConfigError(FLAG, f"unrecognized feature gate: {name}", hint=hint)


def _locked(gate_values: Mapping[str, bool], release: str) -> Iterator[ConfigError]:
    # The history of other components' gates is not available here, and changes nothing.
    for name, value in gate_values.items() if release == RELEASE else ():
        if (name in LOCKED_ON and not value) or (name in LOCKED_OFF and value):
            text = f"cannot set feature gate {name} to {go_bool(value)}, feature is locked to {go_bool(not value)}"
            yield ConfigError(FLAG, text, hint=f"remove {name}: it cannot be changed any more")


def _permanent(features: FeatureGates) -> Iterator[ConfigError]:
    for name, description in PERMANENT.items():
        if not features.enabled(name):
            text = f"cannot set feature gate {name} to false: moorage always heeds {description}"
            yield ConfigError(FLAG, text, hint=f"leave {name} out")


def _unsupported(features: FeatureGates) -> Iterator[str]:
    for name, gate in features.gates.items():
        if features.release != RELEASE and gate.stage is Stage.ALPHA and features.enabled(name):
            yield name


def _releases(emulated: Sequence[str], compatible: Sequence[str]) -> tuple[str, str]:
    """Return the release to emulate and the oldest one to get on with; both as kube-scheduler checks them."""
    release = _version(EMULATED, emulated) or RELEASE
    if release not in RELEASES:
        text = f"emulation version {release} is not between [{OLDEST}, {RELEASE}.0]"
        raise ConfigError(EMULATED, text, hint=f"write one of {', '.join(RELEASES)}, or leave it out")
    oldest = _version(COMPATIBLE, compatible) or one_before(release)
    if oldest not in RELEASES or oldest > release:
        text = f"minCompatibilityVersion version {oldest} is not between [{OLDEST}, {release}]"
        raise ConfigError(COMPATIBLE, text, hint=f"write {one_before(release)} or {release}, or leave it out")
    return release, oldest


def _version(flag: str, values: Sequence[str]) -> str:
    version = ""
    for item in values:
        component, _, version = item.strip().rpartition("=")
        if component not in ("", COMPONENT):
            raise ConfigError(flag, f"component not registered: {component}", hint="the only component is kube")
        version = version.removeprefix("v")
        if _WITH_PATCH.fullmatch(version):
            raise ConfigError(flag, f"patch version not allowed, got: kube={version}", hint=f"write {version[:4]}")
        if not _VERSION.fullmatch(version):
            raise ConfigError(
                flag, f"could not parse {version!r} as version", hint=f"write {RELEASE} or kube={RELEASE}"
            )
    return version
