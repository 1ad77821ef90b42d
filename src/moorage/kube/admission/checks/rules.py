"""The validation rules of each resource: metadata and spec."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from moorage.kube.admission.checks import names, scheduling_groups
from moorage.kube.admission.checks.pod_specs import pod_spec
from moorage.kube.admission.checks.storage import claim, node, priority_class, storage_class, volume
from moorage.kube.admission.checks.workloads import (
    budget,
    cron_job,
    daemon_set,
    deployment,
    job,
    replication_controller,
    service,
    stateful_set,
    workload,
)
from moorage.kube.api.kinds import RBAC
from moorage.kube.api.struct import Data
from moorage.kube.field_errors import FieldError, invalid_value, invalid_values, required_value
from moorage.kube.resources import ServedResource

CANDIDATES: Final = "leasecandidates.coordination.k8s.io"
LABEL_NAMES: Final = frozenset(("namespaces", "services"))


ATTRIBUTE_TYPES: Final = ("int", "bool", "string", "version", "ints", "bools", "strings", "versions")
"""An attribute of a device has one of these fields."""


def resource_slice(data: Data) -> Iterator[FieldError]:
    """Check that every attribute has a value; values of disabled features were dropped before."""
    for number, device in enumerate((data.get("spec") or {}).get("devices") or ()):
        for name, attribute in (device.get("attributes") or {}).items():
            if not any(key in attribute for key in ATTRIBUTE_TYPES):
                choices = ", ".join(f"`{value}`" for value in ATTRIBUTE_TYPES)
                yield invalid_value(f"spec.devices[{number}].attributes[{name}]", "", f"must specify one of: {choices}")


RULES: Final[Mapping[str, Callable[[Data], Iterator[FieldError]]]] = {
    "compositepodgroups.scheduling.k8s.io": scheduling_groups.composite_pod_group,
    "cronjobs.batch": cron_job,
    "daemonsets.apps": daemon_set,
    "deployments.apps": deployment,
    "jobs.batch": job,
    "nodes": node,
    "persistentvolumeclaims": claim,
    "persistentvolumes": volume,
    "poddisruptionbudgets.policy": budget,
    "podgroups.scheduling.k8s.io": scheduling_groups.pod_group,
    "pods": lambda data: pod_spec(data.get("spec") or {}, "spec"),
    "priorityclasses.scheduling.k8s.io": priority_class,
    "replicasets.apps": workload,
    "replicationcontrollers": replication_controller,
    "resourceslices.resource.k8s.io": resource_slice,
    "services": service,
    "statefulsets.apps": stateful_set,
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
    yield from _name_problems(resource, metadata.get("name", ""))
    yield from names.labels(metadata.get("labels") or {}, "metadata.labels")
    yield from names.annotations(metadata.get("annotations") or {}, "metadata.annotations")
    for number, owner in enumerate(metadata.get("ownerReferences") or ()):
        yield from _owner_problems(owner, f"metadata.ownerReferences[{number}]")


def _name_problems(resource: ServedResource, name: str) -> Iterator[FieldError]:
    if not name:
        yield required_value("metadata.name", "name or generateName is required")
    elif resource.group == RBAC or resource.storage == CANDIDATES:
        if name in (".", "..") or "/" in name or "%" in name:
            yield invalid_value("metadata.name", name, "may not be '.' or '..', nor contain '/' or '%'")
    else:
        rule = names.dns_label if resource.storage in LABEL_NAMES else names.subdomain
        yield from invalid_values("metadata.name", name, rule(name))


def _owner_problems(owner: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    if not owner.get("apiVersion"):
        yield invalid_value(f"{path}.apiVersion", "", "version must not be empty")
    for field in ("kind", "name", "uid"):
        if not owner.get(field):
            yield invalid_value(f"{path}.{field}", "", "must not be empty")
