"""Pending pods, grouped by their reasons."""

from typing import Any

from tests.unit.insight.page.clusters import get, node, pod, served

from moorage.insight.page.api_types import WaitingPodLine
from moorage.insight.page.pending_groups import Suggestion, describe_group, group_id
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
        matches = await get(service, "reasons?q=other-77")
        pods = await get(service, f"waiting?group={matches['groups'][0]['id']}")
        return state, page, matches, pods

    state, page, matches, pods = served(talk, (node("n1"), *selectors))
    assert (len(state["groups"]), state["groupsLeft"], state["podsLeft"]) == (50, 250, 250)
    assert (len(page["groups"]), page["count"], page["pods"]) == (50, 300, 300)
    assert (matches["count"], [item["pod"] for item in pods["pods"]]) == (1, ["shop/p-77"])


def test_decisive_reason_of_the_suggestion_becomes_the_headline() -> None:
    reasons = ("Insufficient nvidia.com/gpu", "node(s) had untolerated taint(s)")
    line = WaitingPodLine(pod="shop/gpu", place="unschedulable", since=0.0, reasons=reasons)
    suggestions = {group_id(reasons): Suggestion("Tolerate the taint", reasons[1])}
    assert describe_group([line], {}).reasons == reasons
    assert describe_group([line], suggestions).reasons == reasons[::-1]


def test_owners_of_a_group_are_counted() -> None:
    owners = ("replicaset/web", "replicaset/web", "job/report", "")
    lines = [
        WaitingPodLine(pod=f"shop/{number}", place="unschedulable", since=0.0, reasons=("full",), owner=owner)
        for number, owner in enumerate(owners)
    ]
    assert describe_group(lines, {}).owners == {"shop/replicaset/web": 2, "shop/job/report": 1}


def test_pods_of_another_scheduler_are_listed_with_that_reason() -> None:
    async def talk(service: PageService) -> Any:
        return await get(service, "state"), await get(service, "waiting?place=another%20scheduler")

    state, listed = served(talk, (node("n1"), pod("lost", schedulerName="defualt-scheduler")))
    assert state["groups"][0]["reasons"] == ["another scheduler is responsible: defualt-scheduler"]
    assert [item["pod"] for item in listed["pods"]] == ["shop/lost"]
