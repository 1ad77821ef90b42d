"""Access to the page: this machine under its own name, or clients with a token; questions run in another process."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import aiohttp
import pytest
from tests.unit.insight.page.clusters import still

from moorage.common.errors import InputError
from moorage.insight.listening import ListenOptions
from moorage.insight.page.page_server import PageServer

Visit = Callable[[aiohttp.ClientSession, str], Awaitable[None]]


def visited(visit: Visit, token: str = "") -> None:
    async def go() -> None:
        source = still()
        await source.start()
        server = PageServer(source, ListenOptions(tokens=(token.encode(),) if token else ()))
        await server.start()
        try:
            async with aiohttp.ClientSession() as client:
                await visit(client, server.url)
        finally:
            await server.stop()
            await source.stop()

    asyncio.run(go())


async def status(client: aiohttp.ClientSession, url: str, **headers: str) -> int:
    async with client.get(url, headers=headers, allow_redirects=False) as response:
        return response.status


def test_request_for_another_host_name_is_rejected() -> None:
    async def visit(client: aiohttp.ClientSession, url: str) -> None:
        port = url.split(":")[2].partition("/")[0]
        assert await status(client, f"{url}api/state") == 200
        assert await status(client, f"{url}api/state", Host=f"localhost:{port}") == 200
        for host in (f"evil.example:{port}", "10.0.0.1", "[2001:db8::1]:80", "127.0.0.1.evil.example"):
            assert await status(client, f"{url}api/state", Host=host) == 403, host
            assert await status(client, url, Host=host) == 403, host

    visited(visit)


def test_data_needs_a_token_and_the_page_does_not() -> None:
    async def visit(client: aiohttp.ClientSession, url: str) -> None:
        assert await status(client, url) == 200
        for path in ("api/state", "api/events", "api/nothing"):
            assert await status(client, url + path) == 401, path
            assert await status(client, url + path, Authorization="Bearer wrong") == 401, path
        assert await status(client, f"{url}api/state", Authorization="Bearer right") == 200

    visited(visit, "right")


def test_first_event_is_sent_immediately() -> None:
    async def visit(client: aiohttp.ClientSession, url: str) -> None:
        async with client.get(f"{url}api/events") as response:
            assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
            async for line in response.content:
                if line.startswith(b"data: "):
                    assert json.loads(line.removeprefix(b"data: "))["version"] >= 1
                    return

    visited(visit)


def test_port_in_use_is_reported() -> None:
    async def visit(_client: aiohttp.ClientSession, url: str) -> None:
        port = int(url.split(":")[2].partition("/")[0])
        with pytest.raises(InputError, match="--port 0 picks a free port"):
            await PageServer(still(), ListenOptions(port=port)).start()

    visited(visit)
