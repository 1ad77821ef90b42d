"""A pool of HTTP/1.1 connections to one server.

A full HTTP client takes five times the CPU per request, mostly for features that are not needed here: cookies,
redirects, compression, parsed URLs and a timer per request. Instead of timers, one periodic sweep checks all
connections.
"""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Protocol

from msgspec import Struct

from moorage.common.errors import InputError, Unreachable
from moorage.kube.http.client_connection import PieceStream, PooledConnection
from moorage.kube.http.dialing import CONNECT_SECONDS, Dialer
from moorage.kube.http.messages import Response, ResponseStream
from moorage.kube.http.proxies import redacted
from moorage.kube.http.tls import ClientTls

ANSWER_SECONDS: Final = 65.0
"""An API server aborts a request after a minute; a longer silence means that it is unreachable."""
SWEEP_SECONDS: Final = 1.0
REFRESH_SECONDS: Final = 300.0
"""How often certificates in files are compared with those in use, as client-go does."""


class WriteGate(Struct, frozen=True):
    """Whether writes are allowed, checked when bytes are sent.

    Sent bytes may still be in the kernel or on the wire. They are abandoned after ``cut_seconds`` without an
    acknowledgement, and immediately when the connection is closed or the process ends.
    """

    is_open: Callable[[], bool]
    cut_seconds: float

    def check(self, request: bytes) -> None:
        """Reject writes while the gate is closed; reads are always allowed."""
        if not request.startswith(b"GET ") and not self.is_open():
            raise Unreachable("write rejected: the lease is no longer held", was_sent=False)

    def guard(self, connection: PooledConnection) -> None:
        """Make the kernel abort pending data of a connection."""
        assert connection.transport is not None, "only a connection that was just made is guarded"
        raw = connection.transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(self.cut_seconds * 1000))


class Transport(Protocol):
    """The transport of requests: a pool of connections, or a server in the same process in tests."""

    @property
    def host_header(self) -> str:
        """The ``Host`` header of requests."""
        ...

    def send(self, request: bytes, seconds: float) -> Awaitable[Response]:
        """Send a request; the returned awaitable yields the response or raises :class:`Unreachable`."""
        ...

    def stream(self, request: bytes, max_silence: float) -> AbstractAsyncContextManager[ResponseStream]:
        """Send a request; the block receives the response as it arrives. ``max_silence`` limits the pauses."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


class HttpPool:
    """Connections to ``server``, a URL without a path, opened on demand and reused."""

    def __init__(
        self,
        server: str,
        *,
        tls: ClientTls | None = None,
        server_name: str = "",
        proxy: str = "",
        source: str = "",
        gate: WriteGate | None = None,
    ) -> None:
        self.server = redacted(server)
        self._gate = gate
        self.source = source or self.server
        self._idle: list[PooledConnection] = []
        self._dialer = Dialer(server, idle=self._idle, tls=tls, server_name=server_name, proxy=proxy)
        self._all: set[PooledConnection] = set()
        self._outdated: set[PooledConnection] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._refreshed = 0.0
        self._tls = tls
        if tls is not None:
            tls.on_change(self._connect_anew)

    @property
    def host_header(self) -> str:
        """The ``Host`` header of requests."""
        return self._dialer.host_header

    def send(self, request: bytes, seconds: float = ANSWER_SECONDS) -> Awaitable[Response]:
        """Send a request; the returned awaitable yields the response or raises :class:`Unreachable`.

        With an idle connection the request is sent immediately, without a coroutine between response and caller.
        """
        if self._gate is not None:
            self._gate.check(request)
        if self._idle:
            return self._idle.pop().send(request, seconds)
        return self._send_on_new(request, seconds)

    async def _send_on_new(self, request: bytes, seconds: float) -> Response:
        connection = await self._dial()
        if self._gate is not None:
            try:
                self._gate.check(request)
            except Unreachable:
                connection.close()
                raise
        response = await connection.send(request, seconds)
        self._dialer.keep_session(connection)
        return response

    @asynccontextmanager
    async def stream(self, request: bytes, max_silence: float) -> AsyncIterator[PieceStream]:
        """Send a request; the block receives the response as it arrives."""
        connection = self._idle.pop() if self._idle else await self._dial()
        try:
            yield connection.stream(request, max_silence)
        finally:
            # Not worth reusing: a watch ends once in minutes, possibly in the middle of a response.
            connection.close()
            self._all.discard(connection)

    def close(self) -> None:
        """Close all connections."""
        for connection in self._all:
            connection.give_up("the client was closed")
        self._all.clear()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None

    async def _dial(self) -> PooledConnection:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                connection = await self._dialer.dial()
        except ssl.SSLCertVerificationError as error:
            hint = "check certificate-authority-data and tls-server-name in the kubeconfig"
            problem = f"the certificate of {self.server} is not trusted: {error.verify_message}"
            raise InputError(self.source, problem, hint=hint) from error
        except (OSError, TimeoutError) as error:
            self._dialer.forget_sessions()
            why = f"no response within {CONNECT_SECONDS:g} s" if isinstance(error, TimeoutError) else str(error)
            raise Unreachable(f"no connection to {self.server}: {why}", was_sent=False) from error
        self._all.add(connection)
        if self._gate is not None:
            self._gate.guard(connection)
        self._sweep_later()
        return connection

    def _sweep_later(self) -> None:
        if self._sweeper is None and self._all:
            self._sweeper = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """Close connections that were idle or without a response for too long."""
        self._sweeper = None
        now = asyncio.get_running_loop().time()
        for connection in [c for c in self._all if c.deadline <= now or not c.is_open or c.is_abandoned]:
            connection.give_up("it took too long")
            self._all.discard(connection)
        if self._tls is not None and now - self._refreshed >= REFRESH_SECONDS:
            self._refreshed = now
            self._tls.refresh()
        self._drop_outdated()
        self._sweep_later()

    def _connect_anew(self) -> None:
        """Stop reusing connections that were opened with an outdated identity or CA."""
        self._outdated = set(self._all)
        self._drop_outdated()

    def _drop_outdated(self) -> None:
        """Close outdated connections when they become idle; a watch, which is never reused, may continue."""
        if not self._outdated:
            return
        for connection in self._outdated.intersection(self._idle):
            connection.close()
            self._all.discard(connection)
        self._outdated &= self._all
