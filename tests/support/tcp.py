"""A TCP server in this process that ends with all of its connections."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from ssl import SSLContext
from typing import TypeAlias

Serve: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(serve: Serve, ssl: SSLContext | None = None) -> AsyncIterator[int]:
    """Serve on a free port, which the block gets; the client is expected to hang up before the block ends."""
    connections: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client hung up
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
        for _ in range(3):  # what was aborted is closed a turn or two later
            await asyncio.sleep(0)
