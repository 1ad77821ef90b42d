"""Nodes: capacity, labels, taints and images."""

from typing import Any

from tests.conformance.generator import words
from tests.conformance.generator.dice import Dice
from tests.conformance.generator.words import Object


def make_nodes(dice: Dice, count: int) -> list[Object]:
    """Make nodes with names that do not sort in order of appearance."""
    numbers = dice.shuffled(range(count))
    return [_node(dice, f"n{number}") for number in numbers]


def _node(dice: Dice, name: str) -> Object:
    status: Object = {"allocatable": _allocatable(dice)}
    if dice.wants("images"):
        status["images"] = _images(dice)
    if dice.wants("features"):
        existing = ("RestartAllContainersOnContainerExits", "VolumeBindMountOptions", "Unheard")
        status["declaredFeatures"] = sorted(dice.some(existing))
    if dice.chance(0.03):
        status["capacity"] = status.pop("allocatable")
    return words.thing("Node", name, metadata={"labels": _labels(dice, name)}, spec=_spec(dice), status=status)


def _labels(dice: Dice, name: str) -> dict[str, str]:
    if dice.chance(0.05):
        return {}
    labels = words.some_labels(dice, words.NODE_LABELS)
    if dice.chance(0.9):
        labels[words.HOSTNAME] = name if dice.chance(0.97) else "twin"
    if dice.chance(0.85):
        labels[words.ZONE] = dice.pick(("z1", "z2", "z3"))
    if dice.chance(0.3):
        labels[words.REGION] = dice.pick(("r-east", "r-west"))
    if dice.chance(0.05):
        labels[words.BETA_ZONE] = dice.pick(("z1", "z2", "z9"))
    return labels


def _spec(dice: Dice) -> Object:
    spec: Object = {}
    if dice.wants("taints", 0.5):
        spec["taints"] = [_taint(dice) for _ in range(dice.number(1, 3))]
    if dice.wants("cordons", 0.3):
        spec["unschedulable"] = True
    return spec


def _taint(dice: Dice) -> Object:
    taint = {"key": dice.pick(words.TAINT_KEYS), "effect": dice.pick(words.EFFECTS)}
    value = dice.pick(words.TAINT_VALUES)
    return {**taint, "value": value} if value else taint


def _allocatable(dice: Dice) -> Object:
    allocatable: dict[str, Any] = {"cpu": dice.pick(("8", 16, "31900m")), "memory": "32Gi", "pods": 110}
    if dice.wants("tight"):
        allocatable = {
            "cpu": dice.pick(("1", "2", "4", "3900m")),
            "memory": dice.pick(("1Gi", "2Gi", "4G", "3000000k")),
            "pods": dice.pick(("2", "3", "5", "110")),
        }
    if dice.chance(0.04):
        allocatable[dice.pick(("cpu", "memory", "pods"))] = 0
    if dice.chance(0.04):
        del allocatable[dice.pick(("cpu", "memory", "pods"))]
    if dice.dial("disk") and dice.chance(0.9):
        allocatable["ephemeral-storage"] = dice.pick(("1Gi", "10Gi", "50000M"))
    if dice.dial("extended") and dice.chance(0.9):
        allocatable |= {name: str(dice.number(0, 8)) for name in dice.some(words.EXTENDED, 2)}
    if dice.dial("hugepages") and dice.chance(0.9):
        allocatable["hugepages-2Mi"] = dice.pick(("16Mi", "64Mi", "0"))
    return allocatable


def _images(dice: Dice) -> list[Object]:
    sizes = (10_000_000, 30_000_000, 300_000_000, 700_000_000, 2_500_000_000)
    return [{"names": [_tagged(dice, image)], "sizeBytes": dice.pick(sizes)} for image in dice.some(words.IMAGES)]


def _tagged(dice: Dice, image: str) -> str:
    """Write an image name as a kubelet does, with its tag; sometimes without, which never matches."""
    has_tag = image.rfind(":") > image.rfind("/")
    return image if has_tag or dice.chance(0.1) else f"{image}:latest"
