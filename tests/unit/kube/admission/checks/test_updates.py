"""Immutable fields: which changes of each resource are rejected."""

from typing import Any

import pytest

from moorage.kube.admission.checks.updates import update_problems
from moorage.kube.features import FeatureGates

POD = {"containers": [{"name": "c", "image": "i"}], "tolerations": [{"key": "a"}]}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
LABELS = {"job": "sum"}
JOB = {"completions": 1, "template": {"metadata": {"labels": LABELS}}, "selector": {"matchLabels": LABELS}}
OTHER_TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {}}
CHANGES: dict[str, tuple[str, dict[str, Any], dict[str, Any], list[str]]] = {
    "an image": ("pods", POD, {**POD, "containers": [{"name": "c", "image": "j"}]}, []),
    "the seconds of a toleration": (
        "pods",
        POD,
        {**POD, "tolerations": [{"key": "a", "tolerationSeconds": 1}, {"key": "b"}]},
        [],
    ),
    "a removed toleration": ("pods", POD, {**POD, "tolerations": []}, ["spec.tolerations"]),
    "a new gate": ("pods", POD, {**POD, "schedulingGates": [{"name": "g"}]}, ["spec.schedulingGates[0].name"]),
    "a removed gate": ("pods", {**POD, "schedulingGates": [{"name": "g"}]}, POD, []),
    "a command": ("pods", POD, {**POD, "containers": [{"name": "c", "image": "i", "command": ["x"]}]}, ["spec"]),
    "a node selector": ("pods", POD, {**POD, "nodeSelector": {"a": "b"}}, ["spec"]),
    "a node selector of a gated pod": (
        "pods",
        {**POD, "schedulingGates": [{"name": "g"}]},
        {**POD, "schedulingGates": [{"name": "g"}], "nodeSelector": {"a": "b"}},
        [],
    ),
    "the selector of a deployment": ("deployments.apps", {"selector": {}}, {"selector": {"a": 1}}, ["spec.selector"]),
    "the replicas of a deployment": ("deployments.apps", {"replicas": 1}, {"replicas": 2}, []),
    "the volume of a claim": ("persistentvolumeclaims", CLAIM, {**CLAIM, "volumeName": "v"}, []),
    "the size of a claim that is not bound": (
        "persistentvolumeclaims",
        CLAIM,
        {**CLAIM, "resources": {"requests": {"storage": "2Gi"}}},
        ["spec"],
    ),
    "the completions of a job": ("jobs.batch", JOB, {**JOB, "completions": 2}, ["spec.completions"]),
    "the completions of an indexed job": (
        "jobs.batch",
        {**JOB, "completionMode": "Indexed"},
        {**JOB, "completionMode": "Indexed", "completions": 2},
        [],
    ),
    "the template of a job": ("jobs.batch", JOB, {**JOB, "template": OTHER_TEMPLATE}, ["spec.template"]),
    "the template of a suspended job": (
        "jobs.batch",
        {**JOB, "suspend": True},
        {**JOB, "template": OTHER_TEMPLATE},
        [],
    ),
    "the spec of a resource claim": ("resourceclaims.resource.k8s.io", {}, {"devices": {}}, ["spec"]),
    "a resource without rules": ("configmaps", {"a": 1}, {"a": 2}, []),
}


@pytest.mark.parametrize(("storage", "before", "after", "want"), CHANGES.values(), ids=CHANGES)
def test_rejected_changes(storage: str, before: dict[str, Any], after: dict[str, Any], want: list[str]) -> None:
    errors = [*update_problems(storage, {"spec": before}, {"spec": after})]
    assert [error.field for error in errors] == want


def test_bound_claim_may_grow() -> None:
    old = {"spec": CLAIM, "status": {"phase": "Bound"}}
    grown = {"spec": {**CLAIM, "resources": {"requests": {"storage": "2Gi"}}}}
    assert [*update_problems("persistentvolumeclaims", old, grown)] == []


def test_top_level_fields_of_classes() -> None:
    (error,) = update_problems("priorityclasses.scheduling.k8s.io", {"value": 1}, {"value": 2})
    assert (error.field, error.message) == ("value", "Forbidden: may not be changed in an update.")
    assert [*update_problems("priorityclasses.scheduling.k8s.io", {"value": 0}, {})] == []
    (error,) = update_problems("storageclasses.storage.k8s.io", {"provisioner": "a"}, {"provisioner": "b"})
    assert (error.field, error.message) == ("provisioner", "Invalid value: null: field is immutable")


