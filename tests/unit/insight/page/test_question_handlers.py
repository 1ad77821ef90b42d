"""Details of pods and nodes."""

from typing import Any
from urllib.parse import quote

import pytest
from msgspec import to_builtins
from tests.unit.insight.page.clusters import get, loaded, policy, served

from moorage.insight.explain.pods import explain_pod
from moorage.insight.explain.text import change_line, group_line, headline
from moorage.insight.page.service import PageService
from moorage.insight.plan.draining import plan_drain
from moorage.insight.plan.making_room import plan_room
from moorage.insight.plan.plan_text import plan_lines


@pytest.mark.parametrize("key", ["shop/big-1", "shop/held", "shop/fits", "shop/web-1"])
def test_pod_page_equals_explain(key: str) -> None:
    async def talk(service: PageService) -> Any:
        return await get(service, f"pod?pod={quote(key, safe='')}")

    page = served(talk)
    with loaded().session(policy()) as session:
        explained = explain_pod(session, key)
    assert page["headline"] == headline(explained)
    assert [item["line"] for item in page["reasons"]] == [group_line(item) for item in explained.reasons]
    assert [item["line"] for item in page["changes"]] == [change_line(item) for item in explained.changes]
    assert page["wakes"] == list(to_builtins(explained.wakes))
    assert page["notes"] == list(explained.notes)
    assert [item["plugin"] for item in page["because"]] == [item.plugin for item in explained.because]


def test_every_plugin_filters_every_node() -> None:
    async def talk(service: PageService) -> Any:
        return await get(service, "pod?pod=shop/big-1")

    table = served(talk)["table"]
    rows = {row[0]: row[1] for row in table["rows"]}
    assert rows["n2"].keys() == {"NodeUnschedulable", "NodeResourcesFit"}
    assert rows["n3"].keys() == {"TaintToleration", "NodeResourcesFit"}
    assert table["texts"][rows["n1"]["NodeResourcesFit"]] == "Insufficient cpu"


def test_node_page_shows_its_pods_and_near_misses() -> None:
    async def talk(service: PageService) -> Any:
        return await get(service, "node?node=n3")

    page = served(talk)
    assert page["pods"] == []
    obstacles = {item["pod"]: [obstacle["plugin"] for obstacle in item["obstacles"]] for item in page["almost"]}
    assert obstacles["shop/fits"] == ["TaintToleration"]
    assert sorted(obstacles["shop/big-1"]) == ["NodeResourcesFit", "TaintToleration"]


@pytest.mark.parametrize("question", ["plan?node=n1", "plan?pod=shop/big-1"])
def test_plans_equal_those_of_the_command(question: str) -> None:
    async def talk(service: PageService) -> Any:
        return await get(service, question)

    page = served(talk)
    with loaded().session(policy()) as session:
        name = question.partition("=")[2]
        plan = plan_drain(session, [name]) if "node" in question else plan_room(session, [name], goal="fit")
    assert page == {"isFeasible": plan.feasible, "lines": list(plan_lines(plan))}


def test_timeline_has_the_pending_pods() -> None:
    async def talk(service: PageService) -> Any:
        return await get(service, "forecast"), await get(service, "waiting")

    forecast, waiting = served(talk)
    assert {item["pod"] for item in forecast["pods"]} == {
        item["pod"] for item in waiting["pods"] if item["place"] != "another scheduler"
    }
    assert forecast["count"] == len(forecast["pods"])
    assert forecast["draws"] >= 1
