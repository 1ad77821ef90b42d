"""Requests to an API server on real sockets: retries, errors and observed exchanges."""

import asyncio

import pytest
from tests.support.tcp import answer, read_request, with_server

from moorage.common.errors import Conflict, ServerError, Unreachable
from moorage.kube.client.kubeconfig import Connection
from moorage.kube.client.rest import ApiClient, Exchange
from moorage.kube.http.pool import HttpPool


def test_reading_is_retried_on_a_new_connection() -> None:
    served = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served
        served += 1
        await read_request(reader)
        writer.write(answer(b"{}"))
        if served == 1:
            await read_request(reader)  # and hang up without a response
        else:
            await reader.read()

    async def use(pool: HttpPool) -> None:
        client = ApiClient(Connection(pool.server, "test"), transport=pool)
        assert await client.request("GET", "/") == b"{}"
        assert await client.request("GET", "/") == b"{}"

    with_server(serve, use)
    assert served == 2


def test_observer_gets_every_request_even_without_a_response() -> None:
    exchanges: list[Exchange] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(answer(b"{}", "201 Created"))
        await reader.readexactly(len(b"body"))
        await read_request(reader)  # and hang up

    async def use(pool: HttpPool) -> None:
        client = ApiClient(Connection(pool.server, "test"), transport=pool, on_exchange=exchanges.append)
        assert await client.request("POST", "/", b"body") == b"{}"
        with pytest.raises(Unreachable):
            await client.request("POST", "/", b"body")

    with_server(serve, use)
    assert [(method, status, sent, received) for method, status, _, sent, received in exchanges] == [
        ("POST", 201, 4, 2),
        ("POST", 0, 4, 0),
    ]


def test_the_error_contains_retry_after() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(answer(b"later", "503 HttpService Unavailable", "retry-after: 4\r\n"))

    async def use(pool: HttpPool) -> None:
        client = ApiClient(Connection(pool.server, "test"), transport=pool)
        with pytest.raises(ServerError, match="later") as raised:
            await client.request("GET", "/")
        assert (raised.value.status, raised.value.retry_after) == (503, 4.0)

    with_server(serve, use)


def test_a_rejected_binding_after_100_continue_is_rejected() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" + answer(b"taken", "409 Conflict"))

    async def use(pool: HttpPool) -> None:
        client = ApiClient(Connection(pool.server, "test"), transport=pool)
        with pytest.raises(Conflict, match="taken"):
            await client.request("POST", "/api/v1/namespaces/a/pods/b/binding", b"{}")

    with_server(serve, use)


def test_managed_fields_are_not_requested() -> None:
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await read_request(reader))
        writer.write(answer(b"{}"))

    async def use(pool: HttpPool) -> None:
        await ApiClient(Connection(pool.server, "test"), transport=pool).request("GET", "/")

    with_server(serve, use)
    assert b"\r\nAccept: application/json;drop=metadata.managedFields\r\n" in requests[0]
