"""Admission of pod groups: disabled features, disruption modes and priorities."""

from typing import Any

import msgspec
import pytest

from moorage.common.errors import Forbidden
from moorage.kube.admission.group_admission import COMPOSITES, POD_GROUPS, GroupAdmission
from moorage.kube.admission.pod_admission import PodAdmission
from moorage.kube.api.cluster import PriorityClass
from moorage.kube.api.codec import decode
from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.pod_groups import PodGroup
from moorage.kube.features import FeatureGates
from moorage.kube.resources import Resources, ServedResource

GATES = "GenericWorkload=true"
ALL = (
    f"{GATES},TopologyAwareWorkloadScheduling=true,CompositePodGroup=true,PodGroupPreemptionPolicy=true,"
    "WorkloadWithJob=true"
)
CLASS = PriorityClass(ObjectMeta(name="high"), value=10, preemption_policy="Never")
CLASSES = PodAdmission([CLASS], FeatureGates())
CONSTRAINTS = {"topology": [{"key": "rack"}]}


def find(storage: str) -> ServedResource:
    return next(item for item in Resources(FeatureGates.parse(ALL)) if item.storage == storage)


def complete(storage: str, data: dict[str, Any], gates: str, old: dict[str, Any] | None = None) -> dict[str, Any]:
    GroupAdmission(FeatureGates.parse(gates)).complete(find(storage), data, old)
    return data


@pytest.mark.release("1.37")
def test_fields_of_disabled_features_are_dropped() -> None:
    spec = {"schedulingConstraints": CONSTRAINTS, "preemptionPolicy": "Never"}
    assert complete(POD_GROUPS, {"spec": dict(spec)}, GATES) == {"spec": {"disruptionMode": {"single": {}}}}
    stored = {"spec": {**spec, "disruptionMode": {"single": {}}}}
    assert complete(POD_GROUPS, {"spec": dict(spec)}, ALL) == stored


def test_field_that_an_object_has_is_kept() -> None:
    data = {"spec": {"schedulingConstraints": CONSTRAINTS}}
    old = {"spec": {"schedulingConstraints": CONSTRAINTS}}
    assert complete(POD_GROUPS, data, GATES, old)["spec"]["schedulingConstraints"] == CONSTRAINTS


@pytest.mark.release("1.37")
def test_fields_are_dropped_from_workload_templates() -> None:
    data = {"spec": {"podGroupTemplates": [{"name": "a", "schedulingConstraints": CONSTRAINTS}]}}
    assert complete("workloads.scheduling.k8s.io", data, GATES) == {"spec": {"podGroupTemplates": [{"name": "a"}]}}


JOBS: dict[str, tuple[str, dict[str, Any]]] = {
    "without groups for jobs": (GATES, {}),
    "without constraints": (f"{GATES},WorkloadWithJob=true", {"scheduling": {}}),
    "with all features": (ALL, {"scheduling": {"schedulingConstraints": CONSTRAINTS}}),
}


@pytest.mark.release("1.37")
@pytest.mark.parametrize(("gates", "want"), JOBS.values(), ids=JOBS)
def test_settings_of_a_job(gates: str, want: dict[str, Any]) -> None:
    spec = {"scheduling": {"schedulingConstraints": dict(CONSTRAINTS)}}
    assert complete("jobs.batch", {"spec": dict(spec)}, gates) == {"spec": want}
    spec = {"scheduling": {"schedulingConstraints": dict(CONSTRAINTS)}}
    cron = {"spec": {"jobTemplate": {"spec": spec}}}
    assert complete("cronjobs.batch", cron, gates) == {"spec": {"jobTemplate": {"spec": want}}}


@pytest.mark.release("1.37")
def test_admitted_group_has_priority_and_mode() -> None:
    body = {"spec": {"priorityClassName": "high", "schedulingConstraints": CONSTRAINTS}}
    group = decode(PodGroup, msgspec.json.encode(body))
    admitted = GroupAdmission(FeatureGates.parse(GATES)).admit(group, CLASSES).spec
    assert (admitted.priority, admitted.priority_class_name) == (10, "high")
    assert admitted.disruption_mode is not None
    assert (admitted.preemption_policy, admitted.scheduling_constraints) == (None, None), "their gates are disabled"


def set_priority(**spec: Any) -> dict[str, Any]:
    data = {"metadata": {"name": "g"}, "spec": {"preemptionPolicy": "Never", **spec}}
    GroupAdmission(FeatureGates.parse(ALL)).set_priority(find(COMPOSITES), data, CLASSES)
    return data["spec"]


def test_priority_comes_from_the_class() -> None:
    assert set_priority(priorityClassName="high")["priority"] == 10
    assert set_priority(preemptionPolicy="PreemptLowerPriority")["priority"] == 0


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown class": ({"priorityClassName": "gone"}, "no PriorityClass with name gone was found"),
    "another priority": (
        {"priorityClassName": "high", "priority": 9},
        r"priority set in the composite pod group \(9\) must match the priority computed \(10\) based on the priority "
        "class set in the spec",
    ),
    "another policy": (
        {"priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority"},
        r"the string value of PreemptionPolicy \(PreemptLowerPriority\) must not be provided in composite pod group "
        "spec; priority admission controller computed Never from the given PriorityClass name",
    ),
}


@pytest.mark.parametrize(("spec", "message"), REFUSED.values(), ids=REFUSED)
def test_contradictions_are_rejected(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(Forbidden, match=message):
        set_priority(**spec)
