"""A pod in one line, as `kubectl get pods` prints it."""

from typing import Any


def pod_cells(pod: dict[str, Any], age: str) -> list[Any]:
    """Return the cells of a pod's row."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    containers = status.get("containerStatuses") or []
    ready = sum(1 for item in containers if item.get("ready"))
    restarts = sum(item.get("restartCount", 0) for item in containers)
    return [
        *(pod["metadata"]["name"], f"{ready}/{len(spec.get('containers') or [])}", pod_status(pod), str(restarts), age),
        *(status.get("podIP") or "<none>", spec.get("nodeName") or "<none>"),
        *(status.get("nominatedNodeName") or "<none>", _gates(spec, status)),
    ]


def pod_status(pod: dict[str, Any]) -> str:
    """Say in a word how a pod is: what its containers wait for or ended with, or its phase."""
    status = pod.get("status") or {}
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    for item in status.get("containerStatuses") or ():
        state = item.get("state") or {}
        for kind in ("waiting", "terminated"):
            reason = (state.get(kind) or {}).get("reason")
            if reason:
                return str(reason)
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            return "SchedulingGated"
    return str(status.get("reason") or status.get("phase") or "Unknown")


def _gates(spec: dict[str, Any], status: dict[str, Any]) -> str:
    gates = spec.get("readinessGates") or []
    if not gates:
        return "<none>"
    conditions = {item.get("type"): item.get("status") for item in status.get("conditions") or ()}
    passed = sum(1 for gate in gates if conditions.get(gate.get("conditionType")) == "True")
    return f"{passed}/{len(gates)}"
