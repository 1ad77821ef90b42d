"""Connecting to a server: directly, or through a proxy that forwards, tunnels or speaks SOCKS5."""

import asyncio
import base64
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

from moorage.client.certificates import Tls
from moorage.client.wire import Answer, Stream, Wire
from moorage.errors import Unreachable

W = TypeVar("W", bound=Wire)

CONNECT_SECONDS: Final = 10.0
DEFAULT_PORTS: Final = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


class Dialer:
    """Makes connections to ``server``, a URL without a path; they wait for requests on the ``shelf``."""

    def __init__(
        self,
        server: str,
        *,
        shelf: list[Wire],
        tls: Tls | None = None,
        server_name: str = "",
        proxy: str = "",
    ) -> None:
        address = urlsplit(server)
        self.server = server
        self.host = address.hostname or ""
        self.port = port_of(address)
        self.tls = tls
        self._shelf = shelf
        self._server_name = server_name
        self._proxy = urlsplit(proxy) if proxy else None

    @property
    def host_header(self) -> str:
        """What stands in ``Host``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    async def dial(self) -> Wire:
        """Make a connection; OSError if nobody is there, or if the proxy does not let us through."""
        if self.tls is not None:
            self.tls.refresh()
        if self._proxy is None:
            loop = asyncio.get_running_loop()
            made = await loop.create_connection(
                lambda: self._new_wire(loop), self.host, self.port, **self._encryption()
            )
            return made[1]
        if self._proxy.scheme.startswith("socks5"):
            return await self._through_socks(self._proxy)
        if self.tls is None:
            return await self._forwarded(self._proxy)
        return await self._tunnelled(self._proxy, self.tls.context)

    def _new_wire(self, loop: asyncio.AbstractEventLoop) -> Wire:
        return Wire(loop, self.server, self._shelf)

    def _encryption(self) -> dict[str, Any]:
        if self.tls is None:
            return {}
        return {"ssl": self.tls.context, "server_hostname": self._server_name or self.host}

    async def _through_socks(self, proxy: SplitResult) -> Wire:
        from python_socks import ProxyError, ProxyType
        from python_socks.async_.asyncio import Proxy

        loop = asyncio.get_running_loop()
        user, password = (unquote(text) if text is not None else None for text in (proxy.username, proxy.password))
        # As Go does, names are left to the proxy to look up, with socks5 as with socks5h.
        socks = Proxy(ProxyType.SOCKS5, proxy.hostname or "", port_of(proxy), user, password, rdns=True, loop=loop)
        try:
            socket = await socks.connect(self.host, self.port, timeout=CONNECT_SECONDS)
        except ProxyError as error:
            raise OSError(f"the proxy {named(proxy)} refused: {error}") from error
        _, wire = await loop.create_connection(partial(self._new_wire, loop), sock=socket, **self._encryption())
        return wire

    async def _forwarded(self, proxy: SplitResult) -> Wire:
        """Connect to a proxy that takes requests for other servers: those without TLS go this way, as in Go."""
        loop = asyncio.get_running_loop()
        server, login = f"http://{self.host_header}", authorization(proxy)
        _, wire = await self._to_proxy(proxy, lambda: ForwardedWire(loop, server, self._shelf, login))
        return wire

    async def _tunnelled(self, proxy: SplitResult, context: ssl.SSLContext) -> Wire:
        """Have a proxy connect us, then talk TLS to the server through it."""
        loop = asyncio.get_running_loop()
        transport, wire = await self._to_proxy(proxy, lambda: Wire(loop, named(proxy), []))
        request = f"CONNECT {self.host_header} HTTP/1.1\r\nHost: {self.host_header}\r\n{authorization(proxy)}\r\n"
        inner = self._new_wire(loop)
        try:
            await connected(proxy, wire.listen(request.encode(), CONNECT_SECONDS))
            encrypted = await loop.start_tls(transport, inner, context, server_hostname=self._server_name or self.host)
        except BaseException:
            wire.close()
            raise
        assert encrypted is not None
        inner.connection_made(encrypted)
        return inner

    async def _to_proxy(self, proxy: SplitResult, make: Callable[[], W]) -> tuple[asyncio.Transport, W]:
        host = proxy.hostname or ""
        encryption: dict[str, Any] = {}
        if proxy.scheme == "https":
            # As in Go, the proxy is trusted by what is written for the cluster.
            context = self.tls.context if self.tls is not None else ssl.create_default_context()
            encryption = {"ssl": context, "server_hostname": host}
        loop = asyncio.get_running_loop()
        return await loop.create_connection(make, host, port_of(proxy), **encryption)


class ForwardedWire(Wire):
    """A connection to a proxy that forwards: every request names the server it is for."""

    def __init__(self, loop: asyncio.AbstractEventLoop, server: str, shelf: list[Wire], login: str) -> None:
        super().__init__(loop, server, shelf)
        self._prefix = server.encode()
        self._login = login.encode()

    def ask(self, request: bytes, seconds: float) -> asyncio.Future[Answer]:
        """Send a request; the future is done when the answer is complete."""
        return super().ask(self._addressed(request), seconds)

    def listen(self, request: bytes, patience: float) -> Stream:
        """Send a request whose answer is read as it arrives."""
        return super().listen(self._addressed(request), patience)

    def _addressed(self, request: bytes) -> bytes:
        line, _, rest = request.partition(b"\r\n")
        method, _, target = line.partition(b" ")
        return b"".join((method, b" ", self._prefix, target, b"\r\n", self._login, rest))


async def connected(proxy: SplitResult, answer: Stream) -> None:
    """Wait until a proxy has connected us; OSError if it refuses."""
    try:
        status = await answer.begun()
    except Unreachable as error:
        raise OSError(f"the proxy {named(proxy)} hung up: {error}") from error
    if status != 200:
        raise OSError(f"the proxy {named(proxy)} answered with status {status}")


def port_of(address: SplitResult) -> int:
    """Return the port of a URL, written or not."""
    return address.port or DEFAULT_PORTS[address.scheme]


def named(proxy: SplitResult) -> str:
    """Name a proxy without the password that may stand in its URL."""
    return f"{proxy.scheme}://{proxy.hostname}:{port_of(proxy)}"


def authorization(proxy: SplitResult) -> str:
    """Return the header line by which we log in to a proxy, empty if it has no user."""
    if proxy.username is None:
        return ""
    user = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return f"Proxy-Authorization: Basic {base64.b64encode(user.encode()).decode()}\r\n"
