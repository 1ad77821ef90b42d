"""Conversions between the stored version of an object and the other versions that are served."""

from typing import Final

from moorage.kube.api.struct import Data
from moorage.kube.resources import ServedResource

AUTOSCALERS: Final = "horizontalpodautoscalers.autoscaling"
_CORE_NAMES: Final = {
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
"""Fields of events.k8s.io and their names in the core group, in which events are stored."""
_NEW_NAMES: Final = {core: new for new, core in _CORE_NAMES.items()}
_IN_ANNOTATIONS: Final = tuple(
    f"autoscaling.alpha.kubernetes.io/{name}" for name in ("behavior", "conditions", "current-metrics", "metrics")
)
"""Annotations of v1 autoscalers with the fields that only v2 has."""
_CPU_TARGET: Final = "targetCPUUtilizationPercentage"


def to_stored(resource: ServedResource, data: Data, old: Data | None = None) -> Data:
    """Convert an object to the version in which its resource is stored.

    Fields that only the stored version has are kept from ``old``, the object before a change.
    """
    if resource.storage == "events" and resource.group:
        return {_CORE_NAMES.get(name, name): content for name, content in data.items()} | {"apiVersion": "v1"}
    if resource.storage == AUTOSCALERS and resource.version == "v1":
        spec = dict(data.get("spec") or {})
        if (utilization := spec.pop(_CPU_TARGET, None)) is not None:
            target = {"type": "Utilization", "averageUtilization": utilization}
            spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
        if old is not None:
            before = old.get("spec") or {}
            spec |= {"behavior": before["behavior"]} if "behavior" in before else {}
            if from_stored(resource, old)["spec"].get(_CPU_TARGET) == utilization and "metrics" in before:
                spec["metrics"] = before["metrics"]
        return {**data, "apiVersion": "autoscaling/v2", "spec": spec}
    return data


def from_stored(resource: ServedResource, data: Data) -> Data:
    """Convert a stored object to the version of a resource."""
    if resource.storage == "events" and resource.group:
        data = {_NEW_NAMES.get(name, name): content for name, content in data.items()}
    if resource.storage == AUTOSCALERS and resource.version == "v1":
        spec, status = dict(data.get("spec") or {}), dict(data.get("status") or {})
        resources = [metric.get("resource") or {} for metric in spec.pop("metrics", None) or ()]
        targets = [item.get("target") or {} for item in resources if item.get("name") == "cpu"]
        if utilization := next((target.get("averageUtilization") for target in targets), None):
            spec[_CPU_TARGET] = utilization
        spec.pop("behavior", None)
        for name in ("currentMetrics", "conditions"):
            status.pop(name, None)
        metadata = dict(data["metadata"])
        annotations = {
            key: text for key, text in (metadata.pop("annotations", None) or {}).items() if key not in _IN_ANNOTATIONS
        }
        metadata |= {"annotations": annotations} if annotations else {}
        data = {**data, "metadata": metadata, "spec": spec, "status": {"currentReplicas": 0, **status}}
    return {**data, "apiVersion": resource.api_version}
