"""All kinds except workloads, as `kubectl get` prints them: nodes, storage, devices, services, access."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from moorage.cluster.apiserver.reading.tables.cells import (
    Cell,
    Column,
    access_modes,
    columns,
    count,
    joined,
    list_items,
    selector,
)
from moorage.kube.api.struct import Data
from moorage.kube.plain_data import find


def _node_status(data: Data, _: float) -> str:
    conditions = {item.get("type"): item.get("status") for item in list_items(data, "status.conditions")}
    ready = "Unknown" if "Ready" not in conditions else "Ready" if conditions["Ready"] == "True" else "NotReady"
    return f"{ready},SchedulingDisabled" if find(data, "spec.unschedulable") else ready


def _roles(data: Data, _: float) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = find(data, "metadata.labels", {})
    return ",".join(sorted(label.removeprefix(prefix) for label in labels if label.startswith(prefix))) or "<none>"


def _node_address(kind: str) -> Cell:
    def cell(data: Data, _: float) -> Any:
        addresses = {item.get("type"): item.get("address") for item in list_items(data, "status.addresses")}
        return addresses.get(kind, "<none>")

    return cell


def _external_addresses(data: Data, _: float) -> str:
    external = list(find(data, "spec.externalIPs", []))
    if find(data, "spec.type") == "LoadBalancer":
        balancers = list_items(data, "status.loadBalancer.ingress")
        external = [item.get("ip") or item.get("hostname", "") for item in balancers] + external or ["<pending>"]
    elif find(data, "spec.type") == "ExternalName":
        external = [find(data, "spec.externalName", "<none>")]
    return ",".join(external) or "<none>"


def _service_ports(data: Data, _: float) -> str:
    texts = []
    for port in list_items(data, "spec.ports"):
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        texts.append(f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}")
    return ",".join(texts) or "<none>"


def _involved_object(data: Data, _: float) -> str:
    return f"{find(data, 'involvedObject.kind').lower()}/{find(data, 'involvedObject.name')}"


def _claim_state(data: Data, _: float) -> str:
    state = "allocated" if find(data, "status.allocation") else "pending"
    return f"{state},reserved" if find(data, "status.reservedFor") else state


def _volume_claim(data: Data, _: float) -> str:
    claim = find(data, "spec.claimRef")
    return f"{claim['namespace']}/{claim['name']}" if claim else ""


def _class_name(data: Data, _: float) -> str:
    annotations = find(data, "metadata.annotations", {})
    is_default = annotations.get("storageclass.kubernetes.io/is-default-class") == "true"
    return f"{data['metadata']['name']}{' (default)' if is_default else ''}"


def _quota_usage(*, of_limits: bool) -> Cell:
    def cell(data: Data, _: float) -> str:
        usage = find(data, "status.used", {})
        return ", ".join(
            f"{name}: {usage.get(name, 0)}/{most}"
            for name, most in sorted(find(data, "status.hard", find(data, "spec.hard", {})).items())
            if name.startswith("limits.") == of_limits
        )

    return cell


def _subjects(kind: str) -> Cell:
    def cell(data: Data, _: float) -> str:
        matching = (item for item in list_items(data, "subjects") if item.get("kind") == kind)
        return ", ".join("/".join(filter(None, (item.get("namespace"), item.get("name")))) for item in matching)

    return cell


def _format_established(data: Data, _: float) -> str:
    conditions = list_items(data, "status.conditions")
    return next((str(item.get("status", "")) for item in conditions if item.get("type") == "Established"), "")


def _policy(data: Data, _: float) -> str:
    policy = find(data, "spec.schedulingPolicy", {})
    return "Gang" if "gang" in policy else "Basic" if "basic" in policy else "<none>"


def _group_status(data: Data, _: float) -> str:
    """Show a group as scheduled, unschedulable or pending, unless it is being disrupted."""
    conditions = {item.get("type"): item for item in list_items(data, "status.conditions")}
    disrupted = conditions.get("DisruptionTarget", {})
    if disrupted.get("status") == "True":
        return str(disrupted.get("reason", ""))
    scheduled = conditions.get("PodGroupInitiallyScheduled", {}).get("status", "Pending")
    return {"True": "Scheduled", "False": "Unschedulable"}.get(scheduled, "Pending")


def _endpoints(data: Data, _: float) -> str:
    addresses = [text for item in list_items(data, "endpoints") for text in item.get("addresses") or ()]
    return _shorten(addresses) or "<unset>"


def _subsets(data: Data, _: float) -> str:
    return (
        _shorten(
            f"{address.get('ip', '')}{port}"
            for subset in list_items(data, "subsets")
            for port in [f":{item.get('port', 0)}" for item in list_items(subset, "ports")] or [""]
            for address in list_items(subset, "addresses")
        )
        or "<none>"
    )


def _shorten(texts: Iterable[str]) -> str:
    """Join three texts, and count the remaining ones."""
    items = list(texts)
    return ",".join(items[:3]) + (f" + {len(items) - 3} more..." if len(items) > 3 else "")


_BINDING: Final = columns(
    *("Name", ("Role", lambda data, _: f"{find(data, 'roleRef.kind')}/{find(data, 'roleRef.name')}"), "Age"),
    *(
        ("Users*", _subjects("User")),
        ("Groups*", _subjects("Group")),
        ("ServiceAccounts*", _subjects("ServiceAccount")),
    ),
)
_CREATED: Final = columns("Name", "Created At")
CLUSTER_OBJECTS: Final[Mapping[str, tuple[Column, ...]]] = {
    "nodes": columns(
        *("Name", ("Status", _node_status), ("Roles", _roles), "Age", "Version: status.nodeInfo.kubeletVersion|"),
        *(("Internal-IP*", _node_address("InternalIP")), ("External-IP*", _node_address("ExternalIP"))),
        *("OS-Image*: status.nodeInfo.osImage|<unknown>", "Kernel-Version*: status.nodeInfo.kernelVersion|<unknown>"),
        "Container-Runtime*: status.nodeInfo.containerRuntimeVersion|<unknown>",
    ),
    "namespaces": columns("Name", "Status: status.phase", "Age"),
    "services": columns(
        *("Name", "Type: spec.type|ClusterIP", "Cluster-IP: spec.clusterIP", ("External-IP", _external_addresses)),
        *(("Port(s)", _service_ports), "Age", ("Selector*", selector())),
    ),
    "events": columns(
        "Last Seen: @lastTimestamp,series.lastObservedTime,eventTime,metadata.creationTimestamp",
        *("Type: type|", "Reason: reason|", ("Object", _involved_object), "Subobject*: involvedObject.fieldPath|"),
        *("Source*: source.component,reportingComponent|", ("Message", lambda data, _: find(data, "message").strip())),
        *("First Seen*: @firstTimestamp,eventTime,metadata.creationTimestamp", "Count*: count|1"),
        "Name*: metadata.name",
    ),
    "persistentvolumeclaims": columns(
        *("Name", "Status: status.phase|", "Volume: spec.volumeName|", "Capacity: status.capacity.storage|"),
        *(("Access Modes", access_modes("status.accessModes")), "StorageClass: spec.storageClassName|"),
        *(("VolumeAttributesClass", lambda *_: "<unset>"), "Age", "VolumeMode*: spec.volumeMode|Filesystem"),
    ),
    "priorityclasses.scheduling.k8s.io": columns(
        *("Name", "Value: value|0", "Global-Default: globalDefault|false", "Age"),
        "PreemptionPolicy: preemptionPolicy|",
    ),
    "podgroups.scheduling.k8s.io": columns(
        "Name", ("Policy", _policy), "Workload: spec.workloadRef.workloadName", ("Status", _group_status), "Age"
    ),
    "compositepodgroups.scheduling.k8s.io": columns(
        "Name", ("Policy", _policy), "Workload: spec.workloadRef.workloadName", "Age"
    ),
    "leases.coordination.k8s.io": columns("Name", "Holder: spec.holderIdentity", "Age"),
    "leasecandidates.coordination.k8s.io": columns(
        *("Name", "LeaseName: spec.leaseName", "BinaryVersion: spec.binaryVersion"),
        *("EmulationVersion: spec.emulationVersion", "Age"),
    ),
    "configmaps": columns("Name", "Data: data", "Age"),
    "resourceclaims.resource.k8s.io": columns("Name", ("State", _claim_state), "Age"),
    "resourceslices.resource.k8s.io": columns(
        "Name", "Node: spec.nodeName", "Driver: spec.driver", "Pool: spec.pool.name", "Age"
    ),
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDING,
    "clusterroles.rbac.authorization.k8s.io": _CREATED,
    "csidrivers.storage.k8s.io": columns(
        *("Name", "AttachRequired: spec.attachRequired|false", "PodInfoOnMount: spec.podInfoOnMount|false"),
        "StorageCapacity: spec.storageCapacity|false",
        ("TokenRequests", joined("spec.tokenRequests", "audience", "<unset>")),
        *("RequiresRepublish: spec.requiresRepublish|false", "Modes: spec.volumeLifecycleModes|Persistent", "Age"),
    ),
    "csinodes.storage.k8s.io": columns("Name", ("Drivers", count("spec.drivers")), "Age"),
    "csistoragecapacities.storage.k8s.io": _CREATED,
    "customresourcedefinitions.apiextensions.k8s.io": columns(
        *("Name", "Scope: spec.scope|", ("Versions", joined("spec.versions", "name")), "Created At"),
        *("Group*: spec.group|", "Kind*: spec.names.kind|", "ShortNames*: spec.names.shortNames|"),
        ("Established*", _format_established),
    ),
    "devicetaintrules.resource.k8s.io": columns(
        *("Name", "Key: spec.taint.key|", "Value: spec.taint.value|", "Effect: spec.taint.effect|"),
        *("TimeAdded: spec.taint.timeAdded|", "Age"),
    ),
    "endpoints": columns("Name", ("Endpoints", _subsets), "Age"),
    "endpointslices.discovery.k8s.io": columns(
        *(
            "Name",
            "AddressType: addressType|",
            ("Ports", joined("ports", "port", "<unset>")),
        ),
        *(("Endpoints", _endpoints), "Age"),
    ),
    "ingressclasses.networking.k8s.io": columns(
        "Name", "Controller: spec.controller", "Parameters: spec.parameters.name", "Age"
    ),
    "ingresses.networking.k8s.io": columns(
        *("Name", "Class: spec.ingressClassName"),
        ("Hosts", lambda data, _: ",".join(rule.get("host", "*") for rule in list_items(data, "spec.rules")) or "*"),
        ("Address", lambda *_: ""),
        *(("Ports", lambda data, _: "80, 443" if find(data, "spec.tls") else "80"), "Age"),
    ),
    "limitranges": _CREATED,
    "networkpolicies.networking.k8s.io": columns("Name", ("Pod-Selector", selector("spec.podSelector")), "Age"),
    "persistentvolumes": columns(
        *("Name", "Capacity: spec.capacity.storage|", ("Access Modes", access_modes("spec.accessModes"))),
        *("Reclaim Policy: spec.persistentVolumeReclaimPolicy|", "Status: status.phase|", ("Claim", _volume_claim)),
        *("StorageClass: spec.storageClassName|", "VolumeAttributesClass: spec.volumeAttributesClassName|<unset>"),
        *("Reason: status.reason|", "Age", "VolumeMode*: spec.volumeMode|<unset>"),
    ),
    "resourcequotas": columns(
        *("Name", ("Request", _quota_usage(of_limits=False)), ("Limit", _quota_usage(of_limits=True)), "Age"),
    ),
    "rolebindings.rbac.authorization.k8s.io": _BINDING,
    "roles.rbac.authorization.k8s.io": _CREATED,
    "runtimeclasses.node.k8s.io": columns("Name", "Handler: handler", "Age"),
    "secrets": columns("Name", "Type: type|", ("Data", lambda data, _: len(find(data, "data", {}))), "Age"),
    "storageclasses.storage.k8s.io": columns(
        *(("Name", _class_name), "Provisioner: provisioner|", "ReclaimPolicy: reclaimPolicy|Delete"),
        *("VolumeBindingMode: volumeBindingMode|Immediate", "AllowVolumeExpansion: allowVolumeExpansion|false", "Age"),
    ),
    "volumeattachments.storage.k8s.io": columns(
        *("Name", "Attacher: spec.attacher|", "PV: spec.source.persistentVolumeName|", "Node: spec.nodeName|"),
        *("Attached: status.attached|false", "Age"),
    ),
    "volumeattributesclasses.storage.k8s.io": columns("Name", "DriverName: driverName", "Age"),
}
