"""A TCP server in this process that ends with all of its connections."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from ssl import SSLContext
from typing import Any, TypeAlias

from moorage.kube.http.pool import HttpPool

Serve: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(serve: Serve, ssl: SSLContext | None = None) -> AsyncIterator[int]:
    """Serve on a free port, which the block gets; the client must close its connection before the block ends."""
    connections: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client closed the connection
        finally:
            writer.transport.abort()
            connections.discard(task)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=ssl)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        for _ in range(3):  # aborted connections are closed a few iterations later
            await asyncio.sleep(0)


async def read_request(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


def answer(body: bytes, head: str = "200 OK", extra: str = "") -> bytes:
    return f"HTTP/1.1 {head}\r\nContent-Length: {len(body)}\r\n{extra}\r\n".encode() + body


def with_server(serve: Serve, use: Callable[[HttpPool], Awaitable[Any]]) -> Any:
    """Run a server and use a pool of connections to it."""

    async def main() -> Any:
        async with serving(serve) as port:
            pool = HttpPool(f"http://127.0.0.1:{port}")
            try:
                return await use(pool)
            finally:
                pool.close()

    return asyncio.run(main())
