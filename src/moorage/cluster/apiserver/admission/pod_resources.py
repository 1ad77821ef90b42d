"""What is added to a new pod: its namespace's default limits, its runtime class's overhead, and its QoS class."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from moorage.cluster.apiserver.storage.store import Store
from moorage.kube.api.quantity import nano_value
from moorage.kube.api.struct import Data
from moorage.kube.resources import ServedResource
from moorage.kube.status_errors import forbidden

RUNTIMES: Final = "runtimeclasses.node.k8s.io"
_COUNTED: Final = ("cpu", "memory")


def default_limits(spec: Data, ranges: list[Data]) -> None:
    """Give containers the limits and requests of their namespace where they have none of their own."""
    ranges = [item for item in ranges if item.get("type") == "Container"]
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        resources = container.setdefault("resources", {})
        # A request follows from the limit somebody wrote rather than from the namespace.
        own = {"limits": {}, "requests": resources.get("limits") or {}}
        for item in ranges:
            for field, defaults in (("limits", item.get("default")), ("requests", item.get("defaultRequest"))):
                given = {**own[field], **(resources.get(field) or {})}
                added = {name: amount for name, amount in (defaults or {}).items() if name not in given}
                if added:
                    resources[field] = {**(resources.get(field) or {}), **added}


def with_runtime_class(resource: ServedResource, name: str, spec: Data, store: Store) -> None:
    """Add what the pod's runtime class costs, and where it is to be had; 403 if there is none of that name."""
    chosen = spec.get("runtimeClassName")
    if not chosen:
        if spec.get("overhead"):
            raise _rejected(resource, name, "Pod Overhead set without corresponding RuntimeClass defined Overhead")
        return
    entry = store.get(RUNTIMES, chosen)
    if entry is None:
        raise _rejected(resource, name, f'RuntimeClass "{chosen}" not found')
    data = entry.data
    overhead = (data.get("overhead") or {}).get("podFixed") or {}
    given = spec.get("overhead")
    if given and not overhead:
        raise _rejected(resource, name, "Pod Overhead set without corresponding RuntimeClass defined Overhead")
    if given and not _is_same(given, overhead):
        raise _rejected(resource, name, "Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    if overhead:
        spec["overhead"] = dict(overhead)
    _place_with(resource, name, spec, data.get("scheduling") or {})


def _is_same(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return found.keys() == wanted.keys() and all(nano_value(found[key]) == nano_value(wanted[key]) for key in wanted)


def _place_with(resource: ServedResource, name: str, spec: Data, scheduling: Data) -> None:
    selector = spec.get("nodeSelector") or {}
    for key, text in (scheduling.get("nodeSelector") or {}).items():
        if selector.get(key, text) != text:
            difference = (
                f"runtimeClass.scheduling.nodeSelector[{key}] = {text}; pod.spec.nodeSelector[{key}] = {selector[key]}"
            )
            raise _rejected(resource, name, f"conflict: {difference}")
        selector = {**selector, key: text}
    if selector:
        spec["nodeSelector"] = selector
    known = spec.get("tolerations") or []
    if added := [item for item in scheduling.get("tolerations") or () if item not in known]:
        spec["tolerations"] = [*known, *added]


def _rejected(resource: ServedResource, name: str, why: str) -> Exception:
    return forbidden(resource, name, f"pod rejected: {why}")


def qos_class(spec: Data) -> str:
    """Return how hard a pod is to evict: by what it asks for of CPU and memory, and whether that is all it may use.

    >>> qos_class({"containers": [{"resources": {"requests": {"cpu": "1"}}}]})
    'Burstable'
    """
    parts = [spec["resources"]] if _counted(spec.get("resources") or {}) else list(_of_containers(spec))
    if not any(_counted(part) for part in parts):
        return "BestEffort"
    return "Guaranteed" if all(_is_exact(part) for part in parts) else "Burstable"


def _of_containers(spec: Data) -> Iterator[Data]:
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        yield container.get("resources") or {}


def _counted(resources: Data) -> bool:
    given = (resources.get(field) or {} for field in ("requests", "limits"))
    return any(name in amounts and nano_value(amounts[name]) > 0 for amounts in given for name in _COUNTED)


def _is_exact(resources: Data) -> bool:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    return all(
        name in limits and nano_value(requests.get(name, limits[name])) == nano_value(limits[name]) for name in _COUNTED
    )
