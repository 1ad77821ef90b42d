"""Proxies in this process: one that tunnels and forwards, and one for SOCKS5. Both record their requests."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ssl import SSLContext

from tests.support.tcp import serving


@dataclass
class HttpProxy:
    """Connects to any requested port on loopback, or rejects; forwards requests with a full URL."""

    refusal: str = ""
    tls: SSLContext | None = None
    asked: list[str] = field(default_factory=list)
    port: int = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator["HttpProxy"]:
        async with serving(self._serve, ssl=self.tls) as self.port:
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(head.decode())
        method, target, _ = head.decode().split("\r\n", maxsplit=1)[0].split(" ")
        if self.refusal == "hang up":
            return
        if self.refusal:
            writer.write(f"HTTP/1.1 {self.refusal}\r\nContent-Length: 0\r\n\r\n".encode())
            await reader.read()
        elif method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await joined(reader, writer, target)
        else:
            await joined(reader, writer, target.split("/")[2], head)


@dataclass
class SocksProxy:
    """Connects to any requested port on loopback; requires a user and a password if there are any."""

    user: str = ""
    password: str = ""
    refuses: bool = False
    asked: list[str] = field(default_factory=list)
    port: int = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator["SocksProxy"]:
        async with serving(self._serve) as self.port:
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, count = await reader.readexactly(2)
        await reader.readexactly(count)
        writer.write(b"\x05\x02" if self.user else b"\x05\x00")
        if self.user and not await self._accept_handshake(reader, writer):
            return
        *_, kind = await reader.readexactly(4)
        length = 4 if kind == 1 else (await reader.readexactly(1))[0]
        address = await reader.readexactly(length)
        port = int.from_bytes(await reader.readexactly(2), "big")
        name = ".".join(map(str, address)) if kind == 1 else address.decode()
        self.asked.append(f"{name}:{port}")
        writer.write(bytes((5, 5 if self.refuses else 0, 0, 1, 0, 0, 0, 0, 0, 0)))
        if not self.refuses:
            await joined(reader, writer, f"{name}:{port}")

    async def _accept_handshake(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        words = []
        await reader.readexactly(1)
        for _ in range(2):
            (length,) = await reader.readexactly(1)
            words.append((await reader.readexactly(length)).decode())
        is_known = words == [self.user, self.password]
        writer.write(b"\x01\x00" if is_known else b"\x01\x01")
        return is_known


async def joined(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: str, already_read: bytes = b""
) -> None:
    """Forward bytes in both directions between a client and a local port, for any requested host."""
    far_reader, far_writer = await asyncio.open_connection("127.0.0.1", int(target.rpartition(":")[2]))
    far_writer.write(already_read)
    try:
        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))
    finally:
        far_writer.transport.abort()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
    writer.transport.abort()
