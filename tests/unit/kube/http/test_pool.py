"""Connections: real sockets, and servers that misbehave on them."""

import asyncio
import gc
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop
from tests.support.api_over_tls import ApiOverTls
from tests.support.certificates import Authority
from tests.support.proxies import HttpProxy, SocksProxy
from tests.support.tcp import Serve, answer, read_request, serving, with_server

from moorage.common.errors import InputError, Unreachable
from moorage.kube.client.kubeconfig import Connection
from moorage.kube.client.rest import ApiClient
from moorage.kube.http import client_connection
from moorage.kube.http import pool as pools
from moorage.kube.http.client_connection import PooledConnection
from moorage.kube.http.messages import Response
from moorage.kube.http.pool import HttpPool, WriteGate
from moorage.kube.http.tls import ClientTls

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def test_connection_is_reused() -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while True:
            await read_request(reader)
            writer.write(answer(b"hello"))

    async def use(pool: HttpPool) -> None:
        for _ in range(5):
            assert await pool.send(REQUEST) == Response(200, b"hello")

    with_server(serve, use)
    assert connections == 1


def test_responses_match_their_requests() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            request = await read_request(reader)
            await asyncio.sleep(0)
            writer.write(answer(request.split(b" ")[1]))

    async def ask(pool: HttpPool, number: int) -> None:
        request = f"GET /{number} HTTP/1.1\r\n\r\n".encode()
        assert (await pool.send(request)).body == f"/{number}".encode()

    async def use(pool: HttpPool) -> None:
        await asyncio.gather(*(ask(pool, number) for number in range(50)))
        cancelled = [asyncio.create_task(ask(pool, number)) for number in range(20)]
        await asyncio.sleep(0)
        for task in cancelled:
            task.cancel()
        await asyncio.gather(*(ask(pool, number) for number in range(100, 150)))

    with_server(serve, use)


async def close_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)


async def talk_rubbish(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")
    await reader.read()


async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")


async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


MISBEHAVIOR = {
    "a server that hangs up": (close_at_once, "closed"),
    "a server of something else": (talk_rubbish, "invalid HTTP"),
    "a server that hangs up half-way": (break_off, "closed"),
    "a server that never responds": (say_nothing, "timed out"),
}


@pytest.mark.parametrize(("serve", "text"), MISBEHAVIOR.values(), ids=MISBEHAVIOR)
def test_no_response(serve: Serve, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "SWEEP_SECONDS", 0.01)

    async def use(pool: HttpPool) -> None:
        with pytest.raises(Unreachable, match=text) as raised:
            await pool.send(REQUEST, seconds=0.05)
        assert raised.value.was_sent

    with_server(serve, use)


def test_connection_is_closed_if_its_request_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "SWEEP_SECONDS", 0.01)

    async def main() -> None:
        request_sent, hung_up = asyncio.Event(), asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            request_sent.set()
            await reader.read()
            hung_up.set()

        async with serving(serve) as port:
            pool = HttpPool(f"http://127.0.0.1:{port}")
            waiting = asyncio.ensure_future(pool.send(REQUEST))
            await request_sent.wait()
            waiting.cancel()
            async with asyncio.timeout(10):
                await hung_up.wait()
            pool.close()

    asyncio.run(main())


def test_rejected_connection_means_nothing_was_sent() -> None:
    with pytest.raises(Unreachable, match="no connection") as raised:
        asyncio.run(HttpPool("http://127.0.0.1:1").send(REQUEST))
    assert not raised.value.was_sent


def test_chunked_response_is_joined() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        await asyncio.sleep(0.01)
        writer.write(b"2\r\nde\r\n0\r\n\r\n")

    async def use(pool: HttpPool) -> None:
        assert (await pool.send(REQUEST)).body == b"abcde"

    with_server(serve, use)


def test_a_stream_is_read_as_it_arrives_until_it_is_cut() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        await asyncio.sleep(0.01)
        writer.write(b"3\r\ntwo\r\n")

    async def use(pool: HttpPool) -> list[bytes]:
        actual: list[bytes] = []
        client = ApiClient(Connection(pool.server, "test"), transport=pool)

        async def read() -> None:
            async with client.stream("/") as chunks:
                async for chunk in chunks:
                    actual.append(chunk)

        with pytest.raises(Unreachable):
            await read()
        return actual

    assert with_server(serve, use) == [b"one", b"two"]


def test_a_silent_stream_is_given_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "SWEEP_SECONDS", 0.01)

    async def use(pool: HttpPool) -> None:
        with pytest.raises(Unreachable, match="timed out"):
            async with pool.stream(REQUEST, max_silence=0.05) as stream:
                await stream.read_status()

    with_server(say_nothing, use)


