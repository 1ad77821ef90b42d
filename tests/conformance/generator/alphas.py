"""Objects and fields of features that are off by default."""

from typing import Final

from tests.conformance.generator.dice import Dice
from tests.conformance.generator.words import Object

COMPARISONS: Final = "TaintTolerationComparisonOperators"
LISTS: Final = "DRAListTypeAttributes"
GROUPS: Final = "DRADeviceCompatibilityGroups"
DERIVED: Final = "DRADerivedAttributes"
SKIPPING: Final = "DRAOptionalNodeOperations"
ALLOCATABLE: Final = "DRANodeAllocatableResources"
GATES: Final = (COMPARISONS, LISTS, GROUPS, DERIVED, SKIPPING, ALLOCATABLE)
NUMBERS: Final = (
    "-10",
    "-1",
    "0",
    "1",
    "5",
    "10",
    "100",
    "007",
    "+5",
    "x",
    "9223372036854775807",
    "92233720368547758070",
)
EXPRESSIONS: Final = (
    "1",
    '"one"',
    "true",
    'semver("1.2.3")',
    "[1, 2]",
    'device.attributes["gpu.example"].?numa.orValue(0)',
    'device.attributes["gpu.example"].?model.orValue("none")',
    'device.attributes["gpu.example"].?model.orValue("none").startsWith("a")',
    "[device.driver]",
    '[dyn(device.driver), device.attributes["gpu.example"].?model.orValue(dyn("none"))]',
    'device.attributes["gpu.example"].numa',
)
NUMA: Final = "gpu.example/numa"


def equip(dice: Dice, objects: list[Object]) -> dict[str, bool]:
    """Change objects so that features have an effect; return the gates to set."""
    share = dice.pick((0.0, 0.3, 0.7, 1.0))
    gates = {name: True for name in GATES if dice.chance(share)}
    for item in objects:
        spec = item.get("spec") or {}
        match item["kind"]:
            case "Node":
                if dice.wants("taints"):
                    _number_taints(dice, spec.get("taints") or [])
                if dice.chance(0.5):
                    item.setdefault("status", {})["declaredFeatures"] = [SKIPPING]
            case "Pod":
                if dice.wants("taints"):
                    _compare(dice, spec.get("tolerations") or [])
                _use_claims(dice, spec)
            case "ResourceSlice":
                _change_slice(dice, spec)
            case "ResourceClaim":
                _change_claim(dice, item)
    return gates


def _number_taints(dice: Dice, taints: list[Object]) -> None:
    for taint in taints:
        if dice.chance(0.7):
            taint["value"] = dice.pick(NUMBERS)


def _compare(dice: Dice, tolerations: list[Object]) -> None:
    for toleration in tolerations:
        if toleration.get("key") and dice.chance(0.7):
            toleration |= {"operator": dice.pick(("Lt", "Gt")), "value": dice.pick(NUMBERS)}


def _change_slice(dice: Dice, spec: Object) -> None:
    if dice.chance(0.2):
        spec["skipNodeOperations"] = dice.pick((["*"], ["NodePrepareResources", "NodeUnprepareResources"]))
    for device in spec.get("devices") or ():
        attributes = device.setdefault("attributes", {})
        if dice.chance(0.4):
            attributes["numa"] = dice.pick(
                ({"ints": sorted(dice.some((0, 1, 2), 1))}, {"strings": dice.some(("0", "1"), 1)}, {"bools": [True]})
            )
        if dice.chance(0.1):
            attributes["model"] = {"versions": dice.some(("1.0.0", "2.0.0"), 1)}
        if dice.chance(0.3):
            device["nodeAllocatableResources"] = _allocatable(dice, device)
        for draw in device.get("consumesCounters") or ():
            if dice.chance(0.7):
                draw["compatibilityGroups"] = dice.some(("a", "b", "c"), 1, 2)


def _change_claim(dice: Dice, claim: Object) -> None:
    devices = claim["spec"]["devices"]
    for result in ((claim.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results", ()):
        if dice.chance(0.3):
            result["skipNodeOperations"] = ["*"]
    if dice.chance(0.5):
        devices.setdefault("constraints", [{dice.pick(("matchAttribute", "distinctAttribute")): NUMA}])
    if not any(NUMA in constraint.values() for constraint in devices.get("constraints") or ()):
        return
    for request in devices["requests"]:
        for expected in (*request.get("firstAvailable", ()), *filter(None, (request.get("exactly"),))):
            if dice.chance(0.4):
                expected["derivedAttributes"] = [{"name": NUMA, "expression": dice.pick(EXPRESSIONS)}]


def _allocatable(dice: Dice, device: Object) -> Object:
    """Let a device represent CPU or memory of its node, or consume some of it."""
    cpu = dice.pick(
        (
            {"mapping": {"deviceMultiplier": dice.pick(("500m", "1", "3"))}},
            {"overhead": {"perPod": "250m"}},
            {"overhead": {"perPod": "100m", "perContainer": "200m"}},
            {"mapping": {"deviceMultiplier": "1"}, "overhead": {"perContainer": "1"}},
        )
    )
    if device.get("allowMultipleAllocations") and dice.chance(0.5):
        return {"memory": {"mapping": {"capacityKey": "memory", "capacityMultiplier": dice.pick(("1", "2"))}}}
    return dice.pick(({"cpu": cpu}, {"cpu": cpu, "memory": {"overhead": {"perPod": "1Gi"}}}))


def _use_claims(dice: Dice, spec: Object) -> None:
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        used = [{"name": claim["name"]} for claim in spec.get("resourceClaims") or () if dice.chance(0.6)]
        if used:
            container.setdefault("resources", {})["claims"] = used
