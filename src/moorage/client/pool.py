"""A pool of HTTP/1.1 connections to one server.

A full HTTP client takes five times the CPU for a request, most of it for what is not needed here: cookies, redirects,
compression, parsed addresses and a timer for each request. Instead of timers, one sweep looks at all connections.
"""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Protocol

from msgspec import Struct

from moorage.client.certificates import Tls
from moorage.client.dialing import CONNECT_SECONDS, Dialer
from moorage.client.wire import Answer, Incoming, Stream, Wire
from moorage.errors import InputError, Unreachable

ANSWER_SECONDS: Final = 65.0
"""An API server gives up on a request after a minute; silence for longer means that nobody is there."""
SWEEP_SECONDS: Final = 1.0
REFRESH_SECONDS: Final = 300.0
"""How often certificates in files are compared with those in use, as client-go does."""


class WriteGate(Struct, frozen=True):
    """Whether anything may be written, looked at in the moment in which bytes leave.

    What has left may be in the kernel, or on its way: it is given up after ``cut_seconds`` without a receipt, and at
    once when the connection is closed, as it is when the process ends.
    """

    is_open: Callable[[], bool]
    cut_seconds: float

    def check(self, request: bytes) -> None:
        """Refuse a write without the right to it; reading is always allowed."""
        if not request.startswith(b"GET ") and not self.is_open():
            raise Unreachable("nothing is written: the lease is not held any more", was_sent=False)

    def guard(self, wire: Wire) -> None:
        """Have the kernel cut what is under way on a connection."""
        connection = wire.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(self.cut_seconds * 1000))


class Transport(Protocol):
    """What carries requests to a server: a pool of connections, or in tests a server in the same process."""

    @property
    def host_header(self) -> str:
        """What stands in ``Host``."""
        ...

    def send(self, request: bytes, seconds: float) -> Awaitable[Answer]:
        """Send a request; what is returned waits for the answer: :class:`Unreachable` if none comes in time."""
        ...

    def stream(self, request: bytes, patience: float) -> AbstractAsyncContextManager[Incoming]:
        """Send a request and give the block its answer as it arrives, no pause being longer than ``patience``."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


class HttpPool:
    """Connections to ``server``, a URL without a path, made as they are needed and kept for the next request."""

    def __init__(
        self,
        server: str,
        *,
        tls: Tls | None = None,
        server_name: str = "",
        proxy: str = "",
        source: str = "",
        gate: WriteGate | None = None,
    ) -> None:
        self.server = server
        self._gate = gate
        self.source = source or server
        self._idle: list[Wire] = []
        self._dialer = Dialer(server, shelf=self._idle, tls=tls, server_name=server_name, proxy=proxy)
        self._all: set[Wire] = set()
        self._outdated: set[Wire] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._refreshed = 0.0
        self._tls = tls
        if tls is not None:
            tls.on_change(self._connect_anew)

    @property
    def host_header(self) -> str:
        """What stands in ``Host``."""
        return self._dialer.host_header

    def send(self, request: bytes, seconds: float = ANSWER_SECONDS) -> Awaitable[Answer]:
        """Send a request; what is returned waits for the answer, :class:`Unreachable` if none comes.

        With a connection at hand it is sent at once, and no coroutine stands between the answer and who waits for it.
        """
        if self._gate is not None:
            self._gate.check(request)
        if self._idle:
            return self._idle.pop().ask(request, seconds)
        return self._send_on_new(request, seconds)

    async def _send_on_new(self, request: bytes, seconds: float) -> Answer:
        wire = await self._dial()
        if self._gate is not None:
            try:
                self._gate.check(request)
            except Unreachable:
                wire.close()
                raise
        return await wire.ask(request, seconds)

    @asynccontextmanager
    async def stream(self, request: bytes, patience: float) -> AsyncIterator[Stream]:
        """Send a request and give the block its answer as it arrives."""
        wire = self._idle.pop() if self._idle else await self._dial()
        try:
            yield wire.listen(request, patience)
        finally:
            # Not worth keeping: a watch ends once in minutes, and may end in the middle of an answer.
            wire.close()
            self._all.discard(wire)

    def close(self) -> None:
        """Close all connections."""
        for wire in self._all:
            wire.give_up("the client was closed")
        self._all.clear()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None

    async def _dial(self) -> Wire:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                wire = await self._dialer.dial()
        except ssl.SSLCertVerificationError as error:
            hint = "check certificate-authority-data and tls-server-name in the kubeconfig"
            problem = f"the certificate of {self.server} is not trusted: {error.verify_message}"
            raise InputError(self.source, problem, hint=hint) from error
        except (OSError, TimeoutError) as error:
            told = "nobody answers" if isinstance(error, TimeoutError) else str(error)
            raise Unreachable(f"no connection to {self.server}: {told}", was_sent=False) from error
        self._all.add(wire)
        if self._gate is not None:
            self._gate.guard(wire)
        self._sweep_later()
        return wire

    @staticmethod
    def _time() -> float:
        return asyncio.get_running_loop().time()

    def _sweep_later(self) -> None:
        if self._sweeper is None and self._all:
            self._sweeper = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """Close what has been unused, or has kept somebody waiting, for too long."""
        self._sweeper = None
        now = self._time()
        for wire in [w for w in self._all if w.deadline <= now or not w.is_open or w.is_forsaken]:
            wire.give_up("it took too long")
            self._all.discard(wire)
        if self._tls is not None and now - self._refreshed >= REFRESH_SECONDS:
            self._refreshed = now
            self._tls.refresh()
        self._drop_outdated()
        self._sweep_later()

    def _connect_anew(self) -> None:
        """Use no connection again that was made before who we are, or whom we trust, has changed."""
        self._outdated = set(self._all)
        self._drop_outdated()

    def _drop_outdated(self) -> None:
        """Close outdated connections as they fall idle; a watch, which is never used again, may go on to its end."""
        if not self._outdated:
            return
        for wire in self._outdated.intersection(self._idle):
            wire.close()
            self._all.discard(wire)
        self._outdated &= self._all
