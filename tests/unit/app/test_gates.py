"""Feature gates on the command line."""

import pytest

from moorage.app.gates import LACKING, MOOT, choose_gates
from moorage.errors import ConfigError
from moorage.features import GATES


@pytest.mark.parametrize("name", LACKING)
def test_a_gate_whose_feature_we_lack_is_refused_by_name(name: str) -> None:
    needed = ",".join(f"{need}=true" for need in ("GenericWorkload", "TopologyAwareWorkloadScheduling"))
    with pytest.raises(ConfigError, match=f"cannot set feature gate {name} to true: moorage lacks"):
        choose_gates([f"{name}=true,{needed}"])


@pytest.mark.parametrize("name", LACKING)
def test_a_gate_whose_feature_we_lack_may_be_off(name: str) -> None:
    assert not choose_gates([f"{name}=false"]).features.enabled(name)


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


SETTINGS = {
    "nothing asked for": ([], [], [], "DRAFractionalCapacityRange", False),
    "a control plane all of this release": ([], [], ["1.37"], "DRAFractionalCapacityRange", True),
    "unless its feature is off": (["DRAConsumableCapacity=false"], [], ["1.37"], "DRAFractionalCapacityRange", False),
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


def test_gates_of_other_components_are_accepted_and_told() -> None:
    assert choose_gates(["WatchList=false"]).moot == {"WatchList": "it belongs to another component"}


REFUSED = {
    "an unknown gate": (["SchedulerAsyncPremption=true"], [], [], "did you mean 'SchedulerAsyncPreemption'"),
    "an unknown gate like another component's": (["WatchLst=true"], [], [], "did you mean 'WatchList'"),
    "every alpha feature": (["AllAlpha=true,GenericWorkload=true"], [], [], "moorage lacks the toleration operators"),
    "another release": ([], ["1.36"], [], "makes the decisions of 1.37 only"),
    "no release": ([], ["latest"], [], "is not a version"),
    "another component": ([], ["wardle=1.2"], [], "component not registered: wardle"),
    "a release too old": ([], [], ["1.20"], "not within 1.34..1.37"),
    "a locked gate": (["NodeDeclaredFeatures=false"], [], [], "feature is locked to true"),
}


@pytest.mark.parametrize(("gates", "emulated", "compatible", "message"), REFUSED.values(), ids=REFUSED)
def test_refusals(gates: list[str], emulated: list[str], compatible: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        choose_gates(gates, emulated, compatible)
