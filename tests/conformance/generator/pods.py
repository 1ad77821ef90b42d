"""Pods, pending and running: identity, constraints and status."""

from dataclasses import dataclass, field

from tests.conformance.generator import words
from tests.conformance.generator.affinity import make_affinity, make_node_selector
from tests.conformance.generator.containers import make_containers
from tests.conformance.generator.dice import Dice
from tests.conformance.generator.spread import make_constraints, owner_reference
from tests.conformance.generator.words import Object

PRIORITY_CLASSES = (("low", -10), ("usual", 5), ("high", 100), ("polite", 100))


@dataclass
class Surroundings:
    """The objects that a pod may refer to."""

    nodes: list[str] = field(default_factory=list)
    owners: list[Object] = field(default_factory=list)
    schedulers: tuple[str, ...] = words.SCHEDULERS[:1]
    classes: list[str] = field(default_factory=list)


def make_pod(dice: Dice, name: str, around: Surroundings) -> Object:
    """Make a pending pod."""
    metadata = _metadata(dice, around)
    placement = _placement(dice, around, metadata["labels"])
    spec: Object = {**make_containers(dice), **placement, **_standing(dice, around)}
    pod = words.thing("Pod", name, namespace=_namespace(dice), metadata=metadata, spec=spec)
    status = _pending_status(dice, around, is_gated="schedulingGates" in spec)
    if dice.chance(0.02):
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {**pod, "status": status} if status else pod


def make_expected_pods(dice: Dice, nodes: list[Object]) -> list[Object]:
    """Make gated pods that are nominated to nodes and leave little space there: without them, other pods would fit."""
    created = []
    for node in nodes:
        if dice.wants("nominations") and dice.wants("gates"):
            name = node["metadata"]["name"]
            cpu = dice.pick(("900m", "1800m", "3", "7", "12"))
            spec: Object = {
                "containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": cpu}}}],
                "priority": dice.pick((0, 5, 1000)),
                "schedulingGates": [{"name": "example.com/quota"}],
            }
            created.append({**words.thing("Pod", f"expected-{name}", spec=spec), "status": {"nominatedNodeName": name}})
    return created


def make_running_pod(dice: Dice, name: str, around: Surroundings) -> Object:
    """Make a pod with a node: possibly terminating, finished, or being resized."""
    pod = make_pod(dice, name, around)
    pod["metadata"].pop("deletionTimestamp", None)
    pod["spec"]["nodeName"] = dice.pick(around.nodes) if around.nodes and not dice.chance(0.02) else "ghost"
    pod["spec"].pop("schedulingGates", None)
    if "low" in around.classes and dice.chance(0.6):
        # Running pods usually have a lower priority than pending ones: otherwise there would be no preemption.
        pod["spec"] |= {"priorityClassName": "low"}
        pod["spec"].pop("priority", None)
        pod["spec"].pop("preemptionPolicy", None)
    pod["status"] = _running_status(dice, pod)
    if dice.wants("terminating", 0.5):
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:10:00Z"
        pod["metadata"]["deletionGracePeriodSeconds"] = 30
        if dice.chance(0.5):
            reason = dice.pick(("PreemptionByScheduler", "EvictionByEvictionAPI"))
            pod["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": reason}]
    return pod


def _namespace(dice: Dice) -> str:
    return dice.pick(words.NAMESPACES) if dice.wants("namespaces") else ""


def _metadata(dice: Dice, around: Surroundings) -> Object:
    metadata: Object = {"labels": words.some_labels(dice, words.LABELS)}
    if around.owners and dice.chance(0.7):
        metadata["ownerReferences"] = [owner_reference(dice.pick(around.owners))]
    return metadata


