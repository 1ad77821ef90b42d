"""Tables of pods and workloads, as `kubectl get` prints them."""

from collections.abc import Mapping
from typing import Final

from moorage.cluster.apiserver.reading.tables.cells import (
    Column,
    columns,
    count,
    duration,
    joined,
    list_items,
    ratio,
    selector,
)
from moorage.kube.api.meta import parse_time
from moorage.kube.api.struct import Data
from moorage.kube.plain_data import find


def _ready(pod: Data, _: float) -> str:
    ready = sum(1 for item in list_items(pod, "status.containerStatuses") if item.get("ready"))
    return f"{ready}/{len(find(pod, 'spec.containers', []))}"


def _restarts(pod: Data, _: float) -> str:
    return str(sum(item.get("restartCount", 0) for item in list_items(pod, "status.containerStatuses")))


def _pod_status(pod: Data, _: float) -> str:
    """Return kubectl's status of a pod: the reason of a waiting or terminated container, or its phase."""
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    for item in list_items(pod, "status.containerStatuses"):
        for kind in ("waiting", "terminated"):
            if reason := find(item, f"state.{kind}.reason"):
                return str(reason)
    for condition in list_items(pod, "status.conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            return "SchedulingGated"
    return str(find(pod, "status.reason") or find(pod, "status.phase") or "Unknown")


def _readiness_gates(pod: Data, _: float) -> str:
    gates = find(pod, "spec.readinessGates", [])
    if not gates:
        return "<none>"
    conditions = {item.get("type"): item.get("status") for item in list_items(pod, "status.conditions")}
    passed = sum(1 for gate in gates if conditions.get(gate.get("conditionType")) == "True")
    return f"{passed}/{len(gates)}"


def _node_selector(data: Data, _: float) -> str:
    labels = find(data, "spec.template.spec.nodeSelector", {})
    return ",".join(f"{key}={text}" for key, text in labels.items()) or "<none>"


def _job_state(data: Data, _: float) -> str:
    conditions = {item.get("type") for item in list_items(data, "status.conditions") if item.get("status") == "True"}
    return next((name for name in ("Complete", "Failed", "Suspended") if name in conditions), "Running")


def _completions(data: Data, _: float) -> str:
    return f"{find(data, 'status.succeeded', 0)}/{find(data, 'spec.completions', find(data, 'spec.parallelism', 1))}"


def _job_duration(data: Data, now: float) -> str:
    start, completed = find(data, "status.startTime"), find(data, "status.completionTime")
    end = parse_time(completed) if completed else now
    return duration(max(0, int(end - parse_time(start)))) if start else ""


def _controller(data: Data, _: float) -> str:
    owner = next((item for item in list_items(data, "metadata.ownerReferences") if item.get("controller")), None)
    if owner is None:
        return "<none>"
    group = f".{owner['apiVersion'].rpartition('/')[0]}" if "/" in owner["apiVersion"] else ""
    return f"{owner['kind'].lower()}{group}/{owner['name']}"


def _scaling_target(data: Data, _: float) -> str:
    return f"{find(data, 'spec.scaleTargetRef.kind')}/{find(data, 'spec.scaleTargetRef.name')}"


def _scaling_metrics(data: Data, _: float) -> str:
    texts = []
    for metric in list_items(data, "spec.metrics"):
        name, target = find(metric, "resource.name", "metric"), find(metric, "resource.target", {})
        percent = target.get("averageUtilization")
        goal = f"{percent}%" if percent is not None else target.get("averageValue", "<auto>")
        texts.append(f"{name}: <unknown>/{goal}")
    return ", ".join(texts) or "<none>"


_CONTAINERS: Final = "spec.template.spec.containers"
_JOB: Final = "spec.jobTemplate.spec"
_TEMPLATE: Final = (("Containers*", joined(_CONTAINERS, "name")), ("Images*", joined(_CONTAINERS, "image")))
_SELECTOR: Final = ("Selector*", selector())
_READY: Final = ("Ready", ratio("status.readyReplicas", "spec.replicas"))
_REPLICAS: Final = columns(
    *("Name", "Desired: spec.replicas|0", "Current: status.replicas|0", "Ready: status.readyReplicas|0", "Age"),
    *(*_TEMPLATE, _SELECTOR),
)
WORKLOADS: Final[Mapping[str, tuple[Column, ...]]] = {
    "pods": columns(
        *("Name", ("Ready", _ready), ("Status", _pod_status), ("Restarts", _restarts), "Age"),
        *("IP*: status.podIP", "Node*: spec.nodeName", "Nominated Node*: status.nominatedNodeName"),
        ("Readiness Gates*", _readiness_gates),
    ),
    "deployments.apps": columns(
        *("Name", _READY, "Up-to-date: status.updatedReplicas|0", "Available: status.availableReplicas|0", "Age"),
        *(*_TEMPLATE, _SELECTOR),
    ),
    "replicasets.apps": _REPLICAS,
    "replicationcontrollers": _REPLICAS,
    "statefulsets.apps": columns("Name", _READY, "Age", *_TEMPLATE),
    "daemonsets.apps": columns(
        *("Name", "Desired: status.desiredNumberScheduled|0", "Current: status.currentNumberScheduled|0"),
        *("Ready: status.numberReady|0", "Up-to-date: status.updatedNumberScheduled|0"),
        *("Available: status.numberAvailable|0", ("Node Selector", _node_selector), "Age", *_TEMPLATE, _SELECTOR),
    ),
    "jobs.batch": columns(
        *("Name", ("Status", _job_state), ("Completions", _completions), ("Duration", _job_duration), "Age"),
        *(*_TEMPLATE, _SELECTOR),
    ),
    "cronjobs.batch": columns(
        *("Name", "Schedule: spec.schedule|", "Timezone: spec.timeZone"),
        ("Suspend", lambda data, _: str(find(data, "spec.suspend", False)).capitalize()),
        *(("Active", count("status.active")), "Last Schedule: @status.lastScheduleTime|<none>", "Age"),
        ("Containers*", joined(f"{_JOB}.template.spec.containers", "name")),
        ("Images*", joined(f"{_JOB}.template.spec.containers", "image")),
        ("Selector*", selector(f"{_JOB}.selector")),
    ),
    "controllerrevisions.apps": columns("Name", ("Controller", _controller), "Revision: revision|0", "Age"),
    "podtemplates": columns(
        *("Name", ("Containers", joined("template.spec.containers", "name"))),
        ("Images", joined("template.spec.containers", "image")),
        ("Pod Labels", selector("template.metadata.labels")),
    ),
    "horizontalpodautoscalers.autoscaling": columns(
        *("Name", ("Reference", _scaling_target), ("Targets", _scaling_metrics), "MinPods: spec.minReplicas|<unset>"),
        *("MaxPods: spec.maxReplicas|0", "Replicas: status.currentReplicas|0", "Age"),
    ),
    "poddisruptionbudgets.policy": columns(
        *("Name", "Min Available: spec.minAvailable|N/A", "Max Unavailable: spec.maxUnavailable|N/A"),
        *("Allowed Disruptions: status.disruptionsAllowed|0", "Age"),
    ),
}
