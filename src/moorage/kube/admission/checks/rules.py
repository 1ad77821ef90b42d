"""The validation rules of each resource: metadata and spec."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from moorage.kube.admission.checks import names, pod_specs, scheduling_groups, stored_kinds, workload_specs
from moorage.kube.admission.checks.placement import label_selector, node_selector, taints
from moorage.kube.api.kinds import RBAC
from moorage.kube.api.quantity import nano_value
from moorage.kube.api.struct import Data
from moorage.kube.field_errors import (
    FieldError,
    forbidden_field,
    invalid_value,
    invalid_values,
    required_value,
    unsupported_value,
)
from moorage.kube.resources import ServedResource

CANDIDATES: Final = "leasecandidates.coordination.k8s.io"
STANDARD_FINALIZERS: Final = frozenset(("foregroundDeletion", "orphan", "kubernetes"))
STATIC: Final = ".static.k8s.io"
LABEL_NAMES: Final = frozenset(("namespaces", "services"))

BINDING: Final = ("Immediate", "WaitForFirstConsumer")
SYSTEM_CLASSES: Final = ("system-cluster-critical", "system-node-critical")
_PLAIN_FIELDS: Final = frozenset(
    (
        *("capacity", "accessModes", "claimRef", "persistentVolumeReclaimPolicy", "storageClassName", "mountOptions"),
        *("volumeMode", "nodeAffinity", "volumeAttributesClassName"),
    )
)
ATTRIBUTE_TYPES: Final = ("int", "bool", "string", "version", "ints", "bools", "strings", "versions")
"""An attribute of a device has one of these fields."""


def resource_slice(data: Data) -> Iterator[FieldError]:
    """Check that every attribute has a value. Values of disabled features were dropped before."""
    spec = data.get("spec") or {}
    if "nodeSelector" in spec:
        yield from node_selector(spec["nodeSelector"], "spec.nodeSelector")
    for number, device in enumerate(spec.get("devices") or ()):
        if "nodeSelector" in device:
            yield from node_selector(device["nodeSelector"], f"spec.devices[{number}].nodeSelector")
        for name, attribute in (device.get("attributes") or {}).items():
            if not any(key in attribute for key in ATTRIBUTE_TYPES):
                choices = ", ".join(f"`{value}`" for value in ATTRIBUTE_TYPES)
                yield invalid_value(f"spec.devices[{number}].attributes[{name}]", "", f"must specify one of: {choices}")


def volume(data: Data) -> Iterator[FieldError]:
    """Check a volume."""
    spec = data.get("spec") or {}
    if not spec.get("accessModes"):
        yield required_value("spec.accessModes")
    yield from pod_specs.access_modes(spec, "spec")
    capacity = spec.get("capacity") or {}
    if not capacity:
        yield required_value("spec.capacity")
    if list(capacity) != ["storage"]:
        yield unsupported_value("spec.capacity", capacity, ("storage",))
    for name, amount in capacity.items():
        if nano_value(amount) <= 0:
            yield invalid_value(f"spec.capacity[{name}]", str(amount), names.POSITIVE)
    sources = sorted(spec.keys() - _PLAIN_FIELDS, key=lambda name: (name != "hostPath", name))
    if not sources:
        yield required_value("spec", "must specify a volume type")
    for name in sources[1:] if "flexVolume" not in sources else ():
        yield forbidden_field(f"spec.{name}", "may not specify more than 1 volume type")
    required_terms = (spec.get("nodeAffinity") or {}).get("required")
    if required_terms is not None:
        yield from node_selector(required_terms, "spec.nodeAffinity.required")


def storage_class(data: Data) -> Iterator[FieldError]:
    """Check a storage class."""
    if not data.get("provisioner"):
        yield required_value("provisioner")
    if data.get("reclaimPolicy", "Delete") not in ("Delete", "Retain"):
        yield unsupported_value("reclaimPolicy", data["reclaimPolicy"], ("Delete", "Retain"))
    if data.get("volumeBindingMode", BINDING[0]) not in BINDING:
        yield unsupported_value("volumeBindingMode", data["volumeBindingMode"], BINDING)


def node(data: Data) -> Iterator[FieldError]:
    """Check a node."""
    # The path is upstream's: taints once were an annotation.
    yield from taints((data.get("spec") or {}).get("taints") or [], "metadata.taints")
    status = data.get("status") or {}
    for kind in ("capacity", "allocatable"):
        for name, amount in (status.get(kind) or {}).items():
            yield from pod_specs.amount_not_negative(amount, f"status.{kind}.{name}")


def priority_class(data: Data) -> Iterator[FieldError]:
    """Check a priority class."""
    name, value = data["metadata"].get("name", ""), data.get("value", 0)
    if name in SYSTEM_CLASSES:
        return
    if name.startswith("system-"):
        reason = "priority class names with 'system-' prefix are reserved for system use only. error: "
        yield forbidden_field("metadata.name", f"{reason}{name} is not a known system priority class")
    if value > 1_000_000_000:
        yield forbidden_field("value", "maximum allowed value of a user defined priority is 1000000000")
    policy = data.get("preemptionPolicy", "Never")
    if policy not in ("Never", "PreemptLowerPriority"):
        yield unsupported_value("preemptionPolicy", policy, ("Never", "PreemptLowerPriority"))


RULES: Final[Mapping[str, Callable[[Data], Iterator[FieldError]]]] = {
    "apiservices.apiregistration.k8s.io": stored_kinds.api_service,
    "clusterrolebindings.rbac.authorization.k8s.io": lambda data: stored_kinds.role_binding(data, "ClusterRole"),
    "clusterroles.rbac.authorization.k8s.io": stored_kinds.cluster_role,
    "compositepodgroups.scheduling.k8s.io": scheduling_groups.composite_pod_group,
    "cronjobs.batch": workload_specs.cron_job,
    "csistoragecapacities.storage.k8s.io": lambda data: label_selector(data.get("nodeTopology") or {}, "nodeTopology"),
    "daemonsets.apps": workload_specs.daemon_set,
    "deployments.apps": workload_specs.deployment,
    "configmaps": stored_kinds.config_map,
    "ingresses.networking.k8s.io": stored_kinds.ingress,
    "jobs.batch": lambda data: workload_specs.job_spec(data.get("spec") or {}, "spec"),
    "networkpolicies.networking.k8s.io": stored_kinds.network_policy,
    "nodes": node,
    "persistentvolumeclaims": lambda data: pod_specs.claim_spec(data.get("spec") or {}, "spec"),
    "persistentvolumes": volume,
    "poddisruptionbudgets.policy": workload_specs.budget,
    "podgroups.scheduling.k8s.io": scheduling_groups.pod_group,
    "pods": lambda data: pod_specs.pod_spec(data.get("spec") or {}, "spec"),
    "podtemplates": lambda data: pod_specs.pod_template(data.get("template") or {}, "template"),
    "priorityclasses.scheduling.k8s.io": priority_class,
    "replicasets.apps": workload_specs.workload,
    "replicationcontrollers": workload_specs.replication_controller,
    "resourceslices.resource.k8s.io": resource_slice,
    "rolebindings.rbac.authorization.k8s.io": lambda data: stored_kinds.role_binding(data, "Role", "ClusterRole"),
    "roles.rbac.authorization.k8s.io": stored_kinds.role,
    "secrets": stored_kinds.secret,
    "services": workload_specs.service,
    "statefulsets.apps": workload_specs.stateful_set,
    "storageclasses.storage.k8s.io": storage_class,
    "workloads.scheduling.k8s.io": scheduling_groups.workload,
}


def rule_problems(resource: ServedResource, data: Data) -> Iterator[FieldError]:
    """Yield the errors of a single object."""
    yield from metadata_problems(resource, data["metadata"])
    rule = RULES.get(resource.storage)
    if rule is not None:
        yield from rule(data)


def metadata_problems(resource: ServedResource, metadata: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the errors of name, labels, annotations and owner references."""
    name = metadata.get("name", "")
    if not name:
        yield required_value("metadata.name", "name or generateName is required")
    elif resource.group == RBAC or resource.storage == CANDIDATES:
        if name in (".", "..") or "/" in name or "%" in name:
            yield invalid_value("metadata.name", name, "may not be '.' or '..', nor contain '/' or '%'")
    else:
        rule = names.dns_label if resource.storage in LABEL_NAMES else names.subdomain
        yield from invalid_values("metadata.name", name, rule(name))
    if resource.group == "admissionregistration.k8s.io" and name.endswith(STATIC):
        reason = f'names ending with "{STATIC}" are reserved for static manifest-based configurations'
        yield invalid_value("metadata.name", name, f"{reason} and cannot be managed via the API")
    yield from names.labels(metadata.get("labels") or {}, "metadata.labels")
    yield from names.annotations(metadata.get("annotations") or {}, "metadata.annotations")
    for number, finalizer in enumerate(metadata.get("finalizers") or ()):
        path = f"metadata.finalizers[{number}]"
        yield from invalid_values(path, finalizer, names.qualified_name(finalizer))
        if "/" not in finalizer and finalizer not in STANDARD_FINALIZERS:
            reason = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid_value(path, finalizer, reason)
    for number, owner in enumerate(metadata.get("ownerReferences") or ()):
        path = f"metadata.ownerReferences[{number}]"
        if not owner.get("apiVersion"):
            yield invalid_value(f"{path}.apiVersion", "", "version must not be empty")
        for field in ("kind", "name", "uid"):
            if not owner.get(field):
                location, reason = f"{path}.{field}", "must not be empty"
                yield required_value(location, reason) if field == "uid" else invalid_value(location, "", reason)
