"""Defaults of pods and workloads on plain data."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from moorage.kube.api.struct import Data
from moorage.kube.plain_data import find


def part(data: Data, name: str) -> Data:
    """Return a nested mapping; it is created if missing."""
    inner = data.setdefault(name, {})
    return inner if isinstance(inner, dict) else {}


def fill(data: Data, defaults: Mapping[str, Any]) -> None:
    """Set missing keys."""
    for key, content in defaults.items():
        if key not in data:
            data[key] = content


def default_pod_spec(spec: Data) -> None:
    """Set the defaults of pods and pod templates."""
    fill(
        spec,
        {
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "enableServiceLinks": True,
        },
    )
    for kind in ("initContainers", "containers"):
        for container in spec.get(kind) or ():
            if isinstance(container, dict):
                _default_container(container)


def _default_container(container: Data) -> None:
    if "imagePullPolicy" not in container:
        _, _, tag = str(container.get("image", "")).rpartition("/")[2].partition(":")
        container["imagePullPolicy"] = "Always" if tag in ("", "latest") else "IfNotPresent"
    fill(
        container,
        {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "resources": {}},
    )


def _template(data: Data) -> None:
    template = part(part(data, "spec"), "template")
    part(template, "metadata")
    default_pod_spec(part(template, "spec"))


def _deployment(data: Data) -> None:
    spec = part(data, "spec")
    _template(data)
    fill(spec, {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, "strategy": {}})
    strategy = part(spec, "strategy")
    fill(strategy, {"type": "RollingUpdate"})
    if strategy["type"] == "RollingUpdate":
        fill(part(strategy, "rollingUpdate"), {"maxUnavailable": "25%", "maxSurge": "25%"})


def _replica_set(data: Data) -> None:
    _template(data)
    fill(part(data, "spec"), {"replicas": 1})


def _replication_controller(data: Data) -> None:
    _replica_set(data)
    spec = part(data, "spec")
    labels = part(part(spec, "template"), "metadata").get("labels", {})
    fill(spec, {"selector": dict(labels) if isinstance(labels, dict) else {}})


def _stateful_set(data: Data) -> None:
    spec = part(data, "spec")
    _template(data)
    fill(
        spec,
        {
            "replicas": 1,
            "podManagementPolicy": "OrderedReady",
            "revisionHistoryLimit": 10,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        },
    )
    for claim in spec.get("volumeClaimTemplates") or ():
        if isinstance(claim, dict):
            fill(claim, {"apiVersion": "v1", "kind": "PersistentVolumeClaim"})
            fill(part(claim, "spec"), {"volumeMode": "Filesystem"})


def _daemon_set(data: Data) -> None:
    _template(data)
    update = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    fill(part(data, "spec"), {"revisionHistoryLimit": 10, "updateStrategy": update})


def _job(data: Data) -> None:
    spec = part(data, "spec")
    _template(data)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    fill(
        spec,
        {
            "parallelism": 1,
            "backoffLimit": 6,
            "completionMode": "NonIndexed",
            "suspend": False,
            "manualSelector": False,
            "podReplacementPolicy": "TerminatingOrFailed",
        },
    )


def _cron_job(data: Data) -> None:
    _template(part(part(data, "spec"), "jobTemplate"))
    fill(
        part(data, "spec"),
        {
            "concurrencyPolicy": "Allow",
            "suspend": False,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
        },
    )


def _service(data: Data) -> None:
    spec = part(data, "spec")
    fill(spec, {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster"})
    for port in spec.get("ports") or ():
        if isinstance(port, dict):
            fill(port, {"protocol": "TCP", "targetPort": port.get("port", 0)})


def _config_holder(data: Data) -> None:
    if data.get("kind") == "Secret":
        fill(data, {"type": "Opaque"})
        for key, text in (data.pop("stringData", None) or {}).items():
            part(data, "data")[key] = _base64(str(text))


def _base64(text: str) -> str:
    from base64 import b64encode

    return b64encode(text.encode()).decode()


def _namespace(data: Data) -> None:
    part(data["metadata"], "labels")["kubernetes.io/metadata.name"] = data["metadata"].get("name", "")
    # The controller of namespaces takes it off when nothing is left in there.
    fill(part(data, "spec"), {"finalizers": ["kubernetes"]})


def _persistent_volume(data: Data) -> None:
    fill(part(data, "spec"), {"volumeMode": "Filesystem", "persistentVolumeReclaimPolicy": "Retain"})


def _persistent_volume_claim(data: Data) -> None:
    fill(part(data, "spec"), {"volumeMode": "Filesystem"})


def _storage_class(data: Data) -> None:
    fill(data, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})


def _limit_range(data: Data) -> None:
    """Default a container's limits to the maximum, and its requests to its limits."""
    for item in find(data, "spec.limits", []):
        if isinstance(item, dict) and item.get("type") == "Container":
            limits = {**(item.get("max") or {}), **(item.get("default") or {})}
            requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
            item |= {key: amounts for key, amounts in (("default", limits), ("defaultRequest", requests)) if amounts}


DEFAULTS: Final[Mapping[str, Callable[[Data], None]]] = {
    "cronjobs.batch": _cron_job,
    "daemonsets.apps": _daemon_set,
    "deployments.apps": _deployment,
    "jobs.batch": _job,
    "limitranges": _limit_range,
    "namespaces": _namespace,
    "persistentvolumeclaims": _persistent_volume_claim,
    "persistentvolumes": _persistent_volume,
    "pods": lambda data: default_pod_spec(part(data, "spec")),
    "replicasets.apps": _replica_set,
    "replicationcontrollers": _replication_controller,
    "secrets": _config_holder,
    "services": _service,
    "statefulsets.apps": _stateful_set,
    "storageclasses.storage.k8s.io": _storage_class,
}

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
"""Resources whose status the server updates with every write."""
KEEPS_STATUS: Final = frozenset(("nodes", OWN_STATUS))
"""A kubelet registers its node together with the node's status."""
