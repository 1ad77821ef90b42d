"""What `kubectl get` prints: the columns of each resource, and the cells of an object."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moorage.api.meta import parse_time
from moorage.box.apiserver.more_tables import MORE_TABLES
from moorage.box.apiserver.pod_table import pod_cells
from moorage.box.apiserver.table_cells import (
    Column,
    Data,
    access_modes,
    age,
    columns,
    created,
    duration,
    find,
    images,
    plain,
    selector,
)


@dataclass(frozen=True, slots=True)
class Printer:
    """Columns, and how to fill them; cells get the object and the time."""

    columns: tuple[Column, ...]
    cells: Callable[[Data, float], Sequence[Any]]
    now: Callable[[], float]


def table(things: Iterable[Data], printer: Printer, meta: Data, include: str) -> Data:
    """Write objects as a Table."""
    now = printer.now()
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": [column.definition() for column in printer.columns],
        "rows": [{"cells": list(printer.cells(thing, now)), "object": _included(thing, include)} for thing in things],
    }


def _included(thing: Data, include: str) -> Data | None:
    if include == "None":
        return None
    if include == "Object":
        return thing
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": thing["metadata"]}


def _node(data: Data, now: float) -> list[Any]:
    conditions = {item.get("type"): item.get("status") for item in find(data, "status.conditions", [])}
    ready = {"True": "Ready", "False": "NotReady"}.get(conditions.get("Ready", ""), "Unknown")
    if find(data, "spec.unschedulable"):
        ready += ",SchedulingDisabled"
    prefix = "node-role.kubernetes.io/"
    labels = data["metadata"].get("labels") or {}
    roles = ",".join(sorted(label.removeprefix(prefix) for label in labels if label.startswith(prefix))) or "<none>"
    addresses = {item.get("type"): item.get("address") for item in find(data, "status.addresses", [])}
    info = find(data, "status.nodeInfo", {})
    return [
        *(data["metadata"]["name"], ready, roles, created(data, now), info.get("kubeletVersion", "")),
        *(addresses.get("InternalIP", "<none>"), addresses.get("ExternalIP", "<none>")),
        *(info.get(part) or "<unknown>" for part in ("osImage", "kernelVersion", "containerRuntimeVersion")),
    ]


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
    done = f"{status.get('succeeded', 0)}/{find(data, 'spec.completions', find(data, 'spec.parallelism', 1))}"
    took = ""
    if status.get("startTime"):
        end = parse_time(status["completionTime"]) if status.get("completionTime") else now
        took = duration(max(0, int(end - parse_time(status["startTime"]))))
    name = data["metadata"]["name"]
    return [name, state, done, took, created(data, now), *images(data), selector(data)]


def _service(data: Data, now: float) -> list[Any]:
    ports = find(data, "spec.ports", [])
    shown = ",".join(f"{item.get('port')}/{item.get('protocol', 'TCP')}" for item in ports) or "<none>"
    address = find(data, "spec.clusterIP", "<none>")
    kind = find(data, "spec.type", "ClusterIP")
    name = data["metadata"]["name"]
    return [name, kind, address, "<none>", shown, created(data, now), selector(data)]


def _event(data: Data, now: float) -> list[Any]:
    last = data.get("lastTimestamp") or find(data, "series.lastObservedTime") or data.get("eventTime")
    first = data.get("firstTimestamp") or data.get("eventTime")
    regarding = data.get("involvedObject") or {}
    source = find(data, "source.component") or data.get("reportingComponent", "")
    return [
        age(last or data["metadata"].get("creationTimestamp"), now),
        *(data.get("type", ""), data.get("reason", "")),
        f"{regarding.get('kind', '').lower()}/{regarding.get('name', '')}",
        *(regarding.get("fieldPath", ""), source, data.get("message", "").strip()),
        *(age(first or data["metadata"].get("creationTimestamp"), now), data.get("count", 1)),
        data["metadata"]["name"],
    ]


def _claim(data: Data, now: float) -> list[Any]:
    access = access_modes(find(data, "status.accessModes", []))
    capacity = find(data, "status.capacity.storage")
    name, phase = data["metadata"]["name"], find(data, "status.phase")
    where = (find(data, "spec.volumeName"), capacity, access, find(data, "spec.storageClassName"), "<unset>")
    return [name, phase, *where, created(data, now), find(data, "spec.volumeMode", "Filesystem")]


def _budget(data: Data, now: float) -> list[Any]:
    least, most = find(data, "spec.minAvailable", "N/A"), find(data, "spec.maxUnavailable", "N/A")
    return [data["metadata"]["name"], least, most, find(data, "status.disruptionsAllowed", 0), created(data, now)]


_TEMPLATE: Final = ("Containers*", "Images*")
_TABLES: Final[Mapping[str, tuple[tuple[Column, ...], Callable[[Data, float], Sequence[Any]]]]] = {
    "pods": (
        columns("Name", "Ready", "Status", "Restarts", "Age", "IP*", "Node*", "Nominated Node*", "Readiness Gates*"),
        lambda data, now: pod_cells(data, created(data, now)),
    ),
    "nodes": (
        columns(
            *("Name", "Status", "Roles", "Age", "Version", "Internal-IP*", "External-IP*", "OS-Image*"),
            *("Kernel-Version*", "Container-Runtime*"),
        ),
        _node,
    ),
    "namespaces": (columns("Name", "Status", "Age"), plain("metadata.name", "status.phase", "age")),
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
    "services": (
        columns("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector*"),
        _service,
    ),
    "events": (
        columns(
            *("Last Seen", "Type", "Reason", "Object", "Subobject*", "Source*", "Message"),
            *("First Seen*", "Count*", "Name*"),
        ),
        _event,
    ),
    "persistentvolumeclaims": (
        columns(
            *("Name", "Status", "Volume", "Capacity", "Access Modes", "StorageClass", "VolumeAttributesClass"),
            *("Age", "VolumeMode*"),
        ),
        _claim,
    ),
    "priorityclasses.scheduling.k8s.io": (
        columns("Name", "Value", "Global-Default", "Age", "PreemptionPolicy"),
        lambda data, now: [
            *(data["metadata"]["name"], data.get("value", 0), str(data.get("globalDefault", False)).lower()),
            *(created(data, now), data.get("preemptionPolicy", "")),
        ],
    ),
    "poddisruptionbudgets.policy": (
        columns("Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age"),
        _budget,
    ),
    "leases.coordination.k8s.io": (
        columns("Name", "Holder", "Age"),
        plain("metadata.name", "spec.holderIdentity", "age"),
    ),
    "configmaps": (columns("Name", "Data", "Age"), plain("metadata.name", "data", "age")),
    "resourceclaims.resource.k8s.io": (
        columns("Name", "State", "Age"),
        lambda data, now: [data["metadata"]["name"], _claim_state(data), created(data, now)],
    ),
    "resourceslices.resource.k8s.io": (
        columns("Name", "Node", "Driver", "Pool", "Age"),
        plain("metadata.name", "spec.nodeName", "spec.driver", "spec.pool.name", "age"),
    ),
}


def _claim_state(data: Data) -> str:
    states = ["allocated"] if find(data, "status.allocation") else ["pending"]
    if find(data, "status.reservedFor"):
        states.append("reserved")
    return ",".join(states)


def printer_of(storage: str, now: Callable[[], float], custom: Sequence[Mapping[str, Any]] = ()) -> Printer:
    """Return how objects of a resource are printed; ``custom`` are a definition's additionalPrinterColumns."""
    if known := _TABLES.get(storage) or MORE_TABLES.get(storage):
        return Printer(*known, now)
    if not custom:
        return Printer(columns("Name", "Age"), plain("metadata.name", "age"), now)
    named = [item for item in custom if isinstance(item.get("jsonPath"), str)]
    own = tuple(
        Column(str(item.get("name", "")), str(item.get("type", "string")), priority=int(item.get("priority") or 0))
        for item in named
    )

    def cells_of(data: Data, moment: float) -> list[Any]:
        return [data["metadata"]["name"], *(_custom_cell(data, item, moment) for item in named)]

    return Printer((*columns("Name"), *own), cells_of, now)


def _custom_cell(data: Data, column: Mapping[str, Any], now: float) -> Any:
    found = find(data, column["jsonPath"].lstrip("."), None)
    if column.get("type") == "date":
        return age(found if isinstance(found, str) else None, now)
    return found if isinstance(found, str | int | float) or found is None else str(found)
