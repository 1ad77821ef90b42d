"""All kinds except workloads, as `kubectl get` prints them: nodes, storage, devices, services, access."""

from collections.abc import Mapping
from typing import Any, Final

from moorage.cluster.apiserver.reading.tables.cells import (
    Cells,
    Column,
    access_modes,
    age,
    columns,
    created,
    plain,
    selector,
)
from moorage.kube.api.struct import Data
from moorage.kube.plain_data import find


def _node(data: Data, now: float) -> list[Any]:
    conditions = {item.get("type"): item.get("status") for item in find(data, "status.conditions", [])}
    ready = "Unknown" if "Ready" not in conditions else "Ready" if conditions["Ready"] == "True" else "NotReady"
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


def _service(data: Data, now: float) -> list[Any]:
    ports = find(data, "spec.ports", [])
    port_list = ",".join(_service_port(item) for item in ports) or "<none>"
    address = find(data, "spec.clusterIP", "<none>")
    kind = find(data, "spec.type", "ClusterIP")
    name = data["metadata"]["name"]
    external = list(find(data, "spec.externalIPs", []))
    if kind == "LoadBalancer":
        balancers = find(data, "status.loadBalancer.ingress", [])
        external = [item.get("ip") or item.get("hostname", "") for item in balancers] + external or ["<pending>"]
    elif kind == "ExternalName":
        external = [find(data, "spec.externalName", "<none>")]
    return [name, kind, address, ",".join(external) or "<none>", port_list, created(data, now), selector(data)]


def _service_port(port: Data) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}"


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


def _claim_state(data: Data) -> str:
    states = ["allocated"] if find(data, "status.allocation") else ["pending"]
    if find(data, "status.reservedFor"):
        states.append("reserved")
    return ",".join(states)


def _volume(data: Data, now: float) -> list[Any]:
    claim = find(data, "spec.claimRef", {})
    return [
        *(data["metadata"]["name"], find(data, "spec.capacity.storage")),
        *(access_modes(find(data, "spec.accessModes", [])), find(data, "spec.persistentVolumeReclaimPolicy")),
        *(find(data, "status.phase"), f"{claim['namespace']}/{claim['name']}" if claim else ""),
        *(find(data, "spec.storageClassName"), find(data, "spec.volumeAttributesClassName", "<unset>")),
        *(find(data, "status.reason"), created(data, now), find(data, "spec.volumeMode", "<unset>")),
    ]


def _storage_class(data: Data, now: float) -> list[Any]:
    annotations = data["metadata"].get("annotations") or {}
    is_default = annotations.get("storageclass.kubernetes.io/is-default-class") == "true"
    name = f"{data['metadata']['name']}{' (default)' if is_default else ''}"
    modes = (data.get("reclaimPolicy", "Delete"), data.get("volumeBindingMode", "Immediate"))
    return [name, data.get("provisioner", ""), *modes, _word(data.get("allowVolumeExpansion")), created(data, now)]


def _quota(data: Data, now: float) -> list[Any]:
    limits: list[str] = []
    requests: list[str] = []
    for name, most in sorted(find(data, "status.hard", find(data, "spec.hard", {})).items()):
        part = f"{name}: {find(data, 'status.used', {}).get(name, 0)}/{most}"
        (limits if name.startswith("limits.") else requests).append(part)
    return [data["metadata"]["name"], ", ".join(requests), ", ".join(limits), created(data, now)]


def _binding(data: Data, now: float) -> list[Any]:
    role = f"{find(data, 'roleRef.kind')}/{find(data, 'roleRef.name')}"
    subjects = data.get("subjects") or []

    def format_subjects(kind: str) -> str:
        matching = (item for item in subjects if item.get("kind") == kind)
        return ", ".join("/".join(filter(None, (item.get("namespace"), item.get("name")))) for item in matching)

    kinds = [format_subjects(kind) for kind in ("User", "Group", "ServiceAccount")]
    return [data["metadata"]["name"], role, created(data, now), *kinds]


