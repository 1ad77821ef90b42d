"""What clusters have when features are on that are off by default."""

from typing import Final

from tests.conformance.generator.dice import Dice
from tests.conformance.generator.words import Object

GATES: Final = {"TaintTolerationComparisonOperators": True}
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


def equip(dice: Dice, objects: list[Object]) -> None:
    """Change objects so that the features matter."""
    for item in objects:
        if item["kind"] == "Node" and dice.wants("taints"):
            _number_taints(dice, item.get("spec", {}).get("taints") or [])
        elif item["kind"] == "Pod" and dice.wants("taints"):
            _compare(dice, item["spec"].get("tolerations") or [])


def _number_taints(dice: Dice, taints: list[Object]) -> None:
    for taint in taints:
        if dice.chance(0.7):
            taint["value"] = dice.pick(NUMBERS)


def _compare(dice: Dice, tolerations: list[Object]) -> None:
    for toleration in tolerations:
        if toleration.get("key") and dice.chance(0.7):
            toleration |= {"operator": dice.pick(("Lt", "Gt")), "value": dice.pick(NUMBERS)}
