"""Messages: requests and replies of a server, responses of a client."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import parse_qsl

from msgspec import Struct

from moorage.common.caches import cached

JSON: Final = "application/json"
UNUSED_BODY: Final = 4096
"""Limit in bytes of a body that a client sends to a path without a use for it."""
Headers = tuple[tuple[str, str], ...]


class HttpRequest:
    """One request, read completely. Header names are in lower case.

    Of a header that is given several times, ``headers`` has the first, as in Go. ``all_headers`` has them all.
    """

    __slots__ = ("all_headers", "body", "headers", "method", "path", "query_string", "transport")

    def __init__(
        self,
        method: str,
        target: bytes,
        headers: list[tuple[bytes, bytes]],
        body: bytes,
        transport: asyncio.BaseTransport | None = None,
    ) -> None:
        self.method = method
        path, _, query = _origin_form(target).decode(errors="replace").partition("?")
        self.path = path
        self.query_string = query
        self.all_headers = headers
        self.headers = dict(reversed(headers))
        self.body = body
        self.transport = transport

    def header(self, name: bytes, default: str = "") -> str:
        """Return the value of a header, by its lower-case name."""
        value = self.headers.get(name)
        return value.decode("latin-1") if value is not None else default

    @property
    def query(self) -> dict[str, str]:
        """The parameters of the query; of those given twice, the first."""
        if not self.query_string:
            return {}
        return dict(reversed(parse_qsl(self.query_string, keep_blank_values=True)))


def _origin_form(target: bytes) -> bytes:
    """Remove the fragment, and the server part of requests in proxy form."""
    if not target.startswith(b"/"):
        _, _, remainder = target.partition(b"://")
        _, slash, path = remainder.partition(b"/")
        target = slash + path or b"/"
    return target.partition(b"#")[0]


class Reply(NamedTuple):
    """The reply to a request."""

    status: int
    body: bytes
    content_type: str = JSON
    headers: Headers = ()


class Sink(Protocol):
    """The receiver of a stream."""

    is_full: bool
    """Whether written data is still buffered. More data would use memory."""

    def send(self, piece: bytes) -> None:
        """Write a piece, already wrapped by :func:`chunk`."""
        ...

    def end(self) -> None:
        """Write the end. The connection is ready for the next request."""
        ...

    def abort(self) -> None:
        """Close the connection immediately and discard unsent data."""
        ...


class ReplyStream(Protocol):
    """A reply that is written incrementally."""

    content_type: str
    """The headers of the reply."""

    def start(self, sink: Sink) -> None:
        """Start to write the body. The head has been sent."""
        ...

    def resume_sending(self) -> None:
        """Continue to write after the sink was full."""
        ...

    def stop(self) -> None:
        """Stop: the client closed the connection."""
        ...


AnyReply = Reply | ReplyStream | Coroutine[Any, Any, Reply | ReplyStream]


class HttpService(Struct, frozen=True):
    """The callbacks of a server: ``answer`` handles requests, ``refuse`` (a status and a message) handles invalid ones.

    ``check_head`` is called with the head of a request before its body is read. It returns the maximum size of the
    body, or a reply that rejects the request. ``review`` does the same for callers that another server has to identify:
    of the body, only what arrived with the head is kept until then.
    """

    answer: Callable[[HttpRequest], AnyReply]
    refuse: Callable[[int, str], Reply]
    check_head: Callable[[HttpRequest], int | Reply]
    review: Callable[[HttpRequest], Coroutine[Any, Any, Reply | None]] | None = None


class Response(Struct, frozen=True, gc=False):
    """The response of a server."""

    status: int
    body: bytes
    retry_after: str | None = None


class ResponseStream(Protocol):
    """A response that is read as it arrives."""

    @property
    def retry_after(self) -> str | None:
        """The value of ``Retry-After``."""
        ...

    async def read_status(self) -> int:
        """Wait for the status."""
        ...

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def rest(self) -> bytes:
        """Read the remaining data."""
        ...


def chunk(piece: bytes) -> bytes:
    """Encode a piece of a stream. An encoded piece can be sent to many clients."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def encoded(reply: Reply, *, keeps_alive: bool, with_body: bool = True) -> bytes:
    """Write a reply as bytes."""
    more = "".join([f"{name}: {_plain(text)}\r\n" for name, text in reply.headers]).encode() if reply.headers else b""
    return b"%b%b%bContent-Length: %d\r\n\r\n%b" % (
        _head(reply.status, reply.content_type),
        more,
        _tail(keeps_alive),
        len(reply.body),
        reply.body if with_body else b"",
    )


def encoded_head(content_type: str, *, keeps_alive: bool) -> bytes:
    """Write the head of a stream."""
    return _head(200, content_type) + _tail(keeps_alive) + b"Transfer-Encoding: chunked\r\n\r\n"


def _plain(text: str) -> str:
    """Prevent header injection by values that a client sent."""
    return "".join([letter if letter.isprintable() else " " for letter in text])


@cached(256)
def _head(status: int, content_type: str) -> bytes:
    from http import HTTPStatus  # for servers only

    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    lines = f"HTTP/1.1 {status} {phrase}\r\nContent-Type: {content_type}\r\nCache-Control: no-cache, private\r\n"
    return lines.encode()


class _Dates:
    """The header with the time, written once a second."""

    second = 0
    line = b""


def _tail(keeps_alive: bool) -> bytes:
    now = int(time.time())
    if now != _Dates.second:
        from email.utils import formatdate  # same as above

        _Dates.second, _Dates.line = now, f"Date: {formatdate(now, usegmt=True)}\r\n".encode()
    return _Dates.line if keeps_alive else _Dates.line + b"Connection: close\r\n"