def _driver(data: Data, now: float) -> list[Any]:
    spec = data.get("spec") or {}
    flags = [_word(spec.get(name)) for name in ("attachRequired", "podInfoOnMount", "storageCapacity")]
    audiences = ",".join(item.get("audience", "") for item in spec.get("tokenRequests") or ()) or "<unset>"
    modes = ",".join(spec.get("volumeLifecycleModes") or ["Persistent"])
    republish = _word(spec.get("requiresRepublish"))
    return [data["metadata"]["name"], *flags, audiences, republish, modes, created(data, now)]


def _word(flag: Any) -> str:
    return str(bool(flag)).lower()


def _ingress(data: Data, now: float) -> list[Any]:
    hosts = ",".join(rule.get("host", "*") for rule in find(data, "spec.rules", [])) or "*"
    ports = "80, 443" if find(data, "spec.tls", []) else "80"
    return [
        *(data["metadata"]["name"], find(data, "spec.ingressClassName", "<none>")),
        *(hosts, "", ports, created(data, now)),
    ]


def _slice(data: Data, now: float) -> list[Any]:
    ports = ",".join(str(item.get("port", "")) for item in data.get("ports") or ()) or "<unset>"
    addresses = ",".join(text for item in data.get("endpoints") or () for text in item.get("addresses") or ())
    return [data["metadata"]["name"], data.get("addressType", ""), ports, addresses or "<unset>", created(data, now)]


def _definition(data: Data, _now: float) -> list[Any]:
    spec = data.get("spec") or {}
    names = spec.get("names") or {}
    versions = ",".join(item.get("name", "") for item in spec.get("versions") or ())
    conditions: list[Data] = find(data, "status.conditions", [])
    established = (str(item.get("status", "")) for item in conditions if item.get("type") == "Established")
    return [
        *(data["metadata"]["name"], spec.get("scope", ""), versions, data["metadata"].get("creationTimestamp", "")),
        *(spec.get("group", ""), names.get("kind", ""), ",".join(names.get("shortNames") or ())),
        next(established, ""),
    ]


def _taint_rule(data: Data, now: float) -> list[Any]:
    taint = find(data, "spec.taint", {})
    words = [taint.get(name, "") for name in ("key", "value", "effect", "timeAdded")]
    return [data["metadata"]["name"], *words, created(data, now)]


def _policy(data: Data) -> str:
    policy = find(data, "spec.schedulingPolicy", {})
    return "Gang" if "gang" in policy else "Basic" if "basic" in policy else "<none>"


def _pod_group(data: Data, now: float) -> list[Any]:
    """Show a group as scheduled, unschedulable or pending, unless it is being disrupted."""
    conditions = {item.get("type"): item for item in find(data, "status.conditions", [])}
    scheduled = conditions.get("PodGroupInitiallyScheduled", {}).get("status", "Pending")
    status = {"True": "Scheduled", "False": "Unschedulable"}.get(scheduled, "Pending")
    disrupted = conditions.get("DisruptionTarget", {})
    if disrupted.get("status") == "True":
        status = disrupted.get("reason", "")
    workload = find(data, "spec.workloadRef.workloadName") or "<none>"
    return [data["metadata"]["name"], _policy(data), workload, status, created(data, now)]


