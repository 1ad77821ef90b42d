"""Builders for objects of controllers, and descriptions of their actions."""

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any, TypeVar

from moorage.cluster.controllers.actions import ControllerAction, Create, Delete, EmptyNamespace, Patch, RequeueAfter
from moorage.common.clock import VirtualClock
from moorage.kube.api.codec import convert
from moorage.kube.api.kinds import BY_TYPE
from moorage.kube.api.meta import KubeObject, format_time
from moorage.kube.api.pod import Pod

K = TypeVar("K", bound=KubeObject)
NOW = VirtualClock().now()
_versions = count(1)


def make(kind: type[K], name: str = "it", *, owner: KubeObject | None = None, age: float = 100.0, **content: Any) -> K:
    """Make an object of a kind from plain data; ``metadata`` extends the default metadata."""
    metadata = {
        "name": name,
        "uid": f"uid-of-{name}",
        "generation": 1,
        "resourceVersion": str(next(_versions)),
        "creationTimestamp": format_time(NOW - age),
        **({"namespace": "shop"} if BY_TYPE[kind].namespaced else {}),
        **({"ownerReferences": [_reference(owner)]} if owner is not None else {}),
        **content.pop("metadata", {}),
    }
    return convert(kind, {"metadata": metadata, **content})


def pod(
    name: str = "pod",
    *,
    phase: str = "Running",
    ready: bool = True,
    node: str = "n1",
    owner: KubeObject | None = None,
    stopping: bool = False,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    ready_for: float = 50.0,
    **spec: Any,
) -> Pod:
    """Make a pod with this state."""
    metadata: dict[str, Any] = {"labels": dict(labels or {}), "annotations": dict(annotations or {})}
    if stopping:
        metadata |= {"deletionTimestamp": format_time(NOW), "deletionGracePeriodSeconds": 30}
    since = format_time(NOW - ready_for)
    status = "True" if ready and phase == "Running" else "False"
    conditions = [{"type": "Ready", "status": status, "lastTransitionTime": since}]
    return make(
        Pod,
        name,
        owner=owner,
        metadata=metadata,
        spec={"nodeName": node, "containers": [{"name": "main", "image": "app:1"}], **spec},
        status={"phase": phase, "conditions": conditions},
    )


def _reference(owner: KubeObject) -> dict[str, Any]:
    kind = BY_TYPE[type(owner)]
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def describe(actions: Iterable[ControllerAction]) -> list[str]:
    """Describe actions in words, except statuses, which have separate tests."""
    words = (_word(action) for action in actions)
    return [word for word in words if word]


def _word(action: ControllerAction) -> str:
    match action:
        case Create(kind, data):
            metadata = data["metadata"]
            return f"create {kind.__name__} {metadata.get('name') or metadata.get('generateName')}"
        case Delete(obj, grace):
            return f"delete {obj.name}" + (" at once" if grace == 0 else "")
        case Patch(obj, patch) if "replicas" in patch.get("spec", {}):
            return f"scale {obj.name} to {patch['spec']['replicas']}"
        case Patch(obj, patch, subresource):
            return "" if subresource else f"change {obj.name}"
        case RequeueAfter():
            return ""
        case EmptyNamespace(namespace):
            return f"sweep {namespace.name}"


def status_in(actions: Iterable[ControllerAction]) -> dict[str, Any]:
    """Return the combined status that the actions write."""
    results: dict[str, Any] = {}
    for action in actions:
        if isinstance(action, Patch) and action.subresource == "status":
            results |= action.patch["status"]
    return results


def waits_in(actions: Iterable[ControllerAction]) -> list[float]:
    """Return the delays of the actions."""
    return [action.seconds for action in actions if isinstance(action, RequeueAfter)]
