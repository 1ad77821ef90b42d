"""The HTTP server: addresses, certificates, limits on connections, and an orderly shutdown."""

import asyncio
import hmac
import resource
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

import structlog

from moorage.common.errors import InputError
from moorage.common.user_files import read_file
from moorage.kube.http.messages import HttpRequest, HttpService
from moorage.kube.http.proxies import is_loopback
from moorage.kube.http.server_connection import Arrival, ServerConnection, Tracked

SWEEP_SECONDS: Final = 5.0
BACKLOG: Final = 512
MAX_CONNECTIONS: Final = 4096
RETRY_SECONDS: Final = 1.0
BEARER: Final = "Bearer "

Tls: TypeAlias = Callable[[], ssl.SSLContext] | None

log = structlog.get_logger(__name__)


class HttpServer:
    """Serves a service on every address that :meth:`listen` is called with.

    The limit is ``max_connections``, and half of the files that the process may open. At the limit, a new connection
    replaces the one that was idle the longest; while all are busy or new, it waits to be accepted.
    """

    def __init__(self, service: HttpService, max_connections: int = MAX_CONNECTIONS) -> None:
        self._service = service
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._max_connections = max_connections if files == resource.RLIM_INFINITY else min(max_connections, files // 2)
        # A dict keeps the order: of several idle connections, the oldest is closed.
        self._connections: dict[Tracked, None] = {}
        self._listening: list[socket.socket] = []
        self._full: list[tuple[socket.socket, Tls]] = []
        self._sweeper: asyncio.TimerHandle | None = None

    async def listen(
        self,
        host: str | None,
        port: int,
        *,
        tls: Tls = None,
        reuse_address: bool | None = None,
        reuse_port: bool | None = None,
    ) -> int:
        """Listen on an address and return the port; raise OSError if it is unavailable.

        ``tls`` is called for every connection, so that certificates can be replaced.
        """
        loop = asyncio.get_running_loop()
        sockets = await _bound(host, port, reuse_address is not False, bool(reuse_port))
        for listening in sockets:
            self._listening.append(listening)
            listening.listen(BACKLOG)
            loop.add_reader(listening, self._accept, listening, tls)
        if self._sweeper is None:
            self._sweeper = loop.call_later(SWEEP_SECONDS, self._sweep_again)
        bound_port: int = sockets[0].getsockname()[1]
        return bound_port

    def _accept(self, listening: socket.socket, tls: Tls) -> None:
        """Accept pending connections up to the limit; without free file descriptors, retry in a second."""
        loop = asyncio.get_running_loop()
        for _ in range(BACKLOG):
            if not self._make_room():
                loop.remove_reader(listening)
                self._full.append((listening, tls))
                return
            try:
                client, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.warning("cannot accept connections", error=error.strerror)
                loop.remove_reader(listening)
                loop.call_later(RETRY_SECONDS, self._listen_again, listening, tls)
                return
            client.setblocking(False)
            arrival = Arrival(client, self._service, self)
            self._connections[arrival] = None
            arrival.begin(None if tls is None else tls())

    def _make_room(self) -> bool:
        """Close the connection with the longest idle time if there are too many; return whether one more is allowed."""
        if len(self._connections) >= self._max_connections:
            candidates = (c for c in self._connections if c.sweeps and not c.is_busy)
            quiet = max(candidates, key=lambda connection: connection.sweeps, default=None)
            if quiet is None:
                return False
            del self._connections[quiet]
            quiet.abort()
        return True

    def _listen_again(self, listening: socket.socket, tls: Tls) -> None:
        if listening in self._listening:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening, tls)

    def _accept_again(self) -> None:
        full, self._full = self._full, []
        for listening, tls in full:
            self._listen_again(listening, tls)

    def replace(self, arrival: Tracked, connection: Tracked) -> bool:
        """Register a connection in place of its handshake, unless the handshake was closed as surplus."""
        if arrival not in self._connections:
            return False
        del self._connections[arrival]
        self._connections[connection] = None
        return True

    def discard(self, connection: Tracked) -> None:
        """Remove a connection."""
        self._connections.pop(connection, None)
        if self._full:
            self._accept_again()

    def _sweep_again(self) -> None:
        self.sweep()
        self._sweeper = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep_again)

    def sweep(self) -> None:
        """Close connections that were idle for too long; called every five seconds."""
        for connection in tuple(self._connections):
            connection.sweep()
        self._accept_again()

    async def stop(self, grace: float) -> None:
        """Stop listening, wait for running requests, and close all connections."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        loop = asyncio.get_running_loop()
        for listening in self._listening:
            loop.remove_reader(listening)
            listening.close()
        self._listening.clear()
        self._full.clear()
        serving = [connection for connection in self._connections if isinstance(connection, ServerConnection)]
        under_way = [task for connection in serving if (task := connection.shut()) is not None]
        if under_way:
            await asyncio.wait(under_way, timeout=grace)
        for connection in tuple(self._connections):
            connection.abort()


class BearerTokens:
    """Authentication by a file of tokens; without tokens, only local callers are served."""

    def __init__(self, tokens: tuple[bytes, ...] = ()) -> None:
        self._tokens = tokens

    @classmethod
    def for_address(cls, file: Path | None, address: str) -> "BearerTokens":
        """Read the tokens; raise InputError without tokens if the address is reachable from outside."""
        lines = b"" if file is None else read_file(file, where="--token-file")
        tokens = tuple(line.strip() for line in lines.split(b"\n") if line.strip())
        if file is not None and not tokens:
            raise InputError("--token-file", f"no token in {file}", hint="write one token per line")
        if not tokens and not is_loopback(address):
            problem = f"{address} is not a loopback address, and no tokens are configured"
            raise InputError("--address", problem, hint="set --token-file, or listen on 127.0.0.1")
        return cls(tokens)

    def __bool__(self) -> bool:
        return bool(self._tokens)

    def admit(self, request: HttpRequest) -> bool:
        """Return whether a request is authorized."""
        header = request.header(b"authorization")
        credential = header.removeprefix(BEARER).encode() if header.startswith(BEARER) else b""
        return not self._tokens or any(hmac.compare_digest(credential, token) for token in self._tokens)


async def _bound(host: str | None, port: int, reuse_address: bool, reuse_port: bool) -> list[socket.socket]:
    """Return a socket for each address of a host, or of this machine; OSError if one is unavailable."""
    loop = asyncio.get_running_loop()
    addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(addresses):
            try:
                listening = socket.socket(family, kind, protocol)
            except OSError:
                continue  # a kernel without IPv6 still knows its addresses
            sockets.append(listening)
            listening.setblocking(False)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse_address)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, reuse_port)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, True)
            # A free port is the same for all addresses.
            listening.bind((address[0], port or sockets[0].getsockname()[1], *address[2:]))
    except OSError:
        for listening in sockets:
            listening.close()
        raise
    if not sockets:
        raise OSError(f"{host} is not an address of this machine")
    return sockets
