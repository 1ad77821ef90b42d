"""Small clusters with pods of controllers, for plans."""

from typing import Any

from tests.unit.insight.explain.clusters import Object, pod


def owned(name: str, *, kind: str = "ReplicaSet", owner: str = "web", **more: Any) -> Object:
    """Return a pod with a controller."""
    content = pod(name, **more)
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": f"uid-of-{owner}", "controller": True}
    content["metadata"]["ownerReferences"] = [reference]
    return content


def budget(name: str, *, allowed: int | None = None, labels: Object | None = None, **spec: Any) -> Object:
    """Return a disruption budget; without ``allowed`` it has no status."""
    content: Object = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels or {"app": "web"}}, **spec},
    }
    return content if allowed is None else {**content, "status": {"disruptionsAllowed": allowed}}
