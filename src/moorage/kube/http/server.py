"""The HTTP server: its connections, addresses, certificates, limits, and an orderly shutdown.

Requests are handled in the call that reads them. A full framework takes five times the CPU per request, mostly for
features that are not needed here: tasks, timers, routing tables and parsed URLs. Pipelined requests are handled in
order.
"""

import asyncio
import resource
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any, Final, TypeAlias, cast

import structlog

from moorage.kube.http.messages import HttpRequest, HttpService, Reply, ReplyStream, encoded, encoded_head
from moorage.kube.http.parsing import ReceiveBudget, RequestParser

REQUEST_TIMEOUT: Final = 408
MAX_IN_A_ROW: Final = 32
"""Pipelined requests of a client that are handled before those of other clients."""
READ_BYTES: Final = 1 << 16
MAX_UNSENT: Final = 1 << 16
IDLE_SWEEPS: Final = 36
SLOW_SWEEPS: Final = 12
LINGER_SWEEPS: Final = 1
"""A sweep is every five seconds: a quiet connection is kept for three minutes, half a request for one."""
HANDSHAKE_SECONDS: Final = 10.0


class ServerConnection(asyncio.BufferedProtocol):
    """Handles the requests of a client. The server calls :meth:`sweep` periodically."""

    def __init__(self, service: HttpService, tracker: "HttpServer", arrival: "Arrival") -> None:
        self.is_full = False
        self.sweeps = 0
        """The number of sweeps since the client was last active."""
        self.address = arrival.address
        self.begun_at = monotonic()
        self._arrival: Arrival | None = arrival
        self._service = service
        self._tracker = tracker
        self._parser: RequestParser | None = None
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._unstarted: Coroutine[Any, Any, Reply | ReplyStream] | None = None
        """The handler of a request before the first step of its task."""
        self._stream: ReplyStream | None = None
        self._is_closing = False
        self._is_reading = True
        self._keeps_alive = True
        self._is_last = False
        self._has_eof = False

    @property
    def transport(self) -> asyncio.Transport:
        """The transport of the connection."""
        assert self._transport is not None
        return self._transport

    @property
    def is_busy(self) -> bool:
        """Whether a reply is in progress."""
        return self._task is not None or self._stream is not None

    @property
    def is_replaceable(self) -> bool:
        """Whether the connection may be closed for a new one: it is idle, or its client sent requests in advance."""
        return self._stream is None and (self._task is None or (self._parser is not None and self._parser.has_unread))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start serving, unless the limit of connections was reached during the handshake."""
        self._transport = cast("asyncio.Transport", transport)
        # TLS has additional buffers. Their defaults are four and eight times as large.
        self._transport.set_write_buffer_limits(MAX_UNSENT)
        if (limit_reads := getattr(transport, "set_read_buffer_limits", None)) is not None:
            limit_reads(READ_BYTES)
        self._parser = RequestParser(self._service, transport, self._tracker.received)
        arrival, self._arrival = self._arrival, None
        if arrival is None or not self._tracker.replace(arrival, self):
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Abort running requests and drop references to this object."""
        self._is_closing = True
        self._tracker.discard(self)
        # A task that is cancelled before its first step runs none of its own code, so it is released here. Otherwise,
        # TLS buffers of up to a MiB would remain until a garbage collection of the oldest generation, which is rare.
        task, self._task = self._task, None
        unstarted, self._unstarted = self._unstarted, None
        if task is not None:
            task.cancel()
        if unstarted is not None:
            unstarted.close()
        if self._stream is not None:
            self._stream.stop()
            self._stream = None
        if self._parser is not None:
            self._parser.close()
            self._parser = None
        # uvloop's TLS layer keeps methods of this object: without this, only a garbage collection frees both.
        self._transport = None

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for received data."""
        return self._tracker.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Store received data, and handle complete requests."""
        parser = self._parser
        if self._is_closing or parser is None:
            return
        if not parser.has_begun:
            self.sweeps = 0
        parser.feed(bytes(self._tracker.buffer[:nbytes]))
        self._serve(parser)

    def eof_received(self) -> bool:
        """Handle complete requests; reject a partial one."""
        parser = self._parser
        self._is_last = self._has_eof = True
        self._keeps_alive = False
        if parser is None:
            return False
        self._serve(parser)
        return self._task is not None or bool(parser.requests) or parser.has_unread

    def _serve(self, parser: RequestParser) -> None:
        """Handle requests until no complete request remains or a reply is pending."""
        requests = parser.requests
        for _ in range(MAX_IN_A_ROW):
            if self.is_busy or self._is_closing or self.is_full:
                break
            parser.advance()
            self._is_last = self._is_last or parser.is_upgrade
            if self._has_eof and parser.is_partial and not parser.has_unread:
                parser.refuse(400, "the request ended too early: unexpected EOF")
            if requests:
                request, keeps_alive = requests.popleft()
                self._keeps_alive = keeps_alive and not (self._is_last and not (requests or parser.has_unread))
                self._answer(request)
            elif parser.refusal is not None:
                self._keeps_alive = False
                self._send(parser.refusal)
            elif parser.unreviewed is not None and self._service.review is not None:
                review = self._review(parser, parser.unreviewed, self._service.review)
                self._task = asyncio.get_running_loop().create_task(review)
            else:
                if parser.wants_continue:
                    parser.wants_continue = False
                    self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                break
        else:
            asyncio.get_running_loop().call_soon(self._serve_on)
        self._read(self._is_closing or not (parser.has_unread or self.is_full))

    async def _review(
        self,
        parser: RequestParser,
        head: HttpRequest,
        review: Callable[[HttpRequest], Coroutine[Any, Any, Reply | None]],
    ) -> None:
        """Find out whether the body of a request may be read."""
        try:
            parser.reviewed(await review(head))
        except Exception:
            parser.reviewed(self._make_failure(head))
        finally:
            self._task = None
        self._serve_on()

    def _answer(self, request: HttpRequest) -> None:
        with_body = request.method != "HEAD"
        try:
            answer = self._service.answer(request)
        except Exception:
            answer = self._make_failure(request)
        if isinstance(answer, Reply):
            self._send(answer, with_body=with_body)
        elif isinstance(answer, Coroutine):
            self._unstarted = answer
            self._task = asyncio.get_running_loop().create_task(self._finish(request, answer, with_body))
        else:
            self._begin(answer)

    def _begin(self, stream: ReplyStream) -> None:
        self._stream = stream
        self.transport.write(encoded_head(stream.content_type, keeps_alive=self._keeps_alive))
        stream.start(self)

    def _make_failure(self, request: HttpRequest) -> Reply:
        """Log an unexpected exception and return an error response. The server continues."""
        log.exception("a request failed", method=request.method, path=request.path)
        return self._service.refuse(500, "an error on the server has prevented the request from succeeding")

    async def _finish(
        self, request: HttpRequest, answer: Coroutine[Any, Any, Reply | ReplyStream], with_body: bool
    ) -> None:
        reply: Reply | ReplyStream
        self._unstarted = None
        try:
            reply = await answer
        except Exception:
            reply = self._make_failure(request)
        finally:
            self._task = None
        if self._is_closing:
            return
        if isinstance(reply, Reply):
            self._send(reply, with_body=with_body)
            self._serve_on()
        else:
            self._begin(reply)

    def _serve_on(self) -> None:
        if self._parser is not None:
            self._serve(self._parser)

    def _send(self, reply: Reply, *, with_body: bool = True) -> None:
        if self.transport.is_closing():
            # The client disconnected. uvloop logs each further write to a TLS connection.
            self._is_closing = True
            return
        self.transport.write(encoded(reply, keeps_alive=self._keeps_alive, with_body=with_body))
        self._on_answer()

    def _on_answer(self) -> None:
        self.sweeps = 0
        if not self._keeps_alive:
            self._close()

    def _close(self) -> None:
        """Close after everything is written. Incoming data is read for a while. Otherwise the client's connection
        would be reset before it reads the reply.
        """
        self._is_closing = True
        parser = self._parser
        has_begun = parser is not None and parser.has_begun
        if parser is not None:
            parser.requests.clear()
        if has_begun and self.transport.can_write_eof():
            self.transport.write_eof()
        elif not has_begun:
            self.transport.close()

    def send(self, piece: bytes) -> None:
        """Write a piece of a stream."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(piece)

    def end(self) -> None:
        """Write the end of a stream."""
        self._stream = None
        if self._transport is None:
            return
        self._transport.write(b"0\r\n\r\n")
        self._on_answer()
        if self._parser is not None and (self._parser.requests or self._parser.has_unread):
            asyncio.get_running_loop().call_soon(self._serve_on)

    def pause_writing(self) -> None:
        """Stop handling requests of a client that does not read."""
        self.is_full = True
        self._read(False)

    def resume_writing(self) -> None:
        """Continue after :meth:`pause_writing`."""
        self.is_full = False
        if self._stream is not None:
            self._stream.resume_sending()
        self._serve_on()

    def _read(self, is_wanted: bool) -> None:
        if is_wanted == self._is_reading or self._transport is None or self._transport.is_closing():
            return
        self._is_reading = is_wanted
        if is_wanted:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    def sweep(self) -> None:
        """Close a connection if it is unused, or if the client takes minutes to send a request."""
        parser = self._parser
        if self.is_busy or parser is None:
            return
        self.sweeps += 1
        if self._is_closing:
            if self.sweeps > LINGER_SWEEPS:
                self.transport.abort()
        elif self.is_full and self.sweeps > SLOW_SWEEPS:
            self.transport.abort()
        elif parser.has_begun and self.sweeps > SLOW_SWEEPS:
            parser.refuse(REQUEST_TIMEOUT, "the request did not arrive in time")
            self._serve(parser)
        elif not parser.has_begun and self.sweeps > IDLE_SWEEPS:
            self.transport.close()

    def shut(self) -> "asyncio.Task[None] | None":
        """Close immediately, or return the task of the running request to wait for."""
        self._keeps_alive = False
        self._is_last = True
        if self._task is None:
            self.abort()
        return self._task

    def abort(self) -> None:
        """Close the connection immediately."""
        self._is_closing = True
        if self._transport is not None:
            self._transport.abort()


class Arrival:
    """An accepted connection before its TLS handshake is complete.

    asyncio's own listener does not count connections that never finish their handshake.
    """

    is_replaceable = True

    def __init__(self, client: socket.socket, address: str, service: HttpService, tracker: "HttpServer") -> None:
        self.sweeps = 0
        self.address = address
        self.begun_at = monotonic()
        self._client = client
        self._service = service
        self._tracker = tracker
        self._task: asyncio.Task[None] | None = None

    def begin(self, context: ssl.SSLContext | None) -> None:
        """Make the connection."""
        self._task = asyncio.get_running_loop().create_task(self._run(context))

    async def _run(self, context: ssl.SSLContext | None) -> None:
        seconds = None if context is None else HANDSHAKE_SECONDS
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: ServerConnection(self._service, self._tracker, self),
                self._client,
                ssl=context,
                ssl_handshake_timeout=seconds,
            )
        except (OSError, EOFError):
            # Clients without a valid TLS handshake are ignored, as are clients that disconnected.
            self._client.close()
        finally:
            self._tracker.discard(self)
            self._task = None

    def sweep(self) -> None:
        """Age. The handshake has its own timeout."""
        self.sweeps += 1

    def abort(self) -> None:
        """Drop the connection."""
        if self._task is not None:
            self._task.cancel()


Tracked: TypeAlias = ServerConnection | Arrival
"""A connection of a server: it ages with each sweep, is shut in order or aborted."""


SWEEP_SECONDS: Final = 5.0
BACKLOG: Final = 512
MIN_AGE: Final = 0.25
"""Seconds in which a client can complete its handshake and send a request before it is replaced."""
MAX_ACCEPTED: Final = 64
"""Connections accepted in one turn of the loop."""
MAX_CONNECTIONS: Final = 4096
RETRY_SECONDS: Final = 1.0

Tls: TypeAlias = Callable[[], ssl.SSLContext] | None

log = structlog.get_logger(__name__)


class HttpServer:
    """Serves a service on every address that :meth:`listen` is called with.

    The limit is ``max_connections``, and half of the files that the process may open. At the limit, a new connection
    replaces one of the client with the most connections: its oldest handshake, otherwise its longest idle connection.
    A flood from a few addresses replaces only its own connections, and health checks are served. While all
    connections are busy or new, the new connection waits to be accepted. A client that sends requests in advance is
    not treated as busy: otherwise a few pipelines would block all other clients.
    """

    def __init__(self, service: HttpService, max_connections: int = MAX_CONNECTIONS) -> None:
        self.received = ReceiveBudget()
        self.buffer = memoryview(bytearray(READ_BYTES))
        """The buffer of all connections. Each copies what it received immediately."""
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
        """Listen on an address and return the port. Raise OSError if it is unavailable.

        ``tls`` is called for every connection, so that certificates can be replaced.
        """
        loop = asyncio.get_running_loop()
        sockets = await _open_sockets(host, port, reuse_address is not False, bool(reuse_port))
        for listening in sockets:
            self._listening.append(listening)
            listening.listen(BACKLOG)
            loop.add_reader(listening, self._accept, listening, tls)
        if self._sweeper is None:
            self._sweeper = loop.call_later(SWEEP_SECONDS, self._sweep_again)
        bound_port: int = sockets[0].getsockname()[1]
        return bound_port

    def _accept(self, listening: socket.socket, tls: Tls) -> None:
        """Accept pending connections up to the limit. Without free file descriptors, retry in a second."""
        loop = asyncio.get_running_loop()
        for _ in range(MAX_ACCEPTED):
            is_full = len(self._connections) >= self._max_connections
            if not self._make_room():
                loop.remove_reader(listening)
                self._full.append((listening, tls))
                loop.call_later(MIN_AGE, self._accept_again)
                return
            try:
                client, peer = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.warning("cannot accept connections", error=error.strerror)
                loop.remove_reader(listening)
                loop.call_later(RETRY_SECONDS, self._listen_again, listening, tls)
                return
            client.setblocking(False)
            arrival = Arrival(client, str(peer[0]) if peer else "", self._service, self)
            self._connections[arrival] = None
            arrival.begin(None if tls is None else tls())
            if is_full:
                return  # the next connection is replaced only if one more is pending

    def _make_room(self) -> bool:
        """Close a connection if there are too many. Return whether one more is allowed."""
        if len(self._connections) < self._max_connections:
            return True
        counts = Counter(connection.address for connection in self._connections)
        replaceable = [connection for connection in self._connections if connection.is_replaceable]
        most = max((counts[connection.address] for connection in replaceable), default=0)
        old = monotonic() - MIN_AGE
        candidates = (c for c in replaceable if counts[c.address] == most and c.begun_at < old)
        # Of equals, max() returns the first, which is the oldest.
        surplus = max(candidates, key=lambda c: (isinstance(c, Arrival), c.sweeps), default=None)
        if surplus is None:
            return False
        del self._connections[surplus]
        surplus.abort()
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


async def _open_sockets(host: str | None, port: int, reuse_address: bool, reuse_port: bool) -> list[socket.socket]:
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
