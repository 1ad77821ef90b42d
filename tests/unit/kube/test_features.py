"""Feature gates: upstream's defaults, and the overrides upstream would accept or reject."""

import re
from pathlib import Path

import pytest

from moorage.common.errors import ConfigError
from moorage.common.version import KUBERNETES, RELEASE
from moorage.kube.features import RELEASES, UNCONFIRMED, FeatureGates, Stage

ON_BY_DEFAULT = {
    "a locked stable gate": ("DynamicResourceAllocation", True),
    "a beta gate": ("OpportunisticBatching", True),
    "new in this release": ("StorageCapacityScoring", True),
    "a beta gate that remains off": ("GenericWorkload", False),
    "another one": ("SchedulerAsyncAPICalls", False),
    "an alpha gate": ("TaintTolerationComparisonOperators", False),
}

ACCEPTED = {
    "nothing": ("", {}),
    "one gate": ("GenericWorkload=true", {"GenericWorkload": True}),
    "several, with spaces": (
        " GenericWorkload = true , VolumeLimitScaling=False",
        {"GenericWorkload": True, "VolumeLimitScaling": False},
    ),
    "Go's other spellings of a bool": (
        "GenericWorkload=t,VolumeLimitScaling=0",
        {"GenericWorkload": True, "VolumeLimitScaling": False},
    ),
    "the component's prefix": ("kube:GenericWorkload=true", {"GenericWorkload": True}),
    "a trailing comma": ("GenericWorkload=true,", {"GenericWorkload": True}),
    "the last of two wins": ("GenericWorkload=true,GenericWorkload=false", {"GenericWorkload": False}),
    "a locked gate set to its value": ("DynamicResourceAllocation=true", {"DynamicResourceAllocation": True}),
    "a stable gate that is not locked yet": (
        "DRADeviceTaints=false,DRADeviceTaintRules=false",
        {"DRADeviceTaints": False},
    ),
    "every beta gate together": (
        "AllBeta=true",
        {"GenericWorkload": True, "SchedulerAsyncAPICalls": True, "TaintTolerationComparisonOperators": False},
    ),
    "a gate by name beats its group": (
        "GenericWorkload=false,AllBeta=true,DRAWorkloadResourceClaims=false",
        {"GenericWorkload": False, "SchedulerAsyncAPICalls": True},
    ),
    "no beta gate leaves the stable ones": (
        "AllBeta=false",
        {"OpportunisticBatching": False, "NodeDeclaredFeatures": True},
    ),
    "every alpha gate, with its dependencies": (
        "AllAlpha=true,GenericWorkload=true",
        {"CompositePodGroup": True, "SchedulerPreQueueingHints": True},
    ),
}

REFUSED = {
    "an unknown gate": (
        "GenericWorkloads=true",
        ["unrecognized feature gate: GenericWorkloads", "did you mean 'GenericWorkload'?"],
    ),
    "a removed gate": ("SchedulerQueueingHints=true", ["unrecognized feature gate: SchedulerQueueingHints"]),
    "a locked gate": (
        "NodeDeclaredFeatures=false",
        ["cannot set feature gate NodeDeclaredFeatures to false, feature is locked to true"],
    ),
    "several mistakes together": (
        "Nope=true,NodeDeclaredFeatures=false",
        [
            "unrecognized feature gate: Nope",
            "hint: correct or remove it; the page 'Feature gates'",
            "feature is locked to true",
        ],
    ),
    "a gate without what it needs": (
        "TopologyAwareWorkloadScheduling=true",
        [
            "TopologyAwareWorkloadScheduling is enabled, but depends on features that are disabled: [GenericWorkload]",
            "add GenericWorkload=true",
        ],
    ),
    "a need taken away from a default": (
        "PodLevelResources=false",
        [
            "InPlacePodLevelResourcesVerticalScaling is enabled, but depends on features that are disabled: "
            "[PodLevelResources]"
        ],
    ),
    "no value": ("GenericWorkload", ["missing bool value for GenericWorkload"]),
    "a value that is not a bool": (
        "GenericWorkload=yes",
        ["invalid value of GenericWorkload=yes", "write true or false"],
    ),
    "another component": ("etcd:GenericWorkload=true", ["component not registered: etcd"]),
    "mixed prefixes": ("kube:GenericWorkload=true,VolumeLimitScaling=false", ["do not mix use"]),
}