def _placement(dice: Dice, around: Surroundings, labels: dict[str, str]) -> Object:
    """Add the placement constraints of the pod."""
    spec: Object = {}
    if dice.wants("nodeSelector", 0.3):
        spec["nodeSelector"] = make_node_selector(dice)
    if affinity := make_affinity(dice, around.nodes):
        spec["affinity"] = affinity
    if dice.wants("spread", 0.8):
        spec["topologySpreadConstraints"] = make_constraints(dice, labels)
    if dice.chance(dice.dial("taints") ** 0.5) or dice.wants("cordons", 0.5):
        spec["tolerations"] = [_toleration(dice) for _ in range(dice.number(1, 3))]
    return spec


def _toleration(dice: Dice) -> Object:
    if dice.chance(0.15):
        return {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", **_effect(dice)}
    # Comparisons need a gate that is off: such a toleration tolerates nothing.
    operator = dice.pick(("Lt", "Gt")) if dice.chance(0.05) else dice.pick(("Exists", "Equal", "", "Exists"))
    toleration: Object = {"operator": operator} if operator else {}
    if operator != "Exists" or dice.chance(0.8):
        toleration["key"] = dice.pick(words.TAINT_KEYS)
    if operator != "Exists":
        toleration["value"] = dice.pick(words.TAINT_VALUES)
    return {**toleration, **_effect(dice)}


def _effect(dice: Dice) -> Object:
    return {"effect": dice.pick(words.EFFECTS)} if dice.chance(0.6) else {}


def _standing(dice: Dice, around: Surroundings) -> Object:
    """Set the scheduler name and the priority of the pod."""
    spec: Object = {}
    if len(around.schedulers) > 1 or dice.chance(0.01):
        spec["schedulerName"] = dice.pick((*around.schedulers, *around.schedulers, *around.schedulers, "nobody"))
    if around.classes and dice.wants("priorities"):
        spec["priorityClassName"] = dice.pick(around.classes)
    elif dice.wants("priorities", 0.3):
        spec["priority"] = dice.number(-1, 12)
        if dice.chance(0.3):
            spec["preemptionPolicy"] = dice.pick(("Never", "PreemptLowerPriority"))
    if dice.wants("gates", 0.3):
        spec["schedulingGates"] = [{"name": f"example.com/{name}"} for name in dice.some(("quota", "dns"), 1)]
    return spec


def _pending_status(dice: Dice, around: Surroundings, *, is_gated: bool) -> Object:
    # Other pods lose their nomination when they are placed, those of high priority first; a gated pod keeps it.
    if around.nodes and dice.wants("nominations", 1.0 if is_gated else 0.5):
        return {"nominatedNodeName": dice.pick((*around.nodes, *around.nodes, "nowhere"))}
    return {}


def _running_status(dice: Dice, pod: Object) -> Object:
    status: Object = {"phase": "Running"}
    if dice.chance(0.05):
        status["phase"] = dice.pick(("Succeeded", "Failed", "Pending"))
    if dice.chance(0.8):
        status["startTime"] = f"2026-01-01T00:00:0{dice.number(0, 3)}Z"
    if dice.wants("resizes", 0.7):
        status |= _resize(dice, pod)
    return status


def _resize(dice: Dice, pod: Object) -> Object:
    """Let the kubelet be in the middle of a resize."""
    amounts = {"cpu": dice.pick(("200m", "2")), "memory": dice.pick(("100Mi", "1Gi"))}
    statuses = []
    for container in pod["spec"]["containers"]:
        status: Object = {"name": container["name"], "image": "web", "imageID": "", "ready": True, "restartCount": 0}
        if dice.chance(0.7):
            status["allocatedResources"] = amounts
        if dice.chance(0.7):
            status["resources"] = {"requests": {"cpu": "300m"} if dice.chance(0.5) else amounts}
        statuses.append(status)
    result: Object = {"containerStatuses": statuses}
    if dice.chance(0.4):
        reason = dice.pick(("Infeasible", "Deferred"))
        result["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    if "resources" in pod["spec"] and dice.chance(0.6):
        result["allocatedResources"] = amounts
        if dice.chance(0.7):
            result["resources"] = {"requests": {"cpu": "1", "memory": "256Mi"}}
    return result
