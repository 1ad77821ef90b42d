"""The page's data over HTTP: responses, rejected requests, and no access without authorization."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.unit.insight.page.clusters import SMALL, Content, loaded, node, pod, policy, still

from moorage.insight.explain.pods import explain_pod
from moorage.insight.explain.text import change_line, group_line, headline, retry_lines
from moorage.insight.page.paths import SAFETY, public_paths
from moorage.insight.page.service import PageService
from moorage.insight.page.static_cluster import StaticCluster
from moorage.kube.http.messages import HttpRequest, Reply

Talk = Callable[[PageService], Awaitable[Any]]
JSON = [(b"content-type", b"application/json")]


def served(talk: Talk, contents: tuple[Content, ...] = SMALL) -> Any:
    async def go() -> Any:
        source: StaticCluster = still(contents)
        await source.start()
        assert source._trying is not None
        await source._trying
        try:
            return await talk(PageService(source))
        finally:
            await source.stop()

    return asyncio.run(go())


async def get(service: PageService, path: str) -> Any:
    reply = await service.answer(HttpRequest("GET", f"/ui/api/{path}".encode(), [], b""))
    assert reply.status == 200, reply.body
    return json.loads(reply.body)


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


def test_nodes_are_columns_and_their_labels_ways_to_group_them() -> None:
    async def talk(service: PageService) -> Any:
        return await get(service, "nodes")

    nodes = served(talk)
    assert nodes["names"] == ["n1", "n2", "n3"]
    assert nodes["labels"]["topology.kubernetes.io/zone"] == {"values": ["zone-1", "zone-2", "zone-3"], "of": [0, 1, 2]}
    assert nodes["allocatable"]["example.com/gpu"] == [0, 0, 2]
    assert nodes["taints"]["values"][nodes["taints"]["of"][2]] == "gpu:NoSchedule"
    assert nodes["cordoned"] == [1]


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
    assert page["wakes"] == retry_lines(explained)
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


REFUSED: dict[str, tuple[str, str, bytes, list[tuple[bytes, bytes]], int, str]] = {
    "there is no such page": ("GET", "/ui/none.js", b"", [], 404, "not found"),
    "a path out of the folder leads nowhere": ("GET", "/ui/../../etc/passwd", b"", [], 404, "not found"),
    "nor does an encoded one": ("GET", "/ui/%2e%2e%2fservice.py", b"", [], 404, "not found"),
    "there is no such question": ("GET", "/ui/api/secrets", b"", [], 404, "not found"),
    "data is not written": ("POST", "/ui/api/state", b"{}", JSON, 405, "only GET is supported"),
    "a pod has a name": ("GET", "/ui/api/pod", b"", [], 422, "missing parameter"),
    "a pod that is not there is not explained": ("GET", "/ui/api/pod?pod=shop/nobody", b"", [], 422, "no such pod"),
    "a node that is not there is suggested": ("GET", "/ui/api/node?node=n11", b"", [], 422, "node not found"),
    "a run is a number": ("GET", "/ui/api/state?run=x", b"", [], 422, "not a number"),
    "there is one run": ("GET", "/ui/api/state?run=1", b"", [], 422, "1 is not a run"),
    "a moment is a number": ("GET", "/ui/api/state?at=noon", b"", [], 422, "not a number of seconds"),
    "a page is not endless": ("GET", "/ui/api/waiting?limit=100000", b"", [], 422, "not a number from 0 to 200"),
    "what is tried is JSON": ("POST", "/ui/api/try", b"{", JSON, 422, "invalid JSON"),
    "and said to be": (
        "POST",
        "/ui/api/try",
        b"{}",
        [(b"content-type", b"text/plain")],
        422,
        "content type is not JSON",
    ),
    "an object, that is": ("POST", "/ui/api/try", b"[]", JSON, 422, "not a JSON object"),
    "something is to be tried": ("POST", "/ui/api/try", b"{}", JSON, 422, "no changes to simulate"),
    "fields are known": ("POST", "/ui/api/try", b'{"drian": ["n1"]}', JSON, 422, "drian"),
    "trying is not reading": ("GET", "/ui/api/try", b"", [], 405, "POST"),
}


@pytest.mark.parametrize(("method", "path", "body", "headers", "status", "text"), REFUSED.values(), ids=REFUSED)
def test_refused(
    method: str, path: str, body: bytes, headers: list[tuple[bytes, bytes]], status: int, text: str
) -> None:
    async def talk(service: PageService) -> Reply:
        return await service.answer(HttpRequest(method, path.encode(), headers, body))

    reply: Reply = served(talk)
    assert (reply.status, set(SAFETY) <= set(reply.headers)) == (status, True)
    assert text in json.loads(reply.body)["error"]


def test_all_of_the_page_is_served_under_a_strict_policy() -> None:
    async def talk(service: PageService) -> list[Reply]:
        return [await service.answer(HttpRequest("GET", path.encode(), [], b"")) for path in public_paths()]

    for path, reply in zip(public_paths(), served(talk), strict=True):
        assert reply.status == (302 if path == "/ui" else 200), path
        assert set(SAFETY) <= set(reply.headers)


def test_a_cluster_of_nothing_is_shown() -> None:
    async def talk(service: PageService) -> Any:
        return await get(service, "state"), await get(service, "nodes")

    state, nodes = served(talk, ())
    assert (state["nodes"], state["waiting"], nodes["names"]) == (0, 0, [])


def test_a_thousand_reasons_come_page_by_page() -> None:
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


def test_every_path_is_documented() -> None:
    page = (Path(__file__).parents[4] / "docs/reference/ui-api.md").read_text()
    documented = set(re.findall(r"^\| `([a-z]+)` \|", page, re.MULTILINE))
    assert set(PageService(still())._reading) | {"pod", "node", "try", "events"} <= documented
