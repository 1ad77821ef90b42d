"""What `kubectl get` prints: the columns of each resource, and the cells of an object."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moorage.api.meta import parse_time
from moorage.apiserver.pod_table import pod_cells

Data = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column; those of a priority above 0 are shown by ``-o wide`` only."""

    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0

    def definition(self) -> Data:
        """Write the column as the API does."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": "",
            "priority": self.priority,
        }


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


def age(moment: str | None, now: float) -> str:
    """Say how long ago something was, as kubectl does.

    >>> age("2026-01-01T00:00:00Z", parse_time("2026-01-01T00:05:30Z"))
    '5m30s'
    """
    if not moment:
        return "<unknown>"
    try:
        seconds = max(0, int(now - parse_time(moment)))
    except ValueError:
        return "<invalid>"
    return _duration(seconds)


def _duration(seconds: int) -> str:
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    return f"{days}d"


def find(data: Any, path: str, default: Any = "") -> Any:
    """Follow a dotted path through mappings."""
    for name in path.split("."):
        if not isinstance(data, dict) or data.get(name) is None:
            return default
        data = data[name]
    return data


def _created(data: Data, now: float) -> str:
    return age(data["metadata"].get("creationTimestamp"), now)


def _columns(*names: str) -> tuple[Column, ...]:
    """Make columns; a name with an asterisk is shown by ``-o wide`` only."""
    return tuple(
        Column(name.rstrip("*"), format="name" if name == "Name" else "", priority=int(name.endswith("*")))
        for name in names
    )


def _plain(*paths: str) -> Callable[[Data, float], list[Any]]:
    """Fill cells by paths; ``age`` stands for the age."""

    def cells(data: Data, now: float) -> list[Any]:
        return [_created(data, now) if path == "age" else _cell(find(data, path)) for path in paths]

    return cells


def _cell(found: Any) -> Any:
    if isinstance(found, list):
        return ",".join(str(item) for item in found) or "<none>"
    if isinstance(found, dict):
        return str(len(found))
    return found if isinstance(found, str | int | float) and found != "" else "<none>"


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
        *(data["metadata"]["name"], ready, roles, _created(data, now), info.get("kubeletVersion", "")),
        *(addresses.get("InternalIP", "<none>"), addresses.get("ExternalIP", "<none>")),
        *(info.get(part) or "<unknown>" for part in ("osImage", "kernelVersion", "containerRuntimeVersion")),
    ]


def _images(data: Data) -> tuple[str, str]:
    containers = find(data, "spec.template.spec.containers", [])
    return ",".join(item.get("name", "") for item in containers), ",".join(item.get("image", "") for item in containers)


def _selector(data: Data, path: str = "spec.selector") -> str:
    selector = find(data, path, {})
    labels = selector.get("matchLabels", selector)
    return ",".join(f"{key}={text}" for key, text in sorted(labels.items()) if isinstance(text, str)) or "<none>"


def _deployment(data: Data, now: float) -> list[Any]:
    status = data.get("status") or {}
    ready = f"{status.get('readyReplicas', 0)}/{find(data, 'spec.replicas', 0)}"
    numbers = (status.get("updatedReplicas", 0), status.get("availableReplicas", 0))
    return [data["metadata"]["name"], ready, *numbers, _created(data, now), *_images(data), _selector(data)]


def _replica_set(data: Data, now: float) -> list[Any]:
    status = data.get("status") or {}
    numbers = (find(data, "spec.replicas", 0), status.get("replicas", 0), status.get("readyReplicas", 0))
    return [data["metadata"]["name"], *numbers, _created(data, now), *_images(data), _selector(data)]


def _stateful_set(data: Data, now: float) -> list[Any]:
    ready = f"{find(data, 'status.readyReplicas', 0)}/{find(data, 'spec.replicas', 0)}"
    return [data["metadata"]["name"], ready, _created(data, now), *_images(data)]


def _daemon_set(data: Data, now: float) -> list[Any]:
    status = data.get("status") or {}
    counts = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled")
    numbers = [status.get(name, 0) for name in (*counts, "numberAvailable")]
    node_selector = ",".join(f"{k}={v}" for k, v in find(data, "spec.template.spec.nodeSelector", {}).items())
    return [
        *(data["metadata"]["name"], *numbers, node_selector or "<none>", _created(data, now)),
        *(*_images(data), _selector(data)),
    ]


def _job(data: Data, now: float) -> list[Any]:
    status = data.get("status") or {}
    conditions = {item.get("type") for item in status.get("conditions", ()) if item.get("status") == "True"}
    state = next((name for name in ("Complete", "Failed", "Suspended") if name in conditions), "Running")
    done = f"{status.get('succeeded', 0)}/{find(data, 'spec.completions', find(data, 'spec.parallelism', 1))}"
    took = ""
    if status.get("startTime"):
        end = parse_time(status["completionTime"]) if status.get("completionTime") else now
        took = _duration(max(0, int(end - parse_time(status["startTime"]))))
    name = data["metadata"]["name"]
    return [name, state, done, took, _created(data, now), *_images(data), _selector(data)]


def _service(data: Data, now: float) -> list[Any]:
    ports = find(data, "spec.ports", [])
    shown = ",".join(f"{item.get('port')}/{item.get('protocol', 'TCP')}" for item in ports) or "<none>"
    address = find(data, "spec.clusterIP", "<none>")
    kind = find(data, "spec.type", "ClusterIP")
    name = data["metadata"]["name"]
    return [name, kind, address, "<none>", shown, _created(data, now), _selector(data)]


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
    modes = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
    access = ",".join(modes.get(mode, mode) for mode in find(data, "status.accessModes", []))
    capacity = find(data, "status.capacity.storage")
    name, phase = data["metadata"]["name"], find(data, "status.phase")
    where = (find(data, "spec.volumeName"), capacity, access, find(data, "spec.storageClassName"), "<unset>")
    return [name, phase, *where, _created(data, now), find(data, "spec.volumeMode", "Filesystem")]


def _budget(data: Data, now: float) -> list[Any]:
    least, most = find(data, "spec.minAvailable", "N/A"), find(data, "spec.maxUnavailable", "N/A")
    return [data["metadata"]["name"], least, most, find(data, "status.disruptionsAllowed", 0), _created(data, now)]


_TEMPLATE: Final = ("Containers*", "Images*")
_TABLES: Final[Mapping[str, tuple[tuple[Column, ...], Callable[[Data, float], Sequence[Any]]]]] = {
    "pods": (
        _columns("Name", "Ready", "Status", "Restarts", "Age", "IP*", "Node*", "Nominated Node*", "Readiness Gates*"),
        lambda data, now: pod_cells(data, _created(data, now)),
    ),
    "nodes": (
        _columns(
            *("Name", "Status", "Roles", "Age", "Version", "Internal-IP*", "External-IP*", "OS-Image*"),
            *("Kernel-Version*", "Container-Runtime*"),
        ),
        _node,
    ),
    "namespaces": (_columns("Name", "Status", "Age"), _plain("metadata.name", "status.phase", "age")),
    "deployments.apps": (
        _columns("Name", "Ready", "Up-to-date", "Available", "Age", *_TEMPLATE, "Selector*"),
        _deployment,
    ),
    "replicasets.apps": (
        _columns("Name", "Desired", "Current", "Ready", "Age", *_TEMPLATE, "Selector*"),
        _replica_set,
    ),
    "replicationcontrollers": (
        _columns("Name", "Desired", "Current", "Ready", "Age", *_TEMPLATE, "Selector*"),
        _replica_set,
    ),
    "statefulsets.apps": (_columns("Name", "Ready", "Age", *_TEMPLATE), _stateful_set),
    "daemonsets.apps": (
        _columns(
            *("Name", "Desired", "Current", "Ready", "Up-to-date", "Available", "Node Selector", "Age"),
            *(*_TEMPLATE, "Selector*"),
        ),
        _daemon_set,
    ),
    "jobs.batch": (
        _columns("Name", "Status", "Completions", "Duration", "Age", *_TEMPLATE, "Selector*"),
        _job,
    ),
    "services": (
        _columns("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector*"),
        _service,
    ),
    "events": (
        _columns(
            *("Last Seen", "Type", "Reason", "Object", "Subobject*", "Source*", "Message"),
            *("First Seen*", "Count*", "Name*"),
        ),
        _event,
    ),
    "persistentvolumeclaims": (
        _columns(
            *("Name", "Status", "Volume", "Capacity", "Access Modes", "StorageClass", "VolumeAttributesClass"),
            *("Age", "VolumeMode*"),
        ),
        _claim,
    ),
    "persistentvolumes": (
        _columns("Name", "Capacity", "Reclaim Policy", "Status", "Claim", "StorageClass", "Age"),
        _plain(
            *("metadata.name", "spec.capacity.storage", "spec.persistentVolumeReclaimPolicy", "status.phase"),
            *("spec.claimRef.name", "spec.storageClassName", "age"),
        ),
    ),
    "storageclasses.storage.k8s.io": (
        _columns("Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "Age"),
        _plain("metadata.name", "provisioner", "reclaimPolicy", "volumeBindingMode", "age"),
    ),
    "priorityclasses.scheduling.k8s.io": (
        _columns("Name", "Value", "Global-Default", "Age", "PreemptionPolicy"),
        lambda data, now: [
            *(data["metadata"]["name"], data.get("value", 0), str(data.get("globalDefault", False)).lower()),
            *(_created(data, now), data.get("preemptionPolicy", "")),
        ],
    ),
    "poddisruptionbudgets.policy": (
        _columns("Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age"),
        _budget,
    ),
    "leases.coordination.k8s.io": (
        _columns("Name", "Holder", "Age"),
        _plain("metadata.name", "spec.holderIdentity", "age"),
    ),
    "configmaps": (_columns("Name", "Data", "Age"), _plain("metadata.name", "data", "age")),
    "resourceclaims.resource.k8s.io": (
        _columns("Name", "State", "Age"),
        lambda data, now: [data["metadata"]["name"], _claim_state(data), _created(data, now)],
    ),
    "resourceslices.resource.k8s.io": (
        _columns("Name", "Node", "Driver", "Pool", "Age"),
        _plain("metadata.name", "spec.nodeName", "spec.driver", "spec.pool.name", "age"),
    ),
}


def _claim_state(data: Data) -> str:
    states = ["allocated"] if find(data, "status.allocation") else ["pending"]
    if find(data, "status.reservedFor"):
        states.append("reserved")
    return ",".join(states)


def printer_of(storage: str, now: Callable[[], float], custom: Sequence[Mapping[str, Any]] = ()) -> Printer:
    """Return how objects of a resource are printed; ``custom`` are a definition's additionalPrinterColumns."""
    if storage in _TABLES:
        columns, cells = _TABLES[storage]
        return Printer(columns, cells, now)
    if not custom:
        return Printer(_columns("Name", "Age"), _plain("metadata.name", "age"), now)
    named = [item for item in custom if isinstance(item.get("jsonPath"), str)]
    columns = tuple(
        Column(str(item.get("name", "")), str(item.get("type", "string")), priority=int(item.get("priority") or 0))
        for item in named
    )

    def cells_of(data: Data, moment: float) -> list[Any]:
        return [data["metadata"]["name"], *(_custom_cell(data, item, moment) for item in named)]

    return Printer((*_columns("Name"), *columns), cells_of, now)


def _custom_cell(data: Data, column: Mapping[str, Any], now: float) -> Any:
    found = find(data, column["jsonPath"].lstrip("."), None)
    if column.get("type") == "date":
        return age(found if isinstance(found, str) else None, now)
    return found if isinstance(found, str | int | float) or found is None else str(found)
