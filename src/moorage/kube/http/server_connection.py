"""The server's side of a connection: requests are handled in the call that reads them.

A full framework takes five times the CPU per request, mostly for features that are not needed here: tasks, timers,
routing tables and parsed URLs. Pipelined requests are handled in order.
"""

import asyncio
import socket
import ssl
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import structlog

from moorage.kube.http.messages import HttpRequest, HttpService, Reply, ReplyStream, encoded, encoded_head
from moorage.kube.http.parsing import RequestParser

if TYPE_CHECKING:
    from moorage.kube.http.server import HttpServer

REQUEST_TIMEOUT: Final = 408
MAX_WAITING: Final = 32
"""Maximum number of pipelined requests; with more, reading pauses."""
IDLE_SWEEPS: Final = 36
SLOW_SWEEPS: Final = 12
LINGER_SWEEPS: Final = 1
"""A sweep is every five seconds: a quiet connection is kept for three minutes, half a request for one."""
HANDSHAKE_SECONDS: Final = 10.0

log = structlog.get_logger(__name__)


class ServerConnection(asyncio.Protocol):
    """Handles the requests of one client; the server calls :meth:`sweep` periodically."""

    def __init__(self, service: HttpService, tracker: "HttpServer", arrival: "Arrival") -> None:
        self.is_full = False
        self.sweeps = 0
        """The number of sweeps since the client was last active."""
        self._arrival: Arrival | None = arrival
        self._service = service
        self._tracker = tracker
        self._parser: RequestParser | None = None
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._stream: ReplyStream | None = None
        self._is_closing = False
        self._is_reading = True
        self._keeps_alive = True
        self._is_last = False

    @property
    def transport(self) -> asyncio.Transport:
        """The transport of the connection."""
        assert self._transport is not None
        return self._transport

    @property
    def is_busy(self) -> bool:
        """Whether a reply is in progress."""
        return self._task is not None or self._stream is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start serving, unless the limit of connections was reached during the handshake."""
        self._transport = cast("asyncio.Transport", transport)
        self._parser = RequestParser(self._service, transport)
        arrival, self._arrival = self._arrival, None
        if arrival is None or not self._tracker.replace(arrival, self):
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Abort running requests and drop references to this object."""
        self._is_closing = True
        self._tracker.discard(self)
        if self._task is not None:
            self._task.cancel()
        if self._stream is not None:
            self._stream.stop()
            self._stream = None
        if self._parser is not None:
            self._parser.close()
            self._parser = None

    def data_received(self, data: bytes) -> None:
        """Feed the parser, and handle complete requests."""
        parser = self._parser
        if self._is_closing or parser is None:
            return
        if not parser.has_begun:
            self.sweeps = 0
        parser.feed(data)
        if parser.wants_continue and parser.refusal is None and not (self.is_busy or parser.requests):
            parser.wants_continue = False
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._is_last = self._is_last or parser.is_upgrade
        self._serve(parser)

    def eof_received(self) -> bool:
        """Handle complete requests; reject a partial one."""
        parser = self._parser
        self._is_last = True
        self._keeps_alive = False
        if parser is None:
            return False
        if parser.has_begun and not self._is_closing:
            parser.refuse(400, "the request ended too early: unexpected EOF")
        self._serve(parser)
        return self._task is not None or bool(parser.requests)

    def _serve(self, parser: RequestParser) -> None:
        """Handle requests until none is left or a reply is pending."""
        waiting = parser.requests
        while waiting and not (self.is_busy or self._is_closing or self.is_full):
            request, keeps_alive = waiting.popleft()
            self._keeps_alive = keeps_alive and not (self._is_last and not waiting)
            self._answer(request)
        if parser.refusal is not None and not (waiting or self.is_busy or self._is_closing):
            self._keeps_alive = False
            self._send(parser.refusal)
        self._read(len(waiting) <= MAX_WAITING and not self.is_full)

    def _answer(self, request: HttpRequest) -> None:
        with_body = request.method != "HEAD"
        try:
            answer = self._service.answer(request)
        except Exception:
            answer = self._failed(request)
        if isinstance(answer, Reply):
            self._send(answer, with_body=with_body)
        elif isinstance(answer, Coroutine):
            self._task = asyncio.get_running_loop().create_task(self._finish(request, answer, with_body))
        else:
            self._begin(answer)

    def _begin(self, stream: ReplyStream) -> None:
        self._stream = stream
        self.transport.write(encoded_head(stream.content_type, keeps_alive=self._keeps_alive))
        stream.start(self)

    def _failed(self, request: HttpRequest) -> Reply:
        """Log an unexpected exception and return an error response; the server continues."""
        log.exception("a request failed", method=request.method, path=request.path)
        return self._service.refuse(500, "an error on the server has prevented it from answering")

    async def _finish(
        self, request: HttpRequest, answer: Coroutine[Any, Any, Reply | ReplyStream], with_body: bool
    ) -> None:
        reply: Reply | ReplyStream
        try:
            reply = await answer
        except Exception:
            reply = self._failed(request)
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
        self.transport.write(encoded(reply, keeps_alive=self._keeps_alive, with_body=with_body))
        self._answered()

    def _answered(self) -> None:
        self.sweeps = 0
        if not self._keeps_alive:
            self._close()

    def _close(self) -> None:
        """Close after everything is written. Incoming data is read for a while; otherwise the client's connection
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
        self.transport.write(piece)

    def end(self) -> None:
        """Write the end of a stream."""
        self._stream = None
        self.transport.write(b"0\r\n\r\n")
        self._answered()
        if self._parser is not None and self._parser.requests:
            asyncio.get_running_loop().call_soon(self._serve_on)

    def pause_writing(self) -> None:
        """Stop handling requests of a client that does not read."""
        self.is_full = True
        self._read(False)

    def resume_writing(self) -> None:
        """Continue after :meth:`pause_writing`."""
        self.is_full = False
        if self._stream is not None:
            self._stream.go_on()
        self._serve_on()

    def _read(self, is_wanted: bool) -> None:
        if is_wanted == self._is_reading or self.transport.is_closing():
            return
        self._is_reading = is_wanted
        if is_wanted:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    def sweep(self) -> None:
        """Close a connection that is unused, or whose client takes minutes to send a request."""
        parser = self._parser
        if self.is_busy or parser is None:
            return
        self.sweeps += 1
        if self._is_closing:
            if self.sweeps > LINGER_SWEEPS:
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
        self.transport.abort()


class Arrival:
    """An accepted connection before its TLS handshake is complete.

    asyncio's own listener does not count connections that never finish their handshake.
    """

    is_busy = False

    def __init__(self, client: socket.socket, service: HttpService, tracker: "HttpServer") -> None:
        self.sweeps = 0
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
        """Age; the handshake has its own timeout."""
        self.sweeps += 1

    def abort(self) -> None:
        """Drop the connection."""
        if self._task is not None:
            self._task.cancel()


Tracked: TypeAlias = ServerConnection | Arrival
"""A connection as its server sees it: it ages with each sweep, is shut in order or aborted."""
