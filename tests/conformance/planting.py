"""One obstacle, planted where a pod would have been placed: what it is, and which kind of change removes it.

Some obstacles need room first: a pod that tolerates everything minds no taint. What that takes is done beforehand, so
that one can make sure that the pod still fits then, and the obstacle is the only thing in its way.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.conformance.generator import Case

Object = dict[str, Any]
Step = Callable[[list[Object], Object], None]
KEY: Final = "planted.example/obstacle"


def _nodes(objects: list[Object]) -> list[Object]:
    return [item for item in objects if item["kind"] == "Node"]


def _taint(objects: list[Object], pod: Object) -> None:
    for node in _nodes(objects):
        node.setdefault("spec", {}).setdefault("taints", []).append({"key": KEY, "value": "x", "effect": "NoSchedule"})


def _no_blank_toleration(_objects: list[Object], pod: Object) -> None:
    """Have whoever tolerates everything name what it tolerates."""
    listed = pod["spec"].get("tolerations") or []
    pod["spec"]["tolerations"] = [item for item in listed if item.get("key")]


def _selector(_objects: list[Object], pod: Object) -> None:
    pod["spec"].setdefault("nodeSelector", {})[KEY] = "x"


def _no_affinity(_objects: list[Object], pod: Object) -> None:
    """Take out what the obstacle is written over."""
    (pod["spec"].get("affinity") or {}).pop("nodeAffinity", None)


def _affinity(_objects: list[Object], pod: Object) -> None:
    term = {"matchExpressions": [{"key": KEY, "operator": "Exists"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pod["spec"].setdefault("affinity", {})["nodeAffinity"] = required


def _near(_objects: list[Object], pod: Object) -> None:
    terms = pod["spec"].setdefault("affinity", {}).setdefault("podAffinity", {})
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {KEY: "x"}}}
    terms.setdefault("requiredDuringSchedulingIgnoredDuringExecution", []).append(term)


def _no_pod_resources(_objects: list[Object], pod: Object) -> None:
    """Have only containers ask."""
    pod["spec"].pop("resources", None)


def _cpu(_objects: list[Object], pod: Object) -> None:
    resources = pod["spec"]["containers"][0].setdefault("resources", {})
    resources.setdefault("requests", {})["cpu"] = "1000"
    (resources.get("limits") or {}).pop("cpu", None)


def _device(_objects: list[Object], pod: Object) -> None:
    resources = pod["spec"]["containers"][0].setdefault("resources", {})
    resources.setdefault("limits", {})["planted.example/device"] = "3"
    if "requests" in resources:
        resources["requests"]["planted.example/device"] = "3"


def _gate(_objects: list[Object], pod: Object) -> None:
    pod["spec"]["schedulingGates"] = [{"name": KEY}]


def _claim(_objects: list[Object], pod: Object) -> None:
    volume = {"name": "planted", "persistentVolumeClaim": {"claimName": "planted"}}
    pod["spec"].setdefault("volumes", []).append(volume)


def _spread(_objects: list[Object], pod: Object) -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": KEY,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {KEY: "x"}},
    }
    pod["spec"].setdefault("topologySpreadConstraints", []).append(constraint)


@dataclass(frozen=True)
class Plant:
    """An obstacle, the kind of change that removes it, and what makes room for it."""

    plant: Step
    kind: str
    make_room: Step | None = None


PLANTS: Final[dict[str, Plant]] = {
    "taint": Plant(_taint, "toleration", _no_blank_toleration),
    "selector": Plant(_selector, "selector"),
    "node affinity": Plant(_affinity, "affinity", _no_affinity),
    "pod affinity": Plant(_near, "affinity"),
    "cpu": Plant(_cpu, "request", _no_pod_resources),
    "device": Plant(_device, "request", _no_pod_resources),
    "gate": Plant(_gate, "gate"),
    "claim": Plant(_claim, "volume"),
    "spread": Plant(_spread, "spread"),
}


def with_room(case: Case, key: str, plants: Sequence[Plant]) -> Case:
    """Return a cluster in which one pod would mind the obstacles."""
    return _changed(case, key, [plant.make_room for plant in plants if plant.make_room is not None])


def planted(case: Case, key: str, plants: Sequence[Plant]) -> Case:
    """Return a cluster with obstacles for one pod."""
    return _changed(case, key, [plant.plant for plant in plants])


def _changed(case: Case, key: str, steps: Sequence[Step]) -> Case:
    objects = deepcopy(case.objects)
    pod = next(item for item in objects if item["kind"] == "Pod" and _key(item) == key)
    for step in steps:
        step(objects, pod)
    return replace(case, objects=objects)


def _key(item: Object) -> str:
    metadata = item["metadata"]
    return f"{metadata.get('namespace') or 'default'}/{metadata['name']}"
