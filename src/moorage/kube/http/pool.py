"""A pool of HTTP/1.1 connections to one server: directly, or through an HTTP, CONNECT or SOCKS5 proxy.

A full HTTP client takes five times the CPU per request, mostly for features that are not needed here: cookies,
redirects, compression, parsed URLs and a timer per request. Instead of timers, one periodic sweep checks all
connections.
"""

import asyncio
import os
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import Struct

from moorage.common.errors import InputError, Unreachable
from moorage.kube.http.client_connection import PieceStream, PooledConnection
from moorage.kube.http.messages import Response, ResponseStream
from moorage.kube.http.proxies import authorization, effective_port, redacted
from moorage.kube.http.tls import ClientTls, ResumingContext, client_context

C = TypeVar("C", bound=PooledConnection)

CONNECT_SECONDS: Final = 10.0


class Dialer:
    """Makes connections to ``server``, a URL without a path. They join the ``idle`` ones after a request."""

    def __init__(
        self,
        server: str,
        *,
        idle: list[PooledConnection],
        tls: ClientTls | None = None,
        server_name: str = "",
        proxy: str = "",
    ) -> None:
        address = urlsplit(server)
        self.server = server
        self.host = address.hostname or ""
        self.port = effective_port(address)
        self.tls = tls
        self._idle = idle
        self._server_name = server_name
        self._proxy = urlsplit(proxy) if proxy else None

    @property
    def host_header(self) -> str:
        """The ``Host`` header of requests."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    async def dial(self) -> PooledConnection:
        """Open a connection. Raise OSError if the server or the proxy rejects the connection."""
        if self.tls is not None:
            self.tls.refresh()
        loop = asyncio.get_running_loop()
        if self._proxy is None:
            make = partial(self._new_connection, loop)
            return (await loop.create_connection(make, self.host, self.port, **self._encryption()))[1]
        if self._proxy.scheme.startswith("socks5"):
            return await self._through_socks(self._proxy)
        if self.tls is None:
            # Requests without TLS are sent to the proxy, as in Go, which forwards them.
            server, login = f"http://{self.host_header}", login_line(self._proxy)
            forwarded = partial(ForwardedConnection, loop, server, self._idle, login)
            return (await self._to_proxy(self._proxy, forwarded))[1]
        return await self._open_tunnel(self._proxy, self.tls.context)

    def keep_session(self, connection: PooledConnection) -> None:
        """Let later connections resume the TLS session of a connection that received a response."""
        transport = connection.transport
        encrypted = transport.get_extra_info("ssl_object") if transport is not None else None
        if encrypted is not None and isinstance(encrypted.context, ResumingContext):
            encrypted.context.keep_session(encrypted)

    def forget_sessions(self) -> None:
        """Let the next connection start a new TLS session."""
        if self.tls is not None and isinstance(self.tls.context, ResumingContext):
            self.tls.context.forget_sessions()

    def _new_connection(self, loop: asyncio.AbstractEventLoop) -> PooledConnection:
        return PooledConnection(loop, redacted(self.server), self._idle)

    def _encryption(self) -> dict[str, Any]:
        if self.tls is None:
            return {}
        return {"ssl": self.tls.context, "server_hostname": self._server_name or self.host}

    async def _through_socks(self, proxy: SplitResult) -> PooledConnection:
        from python_socks import ProxyError, ProxyType
        from python_socks.async_.asyncio import Proxy

        loop = asyncio.get_running_loop()
        user, password = (unquote(text) if text is not None else None for text in (proxy.username, proxy.password))
        # As in Go, the proxy resolves names, with socks5 as with socks5h.
        socks = Proxy(
            ProxyType.SOCKS5, proxy.hostname or "", effective_port(proxy), user, password, rdns=True, loop=loop
        )
        try:
            socket = await socks.connect(self.host, self.port, timeout=CONNECT_SECONDS)
        except ProxyError as error:
            raise OSError(f"the proxy {redacted(proxy.geturl())} refused: {error}") from error
        make = partial(self._new_connection, loop)
        _, connection = await loop.create_connection(make, sock=socket, **self._encryption())
        return connection

    async def _open_tunnel(self, proxy: SplitResult, context: ssl.SSLContext) -> PooledConnection:
        """Open a tunnel through a proxy, and start TLS with the server in it."""
        loop = asyncio.get_running_loop()
        transport, outer = await self._to_proxy(proxy, lambda: PooledConnection(loop, redacted(proxy.geturl()), []))
        request = f"CONNECT {self.host_header} HTTP/1.1\r\nHost: {self.host_header}\r\n{login_line(proxy)}\r\n"
        inner = self._new_connection(loop)
        try:
            await connected(proxy, outer.stream(request.encode(), CONNECT_SECONDS))
            encrypted = await loop.start_tls(transport, inner, context, server_hostname=self._server_name or self.host)
        except BaseException:
            outer.close()
            raise
        assert encrypted is not None
        inner.connection_made(encrypted)
        return inner

    async def _to_proxy(self, proxy: SplitResult, make: Callable[[], C]) -> tuple[asyncio.Transport, C]:
        host = proxy.hostname or ""
        encryption: dict[str, Any] = {}
        if proxy.scheme == "https":
            # As in Go, the cluster's CA also verifies the proxy.
            context = self.tls.context if self.tls is not None else client_context()
            encryption = {"ssl": context, "server_hostname": host}
        loop = asyncio.get_running_loop()
        return await loop.create_connection(make, host, effective_port(proxy), **encryption)


class ForwardedConnection(PooledConnection):
    """A connection to a proxy that forwards: every request names the server it is for."""

    def __init__(self, loop: asyncio.AbstractEventLoop, server: str, idle: list[PooledConnection], login: str) -> None:
        super().__init__(loop, server, idle)
        self._prefix = server.encode()
        self._login = login.encode()

    def send(self, request: bytes, seconds: float) -> asyncio.Future[Response]:
        """Send a request. The future is done when the response is complete."""
        return super().send(self._encode_address(request), seconds)

    def stream(self, request: bytes, max_silence: float) -> PieceStream:
        """Send a request and read the response as it arrives."""
        return super().stream(self._encode_address(request), max_silence)

    def _encode_address(self, request: bytes) -> bytes:
        line, _, remainder = request.partition(b"\r\n")
        method, _, target = line.partition(b" ")
        return b"".join((method, b" ", self._prefix, target, b"\r\n", self._login, remainder))


async def connected(proxy: SplitResult, answer: PieceStream) -> None:
    """Wait until the proxy opened the tunnel; OSError if it rejects the connection."""
    try:
        status = await answer.read_status()
    except Unreachable as error:
        raise OSError(f"the proxy {redacted(proxy.geturl())} closed the connection: {error}") from error
    if status != 200:
        raise OSError(f"the proxy {redacted(proxy.geturl())} returned status {status}")


def login_line(proxy: SplitResult) -> str:
    """Return the header line with the credentials for a proxy, or empty without a user."""
    login = authorization(proxy)
    return f"Proxy-Authorization: {login}\r\n" if login else ""


ANSWER_SECONDS: Final = 65.0
"""An API server aborts a request after a minute. A longer silence means that it is unreachable."""
SWEEP_SECONDS: Final = 1.0
REFRESH_SECONDS: Final = 300.0
"""Seconds between two checks of certificate files, as in client-go."""


class WriteGate(Struct, frozen=True):
    """Whether writes are allowed, checked when bytes are sent.

    Sent bytes may still be in the kernel or on the wire. They are abandoned after ``cut_seconds`` without an
    acknowledgement, and immediately when the connection is closed or the process ends.
    """

    is_open: Callable[[], bool]
    cut_seconds: float

    def check(self, request: bytes) -> None:
        """Reject writes while the gate is closed. Reads are always allowed."""
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
        """Send a request. The returned awaitable yields the response or raises :class:`Unreachable`."""
        ...

    def stream(self, request: bytes, max_silence: float) -> AbstractAsyncContextManager[ResponseStream]:
        """Send a request. The block receives the response as it arrives. ``max_silence`` limits the pauses."""
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
        self._connections: set[PooledConnection] = set()
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
        """Send a request. The returned awaitable yields the response or raises :class:`Unreachable`.

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
        """Send a request. The block receives the response as it arrives."""
        connection = self._idle.pop() if self._idle else await self._dial()
        try:
            yield connection.stream(request, max_silence)
        finally:
            # Not worth reusing: a watch ends once in minutes, possibly in the middle of a response.
            connection.close()
            self._connections.discard(connection)

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            connection.give_up("the client was closed")
        self._connections.clear()
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
            reason = f"no response within {CONNECT_SECONDS:g} s" if isinstance(error, TimeoutError) else _reason(error)
            raise Unreachable(f"no connection to {self.server}: {reason}", was_sent=False) from error
        self._connections.add(connection)
        if self._gate is not None:
            self._gate.guard(connection)
        self._sweep_later()
        return connection

    def _sweep_later(self) -> None:
        if self._sweeper is None and self._connections:
            self._sweeper = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """Close connections that were idle or without a response for too long."""
        self._sweeper = None
        now = asyncio.get_running_loop().time()
        for connection in [c for c in self._connections if c.deadline <= now or not c.is_open or c.is_abandoned]:
            connection.give_up("it timed out")
            self._connections.discard(connection)
        if self._tls is not None and now - self._refreshed >= REFRESH_SECONDS:
            self._refreshed = now
            self._tls.refresh()
        self._drop_outdated()
        self._sweep_later()

    def _connect_anew(self) -> None:
        """Stop reusing connections that were opened with an outdated identity or CA."""
        self._outdated = set(self._connections)
        self._drop_outdated()

    def _drop_outdated(self) -> None:
        """Close outdated connections when they become idle. A watch, which is never reused, may continue."""
        if not self._outdated:
            return
        for connection in self._outdated.intersection(self._idle):
            connection.close()
            self._connections.discard(connection)
        self._outdated &= self._connections


def _reason(error: OSError) -> str:
    """Return why a connection failed, without error numbers and arguments: ``Connection refused``."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
