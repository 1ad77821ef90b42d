"""One connection: parsed in C by httptools, and answered in the very call that reads a request.

A full framework takes five times the CPU for a request, most of it for what is not needed here: tasks, timers, routing
tables and parsed addresses. Requests that come without waiting for an answer are answered in their order.
"""

import asyncio
from collections import deque
from collections.abc import Coroutine
from http import HTTPStatus
from typing import Any, Final, cast

import httptools
import structlog

from moorage.http.messages import JSON, HttpRequest, Reply, Service, Stream, encoded, encoded_head

LONGEST_HEAD: Final = 1 << 18
MOST_WAITING: Final = 32
"""Requests sent ahead of their answers; with more, the rest is left in the client's own buffers."""
IDLE_SWEEPS: Final = 36
SLOW_SWEEPS: Final = 12
LINGER_SWEEPS: Final = 1
"""A sweep is every five seconds: a quiet connection is kept for three minutes, half a request for one."""

log = structlog.get_logger(__name__)


class Connection(asyncio.Protocol):
    """Answers the requests of one client; the server has it :meth:`sweep` now and then."""

    def __init__(self, service: Service, connections: "set[Connection]") -> None:
        self.is_full = False
        self._service = service
        self._connections = connections
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[tuple[HttpRequest, bool]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._stream: Stream | None = None
        self._is_closing = False
        self._is_reading = True
        self._sweeps = 0
        self._keeps_alive = True
        self._is_last = False
        self._begin()

    def _begin(self) -> None:
        """Forget the last request."""
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._pieces: list[bytes] = []
        self._size = 0
        self._head_size = 0
        self._has_begun = False
        self._has_head = False
        self._refusal: tuple[int, str] | None = None

    @property
    def transport(self) -> asyncio.Transport:
        """What the bytes go through."""
        assert self._transport is not None
        return self._transport

    @property
    def is_busy(self) -> bool:
        """Whether an answer is under way."""
        return self._task is not None or self._stream is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take in the connection."""
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give up on what is under way: nobody waits for it."""
        self._is_closing = True
        self._connections.discard(self)
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()
        if self._stream is not None:
            self._stream.stop()
            self._stream = None

    def data_received(self, data: bytes) -> None:
        """Feed the parser, and answer what is complete."""
        if self._is_closing:
            return
        self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # Nothing else is spoken here: the request is answered as if it had not asked.
            self._is_last = True
            self._has_begun = False
        except httptools.HttpParserError as error:
            self._refusal = self._refusal or (400, f"this is not HTTP: {error}")
        if self._head_size > LONGEST_HEAD and not self._has_head:
            self._refusal = (431, f"the head of the request is longer than {LONGEST_HEAD} bytes")
        self._serve()

    def eof_received(self) -> bool:
        """Answer what was complete; half a request is told so."""
        if self._has_begun and not self._is_closing:
            self._refusal = self._refusal or (400, "the request ended too early: unexpected EOF")
        self._is_last = True
        self._keeps_alive = False
        self._serve()
        return self._task is not None or bool(self._waiting)

    def on_message_begin(self) -> None:
        """Note that a request has begun."""
        self._has_begun = True
        self._sweeps = 0

    def on_url(self, url: bytes) -> None:
        """Take in a piece of the address."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take in a header."""
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Refuse a body that is announced as too long, and ask for one that waits to be asked for."""
        self._has_head = True
        for name, value in self._headers:
            if name == b"content-length" and value.isdigit() and int(value[:18]) > self._service.longest_body:
                self._refuse_length()
            elif name == b"expect" and value.lower() == b"100-continue" and not self.is_busy and not self._waiting:
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _refuse_length(self) -> None:
        self._refusal = (413, f"Request entity too large: limit is {self._service.longest_body}")

    def on_body(self, piece: bytes) -> None:
        """Take in a piece of the body."""
        self._size += len(piece)
        if self._size > self._service.longest_body:
            self._refuse_length()
        if self._refusal is None:
            self._pieces.append(piece)

    def on_message_complete(self) -> None:
        """Line the request up; it is not answered here, in the middle of parsing."""
        if self._refusal is not None:
            return
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        request = HttpRequest(self._parser.get_method().decode(), self._target, self._headers, body, self.transport)
        self._waiting.append((request, self._parser.should_keep_alive()))
        self._begin()

    def _serve(self) -> None:
        """Answer requests until there is none left, or the answer to one takes its time."""
        while self._waiting and not (self.is_busy or self._is_closing or self.is_full):
            request, keeps_alive = self._waiting.popleft()
            self._keeps_alive = keeps_alive and not (self._is_last and not self._waiting)
            self._answer(request)
        if self._refusal is not None and not (self._waiting or self.is_busy or self._is_closing):
            self._keeps_alive = False
            self._send(self._service.refuse(*self._refusal))
        self._read(len(self._waiting) <= MOST_WAITING and not self.is_full)

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
            self._stream = answer
            self.transport.write(encoded_head(JSON, keeps_alive=self._keeps_alive))
            answer.start(self)

    def _failed(self, request: HttpRequest) -> Reply:
        """Be the last line of defence: one request fails, the server lives on."""
        log.exception("a request failed", method=request.method, path=request.path)
        return self._service.refuse(500, "an error on the server has prevented it from answering")

    async def _finish(self, request: HttpRequest, answer: Coroutine[Any, Any, Reply], with_body: bool) -> None:
        try:
            reply = await answer
        except Exception:
            reply = self._failed(request)
        self._task = None
        if not self._is_closing:
            self._send(reply, with_body=with_body)
            self._serve()

    def _send(self, reply: Reply, *, with_body: bool = True) -> None:
        self.transport.write(encoded(reply, keeps_alive=self._keeps_alive, with_body=with_body))
        self._answered()

    def _answered(self) -> None:
        self._sweeps = 0
        if not self._keeps_alive:
            self._close()

    def _close(self) -> None:
        """Close once everything is written. What the client still sends is read for a while, or it would be told of a
        broken connection before it reads our answer.
        """
        self._is_closing = True
        self._waiting.clear()
        if self._has_begun and self.transport.can_write_eof():
            self.transport.write_eof()
        elif not self._has_begun:
            self.transport.close()

    def send(self, piece: bytes) -> None:
        """Write a piece of a stream."""
        self.transport.write(piece)

    def end(self) -> None:
        """Write the end of a stream."""
        self._stream = None
        self.transport.write(b"0\r\n\r\n")
        self._answered()
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._serve)

    def pause_writing(self) -> None:
        """Stop answering a client that does not read."""
        self.is_full = True
        self._read(False)

    def resume_writing(self) -> None:
        """Go on where :meth:`pause_writing` stopped."""
        self.is_full = False
        if self._stream is not None:
            self._stream.go_on()
        self._serve()

    def _read(self, wanted: bool) -> None:
        if wanted == self._is_reading or self.transport.is_closing():
            return
        self._is_reading = wanted
        if wanted:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    def sweep(self) -> None:
        """Close a connection that is of no more use, and one whose client takes minutes to say what it wants."""
        if self.is_busy:
            return
        self._sweeps += 1
        if self._is_closing:
            if self._sweeps > LINGER_SWEEPS:
                self.transport.abort()
        elif self._has_begun and self._sweeps > SLOW_SWEEPS:
            self._refusal = (HTTPStatus.REQUEST_TIMEOUT, "the request did not arrive in time")
            self._serve()
        elif not self._has_begun and self._sweeps > IDLE_SWEEPS:
            self.transport.close()

    def shut(self) -> "asyncio.Task[None] | None":
        """End at once, unless an answer is being worked on: that is returned, to be waited for."""
        self._keeps_alive = False
        self._is_last = True
        if self._task is None:
            self.abort()
        return self._task

    def abort(self) -> None:
        """Drop the connection, whatever is under way."""
        self._is_closing = True
        self.transport.abort()
