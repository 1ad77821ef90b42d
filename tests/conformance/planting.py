"""One obstacle, planted where a pod would have been placed: what it is, and which kind of change removes it."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final

from tests.conformance.generator import Case

Object = dict[str, Any]
Plant = Callable[[list[Object], Object], None]
KEY: Final = "planted.example/obstacle"


def _nodes(objects: list[Object]) -> list[Object]:
    return [item for item in objects if item["kind"] == "Node"]


def _taint(objects: list[Object], pod: Object) -> None:
    for node in _nodes(objects):
        node.setdefault("spec", {}).setdefault("taints", []).append({"key": KEY, "value": "x", "effect": "NoSchedule"})
    # Whoever tolerates everything has to name what it tolerates.
    listed = pod["spec"].get("tolerations") or []
    pod["spec"]["tolerations"] = [item for item in listed if item.get("key")]


def _selector(_objects: list[Object], pod: Object) -> None:
    pod["spec"].setdefault("nodeSelector", {})[KEY] = "x"


def _affinity(_objects: list[Object], pod: Object) -> None:
    term = {"matchExpressions": [{"key": KEY, "operator": "Exists"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    affinity = pod["spec"].setdefault("affinity", {})
    affinity["nodeAffinity"] = {**affinity.get("nodeAffinity", {}), **required}


def _near(_objects: list[Object], pod: Object) -> None:
    terms = pod["spec"].setdefault("affinity", {}).setdefault("podAffinity", {})
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {KEY: "x"}}}
    terms.setdefault("requiredDuringSchedulingIgnoredDuringExecution", []).append(term)


def _cpu(_objects: list[Object], pod: Object) -> None:
    pod["spec"].pop("resources", None)
    resources = pod["spec"]["containers"][0].setdefault("resources", {})
    resources.setdefault("requests", {})["cpu"] = "1000"
    (resources.get("limits") or {}).pop("cpu", None)


def _device(_objects: list[Object], pod: Object) -> None:
    pod["spec"].pop("resources", None)
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


PLANTS: Final[dict[str, tuple[Plant, str]]] = {
    "taint": (_taint, "toleration"),
    "selector": (_selector, "selector"),
    "node affinity": (_affinity, "affinity"),
    "pod affinity": (_near, "affinity"),
    "cpu": (_cpu, "request"),
    "device": (_device, "request"),
    "gate": (_gate, "gate"),
    "claim": (_claim, "volume"),
    "spread": (_spread, "spread"),
}


def planted(case: Case, key: str, plant: Plant) -> Case:
    """Return a cluster with an obstacle for one pod."""
    objects = deepcopy(case.objects)
    pod = next(item for item in objects if item["kind"] == "Pod" and _key(item) == key)
    plant(objects, pod)
    return replace(case, objects=objects)


def _key(item: Object) -> str:
    metadata = item["metadata"]
    return f"{metadata.get('namespace') or 'default'}/{metadata['name']}"
