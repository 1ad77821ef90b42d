"""The HTTP server over real sockets: every request gets its response, in order, and invalid requests get an error."""

import asyncio
import gc
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from moorage.kube.http.messages import AnyReply, HttpRequest, HttpService, Reply, Sink, chunk
from moorage.kube.http.parsing import MAX_HEAD
from moorage.kube.http.server import IDLE_SWEEPS, SLOW_SWEEPS, HttpServer, ServerConnection

MAX_BODY = 1000
PIECE = b"x" * 65536
PIECES = 400


class Pieces:
    """A stream of more than any buffer holds."""

    content_type = "application/json"

    def __init__(self) -> None:
        self.left = PIECES
        self.most_in_a_row = 0
        self.is_stopped = asyncio.Event()
        self.sink: Sink | None = None

    def start(self, sink: Sink) -> None:
        self.sink = sink
        self.resume_sending()

    def resume_sending(self) -> None:
        assert self.sink is not None
        count = 0
        while self.left and not self.sink.is_full:
            self.sink.send(chunk(PIECE))
            self.left -= 1
            count += 1
        self.most_in_a_row = max(count, self.most_in_a_row)
        if not self.left:
            self.sink.end()

    def stop(self) -> None:
        self.is_stopped.set()


class Site:
    """The service of these tests."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.pieces = Pieces()

    def answer(self, request: HttpRequest) -> AnyReply:
        match request.path:
            case "/broken":
                raise ValueError("a mistake")
            case "/slow":
                return self._slow()
            case "/pieces":
                return self.pieces
            case "/warned":
                return Reply(200, b"", headers=(("Warning", "one\r\nSet-Cookie: two"),))
        text = f"{request.method} {request.path} {request.query} {request.body.decode()}"
        return Reply(200, text.encode(), "text/plain")

    async def _slow(self) -> Reply:
        await self.gate.wait()
        return Reply(200, b"slow", "text/plain")


def refuse(status: int, message: str) -> Reply:
    return Reply(status, message.encode(), "text/plain")


Scenario = Callable[[Site, HttpServer, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def connected(site: Site) -> AsyncIterator[tuple[HttpServer, asyncio.StreamReader, asyncio.StreamWriter]]:
    server = HttpServer(HttpService(site.answer, refuse, lambda _: MAX_BODY))
    port = await server.listen("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield server, reader, writer
    finally:
        writer.close()
        await server.stop(0)


def run(scenario: Scenario) -> None:
    async def main() -> None:
        site = Site()
        async with asyncio.timeout(30), connected(site) as (server, reader, writer):
            await scenario(site, server, reader, writer)

    asyncio.run(main())


async def heard(reader: asyncio.StreamReader) -> tuple[int, str]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = re.search(r"Content-Length: (\d+)", head)
    body = await reader.readexactly(int(length[1])) if length else b""
    return int(head.split()[1]), body.decode()


GOOD = {
    "a plain request": (b"GET /a HTTP/1.1\r\n\r\n", "GET /a {} "),
    "a query, the first of two words counting": (b"GET /a?b=1&b=2&c HTTP/1.1\r\n\r\n", "GET /a {'c': '', 'b': '1'} "),
    "a body of a known length": (b"PUT /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "PUT /a {} abc"),
    "a body in chunks": (
        b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
        "POST /a {} abc",
    ),
    "an address with its server": (b"GET http://there/a?b=1 HTTP/1.1\r\n\r\n", "GET /a {'b': '1'} "),
    "a wish for another protocol": (
        b"GET /a HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        "GET /a {} ",
    ),
    "an older version": (b"GET /a HTTP/1.0\r\n\r\n", "GET /a {} "),
}


@pytest.mark.parametrize(("request_bytes", "want"), GOOD.values(), ids=GOOD)
def test_request_split_into_pieces_gets_a_response(request_bytes: bytes, want: str) -> None:
    async def scenario(
        _site: Site, _server: HttpServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        for position in range(len(request_bytes)):
            writer.write(request_bytes[position : position + 1])
            await asyncio.sleep(0)
        assert await heard(reader) == (200, want)

    run(scenario)


BAD = {
    "trailers without end": (
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: " + b"x" * 3 * MAX_HEAD,
        400,
    ),
    "not HTTP": (b"hello there\r\n\r\n", 400),
    "not even text": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    "a body announced as too long": (b"POST / HTTP/1.1\r\nContent-Length: 1001\r\n\r\n", 413),
    "a length no machine has": (b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 19 + b"\r\n\r\n", 413),
    "a length that is not a number": (b"POST / HTTP/1.1\r\nContent-Length: many\r\n\r\n", 400),
    "two lengths": (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
    "chunks that add up to too much": (
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"100\r\n"
        + b"x" * 256
        + b"\r\n3e8\r\n"
        + b"x" * 1000,
        413,
    ),
    "a chunk without a length": (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    "a head without end": (b"GET / HTTP/1.1\r\nA: " + b"x" * (MAX_HEAD + 1), 431),
}


@pytest.mark.parametrize(("request_bytes", "want"), BAD.values(), ids=BAD)
def test_invalid_request_is_rejected_and_the_connection_closed(request_bytes: bytes, want: int) -> None:
    async def scenario(
        _site: Site, _server: HttpServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(request_bytes)
        assert (await heard(reader))[0] == want
        assert await reader.read() == b""

    run(scenario)


def test_incomplete_request_gets_an_error() -> None:
    async def scenario(
        _site: Site, _server: HttpServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nab")
        writer.write_eof()
        assert await heard(reader) == (400, "the request ended too early: unexpected EOF")

    run(scenario)


def test_pipelined_requests_get_responses_in_order() -> None:
    async def scenario(
        site: Site, _server: HttpServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(b"GET /slow HTTP/1.1\r\n\r\n" + b"".join(b"GET /%d HTTP/1.1\r\n\r\n" % n for n in range(100)))
        await asyncio.sleep(0)
        site.gate.set()
        assert await heard(reader) == (200, "slow")
        assert [await heard(reader) for _ in range(100)] == [(200, f"GET /{n} {{}} ") for n in range(100)]

    run(scenario)


def test_a_head_has_no_body() -> None:
    async def scenario(
        _site: Site, _server: HttpServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(b"HEAD /a HTTP/1.1\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        assert b"Content-Length: 11" in answer
        assert answer.endswith(b"\r\n\r\n")

    run(scenario)


def test_expect_header_gets_100_continue() -> None:
    async def scenario(
        _site: Site, _server: HttpServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(b"PUT /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        assert await heard(reader) == (100, "")
        writer.write(b"abc")
        assert await heard(reader) == (200, "PUT /a {} abc")

    run(scenario)


def test_server_survives_a_failed_request() -> None:
    async def scenario(
        _site: Site, _server: HttpServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(b"GET /broken HTTP/1.1\r\n\r\nGET /a HTTP/1.1\r\n\r\n")
        assert [(await heard(reader))[0] for _ in range(2)] == [500, 200]

    run(scenario)


def test_a_header_remains_one_header() -> None:
    async def scenario(
        _site: Site, _server: HttpServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(b"GET /warned HTTP/1.1\r\n\r\n")
        assert b"\r\nWarning: one  Set-Cookie: two\r\n" in await reader.readuntil(b"\r\n\r\n")

    run(scenario)


def test_a_stream_waits_for_its_reader_and_the_next_request_for_the_stream() -> None:
    async def scenario(
        site: Site, _server: HttpServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(b"GET /pieces HTTP/1.1\r\n\r\nGET /a HTTP/1.1\r\n\r\n")
        assert b"Transfer-Encoding: chunked" in await reader.readuntil(b"\r\n\r\n")
        for _ in range(PIECES):
            assert await reader.readexactly(len(chunk(PIECE))) == chunk(PIECE)
        assert await reader.readexactly(5) == b"0\r\n\r\n"
        assert await heard(reader) == (200, "GET /a {} ")
        assert site.pieces.most_in_a_row < PIECES

    run(scenario)


def test_stream_is_notified_when_its_reader_disconnects() -> None:
    async def scenario(
        site: Site, _server: HttpServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(b"GET /pieces HTTP/1.1\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()
        await site.pieces.is_stopped.wait()

    run(scenario)


LOST_REQUESTS = {
    "before the review of its body": b"PUT /a HTTP/1.1\r\nContent-Length: 3\r\n\r\n",
    "before the first step of its handler": b"GET /slow HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("request_bytes", LOST_REQUESTS.values(), ids=LOST_REQUESTS)
def test_connection_that_is_lost_with_a_request_is_freed_without_a_garbage_collection(request_bytes: bytes) -> None:
    async def review(_head: HttpRequest) -> Reply | None:
        return None

    async def main() -> None:
        server = HttpServer(HttpService(Site().answer, refuse, lambda _: MAX_BODY, review))
        port = await server.listen("127.0.0.1", 0)
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        while not (open_connections := [item for item in server._connections if isinstance(item, ServerConnection)]):
            await asyncio.sleep(0)
        server.buffer[: len(request_bytes)] = request_bytes
        open_connections[0].buffer_updated(len(request_bytes))
        assert open_connections[0].is_busy
        open_connections[0].transport.abort()
        open_connections.pop().connection_lost(None)  # TLS transports call it immediately
        for _ in range(5):
            await asyncio.sleep(0)
        assert count_living(ServerConnection) == 0
        writer.close()
        await server.stop(0)

    gc.collect()
    gc.disable()
    try:
        asyncio.run(main())
    finally:
        gc.enable()
        gc.collect()  # reports coroutines that were never awaited


def test_closed_connection_gets_no_replies(caplog: pytest.LogCaptureFixture) -> None:
    """Event loops log writes to closed connections, so a client could fill the log."""
    requests = b"GET /a HTTP/1.1\r\n\r\n" * 20

    async def main() -> None:
        server = HttpServer(HttpService(Site().answer, refuse, lambda _: MAX_BODY))
        port = await server.listen("127.0.0.1", 0)
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        while not (open_connections := [item for item in server._connections if isinstance(item, ServerConnection)]):
            await asyncio.sleep(0)
        open_connections[0].transport.abort()
        server.buffer[: len(requests)] = requests
        open_connections[0].buffer_updated(len(requests))
        writer.close()
        await server.stop(0)

    asyncio.run(main())
    assert caplog.messages == []


def test_a_request_that_never_ends_is_given_up() -> None:
    async def scenario(
        _site: Site, server: HttpServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(b"GET /a HTTP/1.1\r\n\r\nGET /b HT")
        await heard(reader)
        for _ in range(SLOW_SWEEPS + 1):
            server.sweep()
        assert (await heard(reader))[0] == 408

    run(scenario)


def test_a_quiet_connection_is_closed() -> None:
    async def scenario(
        _site: Site, server: HttpServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(b"GET /a HTTP/1.1\r\n\r\n")
        await heard(reader)
        for _ in range(IDLE_SWEEPS + 1):
            server.sweep()
        assert await reader.read() == b""

    run(scenario)


def test_running_requests_finish_before_shutdown() -> None:
    async def scenario(
        site: Site, server: HttpServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(b"GET /a HTTP/1.1\r\n\r\nGET /slow HTTP/1.1\r\n\r\n")
        await heard(reader)
        stopping = asyncio.create_task(server.stop(20))
        await asyncio.sleep(0)
        site.gate.set()
        assert await heard(reader) == (200, "slow")
        await stopping

    run(scenario)


def count_living(kind: type) -> int:
    return sum(isinstance(obj, kind) for obj in gc.get_objects())


@pytest.mark.parametrize("path", ["/a", "/slow", "/pieces"])
@pytest.mark.parametrize("runs", [asyncio.run, uvloop.run])
def test_closed_connections_are_freed_without_a_garbage_collection(path: str, runs: Callable[..., object]) -> None:
    async def main() -> None:
        site = Site()
        site.gate.set()
        server = HttpServer(HttpService(site.answer, refuse, lambda _: MAX_BODY))
        port = await server.listen("127.0.0.1", 0)
        for _ in range(5):
            site.pieces = Pieces()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"GET {path} HTTP/1.1\r\nConnection: close\r\n\r\n".encode())
            await reader.read()
            writer.close()
            await writer.wait_closed()
        for _ in range(5):
            await asyncio.sleep(0)
        site.pieces = Pieces()
        assert count_living(ServerConnection) == 0
        await server.stop(0)

    gc.collect()
    gc.disable()
    try:
        runs(main())
    finally:
        gc.enable()


async def hung_up(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


def test_surplus_connection_replaces_the_least_active() -> None:
    async def main() -> None:
        site = Site()
        server = HttpServer(HttpService(site.answer, refuse, lambda _: MAX_BODY), max_connections=3)
        port = await server.listen("127.0.0.1", 0)
        busy, early, late = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        for _, writer in (early, late):
            writer.write(b"GET /a HTTP/1.1\r\n\r\n")
        busy[1].write(b"GET /slow HTTP/1.1\r\n\r\n")
        await heard(early[0])
        await heard(late[0])
        server.sweep()
        late[1].write(b"GET /a HTTP/1.1\r\n\r\n")
        await heard(late[0])
        newcomer = await asyncio.open_connection("127.0.0.1", port)
        newcomer[1].write(b"GET /a HTTP/1.1\r\n\r\n")
        assert (await heard(newcomer[0]))[0] == 200
        assert await hung_up(early[0]), "it was quiet the longest"
        site.gate.set()
        assert await heard(busy[0]) == (200, "slow"), "an answer under way is never dropped"
        late[1].write(b"GET /a HTTP/1.1\r\n\r\n")
        assert (await heard(late[0]))[0] == 200
        for _, writer in (busy, early, late, newcomer):
            writer.close()
        await server.stop(0)

    asyncio.run(asyncio.wait_for(main(), 30))


def test_flood_replaces_its_own_connections() -> None:
    async def main() -> None:
        server = HttpServer(HttpService(Site().answer, refuse, lambda _: MAX_BODY), max_connections=3)
        port = await server.listen("127.0.0.1", 0)
        probe = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
        probe[1].write(b"GET /a HTTP/1.1\r\n\r\n")
        await heard(probe[0])
        for _ in range(3):
            server.sweep()
        flood = []
        for _ in range(5):
            flood.append(await asyncio.open_connection("127.0.0.1", port))
            flood[-1][1].write(b"GET /a HTTP/1.1\r\n\r\n")
            assert (await heard(flood[-1][0]))[0] == 200
        assert await hung_up(flood[0][0])
        probe[1].write(b"GET /a HTTP/1.1\r\n\r\n")
        assert (await heard(probe[0]))[0] == 200, "it is the most idle connection, but the only one of its address"
        for _, writer in (probe, *flood):
            writer.close()
        await server.stop(0)

    asyncio.run(asyncio.wait_for(main(), 30))


def test_with_all_connections_busy_one_more_waits() -> None:
    async def main() -> None:
        site = Site()
        server = HttpServer(HttpService(site.answer, refuse, lambda _: MAX_BODY), max_connections=2)
        port = await server.listen("127.0.0.1", 0)
        connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for reader, writer in connections:
            writer.write(b"GET /a HTTP/1.1\r\n\r\nGET /slow HTTP/1.1\r\n\r\n")
            await heard(reader)
        newcomers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        for _, writer in newcomers:
            writer.write(b"GET /a HTTP/1.1\r\nConnection: close\r\n\r\n")
        waiting = [asyncio.create_task(heard(reader)) for reader, _ in newcomers]
        for _ in range(20):
            server.sweep()
            await asyncio.sleep(0.001)
        assert not any(task.done() for task in waiting)
        site.gate.set()
        assert [await heard(reader) for reader, _ in connections] == [(200, "slow")] * 2
        connections[0][1].close()
        assert [(await task)[0] for task in waiting] == [200] * 3
        for _, writer in (*connections, *newcomers):
            writer.close()
        await server.stop(0)

    asyncio.run(asyncio.wait_for(main(), 30))


def test_connections_with_pipelined_requests_are_replaced() -> None:
    async def main() -> None:
        site = Site()
        server = HttpServer(HttpService(site.answer, refuse, lambda _: MAX_BODY), max_connections=2)
        port = await server.listen("127.0.0.1", 0)
        flood = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for _, writer in flood:
            writer.write(b"GET /slow HTTP/1.1\r\n\r\n" * 100)
        probe = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
        probe[1].write(b"GET /a HTTP/1.1\r\n\r\n")
        assert (await heard(probe[0]))[0] == 200
        for _, writer in (probe, *flood):
            writer.close()
        await server.stop(0)

    asyncio.run(asyncio.wait_for(main(), 30))


def test_many_simultaneous_connections_are_all_served() -> None:
    async def main() -> None:
        server = HttpServer(HttpService(Site().answer, refuse, lambda _: MAX_BODY), max_connections=3)
        port = await server.listen("127.0.0.1", 0)

        async def visit() -> int:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /a HTTP/1.1\r\nConnection: close\r\n\r\n")
            status, _ = await heard(reader)
            writer.close()
            return status

        assert await asyncio.gather(*(visit() for _ in range(60))) == [200] * 60
        await server.stop(0)

    asyncio.run(asyncio.wait_for(main(), 30))


@pytest.mark.parametrize("runs", [asyncio.run, uvloop.run])
def test_unfinished_handshake_counts_and_is_replaced(authority: Path, runs: Callable[..., object]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "cert.pem", authority / "key.pem")

    async def main() -> None:
        server = HttpServer(HttpService(Site().answer, refuse, lambda _: MAX_BODY), max_connections=3)
        port = await server.listen("127.0.0.1", 0, tls=lambda: context)
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        trusting = ssl.create_default_context(cafile=authority / "cert.pem")
        trusting.verify_flags &= ~ssl.VERIFY_X509_STRICT
        connecting = asyncio.create_task(asyncio.open_connection("127.0.0.1", port, ssl=trusting))
        await asyncio.sleep(0.05)
        assert not connecting.done()
        server.sweep()
        reader, writer = await connecting
        writer.write(b"GET /a HTTP/1.1\r\n\r\n")
        assert (await heard(reader))[0] == 200
        assert await hung_up(silent[0][0])
        for _, opened in (*silent, (reader, writer)):
            opened.close()
        await server.stop(0)

    async def bounded() -> None:
        await asyncio.wait_for(main(), 30)

    runs(bounded())


def test_a_server_on_all_addresses_has_one_port() -> None:
    async def main() -> None:
        server = HttpServer(HttpService(Site().answer, refuse, lambda _: MAX_BODY))
        port = await server.listen(None, 0)
        for host in ("127.0.0.1", *(["::1"] if socket.has_dualstack_ipv6() else [])):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"GET /a HTTP/1.1\r\n\r\n")
            assert (await heard(reader))[0] == 200
            writer.close()
        with pytest.raises(OSError, match="in use"):
            await server.listen("127.0.0.1", port)
        await server.stop(0)

    asyncio.run(main())