INTERIM = {
    "a rejection after 100 Continue": (b"HTTP/1.1 100 Continue\r\n\r\n", answer(b"no", "409 Conflict"), 409),
    "a success after it": (b"HTTP/1.1 100 Continue\r\n\r\n", answer(b"ok", "201 Created"), 201),
    "a rejection after hints": (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", answer(b"no", "403 Forbidden"), 403),
    "a response that ends with the connection": (b"", b"HTTP/1.0 200 OK\r\n\r\nok", 200),
    "a rejection that does": (b"", b"HTTP/1.1 500 No\r\nConnection: close\r\n\r\nno", 500),
}


@pytest.mark.parametrize(("first", "then", "status"), INTERIM.values(), ids=INTERIM)
@pytest.mark.parametrize("at_once", [True, False])
def test_the_response_that_counts(first: bytes, then: bytes, status: int, at_once: bool) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(first)
        if not at_once:
            await asyncio.sleep(0.01)
        writer.write(then)
        writer.close()
        await writer.wait_closed()

    async def read_whole(pool: HttpPool) -> tuple[int, bytes]:
        response = await pool.send(REQUEST)
        return response.status, response.body

    async def read_as_it_comes(pool: HttpPool) -> tuple[int, bytes]:
        async with pool.stream(REQUEST, 5.0) as stream:
            return await stream.read_status(), await stream.rest()

    assert with_server(serve, read_whole) == with_server(serve, read_as_it_comes) == (status, then[-2:])


def test_a_response_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_connection, "MAX_RESPONSE", 100_000)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 10_000)
            await writer.drain()

    async def use(pool: HttpPool) -> None:
        with pytest.raises(Unreachable, match="longer than 100000 bytes"):
            await pool.send(REQUEST)

    with_server(serve, use)


def test_closed_connections_are_freed_without_a_garbage_collection() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(answer(b"bye", extra="Connection: close\r\n"))
        await reader.read()

    async def use(pool: HttpPool) -> None:
        for _ in range(5):
            await pool.send(REQUEST)
            async with pool.stream(REQUEST, 5.0) as stream:
                await stream.rest()
                del stream
        pool.close()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not [obj for obj in gc.get_objects() if isinstance(obj, PooledConnection)]

    gc.collect()
    gc.disable()
    try:
        with_server(serve, use)
    finally:
        gc.enable()


WRITE = b"POST /bind HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
READ = b"GET /pods HTTP/1.1\r\nHost: x\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class Lease:
    is_held = True