_BINDING: Final = (columns("Name", "Role", "Age", "Users*", "Groups*", "ServiceAccounts*"), _binding)
_BORN: Final = (columns("Name", "Created At"), plain("metadata.name", "born"))
CLUSTER_OBJECTS: Final[Mapping[str, tuple[tuple[Column, ...], Cells]]] = {
    "nodes": (
        columns(
            *("Name", "Status", "Roles", "Age", "Version", "Internal-IP*", "External-IP*", "OS-Image*"),
            *("Kernel-Version*", "Container-Runtime*"),
        ),
        _node,
    ),
    "namespaces": (columns("Name", "Status", "Age"), plain("metadata.name", "status.phase", "age")),
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
    "podgroups.scheduling.k8s.io": (columns("Name", "Policy", "Workload", "Status", "Age"), _pod_group),
    "compositepodgroups.scheduling.k8s.io": (
        columns("Name", "Policy", "Workload", "Age"),
        lambda data, now: [
            *(data["metadata"]["name"], _policy(data), find(data, "spec.workloadRef.workloadName") or "<none>"),
            created(data, now),
        ],
    ),
    "leases.coordination.k8s.io": (
        columns("Name", "Holder", "Age"),
        plain("metadata.name", "spec.holderIdentity", "age"),
    ),
    "leasecandidates.coordination.k8s.io": (
        columns("Name", "LeaseName", "BinaryVersion", "EmulationVersion", "Age"),
        plain("metadata.name", "spec.leaseName", "spec.binaryVersion", "spec.emulationVersion", "age"),
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
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDING,
    "clusterroles.rbac.authorization.k8s.io": _BORN,
    "csidrivers.storage.k8s.io": (
        columns(
            *("Name", "AttachRequired", "PodInfoOnMount", "StorageCapacity", "TokenRequests", "RequiresRepublish"),
            *("Modes", "Age"),
        ),
        _driver,
    ),
    "csinodes.storage.k8s.io": (
        columns("Name", "Drivers", "Age"),
        lambda data, now: [data["metadata"]["name"], len(find(data, "spec.drivers", [])), created(data, now)],
    ),
    "csistoragecapacities.storage.k8s.io": _BORN,
    "customresourcedefinitions.apiextensions.k8s.io": (
        columns("Name", "Scope", "Versions", "Created At", "Group*", "Kind*", "ShortNames*", "Established*"),
        _definition,
    ),
    "devicetaintrules.resource.k8s.io": (
        columns("Name", "Key", "Value", "Effect", "TimeAdded", "Age"),
        _taint_rule,
    ),
    "endpoints": (
        columns("Name", "Endpoints", "Age"),
        lambda data, now: [data["metadata"]["name"], "<none>", created(data, now)],
    ),
    "endpointslices.discovery.k8s.io": (columns("Name", "AddressType", "Ports", "Endpoints", "Age"), _slice),
    "ingressclasses.networking.k8s.io": (
        columns("Name", "Controller", "Parameters", "Age"),
        plain("metadata.name", "spec.controller", "spec.parameters.name", "age"),
    ),
    "ingresses.networking.k8s.io": (columns("Name", "Class", "Hosts", "Address", "Ports", "Age"), _ingress),
    "limitranges": _BORN,
    "networkpolicies.networking.k8s.io": (
        columns("Name", "Pod-Selector", "Age"),
        lambda data, now: [data["metadata"]["name"], selector(data, "spec.podSelector"), created(data, now)],
    ),
    "persistentvolumes": (
        columns(
            *("Name", "Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim", "StorageClass"),
            *("VolumeAttributesClass", "Reason", "Age", "VolumeMode*"),
        ),
        _volume,
    ),
    "resourcequotas": (columns("Name", "Request", "Limit", "Age"), _quota),
    "rolebindings.rbac.authorization.k8s.io": _BINDING,
    "roles.rbac.authorization.k8s.io": _BORN,
    "runtimeclasses.node.k8s.io": (columns("Name", "Handler", "Age"), plain("metadata.name", "handler", "age")),
    "secrets": (
        columns("Name", "Type", "Data", "Age"),
        lambda data, now: [
            *(data["metadata"]["name"], data.get("type", ""), len(data.get("data") or {})),
            created(data, now),
        ],
    ),
    "storageclasses.storage.k8s.io": (
        columns("Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", "Age"),
        _storage_class,
    ),
    "volumeattachments.storage.k8s.io": (
        columns("Name", "Attacher", "PV", "Node", "Attached", "Age"),
        lambda data, now: [
            *(data["metadata"]["name"], find(data, "spec.attacher"), find(data, "spec.source.persistentVolumeName")),
            *(find(data, "spec.nodeName"), _word(find(data, "status.attached", False)), created(data, now)),
        ],
    ),
    "volumeattributesclasses.storage.k8s.io": (
        columns("Name", "DriverName", "Age"),
        plain("metadata.name", "driverName", "age"),
    ),
}
