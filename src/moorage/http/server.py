"""Listening: addresses, certificates, and an end in order."""

import asyncio
import ssl
from typing import Final

from moorage.http.connection import Connection
from moorage.http.messages import Service

SWEEP_SECONDS: Final = 5.0
BACKLOG: Final = 512


class HttpServer:
    """Serves a service on as many addresses as it is told to :meth:`listen` on."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._connections: set[Connection] = set()
        self._listening: list[asyncio.Server] = []
        self._sweeper: asyncio.TimerHandle | None = None

    async def listen(
        self,
        host: str | None,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        reuse_address: bool | None = None,
        reuse_port: bool | None = None,
    ) -> int:
        """Begin to serve at an address, and return the port; OSError if it cannot be had."""
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(
            lambda: Connection(self._service, self._connections),
            host,
            port,
            ssl=tls,
            backlog=BACKLOG,
            reuse_address=reuse_address,
            reuse_port=reuse_port,
        )
        self._listening.append(listening)
        if self._sweeper is None:
            self._sweeper = loop.call_later(SWEEP_SECONDS, self._sweep_again)
        found: int = listening.sockets[0].getsockname()[1]
        return found

    def _sweep_again(self) -> None:
        self.sweep()
        self._sweeper = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep_again)

    def sweep(self) -> None:
        """Have every connection see whether it has been quiet for too long; done by itself every five seconds."""
        for connection in tuple(self._connections):
            connection.sweep()

    async def stop(self, grace: float) -> None:
        """Stop listening, wait a while for answers that are being worked on, and drop all connections."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for listening in self._listening:
            listening.close()
        under_way = [task for connection in tuple(self._connections) if (task := connection.shut()) is not None]
        if under_way:
            await asyncio.wait(under_way, timeout=grace)
        for connection in tuple(self._connections):
            connection.abort()
        self._listening.clear()
