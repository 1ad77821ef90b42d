"""What `kubectl get` prints of kinds that are asked for less often."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from moorage.box.apiserver.table_cells import (
    Column,
    Data,
    access_modes,
    age,
    columns,
    created,
    find,
    images,
    plain,
    selector,
)

Cells = Callable[[Data, float], Sequence[Any]]


def _cron_job(data: Data, now: float) -> list[Any]:
    last = find(data, "status.lastScheduleTime")
    return [
        *(data["metadata"]["name"], find(data, "spec.schedule"), find(data, "spec.timeZone", "<none>")),
        *(str(find(data, "spec.suspend", False)).capitalize(), len(find(data, "status.active", []))),
        *(age(last, now) if last else "<none>", created(data, now)),
        *images(data, "spec.jobTemplate.spec.template.spec.containers"),
        selector(data, "spec.jobTemplate.spec.selector"),
    ]


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


def _autoscaler(data: Data, now: float) -> list[Any]:
    target = find(data, "spec.scaleTargetRef", {})
    targets = ", ".join(_target(metric) for metric in find(data, "spec.metrics", [])) or "<none>"
    return [
        *(data["metadata"]["name"], f"{target.get('kind', '')}/{target.get('name', '')}", targets),
        *(find(data, "spec.minReplicas", "<unset>"), find(data, "spec.maxReplicas", 0)),
        *(find(data, "status.currentReplicas", 0), created(data, now)),
    ]


def _target(metric: Data) -> str:
    name, wanted = find(metric, "resource.name", "metric"), find(metric, "resource.target", {})
    percent = wanted.get("averageUtilization")
    return f"{name}: <unknown>/{f'{percent}%' if percent is not None else wanted.get('averageValue', '<auto>')}"


def _quota(data: Data, now: float) -> list[Any]:
    limits: list[str] = []
    requests: list[str] = []
    for name, most in sorted(find(data, "status.hard", find(data, "spec.hard", {})).items()):
        part = f"{name}: {find(data, 'status.used', {}).get(name, 0)}/{most}"
        (limits if name.startswith("limits.") else requests).append(part)
    return [data["metadata"]["name"], ", ".join(requests), ", ".join(limits), created(data, now)]


def _revision(data: Data, now: float) -> list[Any]:
    owners = (owner for owner in data["metadata"].get("ownerReferences") or () if owner.get("controller"))
    owner = next(owners, None)
    group = f".{owner['apiVersion'].rpartition('/')[0]}" if owner and "/" in owner["apiVersion"] else ""
    told = f"{owner['kind'].lower()}{group}/{owner['name']}" if owner else "<none>"
    return [data["metadata"]["name"], told, data.get("revision", 0), created(data, now)]


def _binding(data: Data, now: float) -> list[Any]:
    role = f"{find(data, 'roleRef.kind')}/{find(data, 'roleRef.name')}"
    subjects = data.get("subjects") or []

    def named(kind: str) -> str:
        found = (item for item in subjects if item.get("kind") == kind)
        return ", ".join("/".join(filter(None, (item.get("namespace"), item.get("name")))) for item in found)

    kinds = [named(kind) for kind in ("User", "Group", "ServiceAccount")]
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


_BINDING: Final = (columns("Name", "Role", "Age", "Users*", "Groups*", "ServiceAccounts*"), _binding)
_BORN: Final = (columns("Name", "Created At"), plain("metadata.name", "born"))
MORE_TABLES: Final[Mapping[str, tuple[tuple[Column, ...], Cells]]] = {
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDING,
    "clusterroles.rbac.authorization.k8s.io": _BORN,
    "controllerrevisions.apps": (columns("Name", "Controller", "Revision", "Age"), _revision),
    "cronjobs.batch": (
        columns(
            *("Name", "Schedule", "Timezone", "Suspend", "Active", "Last Schedule", "Age"),
            *("Containers*", "Images*", "Selector*"),
        ),
        _cron_job,
    ),
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
    "horizontalpodautoscalers.autoscaling": (
        columns("Name", "Reference", "Targets", "MinPods", "MaxPods", "Replicas", "Age"),
        _autoscaler,
    ),
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
    "podtemplates": (
        columns("Name", "Containers", "Images", "Pod Labels"),
        lambda data, _now: [
            *(data["metadata"]["name"], *images(data, "template.spec.containers")),
            selector(data, "template.metadata.labels"),
        ],
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
