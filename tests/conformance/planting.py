"""Obstacles for a pod that would have been placed, with the kind of change that removes each.

Some obstacles need preparation: a pod that tolerates everything ignores a taint. Preparation is first, to verify
that the pod still fits then, and the obstacle is its only problem.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.conformance.generator import Case

Object = dict[str, Any]
Step = Callable[[list[Object], Object], None]
PORT: Final = 31_999
KEY: Final = "planted.example/obstacle"
SENTRY: Final = "planted-"


def _nodes(objects: list[Object]) -> list[Object]:
    return [item for item in objects if item["kind"] == "Node"]


def _taint(objects: list[Object], pod: Object) -> None:
    for node in _nodes(objects):
        node.setdefault("spec", {}).setdefault("taints", []).append({"key": KEY, "value": "x", "effect": "NoSchedule"})


def _no_blank_toleration(_objects: list[Object], pod: Object) -> None:
    """Replace tolerations of everything with specific ones."""
    items = pod["spec"].get("tolerations") or []
    pod["spec"]["tolerations"] = [item for item in items if item.get("key")]


def _selector(_objects: list[Object], pod: Object) -> None:
    pod["spec"].setdefault("nodeSelector", {})[KEY] = "x"


def _no_affinity(_objects: list[Object], pod: Object) -> None:
    """Remove fields that the obstacle would overwrite."""
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
    """Move requests to containers only."""
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


def _cordon(objects: list[Object], _pod: Object) -> None:
    for node in _nodes(objects):
        node.setdefault("spec", {})["unschedulable"] = True


def _sentries(objects: list[Object]) -> list[Object]:
    """Return the pods that were created on every node."""
    return [item for item in objects if item["kind"] == "Pod" and item["metadata"]["name"].startswith(SENTRY)]


def _port(objects: list[Object], pod: Object) -> None:
    for wanting in (*_sentries(objects), pod):
        wanting["spec"]["containers"][0].setdefault("ports", []).append({"containerPort": PORT, "hostPort": PORT})


def _avoided(objects: list[Object], pod: Object) -> None:
    """Put a pod with anti-affinity on every node."""
    term: Object = {"topologyKey": "kubernetes.io/hostname", "namespaces": [_namespace(pod)]}
    term["labelSelector"] = {"matchLabels": {KEY: "x"}}
    for sentry in _sentries(objects):
        terms = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        sentry["spec"]["affinity"] = {"podAntiAffinity": terms}
    pod["metadata"].setdefault("labels", {})[KEY] = "x"


def _post_sentries(objects: list[Object], pod: Object) -> None:
    """Create a pod on every node; if the pod has its own reasons to avoid it, there is no obstacle."""
    _own_domain(objects, pod)
    for number, node in enumerate(_nodes(objects)):
        metadata = {"name": f"{SENTRY}{number}", "namespace": "default", "labels": {}}
        spec = {"nodeName": node["metadata"]["name"], "containers": [{"name": "c", "image": "planted"}]}
        objects.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def _own_domain(objects: list[Object], _pod: Object) -> None:
    """Make every node a separate domain, with capacity for one more pod."""
    for node in _nodes(objects):
        node["metadata"].setdefault("labels", {})["kubernetes.io/hostname"] = node["metadata"]["name"]
        for amounts in (node["status"].get("allocatable"), node["status"].get("capacity")):
            if amounts and "pods" in amounts:
                amounts["pods"] = "500"


def _device_claim(objects: list[Object], pod: Object) -> None:
    request = {"name": "r", "exactly": {"deviceClassName": "planted", "allocationMode": "ExactCount", "count": 1}}
    head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    metadata = {"name": "planted", "namespace": _namespace(pod)}
    objects.append({**head, "metadata": metadata, "spec": {"devices": {"requests": [request]}}})
    pod["spec"].setdefault("resourceClaims", []).append({"name": "planted", "resourceClaimName": "planted"})
    pod["spec"]["containers"][0].setdefault("resources", {}).setdefault("claims", []).append({"name": "planted"})


def _far_volume(objects: list[Object], pod: Object) -> None:
    """Add a volume that no node reaches."""
    term = {"matchExpressions": [{"key": KEY, "operator": "Exists"}]}
    amounts, modes = {"storage": "1Gi"}, ["ReadWriteOnce"]
    fields = {"name": "planted", "namespace": _namespace(pod)}
    bound = {"capacity": amounts, "accessModes": modes, "hostPath": {"path": "/planted"}, "claimRef": dict(fields)}
    bound["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    objects.append({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "planted"}, "spec": bound})
    annotations = {"pv.kubernetes.io/bind-completed": "yes"}
    spec = {"accessModes": modes, "resources": {"requests": amounts}, "volumeName": "planted"}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {**fields, "annotations": annotations}}
    objects.append({**claim, "spec": {**spec, "storageClassName": ""}, "status": {"phase": "Bound"}})
    _claim(objects, pod)


def _namespace(pod: Object) -> str:
    return pod["metadata"].get("namespace") or "default"


@dataclass(frozen=True)
class Plant:
    """An obstacle, the kind of change that removes it, and its preparation."""

    plant: Step
    kind: str
    make_room: Step | None = None


PLANTS: Final[dict[str, Plant]] = {
    "taint": Plant(_taint, "toleration", _no_blank_toleration),
    "selector": Plant(_selector, "selector"),
    "node affinity": Plant(_affinity, "affinity", _no_affinity),
    "pod affinity": Plant(_near, "affinity"),
    "cpu": Plant(_cpu, "request", _no_pod_resources),
    "device": Plant(_device, "node-capacity", _no_pod_resources),
    "gate": Plant(_gate, "gate"),
    "claim": Plant(_claim, "volume"),
    "spread": Plant(_spread, "spread"),
    "cordon": Plant(_cordon, "cordon", _no_blank_toleration),
    "port": Plant(_port, "port", _post_sentries),
    "anti-affinity of other pods": Plant(_avoided, "delete-pod", _post_sentries),
    "device claim": Plant(_device_claim, "claim"),
    "unreachable volume": Plant(_far_volume, "volume"),
}


def with_room(case: Case, key: str, plants: Sequence[Plant]) -> Case:
    """Return a cluster in which the obstacles affect one pod."""
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
