"""Validation of pod groups, composite pod groups, workloads, and the scheduling settings of jobs."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from moorage.kube.admission.checks.names import IMMUTABLE, dns_label, qualified_name, subdomain
from moorage.kube.api.struct import Data
from moorage.kube.field_errors import (
    FieldError,
    duplicate_value,
    forbidden_field,
    invalid_value,
    invalid_values,
    required_value,
    too_many_items,
    unsupported_value,
)

MAX_PRIORITY: Final = 1_000_000_000
MAX_TEMPLATES: Final = 8
MAX_DEPTH: Final = 4
MAX_CLAIMS: Final = 4
MAX_MESSAGE: Final = 32768
CLEARED: Final = "field cannot be cleared once set"
SET_LATE: Final = "field cannot be set once created"
PREEMPTION: Final = ("Never", "PreemptLowerPriority")
STATUSES: Final = ("False", "True", "Unknown")
_REASON: Final = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_REASON_RULE: Final = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    f"'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '{_REASON}')"
)
_TEMPLATES: Final = ("podGroupTemplates", "compositePodGroupTemplates")
_LATER: Final = ("disruptionMode", "priorityClassName", "priority", "preemptionPolicy")
Stored = Mapping[str, Any]


def pod_group(data: Data) -> Iterator[FieldError]:
    """Check a group of pods."""
    spec = data.get("spec") or {}
    if spec.get("parentCompositePodGroupName") and not spec.get("workloadRef"):
        yield required_value("spec.workloadRef", "must be set when parentCompositePodGroupName is set")
    yield from _origin(spec)
    yield from _settings(spec, "spec", "minCount")


def composite_pod_group(data: Data) -> Iterator[FieldError]:
    """Check a group of groups."""
    spec = data.get("spec") or {}
    if not spec.get("workloadRef"):
        yield required_value("spec.workloadRef")
    yield from _origin(spec)
    yield from _settings(spec, "spec", "minGroupCount")


def workload(data: Data) -> Iterator[FieldError]:
    """Check a workload: its priorities over all templates, then template by template."""
    spec = data.get("spec") or {}
    flat, trees = spec.get("podGroupTemplates") or [], spec.get("compositePodGroupTemplates") or []
    yield from _check_union_members(spec, "spec", *_TEMPLATES)
    if flat and not trees and len({_priority(item) for item in flat}) > 1:
        yield invalid_value("spec", None, "detected multiple priority configurations")
    yield from _tree_problems(trees)
    if reference := spec.get("controllerRef"):
        if group := reference.get("apiGroup"):
            yield from invalid_values("spec.controllerRef.apiGroup", group, subdomain(group))
        for field in ("kind", "name"):
            yield from _check_names(reference, f"spec.controllerRef.{field}", field, _path_segment)
    yield from _templates(spec, "spec")


def _origin(spec: Data) -> Iterator[FieldError]:
    """Check the parent reference of a group. The parent need not exist."""
    parent = spec.get("parentCompositePodGroupName")
    if parent is not None:
        yield from invalid_values("spec.parentCompositePodGroupName", parent, subdomain(parent))
    reference = spec.get("workloadRef")
    if reference:
        for field, rule in (("workloadName", subdomain), ("templateName", dns_label)):
            yield from _check_names(reference, f"spec.workloadRef.{field}", field, rule)


def _settings(spec: Data, path: str, count_field: str) -> Iterator[FieldError]:
    """Check the common fields of groups and their templates. ``counted`` is the count field of a gang."""
    policy = spec.get("schedulingPolicy") or {}
    yield from _check_union_members(policy, f"{path}.schedulingPolicy", "basic", "gang")
    if isinstance(gang := policy.get("gang"), dict):
        count = gang.get(count_field)
        if not count:
            yield required_value(f"{path}.schedulingPolicy.gang.{count_field}")
        elif count < 1:
            yield invalid_value(
                f"{path}.schedulingPolicy.gang.{count_field}", count, "must be greater than or equal to 1"
            )
    yield from constraints(spec.get("schedulingConstraints") or {}, f"{path}.schedulingConstraints")
    yield from claims(spec.get("resourceClaims") or [], f"{path}.resourceClaims")
    yield from disruption_mode(spec, path)
    if name := spec.get("priorityClassName"):
        yield from invalid_values(f"{path}.priorityClassName", name, subdomain(name))
    if (priority := spec.get("priority")) is not None and priority > MAX_PRIORITY:
        yield invalid_value(f"{path}.priority", priority, f"must be less than or equal to {MAX_PRIORITY}")
    if (preemption := spec.get("preemptionPolicy")) is not None and preemption not in PREEMPTION:
        yield unsupported_value(f"{path}.preemptionPolicy", preemption, PREEMPTION)


def constraints(spec: Data, path: str) -> Iterator[FieldError]:
    """Check where the pods of a group may be."""
    topology = spec.get("topology") or []
    if len(topology) > 1:
        yield too_many_items(f"{path}.topology", len(topology), 1)
        return
    for number, item in enumerate(topology):
        yield from _check_names(item, f"{path}.topology[{number}].key", "key", qualified_name)


def claims(items: list[Data], path: str) -> Iterator[FieldError]:
    """Check the claims that the pods of a group share."""
    if len(items) > MAX_CLAIMS:
        yield too_many_items(path, len(items), MAX_CLAIMS)
        return
    names: set[str] = set()
    for number, item in enumerate(items):
        item_path = f"{path}[{number}]"
        if item.get("name", "") in names:
            yield duplicate_value(item_path, item)
        names.add(item.get("name", ""))
        yield from _check_union_members(item, item_path, "resourceClaimName", "resourceClaimTemplateName")
        yield from _check_names(item, f"{item_path}.name", "name", dns_label)
        for field in ("resourceClaimName", "resourceClaimTemplateName"):
            if item.get(field) is not None:
                yield from invalid_values(f"{item_path}.{field}", item[field], subdomain(item[field]))


def disruption_mode(spec: Data, path: str) -> Iterator[FieldError]:
    """Check the preemption unit of a group."""
    mode = spec.get("disruptionMode")
    if mode is not None:
        yield from _check_union_members(mode, f"{path}.disruptionMode", "single", "all")


def job_scheduling(spec: Data, path: str) -> Iterator[FieldError]:
    """Check the scheduling settings of a job."""
    scheduling = spec.get("scheduling")
    if not scheduling:
        return
    policy = scheduling.get("schedulingPolicy")
    if policy is not None:
        yield from _check_union_members(policy, f"{path}.schedulingPolicy", "basic", "gang")
    count = ((policy or {}).get("gang") or {}).get("minCount")
    if count is not None and count < 1:
        yield invalid_value(f"{path}.schedulingPolicy.gang.minCount", count, "must be greater than or equal to 1")
    elif count is not None and count > (most := spec.get("parallelism", 1)):
        reason = f"must not be greater than parallelism ({most})"
        yield invalid_value(f"{path}.schedulingPolicy.gang.minCount", count, reason)
    if "gang" not in (policy or {}) and (scheduling.get("disruptionMode") or {}).keys() == {"all"}:
        reason = "the disruptionMode `all` is not supported with the Basic scheduling policy"
        yield invalid_value(f"{path}.disruptionMode", "", reason)
    yield from constraints(scheduling.get("schedulingConstraints") or {}, f"{path}.schedulingConstraints")
    yield from claims(scheduling.get("resourceClaims") or [], f"{path}.resourceClaims")
    yield from disruption_mode(scheduling, path)


def _check_union_members(union: Data, path: str, *members: str) -> Iterator[FieldError]:
    """Check that exactly one of some fields is set. An empty list is treated as none."""
    members_set = [name for name in members if name in union and union[name] is not None and union[name] != []]
    choices = ", ".join(f"`{name}`" for name in members)
    if not members_set:
        yield invalid_value(path, "", f"must specify one of: {choices}")
    elif len(members_set) > 1:
        yield invalid_value(path, f"{{{', '.join(members_set)}}}", f"must specify exactly one of: {choices}")


def _check_names(item: Data, path: str, field: str, rule: Any) -> Iterator[FieldError]:
    if not item.get(field):
        yield required_value(path)
    else:
        yield from invalid_values(path, item[field], rule(item[field]))


def _templates(spec: Data, path: str) -> Iterator[FieldError]:
    """Check the templates of a workload, or of one of its groups of groups."""
    for kind, count_field in zip(_TEMPLATES, ("minCount", "minGroupCount"), strict=True):
        templates = spec.get(kind) or []
        if len(templates) > MAX_TEMPLATES:
            yield too_many_items(f"{path}.{kind}", len(templates), MAX_TEMPLATES)
            continue
        names: set[str] = set()
        for number, item in enumerate(templates):
            item_path = f"{path}.{kind}[{number}]"
            if item.get("name") in names:
                # Go always writes these fields, in this order.
                always = dict.fromkeys(("name", "schedulingPolicy", "schedulingConstraints"))
                yield duplicate_value(item_path, always | item)
            names.add(item.get("name", ""))
            yield from _check_names(item, f"{item_path}.name", "name", dns_label)
            yield from _settings(item, item_path, count_field)
            yield from _templates(item, item_path)


def _tree_problems(trees: list[Data]) -> Iterator[FieldError]:
    """Check trees of templates: height, leaves, unique names, and equal priorities."""
    if len(trees) > MAX_TEMPLATES:
        return
    names: set[str] = set()
    priorities = set()
    for path, item, depth, is_leaf in _walk(trees, "spec", 1):
        if not is_leaf and not any(item.get(kind) for kind in _TEMPLATES):
            reason = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate"
            yield invalid_value(path, item.get("name", ""), reason)
        if depth > MAX_DEPTH - (0 if is_leaf else 1):
            yield invalid_value(path, item.get("name", ""), f"maximum template hierarchy depth is {MAX_DEPTH}")
            return
        if item.get("name") in names:
            yield duplicate_value(f"{path}.name", item["name"])
        names.add(item.get("name", ""))
        priorities.add(_priority(item))
    if len(priorities) > 1:
        reason = "all priority and priorityClassName values must be identical, detected multiple values"
        yield invalid_value("spec", None, reason)


def _walk(trees: list[Data], path: str, depth: int) -> Iterator[tuple[str, Data, int, bool]]:
    """Go through all templates, parents first: path, template, depth, and whether it is one of pods."""
    for number, tree in enumerate(trees):
        item_path = f"{path}.compositePodGroupTemplates[{number}]"
        yield item_path, tree, depth, False
        for leaf_number, leaf in enumerate(tree.get("podGroupTemplates") or ()):
            yield f"{item_path}.podGroupTemplates[{leaf_number}]", leaf, depth + 1, True
        yield from _walk(tree.get("compositePodGroupTemplates") or [], item_path, depth + 1)


def _priority(item: Stored) -> tuple[Any, Any]:
    return item.get("priority"), item.get("priorityClassName") or ""


def _path_segment(text: str) -> Iterator[str]:
    if text in (".", ".."):
        yield f"may not be '{text}'"
    yield from (f"may not contain '{letter}'" for letter in "/%" if letter in text)


def group_status(data: Data) -> Iterator[FieldError]:
    """Check the status of a group."""
    status = data.get("status") or {}
    for number, condition in enumerate(status.get("conditions") or ()):
        yield from _condition(condition, f"status.conditions[{number}]")
    statuses = status.get("resourceClaimStatuses") or []
    claim_names = {item.get("name") for item in (data.get("spec") or {}).get("resourceClaims") or ()}
    names_so_far: set[str] = set()
    for number, item in enumerate(statuses):
        item_path = f"status.resourceClaimStatuses[{number}]"
        if item.get("name") in names_so_far:
            yield duplicate_value(item_path, item)
        names_so_far.add(item.get("name", ""))
        if item.get("name") not in claim_names:
            reason = "must match the name of an entry in `spec.resourceClaims`"
            yield invalid_value(f"{item_path}.name", item.get("name", ""), reason)
        if (name := item.get("resourceClaimName")) is not None:
            yield from invalid_values(f"{item_path}.resourceClaimName", name, subdomain(name))


def _condition(condition: Data, path: str) -> Iterator[FieldError]:
    if not condition.get("type"):
        yield required_value(f"{path}.type", "is required")
    else:
        yield from invalid_values(f"{path}.type", condition["type"], qualified_name(condition["type"]))
    status = condition.get("status")
    if not status:
        yield required_value(f"{path}.status")
    elif status not in STATUSES:
        yield unsupported_value(f"{path}.status", status, STATUSES)
    if condition.get("observedGeneration", 0) < 0:
        yield invalid_value(
            f"{path}.observedGeneration", condition["observedGeneration"], "must be greater than or equal to zero"
        )
    if not condition.get("lastTransitionTime"):
        yield required_value(f"{path}.lastTransitionTime")
    reason = condition.get("reason") or ""
    if not reason:
        yield required_value(f"{path}.reason")
    elif not re.fullmatch(_REASON, reason):
        yield invalid_value(f"{path}.reason", reason, _REASON_RULE)
    if len((condition.get("message") or "").encode()) > MAX_MESSAGE:
        yield FieldError("FieldValueTooLong", f"Too long: may not be more than {MAX_MESSAGE} bytes", f"{path}.message")


def changed_pod_group(old: Stored, new: Stored) -> Iterator[FieldError]:
    """Reject changes of a group, except to its gang's minCount."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    yield from _check_immutable(before, after, "spec", "parentCompositePodGroupName", "workloadRef")
    yield from _kept_policy(before, after, "spec")
    yield from _check_immutable(before, after, "spec", "schedulingConstraints", "resourceClaims", *_LATER)


