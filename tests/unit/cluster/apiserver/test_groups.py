"""Groups in the embedded API server: what gates leave of them, two versions of one object, protection, status."""

from typing import Any

import pytest
from tests.support.api import MERGE, STRATEGIC, ApiHarness, Data
from tests.support.bad_group_requests import ALPHA, BETA, COMPOSITES, CONDITION, GATES, GROUPS, WORKLOADS, group
from tests.support.good_group_requests import CLASS, EVERYTHING, OBJECTS, USUAL

FEW = "GenericWorkload=true"
KEPT = {"schedulingPolicy": {"gang": {"minCount": 2}}, "priorityClassName": "meek", "priority": 7}
LEFT: dict[str, tuple[str, str, Data]] = {
    "a group loses what belongs to gates that are off": (
        FEW,
        "a group of everything",
        {**KEPT, "disruptionMode": {"all": {}}, "workloadRef": {"workloadName": "w", "templateName": "t"}},
    ),
    "a group keeps it when they are on": (
        GATES,
        "a group of everything",
        OBJECTS["a group of everything"].body["spec"],
    ),
    "a group that says nothing gets the usual class": (
        GATES,
        "a gang",
        {
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "disruptionMode": {"single": {}},
            "priorityClassName": "usual",
            "priority": 3,
            "preemptionPolicy": "PreemptLowerPriority",
        },
    ),
    "so do the templates of a workload": (
        FEW,
        "a workload of everything",
        {"podGroupTemplates": [{"name": "a", **KEPT, "disruptionMode": {"all": {}}}]},
    ),
}


def server(gates: str) -> ApiHarness:
    client = ApiHarness(gates=gates)
    for ask in (CLASS, USUAL):
        client.create(ask.path, ask.body)
    return client


@pytest.mark.parametrize(("gates", "name", "want"), LEFT.values(), ids=LEFT)
def test_stored_group(gates: str, name: str, want: Data) -> None:
    assert server(gates).create(OBJECTS[name].path, OBJECTS[name].body)["spec"] == want


def test_field_of_a_disabled_gate_is_preserved_on_update() -> None:
    client = server(GATES)
    client.create(GROUPS, OBJECTS["a group of everything"].body)
    later = ApiHarness(gates=FEW, store=client.api.store)
    changed = later.request("PATCH", f"{GROUPS}/everything", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    assert changed["spec"]["schedulingConstraints"] == EVERYTHING["schedulingConstraints"]
    assert changed["spec"]["preemptionPolicy"] == "Never"


def test_one_object_in_two_versions() -> None:
    client = server(GATES)
    client.create(GROUPS, group().body)
    alpha_path = GROUPS.replace(BETA, ALPHA)
    assert client.get(f"{alpha_path}/bad")["apiVersion"] == ALPHA
    assert [item["metadata"]["name"] for item in client.get(alpha_path)["items"]] == ["bad"]
    patch = {"spec": {"schedulingPolicy": {"gang": {"minCount": 5}}}}
    assert client.request("PATCH", f"{alpha_path}/bad", patch, content_type=MERGE)["apiVersion"] == ALPHA
    beta_group = client.get(f"{GROUPS}/bad")
    assert (beta_group["apiVersion"], beta_group["spec"]["schedulingPolicy"]) == (BETA, {"gang": {"minCount": 5}})


def test_group_is_protected_and_a_composite_one_is_not() -> None:
    client = server(GATES)
    client.create(GROUPS, group().body)
    client.create(COMPOSITES, OBJECTS["a composite group"].body)
    client.request("DELETE", f"{COMPOSITES}/plain")
    assert client.names(COMPOSITES) == []
    client.request("DELETE", f"{GROUPS}/bad")
    assert "deletionTimestamp" in client.get(f"{GROUPS}/bad")["metadata"]
    client.request("PATCH", f"{GROUPS}/bad", {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert client.names(GROUPS) == []


def test_conditions_are_merged_by_type() -> None:
    client = server(GATES)
    client.create(GROUPS, group().body)
    for kind in ("A", "B", "A"):
        patch = {"status": {"conditions": [{**CONDITION, "type": kind}]}}
        patched = client.request("PATCH", f"{GROUPS}/bad/status", patch, content_type=STRATEGIC)
    assert sorted(item["type"] for item in patched["status"]["conditions"]) == ["A", "B"]
    assert "generation" not in patched["metadata"]


def test_without_the_gate_there_are_no_groups() -> None:
    client = ApiHarness()
    for path in (GROUPS, WORKLOADS, COMPOSITES):
        assert client.send("GET", path).status == 404
    pod = client.create(OBJECTS["a member"].path, OBJECTS["a member"].body)
    assert "schedulingGroup" not in pod["spec"]


STATUSES: dict[str, tuple[list[dict[str, Any]], str]] = {
    "a new one": ([], "Pending"),
    "one that was scheduled": ([CONDITION], "Scheduled"),
    "one that was not": ([{**CONDITION, "status": "False", "reason": "SchedulerError"}], "Unschedulable"),
    "one that goes": (
        [CONDITION, {**CONDITION, "type": "DisruptionTarget", "reason": "PreemptionByScheduler"}],
        "PreemptionByScheduler",
    ),
    "one that stays": ([CONDITION, {**CONDITION, "type": "DisruptionTarget", "status": "False"}], "Scheduled"),
}


@pytest.mark.parametrize(("conditions", "want"), STATUSES.values(), ids=STATUSES)
def test_the_status_that_kubectl_shows(conditions: list[dict[str, Any]], want: str) -> None:
    client = server(GATES)
    client.create(GROUPS, group().body)
    client.request("PATCH", f"{GROUPS}/bad/status", {"status": {"conditions": conditions}}, content_type=MERGE)
    table = client.request("GET", GROUPS, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert table["rows"][0]["cells"][:4] == ["bad", "Gang", "<none>", want]
