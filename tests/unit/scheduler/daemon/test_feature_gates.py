"""Feature gates on the command line."""

from pathlib import Path

import pytest
from manual.tables import HONORED_GATES

from moorage.common.errors import ConfigError
from moorage.kube.features import GATES, RELEASES
from moorage.scheduler.daemon.feature_gates import MOOT, PERMANENT, choose_gates

ROOT = Path(__file__).parents[5]


def test_every_gate_can_be_enabled() -> None:
    all_enabled = ",".join(f"{name}=true" for name in GATES)
    choice = choose_gates([all_enabled])
    assert all(choice.features.enabled(name) for name in GATES)
    assert choose_gates(["AllAlpha=true,AllBeta=true"]).features.enabled("CompositePodGroup")


OFF = {
    name: ",".join(f"{other.name}=false" for other in GATES.values() if name in other.needs and other.default)
    for name, gate in GATES.items()
    if gate.default and not gate.locked
}


@pytest.mark.parametrize("name", OFF)
def test_a_gate_that_is_on_can_be_switched_off(name: str) -> None:
    choice = choose_gates([f"{name}=false,{OFF[name]}"])
    assert not choice.features.enabled(name)
    assert (name in choice.moot) == (name in MOOT)


NO_DECLARED_FEATURES = [
    "NodeDeclaredFeatures=false,RestartAllContainersOnContainerExits=false,InPlacePodLevelResourcesVerticalScaling=false"
]
SETTINGS = {
    "no settings": ([], [], [], "DRAFractionalCapacityRange", False),
    "a control plane all of this release": ([], [], ["1.37"], "DRAFractionalCapacityRange", True),
    "unless all beta features are off": (["AllBeta=false"], [], ["1.37"], "DRAFractionalCapacityRange", False),
    "a control plane of the release before the next": ([], ["1.38"], [], "DRAFractionalCapacityRange", True),
    "an older one": ([], ["1.38"], ["1.36"], "DRAFractionalCapacityRange", False),
    "a gate that needs the next release everywhere": ([], ["1.38"], ["1.38"], "DRANodeAllocatableResources", True),
    "a control plane that is partly older": ([], ["1.38"], [], "DRANodeAllocatableResources", False),
    "a removed gate of a feature that is always on": ([], ["1.38"], [], "DynamicResourceAllocation", True),
    "groups become stable": ([], ["1.38"], [], "GenericWorkload", True),
    "a beta that was alpha": ([], ["1.36"], [], "StorageCapacityScoring", False),
    "alpha may be switched on": (["StorageCapacityScoring=true"], ["1.36"], [], "StorageCapacityScoring", True),
    "a stable one that was alpha": ([], ["1.35"], [], "NodeDeclaredFeatures", False),
    "a stable one that was beta": (NO_DECLARED_FEATURES, ["1.36"], [], "NodeDeclaredFeatures", False),
    "one that was not there": ([], ["1.34"], [], "OpportunisticBatching", False),
    "one that existed in all releases": ([], ["v1.34"], [], "SchedulerAsyncPreemption", True),
    "with the component named": (
        ["kube:SchedulerAsyncPreemption=false"],
        ["kube=1.37"],
        [],
        "SchedulerAsyncPreemption",
        False,
    ),
}


@pytest.mark.parametrize(("gates", "emulated", "compatible", "name", "want"), SETTINGS.values(), ids=SETTINGS)
def test_versions(gates: list[str], emulated: list[str], compatible: list[str], name: str, want: bool) -> None:
    assert choose_gates(gates, emulated, compatible).features.enabled(name) is want


def test_alpha_features_of_an_emulated_release_are_reported() -> None:
    assert choose_gates(["StorageCapacityScoring=true"], ["1.36"]).unsupported == ("StorageCapacityScoring",)
    assert not choose_gates(["SchedulerPreQueueingHints=true"]).unsupported


def test_gates_of_other_components_may_have_values_of_an_emulated_release() -> None:
    assert choose_gates(["NodeSwap=false"], ["1.34"]).moot == {"NodeSwap": "it belongs to another component"}