def changed_composite(old: Stored, new: Stored) -> Iterator[FieldError]:
    """Reject changes of a composite group (until 1.37)."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    first = ("parentCompositePodGroupName", "workloadRef", "schedulingPolicy", "schedulingConstraints")
    yield from _check_immutable(before, after, "spec", *first, *_LATER)


def changed_composite_but_count(old: Stored, new: Stored) -> Iterator[FieldError]:
    """Reject changes of a composite group, except to its gang's minGroupCount (from 1.38)."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    yield from _check_immutable(before, after, "spec", "parentCompositePodGroupName", "workloadRef")
    yield from _kept_policy(before, after, "spec")
    yield from _check_immutable(before, after, "spec", "schedulingConstraints", *_LATER)


def changed_workload(old: Stored, new: Stored) -> Iterator[FieldError]:
    """Reject changes of the templates of a workload, except to minCount."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    yield from _check_immutable(before, after, "spec", "controllerRef")
    yield from _kept_templates(before, after, "spec")


def _kept_templates(before: Stored, after: Stored, path: str) -> Iterator[FieldError]:
    for kind in _TEMPLATES:
        templates_before = {item.get("name"): item for item in before.get(kind) or ()}
        templates = after.get(kind) or []
        for number, item in enumerate(templates):
            item_path = f"{path}.{kind}[{number}]"
            if item.get("name") not in templates_before:
                yield forbidden_field(item_path, "item may not be added")
                continue
            was = templates_before[item.get("name")]
            yield from _kept_policy(was, item, item_path)
            yield from _check_immutable(was, item, item_path, "schedulingConstraints", "resourceClaims", *_LATER)
            yield from _kept_templates(was, item, item_path)
        if templates_before.keys() - {item.get("name") for item in templates}:
            yield forbidden_field(f"{path}.{kind}", "item may not be removed")


def changed_job(old: Stored, new: Stored) -> Iterator[FieldError]:
    """Reject changes of a job's scheduling settings, except to minCount."""
    before, after = (old.get("spec") or {}).get("scheduling"), (new.get("spec") or {}).get("scheduling")
    if (before is None) != (after is None):
        yield invalid_value("spec.scheduling", None, CLEARED if after is None else SET_LATE)
        return
    if before is None or after is None:
        return
    was, now = before.get("schedulingPolicy") or {}, after.get("schedulingPolicy") or {}
    if was.keys() != now.keys():
        reason = "the basic/gang policy variant is immutable after creation; only schedulingPolicy.gang.minCount may be"
        yield invalid_value("spec.scheduling.schedulingPolicy", None, f"{reason} updated")
    yield from _check_immutable(
        before, after, "spec.scheduling", "schedulingConstraints", "disruptionMode", "resourceClaims"
    )


def _check_immutable(before: Stored, after: Stored, path: str, *names: str) -> Iterator[FieldError]:
    for name in names:
        if (before.get(name) or None) != (after.get(name) or None):
            yield invalid_value(f"{path}.{name}", None, IMMUTABLE)


def _kept_policy(before: Stored, after: Stored, path: str) -> Iterator[FieldError]:
    was, now = before.get("schedulingPolicy") or {}, after.get("schedulingPolicy") or {}
    if ("basic" in was) != ("basic" in now):
        yield invalid_value(f"{path}.schedulingPolicy.basic", None, IMMUTABLE)
    if ("gang" in was) != ("gang" in now):
        yield invalid_value(f"{path}.schedulingPolicy.gang", None, CLEARED if "gang" in was else SET_LATE)
