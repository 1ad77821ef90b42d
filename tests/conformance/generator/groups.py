"""Pod groups: gangs and basic ones, with and without racks, alone or in trees; and pods with missing groups."""

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Final

from tests.conformance.generator import words
from tests.conformance.generator.config import BARE_CONFIG
from tests.conformance.generator.dice import Dice
from tests.conformance.generator.words import Object

TOPOLOGY_KEYS: Final = ("rack", "rack", words.ZONE, words.HOSTNAME, "absent")
#: The capacity of a cluster with the topic slots.
SLOTS: Final = ("1", "2", "3", "4")
#: Fields that members of one template share.
TEMPLATE: Final = (
    "containers",
    "initContainers",
    "affinity",
    "tolerations",
    "nodeSelector",
    "topologySpreadConstraints",
)


@dataclass
class Group:
    """A group, and the common fields of its members."""

    name: str
    namespace: str
    priority: int
    policy: str = ""
    scheduler: str = ""
    parent: str = ""
    template: Object = field(default_factory=dict)
    is_uniform: bool = False
    members: int = 0


def make_gates(dice: Dice) -> dict[str, bool]:
    """Choose the gates: each needs the previous ones."""
    gates = {"GenericWorkload": not dice.chance(0.03)}
    if gates["GenericWorkload"] and dice.chance(0.6):
        gates["TopologyAwareWorkloadScheduling"] = True
        if dice.chance(0.5):
            gates["CompositePodGroup"] = True
    if gates["GenericWorkload"] and dice.chance(0.2):
        gates["PodGroupPreemptionPolicy"] = True
    return gates


def equip(
    dice: Dice, gates: dict[str, bool], nodes: list[Object], running: list[Object], pending: list[Object]
) -> list[Object]:
    """Let pods belong to groups, and return the groups."""
    trees = _make_trees(dice) if gates.get("CompositePodGroup") else []
    roots = {tree.name: tree for tree in trees if not tree.parent}
    groups = [_make_group(dice, f"g{number}", trees, roots) for number in range(dice.number(1, 4))]
    leaving = [_make_group(dice, f"v{number}", trees, roots) for number in range(dice.number(0, 2))]
    for group in leaving:
        group.priority = dice.pick((-10, -10, 0, 5)) if not group.parent else group.priority
    for pod in pending:
        if dice.chance(0.8):
            _join(dice, pod, dice.pick(groups))
    is_round = bool(trees and trees[0].parent)
    for pod in running:
        joined = None
        if dice.chance(0.3 if leaving else 0.0):
            joined = dice.pick(leaving)
        elif dice.wants("boundMembers", 0.6):
            joined = dice.pick(groups)
        # If groups contain each other, kube-scheduler would evict each pod twice: docs/parity.md.
        if joined is not None and not (is_round and joined.parent):
            _join(dice, pod, joined)
    for node in nodes:
        # In the cluster without victims, kube-scheduler no longer has any images: docs/parity.md.
        node["status"].pop("images", None)
    if dice.wants("slots"):
        _divide_into_slots(dice, nodes, [*running, *pending])
    created = [_pod_group(dice, group) for group in (*groups, *leaving)] + [_composite(dice, tree) for tree in trees]
    # Missing groups have no creation time.
    return dice.shuffled([group for group in created if not dice.chance(0.04)])


def _make_trees(dice: Dice) -> list[Group]:
    """Make trees of one to three levels; the parents are first. Sometimes a group is its own ancestor."""
    trees: list[Group] = []
    for number in range(dice.number(1, 4)):
        name = f"t{number}"
        if trees and dice.chance(0.5):
            above = dice.pick(trees)
            tree = Group(name, above.namespace, above.priority, above.policy, above.scheduler, parent=above.name)
        else:
            tree = _top(dice, name)
        trees.append(tree)
    if dice.chance(0.03):
        trees[0].parent = trees[-1].name
    return trees


def _top(dice: Dice, name: str) -> Group:
    namespace = dice.pick(words.NAMESPACES) if dice.wants("namespaces") else "default"
    return Group(
        name,
        namespace,
        priority=dice.pick((0, 5, 100, 100)),
        policy="Never" if dice.chance(0.1) else "",
    )


def _make_group(dice: Dice, name: str, trees: list[Group], roots: dict[str, Group]) -> Group:
    if trees and dice.chance(0.6):
        above = dice.pick(trees)
        group = Group(name, above.namespace, above.priority, above.policy, above.scheduler, parent=above.name)
    else:
        group = _top(dice, name)
    group.is_uniform = dice.chance(0.5)
    return group