OBJECTS: dict[str, tuple[str, dict[str, Any], dict[str, Any], list[str]]] = {
    "data of an immutable ConfigMap": (
        "configmaps",
        {"immutable": True, "data": {"a": "b"}},
        {"immutable": True, "data": {"a": "c"}},
        ["data"],
    ),
    "an immutable Secret that is unlocked": ("secrets", {"immutable": True}, {"immutable": False}, ["immutable"]),
    "the type of a Secret": ("secrets", {"type": "Opaque"}, {"type": "x"}, ["type"]),
    "the source of a volume": (
        "persistentvolumes",
        {"spec": {"nfs": {"path": "/a"}}},
        {"spec": {"nfs": {"path": "/b"}}},
        ["spec.persistentvolumesource"],
    ),
    "the size of a volume": ("persistentvolumes", {"spec": {"capacity": {}}}, {"spec": {"capacity": {"a": "1"}}}, []),
    "the address of a service": (
        "services",
        {"spec": {"clusterIP": "10.0.0.1"}},
        {"spec": {"clusterIP": "None"}},
        ["spec.clusterIPs[0]"],
    ),
    "a service that becomes external": (
        "services",
        {"spec": {"clusterIP": "10.0.0.1"}},
        {"spec": {"type": "ExternalName"}},
        [],
    ),
    "the role of a binding": (
        "rolebindings.rbac.authorization.k8s.io",
        {"roleRef": {"name": "a"}},
        {"roleRef": {"name": "b"}},
        ["roleRef"],
    ),
    "a driver of a CSINode": (
        "csinodes.storage.k8s.io",
        {"spec": {"drivers": [{"name": "d", "nodeID": "1"}]}},
        {"spec": {"drivers": [{"name": "d", "nodeID": "2"}]}},
        ["spec.drivers"],
    ),
    "another driver of a CSINode": (
        "csinodes.storage.k8s.io",
        {"spec": {"drivers": []}},
        {"spec": {"drivers": [{"name": "d"}]}},
        [],
    ),
    "an added container": (
        "pods",
        {"spec": POD},
        {"spec": {**POD, "containers": [*POD["containers"], {"name": "d"}]}},
        ["spec.containers"],
    ),
}


@pytest.mark.parametrize(("storage", "before", "after", "want"), OBJECTS.values(), ids=OBJECTS)
def test_rejected_changes_of_objects(
    storage: str, before: dict[str, Any], after: dict[str, Any], want: list[str]
) -> None:
    assert [error.field for error in update_problems(storage, before, after)] == want


def composite(policy: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"workloadRef": {"workloadName": "w", "templateName": "t"}, "schedulingPolicy": policy}}


TWO: dict[str, Any] = {"gang": {"minGroupCount": 2}}
COUNTS: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "the count": (TWO, {"gang": {"minGroupCount": 1}}, []),
    "another policy": (TWO, {"basic": {}}, ["spec.schedulingPolicy.basic", "spec.schedulingPolicy.gang"]),
    "a gang later": ({}, TWO, ["spec.schedulingPolicy.gang"]),
}


@pytest.mark.parametrize(("before", "after", "paths"), COUNTS.values(), ids=COUNTS)
def test_the_group_count_of_a_composite_group_is_mutable_from_1_38(
    before: dict[str, Any], after: dict[str, Any], paths: list[str]
) -> None:
    storage = "compositepodgroups.scheduling.k8s.io"
    old, new = composite(before), composite(after)
    problems = update_problems(storage, old, new, FeatureGates(release="1.38"))
    assert [problem.field for problem in problems] == paths
    problems = update_problems(storage, old, new, FeatureGates(release="1.37"))
    assert [problem.field for problem in problems] == ["spec.schedulingPolicy"]


def templates(count: int, group_count: int, *more: str) -> dict[str, Any]:
    leaves = [{"name": name, "schedulingPolicy": {"gang": {"minCount": count}}} for name in ("a", *more)]
    top = {"name": "top", "schedulingPolicy": {"gang": {"minGroupCount": group_count}}, "podGroupTemplates": leaves}
    return {"spec": {"compositePodGroupTemplates": [top]}}


@pytest.mark.parametrize("release", ["1.37", "1.38"])
def test_counts_in_templates_of_a_workload_are_mutable(release: str) -> None:
    storage, features = "workloads.scheduling.k8s.io", FeatureGates(release=release)
    assert [*update_problems(storage, templates(2, 2), templates(1, 1), features)] == []
    added, removed = (
        [problem.field for problem in update_problems(storage, old, new, features)]
        for old, new in ((templates(1, 1), templates(1, 1, "b")), (templates(1, 1, "b"), templates(1, 1)))
    )
    assert added == ["spec.compositePodGroupTemplates[0].podGroupTemplates[1]"]
    assert removed == ["spec.compositePodGroupTemplates[0].podGroupTemplates"]
