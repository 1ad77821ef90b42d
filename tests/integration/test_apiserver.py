"""The embedded API server over HTTP, called by the scheduler's client and by raw requests."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import aiohttp
import msgspec
import pytest
import yaml

from moorage.cluster.apiserver.server import MAX_BODY, ApiServer
from moorage.cluster.apiserver.storage.journal import Journal
from moorage.common.errors import AlreadyExists, ApiError, InputError, NotFound, Unauthorized
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.client.kubeconfig import load_connection
from moorage.kube.client.rest import ApiClient
from moorage.testing import make_node, make_pod
from tests.support.api import PODS, pod

ROOT = Path(__file__).resolve().parents[2]
WATCHERS = 20
CHANGES = 200
T = TypeVar("T", bound=KubeObject)


def make_api_client(kubeconfig: Path) -> ApiClient:
    return ApiClient(load_connection(str(kubeconfig)))


@asynccontextmanager
async def serving(directory: Path, token: str = "") -> AsyncIterator[tuple[ApiServer, ApiClient]]:
    async with ApiServer() as server:
        config = server.kubeconfig()
        config["users"][0]["user"]["token"] = token or server.token
        (directory / "kubeconfig").write_text(yaml.safe_dump(config))
        async with make_api_client(directory / "kubeconfig") as client:
            yield server, client


def test_client_of_the_scheduler_is_served(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (_, client):
            created = await client.create(make_node("n1"))
            assert (await client.get(Node, "n1")).metadata == created.metadata
            stored = await client.create(make_pod("web"))
            with pytest.raises(AlreadyExists):
                await client.create(make_pod("web"))
            assert [obj.name for obj in await client.list(Pod, "default")] == ["web"]
            changed = await client.patch(stored, {"metadata": {"labels": {"a": "b"}}})
            assert changed.labels == {"a": "b"}
            await client.delete(stored)
            with pytest.raises(NotFound):
                await client.get(Pod, "web", "default")

    asyncio.run(scenario())


def test_wrong_token_is_rejected(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, token="wrong") as (_, client):
            with pytest.raises(Unauthorized):
                await client.list(Pod)
            assert await client.request("GET", "/readyz") == b"ok"

    asyncio.run(scenario())


def test_too_long_body_is_rejected(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (_, client):
            with pytest.raises(ApiError) as error:
                await client.request("POST", PODS, b'"' + b"x" * MAX_BODY + b'"')
            assert (error.value.status, error.value.reason) == (413, "RequestEntityTooLarge")

    asyncio.run(scenario())


def test_watchers_receive_all_events(tmp_path: Path) -> None:
    async def watch(client: ApiClient, versions: list[int]) -> None:
        remainder = b""
        async with client.stream(f"{PODS}?watch=true") as chunks:
            async for chunk in chunks:
                *lines, remainder = (remainder + chunk).split(b"\n")
                for line in lines:
                    versions.append(int(msgspec.json.decode(line)["object"]["metadata"]["resourceVersion"]))
                if len(versions) >= CHANGES:
                    return

    async def scenario() -> None:
        async with serving(tmp_path) as (_, client):
            report: list[list[int]] = [[] for _ in range(WATCHERS)]
            watchers = [asyncio.create_task(watch(client, versions)) for versions in report]
            bodies = [msgspec.json.encode(pod(f"p{number}")) for number in range(CHANGES)]
            await asyncio.gather(*(client.request("POST", PODS, body) for body in bodies))
            await asyncio.wait_for(asyncio.gather(*watchers), 30)
            assert all(versions == sorted(report[0]) for versions in report)
            assert len(set(report[0])) == CHANGES

    asyncio.run(scenario())


def test_watch_ends_after_its_timeout(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (_, client):
            query = "watch=true&resourceVersion=1&timeoutSeconds=1&allowWatchBookmarks=true"
            async with client.stream(f"/api/v1/nodes?{query}") as chunks:
                lines = b"".join([chunk async for chunk in chunks]).splitlines()
            assert [msgspec.json.decode(line)["type"] for line in lines] == ["BOOKMARK"]

    asyncio.run(scenario())


def test_plain_http_is_optional() -> None:
    async def scenario() -> None:
        async with ApiServer(plain=True) as server, aiohttp.ClientSession() as session:
            headers = {"Authorization": f"Bearer {server.token}"}
            async with session.get(f"{server.plain_url}/api/v1/nodes", headers=headers) as answer:
                assert (answer.status, (await answer.json())["kind"]) == (200, "NodeList")

    asyncio.run(scenario())


async def until(succeeds: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + 300
    while not await succeeds():
        assert time.monotonic() < deadline, "no event for half a minute"
        await asyncio.sleep(0.05)


class Killable:
    """A server in a separate process, on persistent data."""

    def __init__(self, directory: Path) -> None:
        self.data, self.kubeconfig = directory / "data", directory / "kubeconfig"
        self.process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        self.kubeconfig.unlink(missing_ok=True)
        command = [sys.executable, "-m", "tests.integration.serving", str(self.data), str(self.kubeconfig)]
        self.process = subprocess.Popen(command, cwd=ROOT)

        async def is_up() -> bool:
            return self.kubeconfig.exists()

        await until(is_up)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()


def test_acknowledged_writes_survive_a_kill(tmp_path: Path) -> None:
    acknowledged: set[str] = set()

    async def write(client: ApiClient, number: int) -> None:
        try:
            await client.request("POST", PODS, msgspec.json.encode(pod(f"p{number}")))
        except ApiError:
            return
        acknowledged.add(f"p{number}")

    async def write_until_killed(server: Killable) -> None:
        async with make_api_client(server.kubeconfig) as client:
            writers = [asyncio.create_task(write(client, number)) for number in range(1000)]

            async def has_begun() -> bool:
                return len(acknowledged) >= 200

            await until(has_begun)
            server.kill()
            await asyncio.gather(*writers)

    async def scenario() -> None:
        server = Killable(tmp_path)
        await server.start()
        try:
            await write_until_killed(server)
            await server.start()
            async with make_api_client(server.kubeconfig) as client:
                response = msgspec.json.decode(await client.request("GET", PODS))
                names = {item["metadata"]["name"] for item in response["items"]}
                assert acknowledged <= names
                newest = max(int(item["metadata"]["resourceVersion"]) for item in response["items"])
                assert int(response["metadata"]["resourceVersion"]) > newest
                await client.request("DELETE", f"{PODS}/{min(acknowledged)}")
        finally:
            server.kill()

    asyncio.run(scenario())


def test_two_servers_cannot_share_their_data(tmp_path: Path) -> None:
    first = Journal(tmp_path)
    with pytest.raises(InputError, match="cannot open the database"):
        Journal(tmp_path)
    asyncio.run(first.close())
