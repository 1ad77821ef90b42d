"""Validation of updates: immutable fields."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from moorage.kube.admission.checks import scheduling_groups, workload_specs
from moorage.kube.admission.checks.names import IMMUTABLE, is_ip_address
from moorage.kube.features import FeatureGates
from moorage.kube.field_errors import FieldError, forbidden_field, invalid_value

Stored = Mapping[str, Any]
_DEFAULT_GATES: Final = FeatureGates()
COMPOSITES: Final = "compositepodgroups.scheduling.k8s.io"
GRACE: Final = "terminationGracePeriodSeconds"
MUTABLE_IN_PODS: Final = frozenset(("activeDeadlineSeconds", "tolerations", "schedulingGates", "ephemeralContainers"))
MUTABLE_IN_GATED_PODS: Final = MUTABLE_IN_PODS | {"nodeSelector", "affinity"}
FIXED_IN_JOBS: Final = (
    *("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "successPolicy", "managedBy"),
)
LOCKED: Final = "field is immutable when `immutable` is set"
VOLUME_FIELDS: Final = frozenset(
    (
        *("accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy"),
        *("storageClassName", "volumeAttributesClassName", "volumeMode"),
    )
)
"""The fields of a volume that do not describe its source."""
_POD_RULE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def update_problems(
    storage: str, old: Stored, new: Stored, features: FeatureGates = _DEFAULT_GATES
) -> Iterator[FieldError]:
    """Yield the errors for changed immutable fields."""
    rule = RULES.get(storage)
    if storage == COMPOSITES and features.since(1, 38):
        rule = scheduling_groups.changed_composite_but_count
    if rule is not None:
        yield from rule(old, new)


def _pod(old: Stored, new: Stored) -> Iterator[FieldError]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    mutable = MUTABLE_IN_GATED_PODS if before.get("schedulingGates") else MUTABLE_IN_PODS
    gates_before = {gate.get("name") for gate in before.get("schedulingGates") or ()}
    for number, gate in enumerate(after.get("schedulingGates") or ()):
        if gate.get("name") not in gates_before:
            reason = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            yield forbidden_field(f"spec.schedulingGates[{number}].name", reason)
    tolerations = _without(after.get("tolerations"), "tolerationSeconds")
    if any(toleration not in tolerations for toleration in _without(before.get("tolerations"), "tolerationSeconds")):
        reason = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden_field("spec.tolerations", reason)
    for kind in ("containers", "initContainers"):
        if len(before.get(kind) or ()) != len(after.get(kind) or ()):
            yield forbidden_field(f"spec.{kind}", "pod updates may not add or remove containers")
            return
    changed_fields = {name for name in {*before, *after} if before.get(name) != after.get(name)} - mutable
    if before.get(GRACE, 0) < 0 and after.get(GRACE) == 1:
        changed_fields.discard(GRACE)
    for kind in ("containers", "initContainers"):
        if _without(before.get(kind), "image") == _without(after.get(kind), "image"):
            changed_fields.discard(kind)
    if changed_fields:
        yield forbidden_field("spec", f"{_POD_RULE}\nfound changes of {', '.join(sorted(changed_fields))}")


def _without(items: Any, *names: str) -> list[Stored]:
    return [{key: content for key, content in item.items() if key not in names} for item in items or ()]


def _make_immutable_check(*names: str, root: str = "spec") -> Callable[[Stored, Stored], Iterator[FieldError]]:
    """Return a rule that makes some fields of a spec immutable; without a ``root``, fields of the object."""

    def rule(old: Stored, new: Stored) -> Iterator[FieldError]:
        before, after = ((item.get(root) or {}) if root else item for item in (old, new))
        for name in names:
            if before.get(name) != after.get(name):
                yield invalid_value(f"{root}.{name}" if root else name, after.get(name), IMMUTABLE)

    return rule


def _check_locked(old: Stored, new: Stored) -> Iterator[FieldError]:
    """Reject changes of a ConfigMap or Secret that is marked as immutable."""
    yield from _make_immutable_check("type", root="")(old, new)
    if old.get("immutable"):
        if not new.get("immutable"):
            yield forbidden_field("immutable", LOCKED)
        for name in ("data", "binaryData"):
            if (old.get(name) or {}) != (new.get(name) or {}):
                yield forbidden_field(name, LOCKED)


def _volume(old: Stored, new: Stored) -> Iterator[FieldError]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    if any(before.get(name) != after.get(name) for name in {*before, *after} - VOLUME_FIELDS):
        reason = "spec.persistentvolumesource is immutable after creation"
        yield forbidden_field("spec.persistentvolumesource", reason)
    if before.get("volumeMode") != after.get("volumeMode"):
        yield invalid_value("volumeMode", after.get("volumeMode"), IMMUTABLE)
    if before.get("nodeAffinity") not in (None, after.get("nodeAffinity")):
        reason = f"{IMMUTABLE}, except for updating from beta label to GA"
        yield invalid_value("nodeAffinity", after.get("nodeAffinity"), reason)


def _csi_node(old: Stored, new: Stored) -> Iterator[FieldError]:
    before, after = ((item.get("spec") or {}).get("drivers") or () for item in (old, new))
    drivers = {driver.get("name"): _without([driver], "allocatable") for driver in after}
    if any(drivers.get(item.get("name")) not in (None, _without([item], "allocatable")) for item in before):
        yield invalid_value("spec.drivers", list(after), IMMUTABLE)


def _service(old: Stored, new: Stored) -> Iterator[FieldError]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    if "ExternalName" in (before.get("type"), after.get("type")):
        return
    address = after.get("clusterIP") or ""
    if before.get("clusterIP") and before["clusterIP"] != address and (address == "None" or is_ip_address(address)):
        yield invalid_value("spec.clusterIPs[0]", address, "may not change once set")


def _claim(old: Stored, new: Stored) -> Iterator[FieldError]:
    """Allow a claim to be bound, to get its first storage class, and to grow. All else is immutable."""
    before, after = dict(old.get("spec") or {}), dict(new.get("spec") or {})
    for name in ("volumeName", "storageClassName"):
        if before.get(name) is None and name in after:
            before[name] = after[name]
    if (old.get("status") or {}).get("phase") == "Bound":
        for name in ("resources", "volumeAttributesClassName"):
            before.pop(name, None)
            after.pop(name, None)
    if before != after:
        reason = "spec is immutable after creation except resources.requests and volumeAttributesClassName"
        yield forbidden_field("spec", f"{reason} for bound claims")
    if before.get("volumeMode") != after.get("volumeMode"):
        yield invalid_value("volumeMode", after.get("volumeMode"), IMMUTABLE)


def _job(old: Stored, new: Stored) -> Iterator[FieldError]:
    mode = (old.get("spec") or {}).get("completionMode")
    # The server generates the selector of a new job. Updates must contain it.
    yield from workload_specs.pod_selector(new.get("spec") or {}, "job")
    yield from _make_immutable_check(*FIXED_IN_JOBS)(old, new)
    yield from scheduling_groups.changed_job(old, new)
    if mode != "Indexed":
        yield from _make_immutable_check("completions")(old, new)
    if not (old.get("spec") or {}).get("suspend"):
        yield from _make_immutable_check("template")(old, new)


def _priority_class(old: Stored, new: Stored) -> Iterator[FieldError]:
    if old.get("value", 0) != new.get("value", 0):
        yield forbidden_field("value", "may not be changed in an update.")
    yield from _make_immutable_check("preemptionPolicy", root="")(old, new)


def _storage_class(old: Stored, new: Stored) -> Iterator[FieldError]:
    for name in ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"):
        if old.get(name) != new.get(name):
            # Upstream does not show the value either.
            yield invalid_value(name, None, IMMUTABLE)


def _resource_claim(old: Stored, new: Stored) -> Iterator[FieldError]:
    if old.get("spec") != new.get("spec"):
        yield invalid_value("spec", new.get("spec"), IMMUTABLE)


RULES: Final[Mapping[str, Callable[[Stored, Stored], Iterator[FieldError]]]] = {
    "clusterrolebindings.rbac.authorization.k8s.io": _make_immutable_check("roleRef", root=""),
    COMPOSITES: scheduling_groups.changed_composite,
    "configmaps": _check_locked,
    "controllerrevisions.apps": _make_immutable_check("data", root=""),
    "csidrivers.storage.k8s.io": _make_immutable_check("attachRequired", "volumeLifecycleModes"),
    "csinodes.storage.k8s.io": _csi_node,
    "daemonsets.apps": _make_immutable_check("selector"),
    "deployments.apps": _make_immutable_check("selector"),
    "endpointslices.discovery.k8s.io": _make_immutable_check("addressType", root=""),
    "ingressclasses.networking.k8s.io": _make_immutable_check("controller"),
    "jobs.batch": _job,
    "persistentvolumeclaims": _claim,
    "persistentvolumes": _volume,
    "podgroups.scheduling.k8s.io": scheduling_groups.changed_pod_group,
    "pods": _pod,
    "priorityclasses.scheduling.k8s.io": _priority_class,
    "replicasets.apps": _make_immutable_check("selector"),
    "resourceclaims.resource.k8s.io": _resource_claim,
    "rolebindings.rbac.authorization.k8s.io": _make_immutable_check("roleRef", root=""),
    "runtimeclasses.node.k8s.io": _make_immutable_check("handler", root=""),
    "secrets": _check_locked,
    "services": _service,
    "statefulsets.apps": _make_immutable_check(
        "serviceName", "selector", "podManagementPolicy", "volumeClaimTemplates"
    ),
    "storageclasses.storage.k8s.io": _storage_class,
    "workloads.scheduling.k8s.io": scheduling_groups.changed_workload,
}
