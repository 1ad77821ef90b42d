"""Parts of rows of groups: objects and steps."""

from collections.abc import Iterable
from typing import Any, Final

Json = dict[str, Any]
#: Feature gates, and the steps of a history.
Row = tuple[dict[str, bool], list[Json]]

GROUPS: Final = {"GenericWorkload": True}
TOPOLOGY: Final = {**GROUPS, "TopologyAwareWorkloadScheduling": True}
TREES: Final = {**TOPOLOGY, "CompositePodGroup": True}
POLICY: Final = {**GROUPS, "PodGroupPreemptionPolicy": True}
HIGH: Final = 100


def node(name: str, cpu: str = "4", **labels: str) -> Json:
    allocatable = {"cpu": cpu, "memory": "32Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {"allocatable": allocatable},
    }


def pod(name: str, group: str = "", cpu: str = "1", priority: int = HIGH, on: str = "", **parts: Any) -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec: Json = {"containers": [container], "priority": priority, **parts.pop("spec", {})}
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    if on:
        spec["nodeName"] = on
        parts.setdefault("status", {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"})
    metadata = {"name": name, "labels": {"app": name}, **parts.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, **parts}


def group(
    name: str, least: int = 0, priority: int = HIGH, *, by: str = "", parent: str = "", mode: str = "", **spec: Any
) -> Json:
    """Make a PodGroup; without a least number of members, a basic one."""
    spec |= {"schedulingPolicy": {"gang": {"minCount": least}} if least else {"basic": {}}, "priority": priority}
    return _group("v1beta1", "PodGroup", name, spec, by, parent, mode)


def tree(
    name: str, least: int = 0, priority: int = HIGH, *, by: str = "", parent: str = "", mode: str = "", **spec: Any
) -> Json:
    """Make a CompositePodGroup."""
    spec |= {"schedulingPolicy": {"gang": {"minGroupCount": least}} if least else {"basic": {}}, "priority": priority}
    return _group("v1alpha3", "CompositePodGroup", name, spec, by, parent, mode)


def _group(version: str, kind: str, name: str, spec: Json, by: str, parent: str, mode: str) -> Json:
    if by:
        spec["schedulingConstraints"] = {"topology": [{"key": by}]}
    if parent:
        spec["parentCompositePodGroupName"] = parent
    if parent or kind == "CompositePodGroup":
        spec["workloadRef"] = {"workloadName": "w", "templateName": name}
    if mode:
        spec["disruptionMode"] = {mode: {}}
    status = spec.pop("status", None)
    obj = {"apiVersion": f"scheduling.k8s.io/{version}", "kind": kind, "metadata": {"name": name}, "spec": spec}
    return obj if status is None else {**obj, "status": status}


def pods(count: int, of: str = "g", *, first: int = 0, **parts: Any) -> list[Json]:
    return [pod(f"{of}-{number}", of, **parts) for number in range(first, first + count)]


def lows(*places: str, **parts: Any) -> list[Json]:
    """Make less important pods that run, one on each of the places."""
    return [pod(f"low-{number}", priority=10, on=location, **parts) for number, location in enumerate(places)]


def apply(*objects: Json | Iterable[Json]) -> list[Json]:
    """Add objects, a second apart: each has a different age."""
    flat = [item for obj in objects for item in ([obj] if isinstance(obj, dict) else obj)]
    return [step for item in flat for step in ({"do": "apply", "object": item}, *wait(1))]


def at_once(objects: list[Json]) -> list[Json]:
    """Add objects at one moment: a group that follows its members gets the age of a random one."""
    return [{"do": "apply", "object": obj} for obj in objects]


def delete(obj: Json) -> list[Json]:
    return [{"do": "delete", "object": obj}]


def wait(seconds: float) -> list[Json]:
    return [{"do": "advance", "seconds": seconds}]


SCHEDULE: Final = [{"do": "schedule"}]
#: Long enough for any backoff.
RETRY: Final = [*wait(60), *SCHEDULE]


def pop() -> list[Json]:
    return [{"do": "pop"}]


def finish(result: str, *back: str, name: str = "g") -> list[Json]:
    """End a popped group's attempt with these members coming back."""
    came = [f"default/{name}" for name in back]
    rejectors = {"unschedulablePlugins": ["NodeResourcesFit"]} if result != "error" else {}
    return [{"do": "finish", "group": f"default/{name}", "result": result, "pods": came, "node": "n1", **rejectors}]


def anti(app: str) -> Json:
    term = {"labelSelector": {"matchLabels": {"team": app}}, "topologyKey": "kubernetes.io/hostname"}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def preferring(name: str) -> Json:
    """Prefer a node, so that chance has no part in the choice between equals."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}]}
    wish = [{"weight": 100, "preference": term}]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wish}}}


N1: Final = node("n1")
NEVER: Final[Json] = {"preemptionPolicy": "Never"}
GATED: Final[Json] = {"schedulingGates": [{"name": "example.com/wait"}]}
TERMINATING: Final[Json] = {
    "metadata": {"deletionTimestamp": "2026-01-01T00:10:00Z", "deletionGracePeriodSeconds": 30},
    "status": {
        "phase": "Running",
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}],
    },
}


def budget(allowed: int, **labels: str) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "budget"},
        "spec": {"selector": {"matchLabels": labels}, "minAvailable": 1},
        "status": {"disruptionsAllowed": allowed},
    }


def condition(status: str, reason: str, message: str) -> Json:
    moment = "2026-01-01T00:00:00Z"
    kind = "PodGroupInitiallyScheduled"
    response = {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": moment}
    return {"conditions": [response]}
