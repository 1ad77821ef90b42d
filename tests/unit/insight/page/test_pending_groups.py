"""Pending pods, grouped by their reasons."""

from typing import Any

from tests.unit.insight.page.clusters import get, node, pod, served

from moorage.insight.page.service import PageService


def test_pending_pods_are_grouped_by_reason() -> None:
    async def talk(service: PageService) -> Any:
        return await get(service, "state")

    state = served(talk)
    assert (state["nodes"], state["placed"], state["waiting"]) == (3, 2, 4)
    assert state["queues"] == {"unschedulable": 2, "gated": 1, "active": 1}
    largest = state["groups"][0]
    assert (largest["pods"], largest["examples"]) == (2, ["shop/big-1", "shop/big-2"])
    assert set(largest["reasons"]) >= {"Insufficient cpu", "node(s) were unschedulable"}
    assert state["load"]["requested"]["cpu"] == [3000, 0, 0]
    assert any(item["event"] == "Node/Add" for item in state["events"])


def test_thousand_reasons_are_paginated() -> None:
    selectors = [pod(f"p-{n}", nodeSelector={"only": str(n)}, schedulerName=f"other-{n}") for n in range(300)]

    async def talk(service: PageService) -> Any:
        state = await get(service, "state")
        page = await get(service, "reasons?offset=250&limit=100")
        matches = await get(service, "reasons?q=other-77'")
        pods = await get(service, f"waiting?group={matches['groups'][0]['id']}")
        return state, page, matches, pods

    state, page, matches, pods = served(talk, (node("n1"), *selectors))
    assert (len(state["groups"]), state["groupsLeft"], state["podsLeft"]) == (50, 250, 250)
    assert (len(page["groups"]), page["count"], page["pods"]) == (50, 300, 300)
    assert (matches["count"], [item["pod"] for item in pods["pods"]]) == (1, ["shop/p-77"])
