"""Adapts generated pods to a real API server, whose admission and validation are stricter than a scheduler."""

from typing import Final

from moorage.kube.api.quantity import nano_value
from tests.conformance.generator import words
from tests.conformance.generator.words import Object

_SCRATCH: Final = {"name": "scratch", "emptyDir": {}}


class PodFitter:
    """Adapts pods, and records the classes that they need."""

    def __init__(self) -> None:
        self._classes: dict[str, Object] = {}

    def classes(self) -> list[Object]:
        """Return the priority and runtime classes of adapted pods."""
        return [*self._classes.values()]

    def fit(self, pod: Object) -> Object:
        """Change fields that would be rejected, and keep their meaning for a scheduler."""
        spec = pod["spec"]
        self.fit_priority(spec)
        self._fit_overhead(spec)
        if spec.get("hostNetwork"):
            spec.pop("hostUsers", None)
        if "tolerations" in spec:
            spec["tolerations"] = [item for item in spec["tolerations"] if item.get("operator") not in ("Lt", "Gt")]
        for container in _containers(spec):
            _fit_limits(container.get("resources", {}))
            _fit_ports(container, spec)
        _fit_volumes(spec)
        return pod

    def fit_priority(self, spec: Object) -> None:
        """Replace a priority by a class: admission computes the number."""
        if (value := spec.pop("priority", None)) is None:
            return
        policy = spec.pop("preemptionPolicy", "PreemptLowerPriority")
        name = f"number-{value}-{policy}".lower().replace("--", "-minus-")
        created = words.thing("PriorityClass", name, api="scheduling.k8s.io/v1")
        self._classes[name] = {**created, "value": value, "preemptionPolicy": policy}
        spec["priorityClassName"] = name

    def _fit_overhead(self, spec: Object) -> None:
        """Move the overhead to a runtime class, as admission requires."""
        if not (overhead := spec.pop("overhead", None)):
            return
        name = "-".join(("overhead", *sorted(overhead)))
        created = words.thing("RuntimeClass", name, api="node.k8s.io/v1")
        self._classes[name] = {**created, "handler": "heavy", "overhead": {"podFixed": overhead}}
        spec["runtimeClassName"] = name


def _containers(spec: Object) -> list[Object]:
    return [*spec["containers"], *spec.get("initContainers", ())]


def _fit_limits(resources: Object) -> None:
    """Drop limits below their requests."""
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    for name in [*limits]:
        if name in requests and nano_value(requests[name]) > nano_value(limits[name]):
            del limits[name]


def _fit_ports(container: Object, spec: Object) -> None:
    """Remove duplicate ports of a container, and adapt the ports of pods with host network."""
    if spec.get("hostNetwork"):
        for port in container.get("ports", ()):
            port["hostPort"] = port["containerPort"]
    if "ports" in container:
        by_port = {
            (port["containerPort"], port.get("protocol", "TCP"), port.get("hostIP", "")): port
            for port in container["ports"]
        }
        container["ports"] = list(by_port.values())


def _fit_volumes(spec: Object) -> None:
    if any(mount["name"] == "scratch" for each in _containers(spec) for mount in each.get("volumeMounts", ())):
        spec["volumes"] = [*spec.get("volumes", ()), _SCRATCH]
    for volume in spec.get("volumes", ()):
        if "iscsi" in volume:
            volume["iscsi"]["iqn"] = f"iqn.2001-04.example:{volume['iscsi']['iqn']}"
