"""The plugins of a profile: some disabled, moved, reweighted, or removed from a single extension point."""

from typing import Final

from moorage.scheduler.config.plugin_facts import IN_TREE_PLUGINS
from tests.conformance.generator.dice import Dice
from tests.conformance.generator.words import Object

OPTIONAL: Final = (
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "PodTopologySpread",
    "InterPodAffinity",
    "ImageLocality",
    "NodeName",
    "NodePorts",
    "NodeUnschedulable",
    "NodeResourcesBalancedAllocation",
    "DefaultPreemption",
    "SchedulingGates",
    "NodeDeclaredFeatures",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "DynamicResources",
)
#: Without these, no pod is placed.
NEEDED: Final = ("PrioritySort", "DefaultBinder")
#: Plugins that need a gate that is off.
GATED: Final = ("DeferredPodScheduling", "GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount")
POINTS: Final = (
    "preEnqueue",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "preBind",
)
#: Plugins that work without their PreFilter; all others then fail every attempt, which is trivial.
SELF_RELIANT: Final = (
    ("preFilter", "NodeAffinity"),
    ("preFilter", "NodeVolumeLimits"),
    ("preFilter", "VolumeZone"),
    ("preFilter", "TaintToleration"),
    ("preFilter", "NodeName"),
    ("preFilter", "NodeUnschedulable"),
    ("preScore", "NodeAffinity"),
    ("preScore", "NodeResourcesFit"),
    ("preScore", "NodeResourcesBalancedAllocation"),
)


def at(point: str, without: list[str]) -> list[str]:
    """Return the plugins of a point, except some."""
    return [name for name, facts in IN_TREE_PLUGINS.items() if point in facts.points and name not in (*without, *GATED)]


def make_plugins(dice: Dice) -> Object:
    """Disable plugins completely, then change single points; the later change of a point wins."""
    off = dice.some(OPTIONAL, 1, 3) if dice.chance(0.4) else []
    plugins: Object = {"multiPoint": {"disabled": _names(off)}} if off else {}
    if dice.chance(0.4):
        plugins["score"] = {"enabled": _weighed(dice, dice.some(at("score", off), 1, 4))}
    if dice.chance(0.3):
        _move(dice, plugins, off)
    if dice.chance(0.3):
        _drop(dice, plugins)
    if dice.chance(0.1):
        _choose(dice, plugins, off)
    if dice.chance(0.1):
        plugins["score"] = {"disabled": [{"name": "*"}]}
    if dice.chance(0.1):
        plugins["postFilter"] = {"disabled": [{"name": dice.pick(("*", "DefaultPreemption", "DynamicResources"))}]}
    return plugins


def _move(dice: Dice, plugins: Object, off: list[str]) -> None:
    """Repeat plugins at a point, which moves them to the front."""
    point = dice.pick(("preFilter", "filter", "filter", "preScore", "postFilter", "reserve"))
    selected = dice.some(at(point, off), 1, 3)
    if selected:
        plugins[point] = {"enabled": _names(selected)}


def _drop(dice: Dice, plugins: Object) -> None:
    """Disable plugins at a single point."""
    for _ in range(dice.number(1, 3)):
        point, name = dice.pick(SELF_RELIANT)
        if dice.chance(0.4):
            point = dice.pick(POINTS)
            name = dice.pick(at(point, []))
        entry = plugins.setdefault(point, {})
        if {"name": name} not in entry.setdefault("disabled", []):
            entry["disabled"].append({"name": name})
        entry["enabled"] = [item for item in entry.get("enabled", ()) if item["name"] != name]


def _choose(dice: Dice, plugins: Object, off: list[str]) -> None:
    """List all plugins of a point by name; plugins that are disabled elsewhere may be enabled here."""
    point = dice.pick(("preFilter", "filter", "preScore", "score", "postFilter"))
    selected = dice.some(at(point, off if dice.chance(0.5) else []), 1)
    enabled = _weighed(dice, selected) if point == "score" else _names(selected)
    plugins[point] = {"disabled": [{"name": "*"}], "enabled": enabled}


def _names(plugins: list[str]) -> list[Object]:
    return [{"name": name} for name in plugins]


def _weighed(dice: Dice, plugins: list[str]) -> list[Object]:
    return [{"name": name, "weight": dice.number(1, 10)} for name in plugins]
