"""Tables of pods and workloads, as `kubectl get` prints them."""

from collections.abc import Mapping
from typing import Any, Final

from moorage.cluster.apiserver.reading.tables.cells import (
    Cells,
    Column,
    age,
    columns,
    created,
    duration,
    images,
    selector,
)
from moorage.kube.api.meta import parse_time
from moorage.kube.api.struct import Data
from moorage.kube.plain_data import find


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
    """Return kubectl's status of a pod: the reason of a waiting or terminated container, or its phase."""
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


def _deployment(data: Data, now: float) -> list[Any]:
    status = data.get("status") or {}
    ready = f"{status.get('readyReplicas', 0)}/{find(data, 'spec.replicas', 0)}"
    numbers = (status.get("updatedReplicas", 0), status.get("availableReplicas", 0))
    return [data["metadata"]["name"], ready, *numbers, created(data, now), *images(data), selector(data)]


def _replica_set(data: Data, now: float) -> list[Any]:
    status = data.get("status") or {}
    numbers = (find(data, "spec.replicas", 0), status.get("replicas", 0), status.get("readyReplicas", 0))
    return [data["metadata"]["name"], *numbers, created(data, now), *images(data), selector(data)]


def _stateful_set(data: Data, now: float) -> list[Any]:
    ready = f"{find(data, 'status.readyReplicas', 0)}/{find(data, 'spec.replicas', 0)}"
    return [data["metadata"]["name"], ready, created(data, now), *images(data)]


def _daemon_set(data: Data, now: float) -> list[Any]:
    status = data.get("status") or {}
    counts = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled")
    numbers = [status.get(name, 0) for name in (*counts, "numberAvailable")]
    node_selector = ",".join(f"{k}={v}" for k, v in find(data, "spec.template.spec.nodeSelector", {}).items())
    return [
        *(data["metadata"]["name"], *numbers, node_selector or "<none>", created(data, now)),
        *(*images(data), selector(data)),
    ]


def _job(data: Data, now: float) -> list[Any]:
    status = data.get("status") or {}
    conditions = {item.get("type") for item in status.get("conditions", ()) if item.get("status") == "True"}
    state = next((name for name in ("Complete", "Failed", "Suspended") if name in conditions), "Running")
    completions = f"{status.get('succeeded', 0)}/{find(data, 'spec.completions', find(data, 'spec.parallelism', 1))}"
    took = ""
    if status.get("startTime"):
        end = parse_time(status["completionTime"]) if status.get("completionTime") else now
        took = duration(max(0, int(end - parse_time(status["startTime"]))))
    name = data["metadata"]["name"]
    return [name, state, completions, took, created(data, now), *images(data), selector(data)]


def _cron_job(data: Data, now: float) -> list[Any]:
    last = find(data, "status.lastScheduleTime")
    return [
        *(data["metadata"]["name"], find(data, "spec.schedule"), find(data, "spec.timeZone", "<none>")),
        *(str(find(data, "spec.suspend", False)).capitalize(), len(find(data, "status.active", []))),
        *(age(last, now) if last else "<none>", created(data, now)),
        *images(data, "spec.jobTemplate.spec.template.spec.containers"),
        selector(data, "spec.jobTemplate.spec.selector"),
    ]


def _revision(data: Data, now: float) -> list[Any]:
    owners = (owner for owner in data["metadata"].get("ownerReferences") or () if owner.get("controller"))
    owner = next(owners, None)
    group = f".{owner['apiVersion'].rpartition('/')[0]}" if owner and "/" in owner["apiVersion"] else ""
    controller = f"{owner['kind'].lower()}{group}/{owner['name']}" if owner else "<none>"
    return [data["metadata"]["name"], controller, data.get("revision", 0), created(data, now)]


def _autoscaler(data: Data, now: float) -> list[Any]:
    target = find(data, "spec.scaleTargetRef", {})
    targets = ", ".join(_target(metric) for metric in find(data, "spec.metrics", [])) or "<none>"
    return [
        *(data["metadata"]["name"], f"{target.get('kind', '')}/{target.get('name', '')}", targets),
        *(find(data, "spec.minReplicas", "<unset>"), find(data, "spec.maxReplicas", 0)),
        *(find(data, "status.currentReplicas", 0), created(data, now)),
    ]


def _target(metric: Data) -> str:
    name, target = find(metric, "resource.name", "metric"), find(metric, "resource.target", {})
    percent = target.get("averageUtilization")
    return f"{name}: <unknown>/{f'{percent}%' if percent is not None else target.get('averageValue', '<auto>')}"


def _budget(data: Data, now: float) -> list[Any]:
    least, most = find(data, "spec.minAvailable", "N/A"), find(data, "spec.maxUnavailable", "N/A")
    return [data["metadata"]["name"], least, most, find(data, "status.disruptionsAllowed", 0), created(data, now)]


_TEMPLATE: Final = ("Containers*", "Images*")
WORKLOADS: Final[Mapping[str, tuple[tuple[Column, ...], Cells]]] = {
    "pods": (
        columns("Name", "Ready", "Status", "Restarts", "Age", "IP*", "Node*", "Nominated Node*", "Readiness Gates*"),
        lambda data, now: pod_cells(data, created(data, now)),
    ),
    "deployments.apps": (
        columns("Name", "Ready", "Up-to-date", "Available", "Age", *_TEMPLATE, "Selector*"),
        _deployment,
    ),
    "replicasets.apps": (
        columns("Name", "Desired", "Current", "Ready", "Age", *_TEMPLATE, "Selector*"),
        _replica_set,
    ),
    "replicationcontrollers": (
        columns("Name", "Desired", "Current", "Ready", "Age", *_TEMPLATE, "Selector*"),
        _replica_set,
    ),
    "statefulsets.apps": (columns("Name", "Ready", "Age", *_TEMPLATE), _stateful_set),
    "daemonsets.apps": (
        columns(
            *("Name", "Desired", "Current", "Ready", "Up-to-date", "Available", "Node Selector", "Age"),
            *(*_TEMPLATE, "Selector*"),
        ),
        _daemon_set,
    ),
    "jobs.batch": (
        columns("Name", "Status", "Completions", "Duration", "Age", *_TEMPLATE, "Selector*"),
        _job,
    ),
    "cronjobs.batch": (
        columns(
            *("Name", "Schedule", "Timezone", "Suspend", "Active", "Last Schedule", "Age"),
            *("Containers*", "Images*", "Selector*"),
        ),
        _cron_job,
    ),
    "controllerrevisions.apps": (columns("Name", "Controller", "Revision", "Age"), _revision),
    "podtemplates": (
        columns("Name", "Containers", "Images", "Pod Labels"),
        lambda data, _now: [
            *(data["metadata"]["name"], *images(data, "template.spec.containers")),
            selector(data, "template.metadata.labels"),
        ],
    ),
    "horizontalpodautoscalers.autoscaling": (
        columns("Name", "Reference", "Targets", "MinPods", "MaxPods", "Replicas", "Age"),
        _autoscaler,
    ),
    "poddisruptionbudgets.policy": (
        columns("Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age"),
        _budget,
    ),
}
