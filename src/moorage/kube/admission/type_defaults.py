"""Defaults of the Kubernetes types on plain data.

Each default belongs to a type, so a pod, a pod template and a template inside a cron job get the same ones.
The names and conditions are those of the `SetDefaults_*` functions of kube-apiserver.
"""

import copy
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from moorage.kube.api.quantity import canonical
from moorage.kube.api.struct import Data
from moorage.kube.schema import Field, Schema

_RBAC: Final = "rbac.authorization.k8s.io"
_ZERO_IS_ABSENT: Final = frozenset(("string", "int32", "int64", "bool", "bytes", "strings"))
"""Types with a zero value that Go does not encode in an ``omitempty`` field."""
_COMPONENT: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE: Final = re.compile(
    r"(?:(?:localhost|(?=[^/]*[.:A-Z])[a-zA-Z0-9][a-zA-Z0-9.-]*(?::[0-9]+)?)/)?"
    rf"{_COMPONENT}(?:/{_COMPONENT})*"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?P<digest>@[A-Za-z][\w+.-]*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)
"""An image reference."""


def part(data: Data, name: str) -> Data:
    """Return a nested mapping. It is created if missing."""
    inner = data.setdefault(name, {})
    return inner if isinstance(inner, dict) else {}


def fill(data: Data, defaults: Mapping[str, Any]) -> None:
    """Set missing keys."""
    for key, content in defaults.items():
        if key not in data:
            data[key] = copy.copy(content)