async def exchange(requests: list[bytes], *, ends: bool = False) -> list[bytes]:
    """Read once, optionally lose the lease, and send requests; return the received and the rejected requests."""
    received: list[bytes] = []
    lease = Lease()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                received.append((await reader.readuntil(b"\r\n\r\n")).split()[0])
                writer.write(ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    pool = HttpPool(
        f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", gate=WriteGate(lambda: lease.is_held, cut_seconds=5.0)
    )
    await pool.send(READ)
    lease.is_held = not ends
    for request in requests:
        try:
            await pool.send(request)
        except Unreachable as error:
            received.append(b"in doubt" if error.was_sent else b"refused")
    pool.close()
    server.close()
    return received


def test_permitted_writes_are_sent() -> None:
    assert asyncio.run(exchange([WRITE, READ, WRITE])) == [b"GET", b"POST", b"GET", b"POST"]


def test_nothing_is_written_on_an_open_connection_after_the_lease_ended() -> None:
    assert asyncio.run(exchange([WRITE, READ], ends=True)) == [b"GET", b"refused", b"GET"]


def test_nothing_is_written_if_the_lease_ended_while_we_connected() -> None:
    async def main() -> None:
        lease, is_received = Lease(), asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if await reader.read(1):
                is_received.set()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        pool = HttpPool(address, gate=WriteGate(lambda: lease.is_held, cut_seconds=5.0))
        sending = asyncio.ensure_future(pool.send(WRITE))
        lease.is_held = False
        with pytest.raises(Unreachable, match="the lease is no longer held"):
            await sending
        assert not is_received.is_set()
        pool.close()
        server.close()

    asyncio.run(main())


Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    def on_loop(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(main)

    return on_loop


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.create_in(tmp_path / "ca")


async def through(authority: Authority, proxy: str, use: Callable[[ApiClient, ApiOverTls], Awaitable[None]]) -> None:
    """Talk to an HTTPS server by a name that only the proxy can look up."""
    async with ApiOverTls(authority).running() as server:
        url = server.url.replace("127.0.0.1", "api.example")
        tls = ClientTls("test", authority=authority.pem)
        async with ApiClient(Connection(url, "test", tls, proxy=proxy)) as client:
            await use(client, server)


async def ask_twice(client: ApiClient, server: ApiOverTls) -> None:
    assert await client.request("GET", "/one") == b"{}"
    assert await client.request("POST", "/two", b"body") == b"{}"
    assert [visit.connection for visit in server.visits] == [1, 1]


def test_later_connections_resume_the_session_of_the_first(run: Run, authority: Authority) -> None:
    async def main() -> None:
        async with ApiOverTls(authority).running() as server:
            tls = ClientTls("test", authority=authority.pem)
            async with ApiClient(Connection(server.url, "test", tls)) as client:
                await client.request("GET", "/first")
                await asyncio.gather(*(client.request("GET", f"/{number}") for number in range(3)))
                assert [visit.is_resumed for visit in server.visits if visit.connection > 1] == [True, True]
                # A new identity from now on proves that.
                certificate, key = authority.issue("somebody")
                tls.show(Path(certificate).read_text(), Path(key).read_text())
                await client.request("GET", "/as-somebody")
                assert (server.visits[-1].certificate, server.visits[-1].is_resumed) == ("somebody", False)

    run(main())


def test_a_tunnel(run: Run, authority: Authority) -> None:
    async def main() -> None:
        async with HttpProxy().running() as proxy:
            await through(authority, f"http://joe:s%40crt@127.0.0.1:{proxy.port}", ask_twice)
        (head,) = proxy.asked
        assert head.startswith("CONNECT api.example:")
        assert "Proxy-Authorization: Basic am9lOnNAY3J0\r\n" in head

    run(main())


def test_a_tunnel_in_a_tunnel(run: Run, authority: Authority) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("proxy", hosts=("127.0.0.1",)))

    async def main() -> None:
        async with HttpProxy(tls=context).running() as proxy:
            await through(authority, f"https://127.0.0.1:{proxy.port}", ask_twice)
        assert len(proxy.asked) == 1

    run(main())


def test_a_proxy_whose_certificate_is_not_trusted(run: Run, authority: Authority, tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*Authority.create_in(tmp_path / "other").issue("proxy", hosts=("127.0.0.1",)))

    async def refused(client: ApiClient, _server: ApiOverTls) -> None:
        with pytest.raises(InputError, match="is not trusted"):
            await client.request("GET", "/")

    async def main() -> None:
        async with HttpProxy(tls=context).running() as proxy:
            await through(authority, f"https://127.0.0.1:{proxy.port}", refused)

    run(main())


@pytest.mark.parametrize("user", ["", "joe"])
def test_socks(run: Run, authority: Authority, user: str) -> None:
    async def main() -> None:
        async with SocksProxy(user=user, password="s@crt" if user else "").running() as proxy:
            login = "joe:s%40crt@" if user else ""
            await through(authority, f"socks5://{login}127.0.0.1:{proxy.port}", ask_twice)
        assert [head.partition(":")[0] for head in proxy.asked] == ["api.example"], "the proxy looks names up"

    run(main())


REFUSALS: dict[str, tuple[HttpProxy | SocksProxy, str, str]] = {
    "a proxy that requires a password": (
        HttpProxy("407 Proxy Authentication Required"),
        "http",
        "returned status 407",
    ),
    "a proxy that hangs up": (HttpProxy("hang up"), "http", "closed the connection"),
    "a SOCKS proxy that requires a password": (
        SocksProxy("joe", "pw"),
        "socks5",
        "the proxy socks5://127.0.0.1:.* refused",
    ),
    "a SOCKS proxy that rejects": (SocksProxy(refuses=True), "socks5", "the proxy socks5://127.0.0.1:.* refused"),
}


@pytest.mark.parametrize(("proxy", "scheme", "message"), REFUSALS.values(), ids=REFUSALS)
def test_a_proxy_that_rejects_is_named(
    authority: Authority, proxy: HttpProxy | SocksProxy, scheme: str, message: str
) -> None:
    async def refused(client: ApiClient, _server: ApiOverTls) -> None:
        with pytest.raises(Unreachable, match=message) as raised:
            await client.request("POST", "/", b"body")
        assert not raised.value.was_sent, "it is safe to try again"

    async def main() -> None:
        async with proxy.running():
            await through(authority, f"{scheme}://127.0.0.1:{proxy.port}", refused)

    asyncio.run(main())


def test_unreachable_proxy(authority: Authority) -> None:
    async def refused(client: ApiClient, _server: ApiOverTls) -> None:
        with pytest.raises(Unreachable, match="no connection"):
            await client.request("GET", "/")

    for scheme in ("http", "socks5"):
        asyncio.run(through(authority, f"{scheme}://127.0.0.1:1", refused))


def test_plain_http_is_forwarded(run: Run) -> None:
    lines: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            lines.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0])
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    async def main() -> None:
        async with serving(serve) as port, HttpProxy().running() as proxy:
            server, by = f"http://plain.example:{port}", f"http://joe:pw@127.0.0.1:{proxy.port}"
            async with ApiClient(Connection(server, "test", proxy=by)) as client:
                assert await client.request("GET", "/one") == b"{}"
                async with client.stream("/two?watch=true") as answer:
                    assert [piece async for piece in answer] == [b"{}"]
            expected = [f"GET {server}/{path} HTTP/1.1".encode() for path in ("one", "two?watch=true")]
            assert lines == expected
            assert all("Proxy-Authorization: Basic am9lOnB3\r\n" in head for head in proxy.asked)

    run(main())
