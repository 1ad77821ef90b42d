"""Configurations: strategies, weights, disabled plugins, arguments and several profiles."""

from typing import Any

from tests.conformance.generator import words
from tests.conformance.generator.affinity import PREFERRED, node_affinity
from tests.conformance.generator.dice import Dice
from tests.conformance.generator.plugin_sets import make_plugins
from tests.conformance.generator.words import Object

BARE_CONFIG: Object = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": words.SCHEDULERS[0]}],
}
RESOURCES = ("cpu", "memory", "ephemeral-storage", "example.com/gpu", "hugepages-2Mi")


def make_config(dice: Dice, nodes: list[str], *, search: str) -> Object | None:
    """Make a configuration, or leave all defaults."""
    if search == "all" and not dice.wants("config"):
        return None
    config: Object = {
        **BARE_CONFIG,
        "profiles": [_profile(dice, name, nodes) for name in words.SCHEDULERS[: dice.pick((1, 1, 2))]],
    }
    if search == "config" or dice.chance(0.1):
        config["percentageOfNodesToScore"] = dice.pick((0, 0, 1, 10, 30, 50, 70, 100))
    if dice.chance(0.05):
        config["parallelism"] = 4
    return config


def list_scheduler_names(config: Object | None) -> tuple[str, ...]:
    """Return the profile names of a configuration."""
    return tuple(profile["schedulerName"] for profile in config["profiles"]) if config else words.SCHEDULERS[:1]


def _profile(dice: Dice, name: str, nodes: list[str]) -> Object:
    profile: Object = {"schedulerName": name}
    if dice.chance(0.6):
        profile["plugins"] = make_plugins(dice)
    if dice.chance(0.7):
        profile["pluginConfig"] = [
            {"name": plugin, "args": make(dice, nodes)} for plugin, make in dice.some(tuple(ARGS.items()), 1, 4)
        ]
    if dice.chance(0.1):
        profile["percentageOfNodesToScore"] = dice.pick((0, 20, 60))
    return profile


def _fit(dice: Dice, nodes: list[str]) -> Object:
    kind = dice.pick(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"))
    strategy: Object = {"type": kind, "resources": _weighed(dice)}
    if kind == "RequestedToCapacityRatio":
        strategy["requestedToCapacityRatio"] = {"shape": _shape(dice)}
    args: Object = {"scoringStrategy": strategy}
    if dice.chance(0.3):
        args["ignoredResources"] = dice.some(words.EXTENDED, 1, 2)
    if dice.chance(0.3):
        args["ignoredResourceGroups"] = [dice.pick(("example.com", "acme.io"))]
    return args


def _weighed(dice: Dice) -> list[Object]:
    return [{"name": name, "weight": dice.number(1, 5)} for name in dice.some(RESOURCES, 1, 4)]


def _shape(dice: Dice) -> list[Object]:
    points = sorted(dice.some((0, 10, 33, 50, 90, 100), 1, 4))
    return [{"utilization": point, "score": dice.number(0, 10)} for point in points]


def _balanced(dice: Dice, nodes: list[str]) -> Object:
    return {"resources": [{"name": name, "weight": 1} for name in dice.some(RESOURCES, 1, 4)]}


def _spread(dice: Dice, nodes: list[str]) -> Object:
    if dice.chance(0.3):
        return {"defaultingType": "System"}
    keys = dice.some((words.ZONE, words.HOSTNAME, "rack"), 0, 2)
    constraints = [
        {
            "maxSkew": dice.number(1, 3),
            "topologyKey": key,
            "whenUnsatisfiable": dice.pick(("DoNotSchedule", "ScheduleAnyway")),
        }
        for key in keys
    ]
    return {"defaultingType": "List", "defaultConstraints": constraints}


def _added_affinity(dice: Dice, nodes: list[str]) -> Object:
    affinity = node_affinity(dice, nodes)
    # An empty preference is rejected in a configuration, and accepted in a pod.
    if PREFERRED in affinity:
        affinity[PREFERRED] = [wish for wish in affinity[PREFERRED] if wish["preference"]]
    return {"addedAffinity": affinity}


def _pod_affinity(dice: Dice, nodes: list[str]) -> Object:
    args: Object = {"hardPodAffinityWeight": dice.pick((0, 1, 5, 100))}
    if dice.chance(0.4):
        args["ignorePreferredTermsOfExistingPods"] = True
    return args


def _preemption(dice: Dice, nodes: list[str]) -> Object:
    return {"minCandidateNodesPercentage": dice.pick((1, 10, 50)), "minCandidateNodesAbsolute": dice.pick((1, 2, 100))}


def _volumes(dice: Dice, nodes: list[str]) -> Object:
    args: Object = {"bindTimeoutSeconds": dice.pick((0, 1, 600))}
    if dice.chance(0.6):
        args["shape"] = _shape(dice)
    return args


def _devices(dice: Dice, nodes: list[str]) -> Object:
    args: Object = {"filterTimeout": dice.pick(("0s", "10s", "1h0m0s"))}
    if dice.chance(0.5):
        args["bindingTimeout"] = dice.pick(("1s", "10m0s"))
    return args


ARGS: dict[str, Any] = {
    "NodeResourcesFit": _fit,
    "NodeResourcesBalancedAllocation": _balanced,
    "PodTopologySpread": _spread,
    "NodeAffinity": _added_affinity,
    "InterPodAffinity": _pod_affinity,
    "DefaultPreemption": _preemption,
    "VolumeBinding": _volumes,
    "DynamicResources": _devices,
}