def _pull_policy(image: Any) -> str:
    """Return the default pull policy: invalid references and references with a digest have no default tag."""
    reference = _IMAGE.fullmatch(image) if isinstance(image, str) else None
    if reference is None:
        return "IfNotPresent"
    tag = reference["tag"] or ("" if reference["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def _container(container: Data) -> None:
    fill(
        container,
        {
            "imagePullPolicy": _pull_policy(container.get("image")),
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        },
    )


def _volume(volume: Data) -> None:
    if not volume.keys() - {"name"}:
        volume["emptyDir"] = {}
    if (image := volume.get("image")) is not None:
        fill(image, {"pullPolicy": _pull_policy(image.get("reference"))})


def _pod_spec(spec: Data) -> None:
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec |= {"serviceAccountName": account, "serviceAccount": account}


def _strategy(strategy: Data, rolling_update: Data) -> None:
    fill(strategy, {"type": "RollingUpdate"})
    if strategy["type"] == "RollingUpdate":
        fill(part(strategy, "rollingUpdate"), rolling_update)


def count_template(old: Data, new: Data) -> None:
    """Increase the generation of the template of a DaemonSet."""
    text = (old["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, "1")
    if text.isascii() and text.isdecimal():
        part(new["metadata"], "annotations")[TEMPLATE_GENERATION] = str(int(text) + 1)


def _daemon_set(data: Data) -> None:
    fill(part(data["metadata"], "annotations"), {TEMPLATE_GENERATION: "1"})
    _strategy(part(part(data, "spec"), "updateStrategy"), {"maxUnavailable": 1, "maxSurge": 0})


def _stateful_set(data: Data) -> None:
    spec = part(data, "spec")
    strategy = part(spec, "updateStrategy")
    if "type" not in strategy:
        strategy["type"] = "RollingUpdate"
        part(strategy, "rollingUpdate")
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        fill(strategy["rollingUpdate"], {"partition": 0, "maxUnavailable": 1})
    fill(part(spec, "persistentVolumeClaimRetentionPolicy"), {"whenDeleted": "Retain", "whenScaled": "Retain"})
    for claim in spec.get("volumeClaimTemplates") or ():
        fill(claim, {"apiVersion": "v1", "kind": "PersistentVolumeClaim"})
        fill(part(claim, "status"), {"phase": "Pending"})


def copy_template_labels(data: Data) -> Data:
    """Give an object without labels those of its pod template. Return them."""
    template = (data.get("spec") or {}).get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    if labels and not data["metadata"].get("labels"):
        data["metadata"]["labels"] = dict(labels)
    return dict(labels)


def _replication_controller(data: Data) -> None:
    if labels := copy_template_labels(data):
        fill(part(data, "spec"), {"selector": labels})


def _job(data: Data) -> None:
    spec = part(data, "spec")
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    fill(
        spec,
        {
            "parallelism": 1,
            "backoffLimit": 2**31 - 1 if "backoffLimitPerIndex" in spec else 6,
            "completionMode": "NonIndexed",
            "suspend": False,
            "manualSelector": False,
            "podReplacementPolicy": "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed",
        },
    )


def _service_spec(spec: Data) -> None:
    fill(spec, {"type": "ClusterIP", "sessionAffinity": "None"})
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        fill(part(part(spec, "sessionAffinityConfig"), "clientIP"), {"timeoutSeconds": 10800})
    is_balanced = spec["type"] == "LoadBalancer"
    if is_balanced or spec["type"] == "NodePort" or (spec["type"] == "ClusterIP" and spec.get("externalIPs")):
        fill(spec, {"externalTrafficPolicy": "Cluster"})
    if spec["type"] in ("ClusterIP", "NodePort", "LoadBalancer"):
        fill(spec, {"internalTrafficPolicy": "Cluster"})
    if is_balanced:
        fill(spec, {"allocateLoadBalancerNodePorts": True})


def _limit_range_item(item: Data) -> None:
    """Default a container's limits to the maximum, and its requests to its limits."""
    if item.get("type") == "Container":
        limits = {**(item.get("max") or {}), **(item.get("default") or {})}
        requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
        item |= {key: amounts for key, amounts in (("default", limits), ("defaultRequest", requests)) if amounts}


def _network_policy_spec(spec: Data) -> None:
    fill(spec, {"policyTypes": ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]})


def _custom_resource_definition(spec: Data) -> None:
    names = part(spec, "names")
    kind = names.get("kind", "")
    fill(names, {"singular": kind.lower(), "listKind": f"{kind}List"} if kind else {})


def _autoscaler_spec(spec: Data) -> None:
    target = {"type": "Utilization", "averageUtilization": 80}
    fill(spec, {"minReplicas": 1, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]})
    if (behavior := spec.get("behavior")) is not None:
        growth = [
            {"type": "Pods", "value": 4, "periodSeconds": 15},
            {"type": "Percent", "value": 100, "periodSeconds": 15},
        ]
        up = {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": growth}
        down = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}
        fill(part(behavior, "scaleUp"), up)
        fill(part(behavior, "scaleDown"), down)


def _device_request(request: Data) -> None:
    fill(request, {"allocationMode": "ExactCount"})
    fill(request, {"count": 1} if request["allocationMode"] == "ExactCount" else {})


def _namespace(data: Data) -> None:
    if name := data["metadata"].get("name"):
        part(data["metadata"], "labels")["kubernetes.io/metadata.name"] = name


def _secret(data: Data) -> None:
    for key, text in (data.get("data") or {}).items():
        data["data"][key] = b64encode(b64decode(text or "")).decode()
    for key, text in (data.pop("stringData", None) or {}).items():
        part(data, "data")[key] = b64encode(str(text).encode()).decode()


_DERIVED: Final[Mapping[str, Callable[[Data], None]]] = {
    "apiextensions.v1.CustomResourceDefinitionSpec": _custom_resource_definition,
    "apps.v1.DaemonSet": _daemon_set,
    "apps.v1.Deployment": lambda data: _strategy(
        part(part(data, "spec"), "strategy"), {"maxUnavailable": "25%", "maxSurge": "25%"}
    ),
    "apps.v1.StatefulSet": _stateful_set,
    "autoscaling.v2.HorizontalPodAutoscalerSpec": _autoscaler_spec,
    "batch.v1.Job": _job,
    "core.v1.Container": _container,
    "core.v1.EphemeralContainer": _container,
    "core.v1.LimitRangeItem": _limit_range_item,
    "core.v1.Namespace": _namespace,
    "core.v1.Pod": lambda data: fill(part(data, "spec"), {"enableServiceLinks": True}),
    "core.v1.PodSpec": _pod_spec,
    "core.v1.ReplicationController": _replication_controller,
    "core.v1.Secret": _secret,
    "core.v1.ServicePort": lambda port: port.update(targetPort=port.get("targetPort") or port.get("port", 0)),
    "core.v1.ServiceSpec": _service_spec,
    "core.v1.Volume": _volume,
    "rbac.v1.RoleRef": lambda data: data.update(apiGroup=data.get("apiGroup") or _RBAC),
    "core.v1.NodeSpec": lambda spec: fill(spec, {"podCIDRs": [spec["podCIDR"]]} if spec.get("podCIDR") else {}),
    "core.v1.NodeStatus": lambda status: fill(
        status, {"allocatable": status["capacity"]} if status.get("capacity") else {}
    ),
    "networking.v1.IngressClassSpec": lambda spec: fill(spec.get("parameters", {}), {"scope": "Cluster"}),
    "networking.v1.NetworkPolicySpec": _network_policy_spec,
    "resource.v1.DeviceSubRequest": _device_request,
    "resource.v1.ExactDeviceRequest": _device_request,
    "rbac.v1.Subject": lambda data: fill(data, {"apiGroup": _RBAC} if data.get("kind") in ("User", "Group") else {}),
}
"""Defaults that depend on other fields, by type. They precede the fixed ones."""
_TCP: Final = {"protocol": "TCP"}
_MODE: Final = {"defaultMode": 0o644}
_CEPH: Final = {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}
_SCALE_IO: Final = {"storageMode": "ThinProvisioned", "fsType": "xfs"}
_PORT: Final = {"port": 443}
TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
_MATCH: Final = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
_WEBHOOK: Final = {"failurePolicy": "Fail", "timeoutSeconds": 10, **_MATCH}
_FIXED: Final[Mapping[str, Data]] = {
    "admissionregistration.v1.MatchResources": _MATCH,
    "admissionregistration.v1.MutatingAdmissionPolicySpec": {"failurePolicy": "Fail"},
    "admissionregistration.v1.MutatingWebhook": {"reinvocationPolicy": "Never", **_WEBHOOK},
    "admissionregistration.v1.NamedRuleWithOperations": {"scope": "*"},
    "admissionregistration.v1.RuleWithOperations": {"scope": "*"},
    "admissionregistration.v1.ServiceReference": _PORT,
    "admissionregistration.v1.ValidatingAdmissionPolicySpec": {"failurePolicy": "Fail"},
    "admissionregistration.v1.ValidatingWebhook": _WEBHOOK,
    "apiextensions.v1.CustomResourceDefinitionSpec": {"conversion": {"strategy": "None"}},
    "apiextensions.v1.ServiceReference": _PORT,
    "apiregistration.v1.ServiceReference": _PORT,
    "apps.v1.DaemonSetSpec": {"revisionHistoryLimit": 10},
    "apps.v1.DeploymentSpec": {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600},
    "apps.v1.ReplicaSetSpec": {"replicas": 1},
    "apps.v1.ControllerRevision": {"revision": 0},
    "apps.v1.StatefulSetOrdinals": {"start": 0},
    "apps.v1.StatefulSetSpec": {
        "replicas": 1,
        "podManagementPolicy": "OrderedReady",
        "revisionHistoryLimit": 10,
        "serviceName": "",
    },
    "autoscaling.v2.HorizontalPodAutoscalerStatus": {"currentMetrics": None},
    "batch.v1.CronJobSpec": {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    },
    "batch.v1.PodFailurePolicyOnPodConditionsPattern": {"status": "True"},
    "core.v1.AzureFilePersistentVolumeSource": {"secretNamespace": None},
    "core.v1.AzureDiskVolumeSource": {
        "cachingMode": "ReadWrite",
        "fsType": "ext4",
        "readOnly": False,
        "kind": "Shared",
    },
    "core.v1.ConfigMapVolumeSource": _MODE,
    "core.v1.ContainerPort": _TCP,
    "core.v1.DownwardAPIVolumeSource": _MODE,
    "core.v1.EndpointPort": _TCP,
    "core.v1.FileKeySelector": {"optional": False},
    "core.v1.GRPCAction": {"service": ""},
    "core.v1.HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    "core.v1.HostPathVolumeSource": {"type": ""},
    "core.v1.ISCSIPersistentVolumeSource": {"iscsiInterface": "default"},
    "core.v1.ISCSIVolumeSource": {"iscsiInterface": "default"},
    # The controller of namespaces removes the finalizer when the namespace is empty.
    "core.v1.NamespaceSpec": {"finalizers": ["kubernetes"]},
    "core.v1.ObjectFieldSelector": {"apiVersion": "v1"},
    "core.v1.PersistentVolumeClaimSpec": {"volumeMode": "Filesystem"},
    "core.v1.PersistentVolumeSpec": {"volumeMode": "Filesystem", "persistentVolumeReclaimPolicy": "Retain"},
    "core.v1.PodSpec": {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "securityContext": {},
    },
    "core.v1.Probe": {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
    "core.v1.ProjectedVolumeSource": _MODE,
    "core.v1.RBDPersistentVolumeSource": _CEPH,
    "core.v1.RBDVolumeSource": _CEPH,
    "core.v1.ReplicationControllerSpec": {"replicas": 1},
    "core.v1.ScaleIOPersistentVolumeSource": _SCALE_IO,
    "core.v1.ScaleIOVolumeSource": _SCALE_IO,
    "core.v1.Secret": {"type": "Opaque"},
    "core.v1.SecretVolumeSource": _MODE,
    "core.v1.ResourceFieldSelector": {"divisor": "0"},
    "core.v1.TypedLocalObjectReference": {"apiGroup": None},
    "core.v1.TypedObjectReference": {"apiGroup": None},
    "core.v1.ServiceAccountTokenProjection": {"expirationSeconds": 3600},
    "core.v1.ServicePort": _TCP,
    "core.v1.LimitRangeSpec": {"limits": None},
    "discovery.v1.EndpointSlice": {"endpoints": None, "ports": None},
    "discovery.v1.EndpointPort": {"name": "", **_TCP},
    "networking.v1.NetworkPolicyPort": _TCP,
    "networking.v1.NetworkPolicySpec": {"podSelector": {}},
    "rbac.v1.ClusterRole": {"rules": None},
    "rbac.v1.Role": {"rules": None},
    "scheduling.v1.PriorityClass": {"value": 0, "preemptionPolicy": "PreemptLowerPriority"},
    "storage.v1.CSIDriver": {"spec": {}},
    "storage.v1.CSIDriverSpec": {
        "attachRequired": True,
        "preventPodSchedulingIfMissing": False,
        "storageCapacity": False,
        "podInfoOnMount": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "volumeLifecycleModes": ["Persistent"],
        "requiresRepublish": False,
        "seLinuxMount": False,
    },
    "storage.v1.StorageClass": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
}
"""Defaults that do not depend on other fields, by type."""


def set_defaults(data: Data, schema: Schema) -> None:
    """Set the defaults of an object of checked types, and remove the values that Go does not encode."""
    name = ".".join(schema.name.rsplit(".", 3)[1:])
    fields = schema.by_name
    for key in [key for key, content in data.items() if not content and _is_absent(content, fields.get(key))]:
        del data[key]
    for key in schema.always_encoded:
        data.setdefault(key, {})
    if (derive := _DERIVED.get(name)) is not None:
        derive(data)
    if (fixed := _FIXED.get(name)) is not None:
        fill(data, fixed)
    for key, content in data.items():
        field = fields.get(key)
        if content is None or field is None:
            continue
        if field.type == "quantity":
            data[key] = _canonical(content, field)
        elif (below := field.schema) is not None:
            for item in _items(content, field):
                if isinstance(item, dict):
                    set_defaults(item, below)


def _is_absent(content: Any, field: Field | None) -> bool:
    if field is None:
        return False
    is_plain = not field.shape and field.type in _ZERO_IS_ABSENT
    return content is None or field.shape == "list" or (field.omit and (is_plain or field.shape == "map"))


def _canonical(content: Any, field: Field) -> Any:
    match field.shape:
        case "map":
            return {name: canonical(amount, in_millis=True) for name, amount in content.items()}
        case "list":
            return [canonical(amount) for amount in content]
    return canonical(content)


def _items(content: Any, field: Field) -> Iterator[Any]:
    if not field.shape:
        return iter((content,))
    return iter(content.values() if isinstance(content, dict) else content)


_DAEMONS: Final = ("currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady")
_BUDGET: Final = ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")
INITIAL_STATUS: Final[Mapping[str, Mapping[str, Any]]] = {
    "compositepodgroups.scheduling.k8s.io": {},
    "cronjobs.batch": {},
    "daemonsets.apps": dict.fromkeys(_DAEMONS, 0),
    "deployments.apps": {},
    "jobs.batch": {},
    "namespaces": {"phase": "Active"},
    "persistentvolumeclaims": {"phase": "Pending"},
    "persistentvolumes": {"phase": "Pending"},
    "poddisruptionbudgets.policy": dict.fromkeys(_BUDGET, 0),
    "podgroups.scheduling.k8s.io": {},
    "pods": {"phase": "Pending"},
    "replicasets.apps": {"replicas": 0},
    "replicationcontrollers": {"replicas": 0},
    "resourceclaims.resource.k8s.io": {},
    "services": {"loadBalancer": {}},
    "statefulsets.apps": {"availableReplicas": 0, "replicas": 0},
}
"""Initial statuses of new objects, before any controller has reconciled them."""
OWN_STATUS: Final = "customresourcedefinitions.apiextensions.k8s.io"
"""Resources with a status that the server updates with every write."""
KEEPS_STATUS: Final = frozenset(("nodes", OWN_STATUS))
"""A kubelet registers its node together with the node's status."""