def test_gates_of_other_components_follow_the_release() -> None:
    assert "ManagedFieldsOptOut" in choose_gates(["ManagedFieldsOptOut=true"], ["1.38"]).moot
    assert "PodCertificateMLDSA" in choose_gates(["PodCertificateMLDSA=true"], ["1.38"]).moot
    assert "AggregatedDiscoveryRemoveBetaType" in choose_gates(["AggregatedDiscoveryRemoveBetaType=true"]).moot


def test_gates_of_other_components_are_accepted_and_reported() -> None:
    assert choose_gates(["WatchList=false"]).moot == {"WatchList": "it belongs to another component"}


REFUSED = {
    "an unknown gate": (["SchedulerAsyncPremption=true"], [], [], "did you mean 'SchedulerAsyncPreemption'"),
    "an unknown gate like another component's": (["WatchLst=true"], [], [], "did you mean 'WatchList'"),
    "a future release": ([], ["1.39"], [], r"emulation version 1.39 is not between \[1.34, 1.38.0\]"),
    "a removed gate": (["DynamicResourceAllocation=true"], ["1.38"], [], "unrecognized feature gate: DynamicRes"),
    "another component's removed gate": (["AggregatedDiscoveryRemoveBetaType=true"], ["1.38"], [], "unrecognized"),
    "a gate of the next release": (
        ["ManagedFieldsOptOut=true"],
        [],
        [],
        "unrecognized feature gate: ManagedFieldsOptOut\n"
        "  hint: correct or remove it; the page 'Feature gates' of the documentation lists all gates",
    ),
    "a default without what it needs": (
        ["DRAConsumableCapacity=false"],
        [],
        ["1.37"],
        r"DRAFractionalCapacityRange is enabled, but depends on features that are disabled: \[DRAConsumableCapacity\]",
    ),
    "needs do not depend on the emulated release": (
        ["RestartAllContainersOnContainerExits=true"],
        ["1.35"],
        [],
        r"depends on features that are disabled: \[NodeDeclaredFeatures\]",
    ),
    "a release too long ago": ([], ["1.33"], [], "emulation version 1.33 is not between"),
    "no release": ([], ["latest"], [], "could not parse 'latest' as version"),
    "a patch release": ([], ["1.36.2"], [], "patch version not allowed, got: kube=1.36.2"),
    "another component": ([], ["wardle=1.2"], [], "component not registered: wardle"),
    "a release too old": ([], [], ["1.20"], r"minCompatibilityVersion version 1.20 is not between \[1.34, 1.37\]"),
    "a control plane newer than we are": (
        [],
        ["1.36"],
        ["1.37"],
        r"minCompatibilityVersion version 1.37 is not between \[1.34, 1.36\]",
    ),
    "a gate that was not there yet": (
        ["DRAFractionalCapacityRange=true"],
        ["1.36"],
        [],
        "cannot set feature gate DRAFractionalCapacityRange to true, feature is PreAlpha at emulated version 1.36, "
        "min compatibility version 1.35",
    ),
    "gate of a feature that Moorage always supports": (
        ["VolumeAttributesClass=false"],
        ["1.35"],
        [],
        "Moorage always supports VolumeAttributesClasses",
    ),
    "another component's gate that is on for ever": (
        ["NodeSwap=false"],
        [],
        [],
        "cannot set feature gate NodeSwap to false, feature is locked to true",
    ),
    "another component's gate that is off for ever": (
        ["GitRepoVolumeDriver=true"],
        [],
        [],
        "cannot set feature gate GitRepoVolumeDriver to true, feature is locked to false",
    ),
    "a locked gate": (["NodeDeclaredFeatures=false"], [], [], "feature is locked to true"),
}


@pytest.mark.parametrize(("gates", "emulated", "compatible", "message"), REFUSED.values(), ids=REFUSED)
def test_rejections(gates: list[str], emulated: list[str], compatible: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        choose_gates(gates, emulated, compatible)


def test_every_gate_is_classified_once() -> None:
    for name, gate in GATES.items():
        kinds = [name in kind for kind in (HONORED_GATES, MOOT, PERMANENT)]
        always_locked = all(gates[name].locked for gates in RELEASES.values() if name in gates)
        assert kinds.count(True) == (0 if gate.locked and always_locked else 1), name
