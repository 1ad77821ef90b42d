"""One HTTP/1.1 connection: a request goes out as bytes, an answer comes back parsed (in C, by httptools)."""

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator
from typing import Final, NamedTuple, Protocol, cast

import httptools

from moorage.errors import Unreachable

NEVER: Final = float("inf")

_RETRY_AFTER: Final = re.compile(rb"\r\nretry-after:([^\r\n]*)", re.IGNORECASE)


class Answer(NamedTuple):
    """What a server answered."""

    status: int
    body: bytes
    retry_after: str | None = None


class Incoming(Protocol):
    """An answer that is read as it arrives."""

    @property
    def retry_after(self) -> str | None:
        """What stands in ``Retry-After``."""
        ...

    async def begun(self) -> int:
        """Wait for the status."""
        ...

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def rest(self) -> bytes:
        """Read everything that is left."""
        ...


class Wire(asyncio.Protocol):
    """A connection that carries one request at a time.

    An answer is handed over whole, or piece by piece to whoever called :meth:`listen`. The pool keeps ``deadline``.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.deadline = NEVER
        self.is_open = False
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._answer: asyncio.Future[Answer] | None = None
        self._is_in_head = True
        self._head = b""
        self._status = 0
        self._pieces: list[bytes] = []
        self._retry_after: str | None = None
        self._stream: Stream | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take in the connection, or the encrypted one that replaces it."""
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True

    @property
    def transport(self) -> asyncio.Transport:
        """What the bytes go through."""
        assert self._transport is not None
        return self._transport

    def ask(self, request: bytes) -> asyncio.Future[Answer]:
        """Send a request; the future is done when the answer is complete."""
        self._answer = self._loop.create_future()
        self.transport.write(request)
        return self._answer

    def listen(self, request: bytes, patience: float) -> "Stream":
        """Send a request whose answer is read as it arrives; ``patience`` is how long it may be silent."""
        self._stream = Stream(self, self._loop, patience)
        self.transport.write(request)
        return self._stream

    def close(self) -> None:
        """Drop the connection, whatever is under way."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def give_up(self, why: str) -> None:
        """End what is under way with an error, and the connection with it."""
        self._fail(why)
        self.close()

    def data_received(self, data: bytes) -> None:
        """Feed the parser."""
        if self._answer is None and self._stream is None:
            self.close()  # nobody asked: the server says good-bye
            return
        if self._is_in_head:
            self._head += data
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.give_up(f"what came is not HTTP: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        """End what is under way with an error."""
        self.is_open = False
        self._fail(str(exc) if exc else "the connection was closed")

    def _fail(self, why: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(Unreachable(why))
        self._answer = None
        if self._stream is not None:
            self._stream.end(why)
            self._stream = None

    def on_headers_complete(self) -> None:
        """Tell whoever listens how the answer begins; of its headers only one matters, and only with bad news."""
        self._is_in_head = False
        self._status = self._parser.get_status_code()
        if self._status >= 400 and (found := _RETRY_AFTER.search(self._head)) is not None:
            self._retry_after = found[1].decode(errors="replace").strip()
        self._head = b""
        if self._stream is not None:
            self._stream.begin(self._status, self._retry_after)

    def on_body(self, piece: bytes) -> None:
        """Take in a piece of the answer."""
        if self._stream is not None:
            self._stream.add(piece)
        else:
            self._pieces.append(piece)

    def on_message_complete(self) -> None:
        """Hand the answer over."""
        if not self._parser.should_keep_alive():
            self.is_open = False
        if self._stream is not None:
            self._stream.end()
            self._stream = None
        elif self._answer is not None:
            body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
            answer = Answer(self._status, body, self._retry_after)
            if not self._answer.done():
                self._answer.set_result(answer)
            self._answer = None
        self._pieces = []
        self._retry_after = None
        self._is_in_head = True


class Stream:
    """An answer that is read as it arrives."""

    def __init__(self, wire: Wire, loop: asyncio.AbstractEventLoop, patience: float) -> None:
        self.status = 0
        self._retry_after: str | None = None
        self._wire = wire
        self._loop = loop
        self._patience = patience
        self._pieces: deque[bytes] = deque()
        self._is_over = False
        self._problem = ""
        self._news: asyncio.Future[None] | None = None
        self._extend()

    def begin(self, status: int, retry_after: str | None) -> None:
        """Hear the status."""
        self.status, self._retry_after = status, retry_after
        self._wake()

    @property
    def retry_after(self) -> str | None:
        """What stands in ``Retry-After``."""
        return self._retry_after

    def add(self, piece: bytes) -> None:
        """Hear a piece."""
        self._pieces.append(piece)
        self._wake()

    def end(self, problem: str = "") -> None:
        """Hear that nothing more will come."""
        self._is_over, self._problem = True, problem
        self._wake()

    async def begun(self) -> int:
        """Wait for the status."""
        while not self.status:
            self._raise_if_broken()
            await self._next_news()
        return self.status

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not self._pieces:
            if self._is_over:
                self._raise_if_broken()
                raise StopAsyncIteration
            await self._next_news()
        piece = b"".join(self._pieces) if len(self._pieces) > 1 else self._pieces[0]
        self._pieces.clear()
        return piece

    async def rest(self) -> bytes:
        """Read everything that is left."""
        return b"".join([piece async for piece in self])

    def _raise_if_broken(self) -> None:
        if self._problem:
            raise Unreachable(self._problem)

    async def _next_news(self) -> None:
        self._news = self._loop.create_future()
        await self._news

    def _wake(self) -> None:
        self._extend()
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _extend(self) -> None:
        self._wire.deadline = self._loop.time() + self._patience
