"""A complete cluster: the objects, the configuration, and the number of evaluated nodes."""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tests.conformance.generator import alphas, devices, group_claims, groups, storage
from tests.conformance.generator.config import BARE_CONFIG, list_scheduler_names, make_config
from tests.conformance.generator.dice import Dice
from tests.conformance.generator.nodes import make_nodes
from tests.conformance.generator.pods import Surroundings, make_expected_pods, make_pod, make_running_pod
from tests.conformance.generator.policy import make_budgets, make_namespaces, make_priority_classes
from tests.conformance.generator.spread import make_owners
from tests.conformance.generator.words import Object

#: Features that are enabled by name, in addition to those of every cluster.
EXTRA_FEATURES: Final = ("volumes", "devices")
#: Features that need feature gates which are off by default.
GATED_FEATURES: Final = ("groups", "alphas")

#: Topics that interact; half of the clusters have one such set only.
FOCI: Final = (
    ("tight", "priorities", "budgets"),
    ("tight", "priorities", "budgets", "terminating", "nominations", "namespaces"),
    ("ports", "priorities", "tight"),
    ("spread", "taints", "nodeSelector"),
    ("spread", "priorities", "tight"),
    ("owners", "config", "namespaces"),
    ("podAffinity", "podAntiAffinity", "namespaces"),
    ("podAntiAffinity", "priorities", "nominations"),
    ("nodeAffinity", "config", "nominations"),
    ("extended", "hugepages", "config", "initContainers"),
    ("podLevel", "overhead", "resizes", "initContainers", "tight"),
    ("images", "taints", "config"),
    ("config", "ports", "podAffinity", "podAntiAffinity", "spread"),
    ("config", "priorities", "tight", "nominations", "podAntiAffinity"),
    ("config", "taints", "nodeSelector", "nodeAffinity", "features"),
)
FEATURE_FOCI: Final = {
    "alphas": (
        ("taints",),
        ("taints", "spread"),
        ("taints", "priorities", "tight"),
        ("deviceClaims", "alternatives"),
        ("deviceClaims", "heldDevices", "deviceTaints"),
    ),
    "volumes": (
        ("claims", "capacities"),
        ("claims", "ephemeral", "capacities"),
        ("claims", "disks", "priorities", "tight"),
        ("claims", "nodeAffinity", "spread"),
        ("claims", "disks", "capacities", "config", "priorities"),
    ),
    "devices": (
        ("deviceClaims",),
        ("deviceClaims", "alternatives"),
        ("deviceClaims", "rareDevices"),
        ("deviceClaims", "rareDevices", "sharedDevices", "alternatives"),
        ("deviceClaims", "deviceTaints", "sharedDevices"),
        ("deviceClaims", "heldDevices", "priorities", "tight"),
        # Notes of a filter count for PostFilter only if kube-scheduler's filter reached them.
        ("deviceClaims", "heldDevices", "nominations", "gates", "tight"),
        ("deviceClaims", "heldDevices", "nominations", "gates", "priorities", "tight", "config"),
        ("deviceExtended", "extended", "initContainers"),
        ("deviceClaims", "heldDevices", "config", "priorities"),
    ),
    "groups": (
        ("slots",),
        ("slots", "boundMembers"),
        ("slots", "topology"),
        ("slots", "topology", "boundMembers"),
        ("slots", "budgets", "terminating", "nominations"),
        ("slots", "topology", "podAffinity", "podAntiAffinity"),
        ("slots", "spread", "boundMembers", "ports"),
        ("slots", "gates", "namespaces", "config"),
        ("tight", "extended", "topology", "config"),
    ),
}
#: Gates with an effect when they are changed.
GATES: Final = (
    {"StorageCapacityScoring": False},
    {"VolumeLimitScaling": False},
    {"MatchLabelKeysInPodTopologySpreadSelectorMerge": False},
    {"DRASchedulerFilterTimeout": False},
    {"InterPodAffinityHostnameFastPath": True},
)


