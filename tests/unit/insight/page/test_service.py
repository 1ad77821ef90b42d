"""The page's data over HTTP: responses, rejected requests, and no access without authorization."""

import asyncio
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from tests.unit.insight.page.clusters import get, served, still

from moorage.insight.page.paths import SAFETY, public_paths
from moorage.insight.page.service import BURST_SECONDS, REQUEST_SECONDS, CpuShare, PageService
from moorage.kube.http.messages import HttpRequest, Reply

JSON = [(b"content-type", b"application/json")]
REFUSED: dict[str, tuple[str, str, bytes, list[tuple[bytes, bytes]], int, str]] = {
    "there is no such page": ("GET", "/ui/none.js", b"", [], 404, "not found"),
    "a path out of the directory leads nowhere": ("GET", "/ui/../../etc/passwd", b"", [], 404, "not found"),
    "nor does an encoded one": ("GET", "/ui/%2e%2e%2fservice.py", b"", [], 404, "not found"),
    "a number may have few digits": ("GET", f"/ui/api/waiting?offset={'9' * 5000}", b"", [], 422, "is not a number"),
    "there is no such question": ("GET", "/ui/api/secrets", b"", [], 404, "not found"),
    "data is not written": ("POST", "/ui/api/state", b"{}", JSON, 405, "only GET is supported"),
    "a pod has a name": ("GET", "/ui/api/pod", b"", [], 422, "missing parameter"),
    "an unknown pod is not explained": ("GET", "/ui/api/pod?pod=shop/absent", b"", [], 422, "not found"),
    "a similar name is suggested for an unknown node": ("GET", "/ui/api/node?node=n11", b"", [], 422, "node not found"),
    "a run is a number": ("GET", "/ui/api/state?run=x", b"", [], 422, "not a number"),
    "there is one run": ("GET", "/ui/api/state?run=1", b"", [], 422, "1 does not exist"),
    "a moment is a number": ("GET", "/ui/api/state?at=noon", b"", [], 422, "not a number of seconds"),
    "a page is not endless": ("GET", "/ui/api/waiting?limit=100000", b"", [], 422, "not a number from 0 to 200"),
    "the body is JSON": ("POST", "/ui/api/try", b"{", JSON, 422, "invalid JSON"),
    "and the content type is JSON": (
        "POST",
        "/ui/api/try",
        b"{}",
        [(b"content-type", b"text/plain")],
        422,
        "content type is not JSON",
    ),
    "the body is a JSON object": ("POST", "/ui/api/try", b"[]", JSON, 422, "not a JSON object"),
    "at least one change is required": ("POST", "/ui/api/try", b"{}", JSON, 422, "no changes to simulate"),
    "fields are known": ("POST", "/ui/api/try", b'{"drian": ["n1"]}', JSON, 422, "drian"),
    "trying is not reading": ("GET", "/ui/api/try", b"", [], 405, "POST"),
}


@pytest.mark.parametrize(("method", "path", "body", "headers", "status", "text"), REFUSED.values(), ids=REFUSED)
def test_invalid_request_is_rejected(
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


LISTS = {
    "pending pods are first": (
        "pods",
        ["shop/big-1", "shop/big-2", "shop/fits", "shop/held", "shop/web-1", "shop/web-2"],
    ),
    "pods on nodes": ("pods?state=placed", ["shop/web-1", "shop/web-2"]),
    "pending pods": ("pods?state=pending&q=big", ["shop/big-1", "shop/big-2"]),
    "a page": ("pods?offset=1&limit=2", ["shop/big-2", "shop/fits"]),
    "pods of a node": ("pods?q=n1", ["shop/web-1", "shop/web-2"]),
    "no pods of another namespace": ("pods?namespace=sho", []),
    "pods of a namespace": ("pods?namespace=shop&q=held", ["shop/held"]),
    "pending pods of another namespace": ("waiting?namespace=batch", []),
    "pending pods of a namespace": ("waiting?namespace=shop&q=big", ["shop/big-1", "shop/big-2"]),
}


@pytest.mark.parametrize(("path", "pods"), LISTS.values(), ids=LISTS)
def test_pods_are_listed(path: str, pods: list[str]) -> None:
    async def talk(service: PageService) -> Any:
        return await get(service, path)

    reply = served(talk)
    assert [line["pod"] for line in reply["pods"]] == pods
    assert reply["namespaces"] == ["shop"]


@pytest.mark.parametrize("path", ["pods?q=big", "waiting?q=big"])
def test_requests_of_pending_pods_are_listed(path: str) -> None:
    async def talk(service: PageService) -> Any:
        return await get(service, path)

    assert {line["requests"]["cpu"] > 0 for line in served(talk)["pods"]} == {True}


def test_reasons_can_be_restricted_to_a_namespace() -> None:
    async def talk(service: PageService) -> Any:
        return [(await get(service, f"reasons?namespace={name}"))["count"] for name in ("shop", "batch")]

    assert served(talk) == [3, 0]


def test_every_path_is_documented() -> None:
    page = (Path(__file__).parents[4] / "docs/reference/ui-api.md").read_text()
    documented = set(re.findall(r"^\| `([a-z]+)` \|", page, re.MULTILINE))
    assert set(PageService(still())._reading) | {"pod", "node", "try", "events"} <= documented


def test_readers_share_a_part_of_the_thread() -> None:
    async def read() -> None:
        cpu = CpuShare(1e-6)
        async with cpu.turn():
            end = time.thread_time() + BURST_SECONDS + 0.01
            while time.thread_time() < end:
                pass
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2), cpu.turn():
                pytest.fail("the next reader must wait")

    asyncio.run(read())


def test_burst_is_not_delayed() -> None:
    async def read() -> None:
        cpu = CpuShare(0.001)
        for _ in range(100):
            async with cpu.turn():
                pass

    asyncio.run(asyncio.wait_for(read(), 30))


LOOPS = {
    "an unknown path": ("GET", "/ui/api/secrets"),
    "an unsupported method": ("POST", "/ui/api/state"),
    "a wrong method of a question": ("GET", "/ui/api/try"),
    "an invalid number": ("GET", "/ui/api/waiting?offset=x"),
    "an invalid body": ("POST", "/ui/api/try"),
}


@pytest.mark.parametrize(("method", "path"), LOOPS.values(), ids=LOOPS)
def test_rejected_requests_are_charged(method: str, path: str) -> None:
    async def read() -> None:
        source = still()
        source.cpu_share = 1e-6  # type: ignore[misc]
        service, request = PageService(source), HttpRequest(method, path.encode(), [], b"")
        for _ in range(round(BURST_SECONDS / REQUEST_SECONDS) + 3):
            last = asyncio.ensure_future(service.answer(request))
            done, _ = await asyncio.wait((last,), timeout=0.2)
            if not done:
                last.cancel()
                return
        pytest.fail("no request had to wait")

    asyncio.run(read())
