"""One HTTP/1.1 connection: a request goes out as bytes, an answer comes back parsed (in C, by httptools)."""

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Final, Protocol, cast

import httptools
from msgspec import Struct

from moorage.errors import Unreachable

NEVER: Final = float("inf")
IDLE_SECONDS: Final = 50.0
"""An unused connection is closed before the server does, so that a request never meets a server that hangs up."""

_RETRY_AFTER: Final = re.compile(rb"\r\nretry-after:([^\r\n]*)", re.IGNORECASE)


class Answer(Struct, frozen=True, gc=False):
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

    An answer is handed over whole, and the connection is on the ``shelf`` until the next request; or the answer goes
    piece by piece to whoever called :meth:`listen`. The pool looks after ``deadline``.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, server: str, shelf: "list[Wire]") -> None:
        self.deadline = NEVER
        self.is_open = False
        self._loop = loop
        self._server = server
        self._shelf = shelf
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Answer] | None = None
        self._asked_at = 0.0
        self._head = b""
        self._pieces: list[bytes] = []
        self._stream: Stream | None = None
        # The parser may call more methods, but an answer is only looked at when it is complete.
        self.on_body: Callable[[bytes], None] = self._pieces.append
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take in the connection, or the encrypted one that replaces it."""
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True

    @property
    def is_forsaken(self) -> bool:
        """Whether nobody waits any more for the answer that is to come."""
        return self._answer is not None and self._answer.cancelled()

    @property
    def transport(self) -> asyncio.Transport:
        """What the bytes go through."""
        assert self._transport is not None
        return self._transport

    def ask(self, request: bytes, seconds: float) -> asyncio.Future[Answer]:
        """Send a request; the future is done when the answer is complete.

        Whoever gives up waiting leaves the connection busy, since nobody else shall get the answer: it can be used
        again if that comes soon, and is closed in the next sweep if not.
        """
        assert self._transport is not None
        self._asked_at = self._loop.time()
        self.deadline = self._asked_at + seconds
        self._answer = answer = self._loop.create_future()
        self._transport.write(request)
        return answer

    def listen(self, request: bytes, patience: float) -> "Stream":
        """Send a request whose answer is read as it arrives; ``patience`` is how long it may be silent."""
        self._stream = Stream(self, self._loop, patience)
        self._parser = self._stream.parser
        self.transport.write(request)
        return self._stream

    def close(self) -> None:
        """Drop the connection, whatever is under way."""
        self._end()
        if self._transport is not None:
            self._transport.abort()

    def give_up(self, why: str) -> None:
        """End what is under way with an error, and the connection with it."""
        self._fail(why)
        self.close()

    def data_received(self, data: bytes) -> None:
        """Feed the parser."""
        if self._stream is None:
            if self._answer is None:
                self.close()  # nobody asked: the server says good-bye
                return
            if not self._pieces:
                self._head += data
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.give_up(f"what came is not HTTP: {error}")
        if self._stream is not None:
            self._stream.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """End what is under way with an error."""
        self._end()
        self._fail(str(exc) if exc else "the connection was closed")

    def _end(self) -> None:
        self.is_open = False
        if self in self._shelf:
            self._shelf.remove(self)

    def _fail(self, why: str) -> None:
        problem = f"no answer from {self._server}: {why}"
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(Unreachable(problem))
        self._answer = None
        if self._stream is not None:
            self._stream.end(problem)
            self._stream = None

    def on_message_complete(self) -> None:
        """Hand the answer over."""
        waiting, self._answer = self._answer, None
        if waiting is None:
            self.close()  # more came than was asked for
            return
        status, body = self._parser.get_status_code(), b"".join(self._pieces)
        # Of the headers only one matters, and only with bad news.
        answer = Answer(status, body, None if status < 400 else retry_after(self._head))
        self._pieces.clear()
        self._head = b""
        if self._parser.should_keep_alive():
            self.deadline = self._asked_at + IDLE_SECONDS
            self._shelf.append(self)
        else:
            self.is_open = False
        if not waiting.done():
            waiting.set_result(answer)


def retry_after(head: bytes) -> str | None:
    """Find what stands in ``Retry-After``, in a head that the body may follow."""
    found = _RETRY_AFTER.search(head.partition(b"\r\n\r\n")[0])
    return None if found is None else found[1].decode(errors="replace").strip()


class Stream:
    """An answer that is read as it arrives."""

    def __init__(self, wire: Wire, loop: asyncio.AbstractEventLoop, patience: float) -> None:
        self.status = 0
        self.retry_after: str | None = None
        self._wire = wire
        self._loop = loop
        self._patience = patience
        self._pieces: deque[bytes] = deque()
        self._is_over = False
        self._problem = ""
        self._news: asyncio.Future[None] | None = None
        self.on_body: Callable[[bytes], None] = self._pieces.append
        self.parser = httptools.HttpResponseParser(self)
        self._extend()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Look out for the one header that matters."""
        if name.lower() == b"retry-after":
            self.retry_after = value.decode(errors="replace")

    def on_headers_complete(self) -> None:
        """Hear the status."""
        self.status = self.parser.get_status_code()

    def on_message_complete(self) -> None:
        """Hear that nothing more will come."""
        self._is_over = True

    def wake(self) -> None:
        """Have whoever waits look at what has come since."""
        self._extend()
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def end(self, problem: str) -> None:
        """Hear that nothing more will come, for a reason that is no good one unless all has come already."""
        if not self._is_over:
            self._is_over, self._problem = True, problem
        self.wake()

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

    def _extend(self) -> None:
        self._wire.deadline = self._loop.time() + self._patience