@dataclass(frozen=True)
class Case:
    """One case for both sides."""

    seed: str
    objects: list[Object]
    config: Object | None = None
    search: str = "all"
    feature_gates: dict[str, bool] = field(default_factory=dict)

    def without(self, plugins: Iterable[str]) -> "Case":
        """Repeat a cluster with some plugins disabled in every profile."""
        off = [{"name": name} for name in plugins]
        if not off:
            return self
        config = deepcopy(self.config or BARE_CONFIG)
        for profile in config["profiles"]:
            multi_point = profile.setdefault("plugins", {}).setdefault("multiPoint", {})
            multi_point["disabled"] = [*multi_point.get("disabled", ()), *off]
            for point in profile["plugins"].values():
                point["enabled"] = [item for item in point.get("enabled", ()) if {"name": item["name"]} not in off]
        return replace(self, config=config)

    def request(self, number: int) -> dict[str, Any]:
        """Return the case as a line of the oracle's stream."""
        spec: dict[str, Any] = {"id": number, "objects": self.objects, "search": self.search}
        if self.config is not None:
            spec["config"] = self.config
        if self.feature_gates:
            spec["featureGates"] = self.feature_gates
        return spec


def generate(seed: str, *, features: frozenset[str] = frozenset(), search: str = "all") -> Case:
    """Make the cluster of a seed; it only changes with the generator."""
    dice = Dice(f"{seed}/{search}/{','.join(sorted(features))}")
    special = [focus for feature in sorted(features) for focus in FEATURE_FOCI[feature]]
    if special and dice.chance(0.5):
        dice.focus(frozenset(dice.pick(special)))
    elif dice.chance(0.5):
        dice.focus(frozenset(dice.pick(FOCI)))
    nodes = make_nodes(dice, _node_count(dice, search))
    names = [node["metadata"]["name"] for node in nodes]
    config = make_config(dice, names, search=search)
    classes = make_priority_classes(dice)
    owners = make_owners(dice)
    around = Surroundings(
        nodes=names,
        owners=[owner for owner in owners if owner["kind"] != "Service"],
        schedulers=list_scheduler_names(config),
        classes=[item["metadata"]["name"] for item in classes],
    )
    running = [make_running_pod(dice, f"r{number}", around) for number in range(_running_count(dice, search))]
    count = _pending_count(dice, search) + (dice.number(2, 8) if "groups" in features else 0)
    pending = [make_pod(dice, f"p{number}", around) for number in dice.shuffled(range(count))]
    pending += make_expected_pods(dice, nodes)
    objects = [*classes, *make_namespaces(dice), *owners, *make_budgets(dice, running), *nodes, *running, *pending]
    if "volumes" in features:
        objects += storage.equip(dice, nodes, running, pending)
    if "devices" in features:
        objects += devices.equip(dice, nodes, running, pending)
    gates = dict(dice.pick(GATES)) if dice.chance(0.05) else {}
    if "groups" in features:
        gates |= groups.make_gates(dice)
        created = groups.equip(dice, gates, nodes, running, pending)
        objects += created
        if "devices" in features and gates["GenericWorkload"]:
            gates["DRAWorkloadResourceClaims"] = not dice.chance(0.15)
            objects += group_claims.equip(dice, created, [*running, *pending], objects)
        config = groups.reconfigured(dice, config, gates)
    if "alphas" in features:
        gates |= alphas.equip(dice, objects)
    return Case(seed, dice.shuffled(objects) if dice.chance(0.4) else objects, config, search, gates)


def _node_count(dice: Dice, search: str) -> int:
    if search == "config":
        return dice.number(100, 300)
    return 0 if dice.chance(0.01) else dice.number(1, 7)


def _running_count(dice: Dice, search: str) -> int:
    return dice.number(0, 60) if search == "config" else dice.number(0, 10)


def _pending_count(dice: Dice, search: str) -> int:
    return dice.number(1, 12) if search == "config" else dice.number(1, 8)
