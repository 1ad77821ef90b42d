"""A proxy between the scheduler and the API server; tests can cut or delay its connections."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml

from tests.support.control_plane import ControlPlane


def through(plane: ControlPlane, port: int) -> Path:
    """Write a kubeconfig with the port of a proxy."""
    content = yaml.safe_load(plane.kubeconfig().read_text())
    content["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
    path = plane.directory / "through-proxy.kubeconfig"
    path.write_text(yaml.safe_dump(content))
    return path


class CuttableProxy:
    """Forwards bytes, those of the server after a delay; cuts all connections on request."""

    def __init__(self, to_port: int, delay: float = 0.0) -> None:
        self.port = 0
        self._delay = delay
        self._to_port = to_port
        self._writers: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["CuttableProxy"]:
        """Listen on a free port for the duration of the block."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.cut()

    def cut(self) -> None:
        """Cut all connections, in the middle of a message."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to_port)
            self._writers.add(far_writer)
            try:
                await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer, self._delay))
            finally:
                self._drop(far_writer)
        except OSError:
            pass  # the server is down, so the client's connection is closed
        finally:
            self._drop(writer)

    def _drop(self, writer: asyncio.StreamWriter) -> None:
        self._writers.discard(writer)
        writer.transport.abort()

    @staticmethod
    async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float = 0.0) -> None:
        while data := await reader.read(1 << 16):
            await asyncio.sleep(delay)
            writer.write(data)
            await writer.drain()
        writer.transport.abort()
