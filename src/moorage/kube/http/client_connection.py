"""The client's side of a connection: requests are bytes, responses are parsed."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final, cast

from moorage.common.errors import Unreachable
from moorage.kube.http.messages import Response
from moorage.kube.http.parsing import MalformedMessage, ResponseParser

NEVER: Final = float("inf")
IDLE_SECONDS: Final = 50.0
"""Idle connections are closed before the server closes them: no request must be lost."""
MAX_RESPONSE: Final = 1 << 30
"""Bytes of a response that is read completely; a list of 15,000 nodes takes 100 MiB."""


class PooledConnection(asyncio.Protocol):
    """A connection that carries one request at a time.

    A response is delivered as a unit, and the connection joins the ``idle`` ones until the next request. With
    :meth:`stream`, the caller reads the response in pieces. The pool enforces ``deadline``.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, server: str, idle: "list[PooledConnection]") -> None:
        self.deadline = NEVER
        self.is_open = False
        self._loop = loop
        self._server = server
        self._idle = idle
        self.transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Response] | None = None
        self._stream: PieceStream | None = None
        self._sent_at = 0.0
        self._received = 0
        self._parser = ResponseParser()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection, or the encrypted one that replaces it."""
        self.transport = cast("asyncio.Transport", transport)
        self.is_open = True

    @property
    def is_abandoned(self) -> bool:
        """Whether the caller of the pending response was cancelled."""
        return self._waiting is not None and self._waiting.cancelled()

    def send(self, request: bytes, seconds: float) -> asyncio.Future[Response]:
        """Send a request. The future is done when the response is complete.

        If the caller is cancelled, the connection remains busy: no other caller must get the response. It is reused
        if the response arrives soon, and closed in the next sweep otherwise.
        """
        assert self.transport is not None
        self._sent_at = self._loop.time()
        self.deadline = self._sent_at + seconds
        self._waiting = waiting = self._loop.create_future()
        self.transport.write(request)
        return waiting

    def stream(self, request: bytes, max_silence: float) -> "PieceStream":
        """Send a request and read the response as it arrives; a pause longer than ``max_silence`` is an error."""
        assert self.transport is not None
        self._stream = PieceStream(self, self._parser, self._loop, max_silence)
        self.transport.write(request)
        return self._stream

    def close(self) -> None:
        """Close the connection immediately."""
        self._leave()
        if self.transport is not None:
            self.transport.abort()

    def give_up(self, reason: str) -> None:
        """Fail the running request and close the connection."""
        self._fail(reason)
        self.close()

    def data_received(self, data: bytes) -> None:
        """Feed the parser, and deliver complete responses."""
        if self._waiting is None and self._stream is None:
            self.close()  # no request is pending: the server closes the connection
            return
        try:
            self._parser.feed(data)
        except MalformedMessage as error:
            self.give_up(str(error))
            return
        if self._stream is not None:
            self._stream.wake()
        elif self._parser.is_complete:
            self._hand_over()
        else:
            self._received += len(data)
            if self._received > MAX_RESPONSE:
                self.give_up(f"the response is longer than {MAX_RESPONSE} bytes")

    def _hand_over(self) -> None:
        parser, waiter, self._waiting = self._parser, self._waiting, None
        response = parser.take()
        if self.is_open and parser.keeps_alive:
            self.deadline = self._sent_at + IDLE_SECONDS
            self._received = 0
            self._idle.append(self)
        else:
            self.is_open = False
        if waiter is not None and not waiter.done():
            waiter.set_result(response)

    def connection_lost(self, exc: Exception | None) -> None:
        """Finish the running request: with an error, unless the end of the connection completes the response."""
        self._leave()
        if exc is None and self._parser.end_with_connection():
            if self._stream is None:
                self._hand_over()
            else:
                self._stream.wake()
        self._fail(str(exc) if exc else "the connection was closed")
        self._parser.close()
        self.transport = None

    def _leave(self) -> None:
        self.is_open = False
        if self in self._idle:
            self._idle.remove(self)

    def _fail(self, cause: str) -> None:
        problem = f"no response from {self._server}: {cause}"
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(Unreachable(problem))
        self._waiting = None
        if self._stream is not None:
            self._stream.end(problem)
            self._stream = None


class PieceStream:
    """A response that is read as it arrives; the parser of the connection collects the pieces."""

    def __init__(
        self,
        connection: PooledConnection,
        parser: ResponseParser,
        loop: asyncio.AbstractEventLoop,
        max_silence: float,
    ) -> None:
        self._connection = connection
        self._parser = parser
        self._loop = loop
        self._max_silence = max_silence
        self._problem = ""
        self._news: asyncio.Future[None] | None = None
        self._extend()

    @property
    def retry_after(self) -> str | None:
        """The value of ``Retry-After``."""
        return self._parser.retry_after

    def wake(self) -> None:
        """Wake the reader of the stream."""
        self._extend()
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def end(self, problem: str) -> None:
        """End the stream. An incomplete response is a problem."""
        if not self._parser.is_complete:
            self._problem = problem
        self.wake()

    async def read_status(self) -> int:
        """Wait for the status."""
        while not self._parser.status:
            self._raise_if_broken()
            await self._next_news()
        return self._parser.status

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        pieces = self._parser.pieces
        while not pieces:
            self._raise_if_broken()
            if self._parser.is_complete:
                raise StopAsyncIteration
            await self._next_news()
        piece = b"".join(pieces) if len(pieces) > 1 else pieces[0]
        pieces.clear()
        return piece

    async def rest(self) -> bytes:
        """Read the remaining data."""
        return b"".join([piece async for piece in self])

    def _raise_if_broken(self) -> None:
        if self._problem:
            raise Unreachable(self._problem)

    async def _next_news(self) -> None:
        self._news = self._loop.create_future()
        await self._news

    def _extend(self) -> None:
        self._connection.deadline = self._loop.time() + self._max_silence
