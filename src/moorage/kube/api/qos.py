"""The QoS class of a pod."""

from typing import Final

from moorage.kube.api.quantity import nano_value
from moorage.kube.api.struct import Data

_COUNTED: Final = ("cpu", "memory")


def qos_class(spec: Data) -> str:
    """Return the QoS class of a pod by its CPU and memory requests and limits.

    >>> qos_class({"containers": [{"resources": {"requests": {"cpu": "1"}}}]})
    'Burstable'
    """
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    parts = [container.get("resources") or {} for container in containers]
    if _has_counted(spec.get("resources") or {}):
        parts = [spec["resources"]]
    if not any(_has_counted(part) for part in parts):
        return "BestEffort"
    return "Guaranteed" if all(_is_exact(part) for part in parts) else "Burstable"


def _has_counted(resources: Data) -> bool:
    amount_lists = (resources.get(field) or {} for field in ("requests", "limits"))
    return any(name in amounts and nano_value(amounts[name]) > 0 for amounts in amount_lists for name in _COUNTED)


def _is_exact(resources: Data) -> bool:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    return all(
        name in limits and nano_value(requests.get(name, limits[name])) == nano_value(limits[name]) for name in _COUNTED
    )