@pytest.mark.release("1.37")
@pytest.mark.parametrize(("name", "want"), ON_BY_DEFAULT.values(), ids=ON_BY_DEFAULT)
def test_defaults(name: str, want: bool) -> None:
    assert FeatureGates().enabled(name) is want


@pytest.mark.release("1.37")
@pytest.mark.parametrize(("flag", "want"), ACCEPTED.values(), ids=ACCEPTED)
def test_accepted_overrides(flag: str, want: dict[str, bool]) -> None:
    gates = FeatureGates.parse(flag)
    assert {name: gates.enabled(name) for name in want} == want


@pytest.mark.release("1.37")
@pytest.mark.parametrize(("flag", "texts"), REFUSED.values(), ids=REFUSED)
def test_rejected_overrides(flag: str, texts: list[str]) -> None:
    with pytest.raises(ConfigError) as refusal:
        FeatureGates.parse(flag)
    assert [text for text in texts if text not in str(refusal.value)] == []


def test_the_flag_may_be_given_several_times() -> None:
    gates = FeatureGates.parse("GenericWorkload=true", "PodGroupPreemptionPolicy=true")
    assert gates.enabled("PodGroupPreemptionPolicy")


@pytest.mark.release("1.37")
def test_equal_gates_are_equal_values() -> None:
    assert FeatureGates.parse("OpportunisticBatching=true") == FeatureGates()
    assert hash(FeatureGates.parse("OpportunisticBatching=true")) == hash(FeatureGates())
    assert FeatureGates.parse("OpportunisticBatching=false") != FeatureGates()
    assert repr(FeatureGates.parse("OpportunisticBatching=false")) == "FeatureGates(OpportunisticBatching=False)"


def test_query_of_an_undefined_gate_is_a_programming_error() -> None:
    with pytest.raises(LookupError, match="no feature gate is named 'Nope'"):
        FeatureGates().enabled("Nope")


@pytest.mark.parametrize("release", RELEASES)
def test_the_table_is_consistent(release: str) -> None:
    gates = RELEASES[release]
    needs = {need for gate in gates.values() for need in gate.needs}
    assert needs <= set(gates)
    assert not [gate.name for gate in gates.values() if gate.locked and gate.stage is not Stage.GA]
    assert FeatureGates(release=release).release == release


@pytest.mark.release("1.37")
def test_releases_compare_as_numbers() -> None:
    assert FeatureGates().since(1, 9)
    assert FeatureGates().since(1, 37)
    assert not FeatureGates().since(1, 38)
    assert FeatureGates(release="1.38").since(1, 38)
    assert FeatureGates(release="1.38", oldest="1.38").compatible_since(1, 38)
    assert not FeatureGates(release="1.38").compatible_since(1, 38)


def test_no_other_code_compares_releases() -> None:
    source = Path(__file__).parents[3] / "src" / "moorage"
    texts = {path: path.read_text(encoding="utf-8") for path in source.rglob("*.py")}
    compared = re.compile(r"\.release [<>=!]|[<>=]= \"1\.\d\d\"")
    allowed = {"features.py"}
    assert [path.name for path, text in texts.items() if compared.search(text) and path.name not in allowed] == []


@pytest.mark.release("1.37")
def test_the_default_is_the_release_of_the_binary() -> None:
    assert KUBERNETES.startswith(f"v{RELEASE}.")
    assert FeatureGates().release == RELEASE


@pytest.mark.provisional("1.38")
def test_stages_of_the_next_release_are_assumed() -> None:
    gates = RELEASES["1.38"]
    stages = {name: (gates[name].stage, gates[name].default, gates[name].locked) for name in UNCONFIRMED}
    assert stages["GenericWorkload"] == (Stage.GA, True, False)
    assert stages["TopologyAwareWorkloadScheduling"] == (Stage.BETA, True, False)
    assert stages["CompositePodGroup"] == (Stage.BETA, False, False)
    assert stages["SchedulerPreQueueingHints"] == (Stage.BETA, True, False)
    assert stages["OpportunisticBatching"] == (Stage.GA, True, True)
    assert {gates[name].stage for name in UNCONFIRMED} == {Stage.BETA, Stage.GA}
