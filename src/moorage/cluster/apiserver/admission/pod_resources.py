"""Defaults for new pods: limits of the namespace, overhead of the runtime class, and the QoS class."""

from typing import Final

from moorage.cluster.apiserver.storage.store import Store
from moorage.kube.api.quantity import nano_value
from moorage.kube.api.struct import Data
from moorage.kube.resources import ServedResource
from moorage.kube.status_errors import forbidden

RUNTIMES: Final = "runtimeclasses.node.k8s.io"


def default_limits(spec: Data, ranges: list[Data]) -> None:
    """Add the default limits and requests of the namespace to containers without them."""
    ranges = [item for item in ranges if item.get("type") == "Container"]
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        resources = container.setdefault("resources", {})
        # An explicit limit takes precedence over the namespace as the default of a request.
        own = {"limits": {}, "requests": resources.get("limits") or {}}
        for item in ranges:
            for field, defaults in (("limits", item.get("default")), ("requests", item.get("defaultRequest"))):
                present = {**own[field], **(resources.get(field) or {})}
                new_limits = {name: amount for name, amount in (defaults or {}).items() if name not in present}
                if new_limits:
                    resources[field] = {**(resources.get(field) or {}), **new_limits}


def with_runtime_class(resource: ServedResource, name: str, spec: Data, store: Store) -> None:
    """Add the overhead and scheduling constraints of the pod's runtime class; 403 if it does not exist."""
    class_name = spec.get("runtimeClassName")
    if not class_name:
        if spec.get("overhead"):
            raise _make_rejection(
                resource, name, "Pod Overhead set without corresponding RuntimeClass defined Overhead"
            )
        return
    entry = store.get(RUNTIMES, class_name)
    if entry is None:
        raise _make_rejection(resource, name, f'RuntimeClass "{class_name}" not found')
    data = entry.data
    overhead = (data.get("overhead") or {}).get("podFixed") or {}
    pod_overhead = spec.get("overhead")
    if pod_overhead and not overhead:
        raise _make_rejection(resource, name, "Pod Overhead set without corresponding RuntimeClass defined Overhead")
    own, declared = ({key: nano_value(x) for key, x in item.items()} for item in (pod_overhead or {}, overhead))
    if pod_overhead and own != declared:
        raise _make_rejection(resource, name, "Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    if overhead:
        spec["overhead"] = dict(overhead)
    scheduling = data.get("scheduling") or {}
    selector = spec.get("nodeSelector") or {}
    for key, text in (scheduling.get("nodeSelector") or {}).items():
        if selector.get(key, text) != text:
            difference = (
                f"runtimeClass.scheduling.nodeSelector[{key}] = {text}; pod.spec.nodeSelector[{key}] = {selector[key]}"
            )
            raise _make_rejection(resource, name, f"conflict: {difference}")
        selector = {**selector, key: text}
    if selector:
        spec["nodeSelector"] = selector
    tolerations = spec.get("tolerations") or []
    if new_tolerations := [item for item in scheduling.get("tolerations") or () if item not in tolerations]:
        spec["tolerations"] = [*tolerations, *new_tolerations]


def _make_rejection(resource: ServedResource, name: str, reason: str) -> Exception:
    return forbidden(resource, name, f"pod rejected: {reason}")
