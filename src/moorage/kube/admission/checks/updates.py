"""Validation of updates: immutable fields."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from moorage.kube.admission.checks import scheduling_groups
from moorage.kube.admission.checks.names import IMMUTABLE
from moorage.kube.field_errors import FieldError, forbidden_field, invalid_value

Stored = Mapping[str, Any]
MUTABLE_IN_PODS: Final = frozenset(
    ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "schedulingGates", "ephemeralContainers")
)
MUTABLE_IN_GATED_PODS: Final = MUTABLE_IN_PODS | {"nodeSelector", "affinity"}
_POD_RULE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def update_problems(storage: str, old: Stored, new: Stored) -> Iterator[FieldError]:
    """Yield the errors for changed immutable fields."""
    rule = RULES.get(storage)
    if rule is not None:
        yield from rule(old, new)


def _pod(old: Stored, new: Stored) -> Iterator[FieldError]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    mutable = MUTABLE_IN_GATED_PODS if before.get("schedulingGates") else MUTABLE_IN_PODS
    gates_before = {gate.get("name") for gate in before.get("schedulingGates") or ()}
    for number, gate in enumerate(after.get("schedulingGates") or ()):
        if gate.get("name") not in gates_before:
            why = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            yield forbidden_field(f"spec.schedulingGates[{number}].name", why)
    remaining = _without(after.get("tolerations"), "tolerationSeconds")
    if any(toleration not in remaining for toleration in _without(before.get("tolerations"), "tolerationSeconds")):
        why = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden_field("spec.tolerations", why)
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)} - mutable
    images = ("image", "imagePullPolicy")
    for kind in ("containers", "initContainers"):
        if _without(before.get(kind), *images) == _without(after.get(kind), *images):
            changed.discard(kind)
    if changed:
        yield forbidden_field("spec", f"{_POD_RULE}\nfound changes of {', '.join(sorted(changed))}")


def _without(items: Any, *names: str) -> list[Stored]:
    return [{key: content for key, content in item.items() if key not in names} for item in items or ()]


def _fixed(*names: str) -> Callable[[Stored, Stored], Iterator[FieldError]]:
    """Return a rule that makes some fields of a spec immutable."""

    def rule(old: Stored, new: Stored) -> Iterator[FieldError]:
        before, after = old.get("spec") or {}, new.get("spec") or {}
        for name in names:
            if before.get(name) != after.get(name):
                yield invalid_value(f"spec.{name}", after.get(name), IMMUTABLE)

    return rule


def _claim(old: Stored, new: Stored) -> Iterator[FieldError]:
    """Allow a claim to be bound, to get its first storage class, and to grow; all else is immutable."""
    before, after = dict(old.get("spec") or {}), dict(new.get("spec") or {})
    for name in ("volumeName", "storageClassName"):
        if before.get(name) is None and name in after:
            before[name] = after[name]
    if (old.get("status") or {}).get("phase") == "Bound":
        for name in ("resources", "volumeAttributesClassName"):
            before.pop(name, None)
            after.pop(name, None)
    if before != after:
        why = "spec is immutable after creation except resources.requests and volumeAttributesClassName"
        yield forbidden_field("spec", f"{why} for bound claims")


def _job(old: Stored, new: Stored) -> Iterator[FieldError]:
    mode = (old.get("spec") or {}).get("completionMode")
    yield from _fixed("selector", "completionMode", "podFailurePolicy")(old, new)
    yield from scheduling_groups.changed_job(old, new)
    if mode != "Indexed":
        yield from _fixed("completions")(old, new)
    if not (old.get("spec") or {}).get("suspend"):
        yield from _fixed("template")(old, new)


def _priority_class(old: Stored, new: Stored) -> Iterator[FieldError]:
    for name in ("value", "preemptionPolicy"):
        if old.get(name) != new.get(name) and (name != "value" or old.get(name, 0) != new.get(name, 0)):
            yield forbidden_field(name, "may not be changed in an update.")


def _storage_class(old: Stored, new: Stored) -> Iterator[FieldError]:
    for name in ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"):
        if old.get(name) != new.get(name):
            # Upstream does not show the value either.
            yield invalid_value(name, None, IMMUTABLE)


def _resource_claim(old: Stored, new: Stored) -> Iterator[FieldError]:
    if old.get("spec") != new.get("spec"):
        yield invalid_value("spec", new.get("spec"), IMMUTABLE)


RULES: Final[Mapping[str, Callable[[Stored, Stored], Iterator[FieldError]]]] = {
    "compositepodgroups.scheduling.k8s.io": scheduling_groups.changed_composite,
    "daemonsets.apps": _fixed("selector"),
    "deployments.apps": _fixed("selector"),
    "jobs.batch": _job,
    "persistentvolumeclaims": _claim,
    "podgroups.scheduling.k8s.io": scheduling_groups.changed_pod_group,
    "pods": _pod,
    "priorityclasses.scheduling.k8s.io": _priority_class,
    "replicasets.apps": _fixed("selector"),
    "resourceclaims.resource.k8s.io": _resource_claim,
    "statefulsets.apps": _fixed("serviceName", "selector", "podManagementPolicy", "volumeClaimTemplates"),
    "storageclasses.storage.k8s.io": _storage_class,
    "workloads.scheduling.k8s.io": scheduling_groups.changed_workload,
}
