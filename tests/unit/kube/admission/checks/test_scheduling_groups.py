"""Pod groups, composite groups, workloads and jobs with groups: invalid fields and rejected changes."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from moorage.kube.admission.checks import scheduling_groups as checks
from moorage.kube.field_errors import FieldError

GANG = {"schedulingPolicy": {"gang": {"minCount": 2}}}
COMPOSITE = {"schedulingPolicy": {"gang": {"minGroupCount": 1}}}
REFERENCE = {"workloadRef": {"workloadName": "w", "templateName": "t"}}
LEAF = {"name": "a", **GANG}
TREE = {"name": "t", **COMPOSITE, "podGroupTemplates": [LEAF]}
Check = Callable[[dict[str, Any]], Iterable[FieldError]]


def job(spec: dict[str, Any]) -> Iterable[FieldError]:
    return checks.job_scheduling(spec["spec"], "spec.scheduling")


def deep(levels: int) -> dict[str, Any]:
    tree: dict[str, Any] = {"name": "leaf", **COMPOSITE, "podGroupTemplates": [LEAF]}
    for level in range(levels):
        tree = {"name": f"level{level}", **COMPOSITE, "compositePodGroupTemplates": [tree]}
    return tree


PROBLEMS: dict[str, tuple[Check, dict[str, Any], list[str]]] = {
    "a valid group": (checks.pod_group, GANG, []),
    "a group without a policy": (
        checks.pod_group,
        {},
        ['spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`'],
    ),
    "a group with two policies": (
        checks.pod_group,
        {"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}},
        ['spec.schedulingPolicy: Invalid value: "{basic, gang}": must specify exactly one of: `basic`, `gang`'],
    ),
    "a gang without a count": (
        checks.pod_group,
        {"schedulingPolicy": {"gang": {}}},
        ["spec.schedulingPolicy.gang.minCount: Required value"],
    ),
    "a gang with a negative count": (
        checks.pod_group,
        {"schedulingPolicy": {"gang": {"minCount": -1}}},
        ["spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1"],
    ),
    "a parent without a workload": (
        checks.pod_group,
        GANG | {"parentCompositePodGroupName": "p"},
        ["spec.workloadRef: Required value: must be set when parentCompositePodGroupName is set"],
    ),
    "two topology keys": (
        checks.pod_group,
        GANG | {"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
        ["spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item"],
    ),
    "a claim without a source, twice": (
        checks.pod_group,
        GANG | {"resourceClaims": [{"name": "a", "resourceClaimName": "c"}, {"name": "a"}]},
        [
            'spec.resourceClaims[1]: Duplicate value: {"name":"a"}',
            'spec.resourceClaims[1]: Invalid value: "": must specify one of: `resourceClaimName`, '
            "`resourceClaimTemplateName`",
        ],
    ),
    "a priority above the maximum": (
        checks.pod_group,
        GANG | {"priority": 2_000_000_000, "preemptionPolicy": "Maybe"},
        [
            "spec.priority: Invalid value: 2000000000: must be less than or equal to 1000000000",
            'spec.preemptionPolicy: Unsupported value: "Maybe": supported values: "Never", "PreemptLowerPriority"',
        ],
    ),
    "a composite group without a workload": (
        checks.composite_pod_group,
        COMPOSITE,
        ["spec.workloadRef: Required value"],
    ),
    "a valid composite group": (checks.composite_pod_group, COMPOSITE | REFERENCE, []),
    "a valid workload": (checks.workload, {"podGroupTemplates": [LEAF]}, []),
    "a workload without templates": (
        checks.workload,
        {},
        ['spec: Invalid value: "": must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`'],
    ),
    "templates of two priorities": (
        checks.workload,
        {"podGroupTemplates": [LEAF, LEAF | {"name": "b", "priority": 1}]},
        ["spec: Invalid value: null: detected multiple priority configurations"],
    ),
    "two templates of one name": (
        checks.workload,
        {"podGroupTemplates": [LEAF, LEAF]},
        [
            'spec.podGroupTemplates[1]: Duplicate value: {"name":"a","schedulingPolicy":{"gang":{"minCount":2}},'
            '"schedulingConstraints":null}'
        ],
    ),
    "too many templates": (
        checks.workload,
        {"podGroupTemplates": [LEAF] * 9},
        ["spec.podGroupTemplates: Too many: 9: must have at most 8 items"],
    ),
    "a valid tree": (checks.workload, {"compositePodGroupTemplates": [TREE]}, []),
    "a tree without leaves": (
        checks.workload,
        {"compositePodGroupTemplates": [{"name": "t", **COMPOSITE}]},
        [
            'spec.compositePodGroupTemplates[0]: Invalid value: "t": must have at least one child PodGroupTemplate or '
            "CompositePodGroupTemplate"
        ],
    ),
    "a tree of five levels": (
        checks.workload,
        {"compositePodGroupTemplates": [deep(3)]},
        [
            f'spec.{".".join(["compositePodGroupTemplates[0]"] * 4)}: Invalid value: "leaf": maximum template '
            "hierarchy depth is 4"
        ],
    ),
    "a controller with a slash": (
        checks.workload,
        {"podGroupTemplates": [LEAF], "controllerRef": {"kind": "a/b", "name": ".."}},
        [
            "spec.controllerRef.kind: Invalid value: \"a/b\": may not contain '/'",
            "spec.controllerRef.name: Invalid value: \"..\": may not be '..'",
        ],
    ),
    "a gang larger than its job": (
        job,
        {"parallelism": 1, "scheduling": GANG},
        [
            "spec.scheduling.schedulingPolicy.gang.minCount: Invalid value: 2: must not be greater than "
            "parallelism (1)",
        ],
    ),
    "a job without a gang that is disrupted complete": (
        job,
        {"scheduling": {"disruptionMode": {"all": {}}}},
        [
            'spec.scheduling.disruptionMode: Invalid value: "": the disruptionMode `all` is not supported with the '
            "Basic scheduling policy"
        ],
    ),
}


@pytest.mark.parametrize(("check", "spec", "want"), PROBLEMS.values(), ids=PROBLEMS)
def test_problems(check: Check, spec: dict[str, Any], want: list[str]) -> None:
    assert [f"{error.field}: {error.message}" for error in check({"spec": spec})] == want


CONDITION = {"type": "a", "status": "True", "lastTransitionTime": "2026-01-31T12:00:00Z", "reason": "b"}
STATUSES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a valid status": ({"conditions": [CONDITION]}, []),
    "a condition without fields": (
        {"conditions": [{}]},
        [f"status.conditions[0].{name}" for name in ("type", "status", "lastTransitionTime", "reason")],
    ),
    "invalid values": (
        {
            "conditions": [
                CONDITION | {"status": "Yes", "observedGeneration": -1, "reason": "-", "message": "m" * 32769}
            ]
        },
        [f"status.conditions[0].{name}" for name in ("status", "observedGeneration", "reason", "message")],
    ),
    "a claim that the group does not have": (
        {"resourceClaimStatuses": [{"name": "a"}]},
        ["status.resourceClaimStatuses[0].name"],
    ),
}


@pytest.mark.parametrize(("status", "want"), STATUSES.values(), ids=STATUSES)
def test_problems_of_a_status(status: dict[str, Any], want: list[str]) -> None:
    assert [error.field for error in checks.group_status({"spec": {}, "status": status})] == want


Change = Callable[[dict[str, Any], dict[str, Any]], Iterable[FieldError]]
CHANGES: dict[str, tuple[Change, dict[str, Any], dict[str, Any], list[str]]] = {
    "the count of a gang": (checks.changed_pod_group, GANG, {"schedulingPolicy": {"gang": {"minCount": 3}}}, []),
    "the policy of a group": (
        checks.changed_pod_group,
        GANG,
        {"schedulingPolicy": {"basic": {}}},
        ["spec.schedulingPolicy.basic", "spec.schedulingPolicy.gang"],
    ),
    "fields of a group": (
        checks.changed_pod_group,
        GANG,
        GANG | REFERENCE | {"priority": 1},
        ["spec.workloadRef", "spec.priority"],
    ),
    "the count of a composite group": (
        checks.changed_composite,
        COMPOSITE,
        {"schedulingPolicy": {"gang": {"minGroupCount": 2}}},
        ["spec.schedulingPolicy"],
    ),
    "an added template": (
        checks.changed_workload,
        {"podGroupTemplates": [LEAF]},
        {"podGroupTemplates": [LEAF, LEAF | {"name": "b"}]},
        ["spec.podGroupTemplates[1]"],
    ),
    "a removed template": (
        checks.changed_workload,
        {"podGroupTemplates": [LEAF]},
        {"podGroupTemplates": []},
        ["spec.podGroupTemplates"],
    ),
    "the priority of a template": (
        checks.changed_workload,
        {"podGroupTemplates": [LEAF]},
        {"podGroupTemplates": [LEAF | {"priority": 1}]},
        ["spec.podGroupTemplates[0].priority"],
    ),
    "a group for a job that had none": (checks.changed_job, {}, {"scheduling": GANG}, ["spec.scheduling"]),
    "the policy of a job": (
        checks.changed_job,
        {"scheduling": GANG},
        {"scheduling": {"schedulingPolicy": {"basic": {}}}},
        ["spec.scheduling.schedulingPolicy"],
    ),
}


@pytest.mark.parametrize(("check", "before", "after", "want"), CHANGES.values(), ids=CHANGES)
def test_rejected_changes(check: Change, before: dict[str, Any], after: dict[str, Any], want: list[str]) -> None:
    assert [error.field for error in check({"spec": before}, {"spec": after})] == want
