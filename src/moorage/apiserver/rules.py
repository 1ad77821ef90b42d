"""Rules of the API that our structs do not know: names, required fields, and what may not change."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from moorage.api.codec import convert
from moorage.api.selectors import LabelSelector, is_label_value, is_qualified_name, label_matcher
from moorage.apiserver.refusals import Cause
from moorage.apiserver.resources import RBAC, Resource
from moorage.errors import SelectorError

_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_RULE: Final = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'"
LABEL_NAMES: Final = frozenset(("namespaces", "services"))
MUTABLE_IN_PODS: Final = frozenset(
    ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "schedulingGates", "ephemeralContainers")
)
MUTABLE_IN_GATED_PODS: Final = MUTABLE_IN_PODS | {"nodeSelector", "affinity", "schedulingGroup"}
Rule = Callable[[Mapping[str, Any]], Iterator[Cause]]


def invalid_value(field: str, found: Any, why: str) -> Cause:
    """Say that a field has content it may not have."""
    shown = f'"{found}"' if isinstance(found, str) else msgspec.json.encode(found).decode()
    return Cause("FieldValueInvalid", f"Invalid value: {shown}: {why}", field)


def required(field: str, why: str = "") -> Cause:
    """Say that a field is missing."""
    return Cause("FieldValueRequired", f"Required value{f': {why}' if why else ''}", field)


def rule_problems(resource: Resource, data: Mapping[str, Any]) -> Iterator[Cause]:
    """Find what is wrong with an object as such."""
    yield from metadata_problems(resource, data["metadata"])
    rule = RULES.get(resource.storage)
    if rule is not None:
        yield from rule(data)


def metadata_problems(resource: Resource, metadata: Mapping[str, Any]) -> Iterator[Cause]:
    """Find what is wrong with a name, labels and annotations."""
    yield from _name_problems(resource, metadata)
    yield from _label_problems(metadata)


def _name_problems(resource: Resource, metadata: Mapping[str, Any]) -> Iterator[Cause]:
    name = metadata.get("name", "")
    if not name:
        yield required("metadata.name", "name or generateName is required")
    elif resource.group == RBAC:
        if name in (".", "..") or "/" in name or "%" in name:
            yield invalid_value("metadata.name", name, "may not be '.' or '..', nor contain '/' or '%'")
    elif resource.storage in LABEL_NAMES:
        if len(name) > 63 or not _LABEL.match(name):
            yield invalid_value("metadata.name", name, _LABEL_RULE)
    elif len(name) > 253 or not _SUBDOMAIN.match(name):
        yield invalid_value("metadata.name", name, _SUBDOMAIN_RULE)


def _label_problems(metadata: Mapping[str, Any]) -> Iterator[Cause]:
    for key, text in (metadata.get("labels") or {}).items():
        if not is_qualified_name(key):
            yield invalid_value("metadata.labels", key, "a label key is a name with an optional DNS prefix and a slash")
        if not is_label_value(text):
            why = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.'"
            yield invalid_value("metadata.labels", text, why)
    for key in metadata.get("annotations") or {}:
        if not is_qualified_name(key.lower()):
            yield invalid_value("metadata.annotations", key, "an annotation key is a name with an optional DNS prefix")


def _pod(data: Mapping[str, Any]) -> Iterator[Cause]:
    yield from _pod_spec(data.get("spec") or {}, "spec")


def _pod_spec(spec: Mapping[str, Any], path: str) -> Iterator[Cause]:
    if not spec.get("containers"):
        yield required(f"{path}.containers")
    for kind in ("initContainers", "containers"):
        names: set[str] = set()
        for number, container in enumerate(spec.get(kind) or ()):
            where = f"{path}.{kind}[{number}]"
            name = container.get("name", "")
            if not name:
                yield required(f"{where}.name")
            elif name in names:
                yield Cause("FieldValueDuplicate", f'Duplicate value: "{name}"', f"{where}.name")
            elif len(name) > 63 or not _LABEL.match(name):
                yield invalid_value(f"{where}.name", name, _LABEL_RULE)
            if not container.get("image"):
                yield required(f"{where}.image")
            names.add(name)


def _workload(data: Mapping[str, Any]) -> Iterator[Cause]:
    spec = data.get("spec") or {}
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    if not spec.get("selector"):
        yield required("spec.selector")
    else:
        try:
            matches = label_matcher(convert(LabelSelector, spec["selector"])).matches(labels)
        except (SelectorError, msgspec.ValidationError) as error:
            yield invalid_value("spec.selector", spec["selector"], str(error))
        else:
            if not matches:
                yield invalid_value(
                    "spec.template.metadata.labels", labels, "`selector` does not match template `labels`"
                )
    if isinstance(spec.get("replicas"), int) and spec["replicas"] < 0:
        yield invalid_value("spec.replicas", spec["replicas"], "must be greater than or equal to 0")
    yield from _pod_spec(template.get("spec") or {}, "spec.template.spec")


def _job(data: Mapping[str, Any]) -> Iterator[Cause]:
    spec = (data.get("spec") or {}).get("template", {}).get("spec") or {}
    if spec.get("restartPolicy") not in ("OnFailure", "Never"):
        known = '"OnFailure", "Never"'
        found = spec.get("restartPolicy", "")
        message = f'Unsupported value: "{found}": supported values: {known}'
        yield Cause("FieldValueNotSupported", message, "spec.template.spec.restartPolicy")
    yield from _pod_spec(spec, "spec.template.spec")


def _budget(data: Mapping[str, Any]) -> Iterator[Cause]:
    spec = data.get("spec") or {}
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield invalid_value("spec", spec, "minAvailable and maxUnavailable cannot be both set")


def _priority_class(data: Mapping[str, Any]) -> Iterator[Cause]:
    name, value = data["metadata"].get("name", ""), data.get("value", 0)
    if value > 1_000_000_000 and name not in ("system-cluster-critical", "system-node-critical"):
        why = "maximum allowed value of a user defined priority is 1000000000"
        yield Cause("FieldValueForbidden", f"Forbidden: {why}", "value")


RULES: Final[Mapping[str, Rule]] = {
    "daemonsets.apps": _workload,
    "deployments.apps": _workload,
    "jobs.batch": _job,
    "poddisruptionbudgets.policy": _budget,
    "pods": _pod,
    "priorityclasses.scheduling.k8s.io": _priority_class,
    "replicasets.apps": _workload,
    "statefulsets.apps": _workload,
}


def update_problems(resource: Resource, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Cause]:
    """Find what changed that may not change."""
    if resource.storage == "pods":
        yield from _pod_update(old.get("spec") or {}, new.get("spec") or {})
    elif resource.storage in ("deployments.apps", "replicasets.apps", "daemonsets.apps", "statefulsets.apps"):
        selector = (new.get("spec") or {}).get("selector")
        if (old.get("spec") or {}).get("selector") != selector:
            yield invalid_value("spec.selector", selector, "field is immutable")
    elif resource.storage == "priorityclasses.scheduling.k8s.io" and old.get("value", 0) != new.get("value", 0):
        yield Cause("FieldValueForbidden", "Forbidden: may not be changed in an update.", "value")
    elif resource.storage == "resourceclaims.resource.k8s.io" and old.get("spec") != new.get("spec"):
        yield invalid_value("spec", new.get("spec"), "field is immutable")


def _pod_update(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Cause]:
    mutable = MUTABLE_IN_GATED_PODS if old.get("schedulingGates") else MUTABLE_IN_PODS
    changed = {name for name in {*old, *new} if old.get(name) != new.get(name)} - mutable
    for kind in ("containers", "initContainers"):
        if kind in changed and _without_images(old.get(kind)) == _without_images(new.get(kind)):
            changed.remove(kind)
    gates = {gate.get("name") for gate in old.get("schedulingGates") or ()}
    if any(gate.get("name") not in gates for gate in new.get("schedulingGates") or ()):
        why = "Forbidden: only deletion is allowed, but found new scheduling gate"
        yield Cause("FieldValueForbidden", why, "spec.schedulingGates")
    if changed:
        why = (
            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`, "
            "`spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations` (only additions to "
            f"existing tolerations), `spec.terminationGracePeriodSeconds`; found {', '.join(sorted(changed))}"
        )
        yield Cause("FieldValueForbidden", why, "spec")


def _without_images(containers: Any) -> Any:
    return [{k: v for k, v in item.items() if k not in ("image", "imagePullPolicy")} for item in containers or ()]
