"""Tables of built-in and custom resources, as kubectl prints them."""

from typing import Any

import pytest
from tests.support.api import MERGE, PODS, ApiHarness, pod
from tests.support.bad_group_requests import CONDITION, GATES, GROUPS, group
from tests.support.good_group_requests import CLASS, USUAL

from moorage.cluster.apiserver.reading.tables.printing import select_printer

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def test_tables_match_kubectl():
    client = ApiHarness()
    client.create(PODS, pod("a"))
    table = client.request("GET", PODS, accept=TABLE)
    assert [column["name"] for column in table["columnDefinitions"]][:5] == [
        "Name",
        "Ready",
        "Status",
        "Restarts",
        "Age",
    ]
    assert table["rows"][0]["cells"][:5] == ["a", "0/1", "Pending", "0", "0s"]
    client.clock.advance(400)
    assert client.request("GET", f"{PODS}/a", accept=TABLE)["rows"][0]["cells"][4] == "6m40s"


EVERY_KIND = sorted(
    (item.group, item.version, item.plural) for item in ApiHarness().api.resources if "list" in item.verbs
)


@pytest.mark.parametrize(("group", "version", "plural"), EVERY_KIND)
def test_every_resource_can_be_listed_as_objects_and_as_a_table(group: str, version: str, plural: str) -> None:
    client = ApiHarness()
    path = f"/apis/{group}/{version}/{plural}" if group else f"/api/{version}/{plural}"
    assert client.get(path)["kind"].endswith("List")
    assert client.request("GET", path, accept=TABLE)["kind"] == "Table"


def server(gates: str) -> ApiHarness:
    client = ApiHarness(gates=gates)
    for ask in (CLASS, USUAL):
        client.create(ask.path, ask.body)
    return client


STATUSES: dict[str, tuple[list[dict[str, Any]], str]] = {
    "a new group": ([], "Pending"),
    "a scheduled group": ([CONDITION], "Scheduled"),
    "an unschedulable group": ([{**CONDITION, "status": "False", "reason": "SchedulerError"}], "Unschedulable"),
    "a disrupted group": (
        [CONDITION, {**CONDITION, "type": "DisruptionTarget", "reason": "PreemptionByScheduler"}],
        "PreemptionByScheduler",
    ),
    "a group that is not disrupted": (
        [CONDITION, {**CONDITION, "type": "DisruptionTarget", "status": "False"}],
        "Scheduled",
    ),
}


@pytest.mark.parametrize(("conditions", "want"), STATUSES.values(), ids=STATUSES)
def test_the_status_that_kubectl_shows(conditions: list[dict[str, Any]], want: str) -> None:
    client = server(GATES)
    client.create(GROUPS, group().body)
    client.request("PATCH", f"{GROUPS}/bad/status", {"status": {"conditions": conditions}}, content_type=MERGE)
    table = client.request("GET", GROUPS, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert table["rows"][0]["cells"][:4] == ["bad", "Gang", "<none>", want]


THING = {"metadata": {"name": "n", "labels": {"a.b/c": "d"}}, "status": {"cards": [{"model": "T4"}, 3]}}
CELLS = {
    ".status.cards[0].model": "T4",
    "status.cards[1]": 3,
    ".metadata.labels['a.b/c']": "d",
    ".status.cards[2]": None,
    ".status.cards[0].clock.x": None,
    ".spec.replicas": None,
    ".status.cards[1]": 3,
}


@pytest.mark.parametrize(("path", "want"), CELLS.items())
def test_custom_column_cell(path: str, want: Any) -> None:
    printer = select_printer("things.example.org", lambda: 0.0, [{"name": "X", "type": "string", "jsonPath": path}])
    assert list(printer.cells(THING, 0.0)) == ["n", want]
