"""Connecting to a server: directly, or through an HTTP, CONNECT or SOCKS5 proxy."""

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

from moorage.common.errors import Unreachable
from moorage.kube.http.client_connection import PieceStream, PooledConnection
from moorage.kube.http.messages import Response
from moorage.kube.http.proxies import authorization, effective_port, redacted
from moorage.kube.http.tls import ClientTls, ResumingContext, client_context

C = TypeVar("C", bound=PooledConnection)

CONNECT_SECONDS: Final = 10.0


class Dialer:
    """Makes connections to ``server``, a URL without a path; they join the ``idle`` ones after a request."""

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
        """Open a connection; raise OSError if the server or the proxy refuses."""
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
        return await self._tunnelled(self._proxy, self.tls.context)

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
        # As Go does, names are left to the proxy to look up, with socks5 as with socks5h.
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

    async def _tunnelled(self, proxy: SplitResult, context: ssl.SSLContext) -> PooledConnection:
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
        """Send a request; the future is done when the response is complete."""
        return super().send(self._addressed(request), seconds)

    def stream(self, request: bytes, max_silence: float) -> PieceStream:
        """Send a request whose response is read as it arrives."""
        return super().stream(self._addressed(request), max_silence)

    def _addressed(self, request: bytes) -> bytes:
        line, _, remainder = request.partition(b"\r\n")
        method, _, target = line.partition(b" ")
        return b"".join((method, b" ", self._prefix, target, b"\r\n", self._login, remainder))


async def connected(proxy: SplitResult, answer: PieceStream) -> None:
    """Wait until the proxy opened the tunnel; OSError if it refuses."""
    try:
        status = await answer.begun()
    except Unreachable as error:
        raise OSError(f"the proxy {redacted(proxy.geturl())} closed the connection: {error}") from error
    if status != 200:
        raise OSError(f"the proxy {redacted(proxy.geturl())} returned status {status}")


def login_line(proxy: SplitResult) -> str:
    """Return the header line with our credentials for a proxy; empty without a user."""
    login = authorization(proxy)
    return f"Proxy-Authorization: {login}\r\n" if login else ""
