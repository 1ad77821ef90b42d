"""No write is sent without the lease, even if it started before the lease ended; reads continue."""

import asyncio

import pytest

from moorage.common.errors import Unreachable
from moorage.kube.http.pool import HttpPool, WriteGate

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


def test_nothing_is_written_on_a_connection_that_is_there() -> None:
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
