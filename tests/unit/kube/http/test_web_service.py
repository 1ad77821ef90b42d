"""Web services with JSON responses, and errors of failing services."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from moorage.common.errors import InputError, ServiceError
from moorage.kube.http.web_service import WebService


async def with_service(answer: bytes, story: Callable[[str, list[bytes]], Awaitable[None]]) -> None:
    """Run a local server with a fixed response; the story gets its URL and the received requests."""
    requests: list[bytes] = []
    handlers: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            requests.append(head)
            if not answer:
                await asyncio.sleep(60)
            writer.write(answer)

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.append(task)
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            return
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(served, "127.0.0.1", 0)
    async with server:
        await story(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", requests)
    for task in handlers:
        task.cancel()
    await asyncio.gather(*handlers, return_exceptions=True)


def answer(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def test_response_is_plain_data_and_the_query_is_quoted() -> None:
    async def story(url: str, requests: list[bytes]) -> None:
        service = WebService(f"{url.replace('://', '://joe:secret@')}/base/", headers={"X-Scope-OrgID": "shop"})
        assert "secret" not in service.url
        assert await service.get_json("/api", {"query": "up{a='b c'}"}) == {"up": [1]}
        head = requests[0].decode()
        assert head.startswith("GET /base/api?query=up%7Ba%3D%27b+c%27%7D HTTP/1.1\r\n")
        assert "X-Scope-OrgID: shop\r\n" in head
        assert "Authorization: Basic am9lOnNlY3JldA==\r\n" in head
        service.close()

    asyncio.run(with_service(answer(b'{"up": [1]}'), story))


FAILURES: dict[str, tuple[bytes, str]] = {
    "a rejection": (answer(b"bad query", "400 Bad Request"), "/api returned status 400: bad query"),
    "a page": (answer(b"<html>"), "/api returned invalid JSON: "),
    "silence": (b"", "/api: no response within 0.2 s"),
}


@pytest.mark.parametrize(("response", "message"), FAILURES.values(), ids=FAILURES)
def test_errors_include_the_url(response: bytes, message: str) -> None:
    async def story(url: str, _asked: list[bytes]) -> None:
        service = WebService(url, seconds=0.2)
        with pytest.raises(ServiceError) as failure:
            await service.get_json("/api")
        assert str(failure.value).startswith(f"{url}{message}")
        service.close()

    asyncio.run(with_service(response, story))


def test_rejected_connection_is_reported() -> None:
    async def story() -> None:
        with pytest.raises(ServiceError, match=r"no connection to http://127\.0\.0\.1:1"):
            await WebService("http://127.0.0.1:1").get_json()

    asyncio.run(story())


@pytest.mark.parametrize("url", ["prometheus:9090", "ftp://a", "http://", "http://a:b"])
def test_invalid_url_is_rejected(url: str) -> None:
    with pytest.raises(InputError, match="pluginConfig, url: not a URL of a server\n  hint: write one such"):
        WebService(url, where="pluginConfig, url")