def _join(dice: Dice, pod: Object, group: Group) -> None:
    """Make a pod a member: required common fields are equal, except for rare mistakes."""
    group.members += 1
    metadata, spec = pod["metadata"], pod["spec"]
    metadata.pop("namespace", None)
    if group.namespace != "default":
        metadata["namespace"] = group.namespace
    for key in ("priorityClassName", "preemptionPolicy", "schedulerName"):
        spec.pop(key, None)
    spec |= {"schedulingGroup": {"podGroupName": group.name}, "priority": group.priority}
    if group.policy:
        spec["preemptionPolicy"] = group.policy
    if group.scheduler:
        spec["schedulerName"] = group.scheduler
    if "nodeName" not in spec:
        _follow_template(spec, group)
        _err(dice, spec)


def _follow_template(spec: Object, group: Group) -> None:
    if not group.is_uniform:
        return
    if not group.template:
        group.template = {key: spec[key] for key in TEMPLATE if key in spec}
    for key in TEMPLATE:
        spec.pop(key, None)
    spec |= deepcopy(group.template)


def _err(dice: Dice, spec: Object) -> None:
    if dice.chance(0.006):
        spec["priority"] += 1
    if dice.chance(0.006):
        spec["preemptionPolicy"] = "Never"
    if dice.chance(0.006):
        spec["schedulerName"] = dice.pick((*words.SCHEDULERS, "nobody"))


def _divide_into_slots(dice: Dice, nodes: list[Object], pods: list[Object]) -> None:
    """Give nodes capacity for a few pods, and nearly all pods the same size."""
    for node in nodes:
        node["status"]["allocatable"] = {"cpu": dice.pick(SLOTS), "memory": "32Gi", "pods": "110"}
        node["status"].pop("capacity", None)
    for pod in pods:
        for key in ("initContainers", "resources", "overhead"):
            pod["spec"].pop(key, None)
        cpu = dice.pick(("1", "1", "1", "1", "500m", "2"))
        pod["spec"]["containers"] = [{"name": "c", "image": "web", "resources": {"requests": {"cpu": cpu}}}]


def _pod_group(dice: Dice, group: Group) -> Object:
    policy: Object = {"basic": {}}
    if dice.chance(0.75):
        policy = {"gang": {"minCount": max(1, group.members + dice.pick((-3, -2, -1, -1, 0, 0, 0, 1)))}}
    created = words.thing(
        "PodGroup",
        group.name,
        api=f"scheduling.k8s.io/{dice.pick(('v1beta1', 'v1beta1', 'v1alpha3'))}",
        namespace=group.namespace,
        spec={"schedulingPolicy": policy, **_common(dice, group)},
    )
    if dice.chance(0.1):
        created["status"] = {"conditions": [_condition(dice)]}
    return created


def _composite(dice: Dice, tree: Group) -> Object:
    policy: Object = {"gang": {"minGroupCount": dice.number(1, 3)}} if dice.chance(0.6) else {"basic": {}}
    return words.thing(
        "CompositePodGroup",
        tree.name,
        api="scheduling.k8s.io/v1alpha3",
        namespace=tree.namespace,
        spec={"schedulingPolicy": policy, **_common(dice, tree), "workloadRef": _workload(tree)},
    )


def _common(dice: Dice, group: Group) -> Object:
    spec: Object = {"priority": group.priority}
    if group.policy or dice.chance(0.02):
        spec["preemptionPolicy"] = "Never"
    if dice.wants("topology") or dice.chance(0.2):
        spec["schedulingConstraints"] = {"topology": [{"key": dice.pick(TOPOLOGY_KEYS)}]}
    if dice.chance(0.6):
        spec["disruptionMode"] = {dice.pick(("all", "single", "all")): {}}
    if group.parent:
        spec |= {"parentCompositePodGroupName": group.parent, "workloadRef": _workload(group)}
    return spec


def _workload(group: Group) -> Object:
    return {"workloadName": "work", "templateName": group.name}


def _condition(dice: Dice) -> Object:
    report: Object = {"type": "PodGroupInitiallyScheduled", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    if dice.chance(0.5):
        return {**report, "status": "True", "reason": "Scheduled", "message": ""}
    return {**report, "status": "False", "reason": "Unschedulable", "message": "it did not fit"}


def reconfigured(dice: Dice, config: Object | None, gates: dict[str, bool]) -> Object | None:
    """Disable one of the default plugins of groups, or change the weights of placements."""
    if not gates["GenericWorkload"] or not dice.chance(0.12):
        return config
    config = deepcopy(config or BARE_CONFIG)
    plugins = dice.pick(config["profiles"]).setdefault("plugins", {})
    if "TopologyAwareWorkloadScheduling" not in gates:
        off = "GangScheduling"
    elif dice.chance(0.4):
        weights = [{"name": "PodGroupPodsCount", "weight": dice.number(1, 4)}]
        plugins["placementScore"] = {"enabled": [*weights, {"name": "NodeResourcesFit", "weight": dice.number(1, 4)}]}
        return config
    else:
        off = dice.pick(("GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount"))
    disabled = plugins.setdefault("multiPoint", {}).setdefault("disabled", [])
    disabled.append({"name": off})
    return config
