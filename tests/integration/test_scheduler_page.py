"""`moorage scheduler --ui`: the page, authorization of its data, and its event stream through the supervisor."""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from moorage.cluster.apiserver.server import ApiServer
from moorage.kube.client.kubeconfig import load_connection
from moorage.kube.client.rest import ApiClient
from tests.unit.insight.page.clusters import Content, node, pod

MOORAGE = str(Path(sys.executable).parent / "moorage")
POLLS = 600
PAUSE = 0.1
BLOCKED = 503
"""The supervisor's response while a scheduler's loop is blocked, as on an overloaded machine."""


@asynccontextmanager
async def scheduler(directory: Path, *flags: str, contents: tuple[Content, ...] = ()) -> AsyncIterator[tuple[str, str]]:
    """Run a scheduler on an embedded API server; return the address of its pages, and a token that may read them."""
    async with ApiServer() as server:
        kubeconfig = directory / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(server.kubeconfig()))
        await create(kubeconfig, contents)
        port = free_port()
        access = [f"--{name}={kubeconfig}" for name in ("authentication-kubeconfig", "authorization-kubeconfig")]
        serving = ["--bind-address=127.0.0.1", f"--secure-port={port}", "--leader-elect=false", *access]
        command = [MOORAGE, "scheduler", f"--kubeconfig={kubeconfig}", *serving, *flags]
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
        try:
            yield f"https://127.0.0.1:{port}", server.token
        finally:
            process.terminate()
            await process.wait()


async def create(kubeconfig: Path, contents: tuple[Content, ...]) -> None:
    async with ApiClient(load_connection(str(kubeconfig))) as client:
        await client.request("POST", "/api/v1/namespaces", b'{"metadata": {"name": "shop"}}')
        for content in contents:
            place = "/api/v1/nodes" if content["kind"] == "Node" else "/api/v1/namespaces/shop/pods"
            await client.request("POST", place, json.dumps(content).encode())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Visitor:
    """Requests pages, with or without a token."""

    def __init__(self, client: aiohttp.ClientSession, url: str, token: str) -> None:
        self._client, self._url = client, url
        self._headers = {"Authorization": f"Bearer {token}"}

    async def status(self, path: str, *, token: bool) -> int:
        """Request a page and return the status; the scheduler may still be starting."""
        for _ in range(POLLS):
            try:
                async with self._client.get(
                    self._url + path, ssl=False, headers=self._headers if token else {}
                ) as actual:
                    if actual.status != BLOCKED:
                        return actual.status
            except aiohttp.ClientConnectionError:
                pass
            await asyncio.sleep(PAUSE)
        raise AssertionError("the scheduler does not serve")

    async def data(self, path: str) -> Any:
        """Request data."""
        for _ in range(POLLS):
            async with self._client.get(self._url + path, ssl=False, headers=self._headers) as actual:
                if actual.status != BLOCKED:
                    assert actual.status == 200, await actual.text()
                    return await actual.json()
            await asyncio.sleep(PAUSE)
        raise AssertionError("the scheduler is blocked")

    async def event(self) -> str:
        """Wait for the first event of the stream."""
        async with self._client.get(f"{self._url}/ui/api/events", ssl=False, headers=self._headers) as actual:
            assert actual.headers["Content-Type"].startswith("text/event-stream")
            async for line in actual.content:
                if line.startswith(b"data: "):
                    return line.decode()
        raise AssertionError("the stream ended")


def test_page_is_public_and_its_data_needs_authorization(tmp_path: Path) -> None:
    contents = (node("n1"), pod("big", "9"), pod("small"))

    async def go() -> None:
        async with scheduler(tmp_path, "--ui", contents=contents) as (url, token), aiohttp.ClientSession() as client:
            visitor = Visitor(client, url, token)
            assert await visitor.status("/ui/", token=False) == 200
            assert await visitor.status("/ui/app.js", token=False) == 200
            for path in ("/ui/api/state", "/ui/api/events", "/ui/api/pod?pod=shop/big", "/metrics"):
                assert await visitor.status(path, token=False) == 403, path
            state = await visitor.data("/ui/api/state")
            while not (state["waiting"] == 1 and state["groups"][0]["plugins"] and state["placed"] == 1):
                await asyncio.sleep(PAUSE)
                state = await visitor.data("/ui/api/state")
            assert state["groups"][0]["reasons"] == ["Insufficient cpu"]
            assert json.loads((await visitor.event()).removeprefix("data: "))["version"] > 0
            explained = await visitor.data("/ui/api/pod?pod=shop/big")
            assert explained["changes"][0]["line"].startswith("Lower the cpu request of container main from 9 to 3")
            assert [item["result"] for item in explained["attempts"]][-1] == "unschedulable"
            on_it = await visitor.data("/ui/api/node?node=n1&deep=no")
            assert [item["pod"] for item in on_it["pods"]] == ["shop/small"]

    asyncio.run(go())


def test_page_needs_the_flag(tmp_path: Path) -> None:
    async def go() -> None:
        async with scheduler(tmp_path) as (url, token), aiohttp.ClientSession() as client:
            visitor = Visitor(client, url, token)
            assert await visitor.status("/ui/", token=False) == 403
            assert await visitor.status("/ui/", token=True) == 404
            assert await visitor.status("/ui/api/events", token=True) == 404

    asyncio.run(go())
