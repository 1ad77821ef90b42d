"""Parsing of requests and responses with httptools, with limits on everything except the body of a response.

This module does no I/O: both sides of a connection feed received bytes and read the results. A parser and its httptools
parser refer to each other. :meth:`close` breaks the cycle, so that a closed connection is freed immediately instead of
in a garbage collection, which is rare.
"""

import asyncio
import re
from collections import deque
from typing import Final

import httptools

from moorage.kube.http.messages import HttpRequest, HttpService, Reply, Response

MAX_HEAD: Final = 1 << 17
"""Bytes of a request line or status line and the headers."""
MAX_HEADERS: Final = 1000
SLICE: Final = 1024
"""Bytes parsed in one step. This limits how many complete requests of a client wait in memory."""
MAX_RECEIVED: Final = 64 << 20
"""Bytes of incomplete requests of all connections to a server."""
HEADER_BYTES: Final = 200
"""Memory of a parsed header in addition to its text."""
MAX_FRAMING_PER_BYTE: Final = 8
"""A chunk of one byte takes five bytes of framing; more overhead than this is an attack."""
MAX_INTERIM: Final = 20
"""Responses such as ``100 Continue`` before the final response."""

_RETRY_AFTER: Final = re.compile(rb"\r\nretry-after:([^\r\n]*)", re.IGNORECASE)
_LENGTH: Final = re.compile(rb"\r\n(?:content-length|transfer-encoding):", re.IGNORECASE)


class MalformedMessage(Exception):
    """The data is not HTTP, or exceeds a limit."""


class ReceiveBudget:
    """The bytes that a server keeps of incomplete requests: heads, bodies, and data that is not parsed yet."""

    used = 0


class RequestParser:
    """Parses requests into ``requests``, each with whether the connection is kept alive.

    :meth:`feed` stores data, and :meth:`advance` parses it until a request is complete. So pipelined requests cost no
    more memory than their bytes. An invalid request becomes a ``refusal``, and nothing after it is read. Trailers are
    ignored: authentication by a header must not accept a trailer, which a proxy has not checked.
    """

    def __init__(
        self, service: HttpService, transport: asyncio.BaseTransport | None = None, budget: ReceiveBudget | None = None
    ) -> None:
        self.requests: deque[tuple[HttpRequest, bool]] = deque()
        self.refusal: Reply | None = None
        self.wants_continue = False
        self.is_upgrade = False
        self.is_partial = False
        """Whether a request has begun and is not complete."""
        self._service = service
        self._transport = transport
        self._budget = budget or ReceiveBudget()
        self._held_bytes = 0
        self._unread = b""
        self._position = 0
        self._body: bytes | bytearray = b""
        self._parser = httptools.HttpRequestParser(self)
        self._begin()

    def _begin(self) -> None:
        self.is_partial = False
        self.unreviewed: HttpRequest | None = None
        """The head of a request. Its body must not be read before a review."""
        self._has_head = False
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._body = b""
        self._length = 0
        self._max_body = 0
        self._received = 0

    def _account(self) -> None:
        """Add the data that this connection keeps to the budget of the server."""
        kept_bytes = 0
        if self.refusal is None and self.has_begun:
            # A partial request keeps its head until its body is complete. Framing of chunks is not kept.
            head = (
                min(self._received - len(self._body), MAX_HEAD) + HEADER_BYTES * len(self._headers)
                if self.is_partial
                else 0
            )
            kept_bytes = len(self._unread) + len(self._body) + head
        self._budget.used += kept_bytes - self._held_bytes
        self._held_bytes = kept_bytes

    @property
    def has_unread(self) -> bool:
        """Whether received data is not parsed yet."""
        return self._position < len(self._unread)

    @property
    def has_begun(self) -> bool:
        """Whether a part of a request was received."""
        return self.is_partial or self.has_unread

    def feed(self, data: bytes) -> None:
        """Store received data."""
        if self.refusal is None:
            self._unread = self._unread[self._position :] + data if self.has_unread else data
            self._position = 0
            self._account()
            if self._budget.used > MAX_RECEIVED:
                self.refuse(503, "too many incomplete requests are being received: retry later")

    def advance(self) -> None:
        """Parse stored data until a request is complete, or its body needs a review."""
        while self.has_unread and not self.requests and self.refusal is None and self.unreviewed is None:
            start = self._position
            self._position += max(SLICE, self._length - len(self._body))
            self._parse(self._unread[start : self._position])
        if not self.has_unread:
            self._unread = b""
            self._position = 0
        if self._held_bytes or self.is_partial:
            self._account()

    def reviewed(self, refusal: Reply | None) -> None:
        """Continue with the body after its review, or reject the request."""
        self.unreviewed = None
        if refusal is not None:
            self._reject(refusal)

    def _parse(self, data: bytes) -> None:
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # Upgrades are not supported: the request is handled as if it had not requested one.
            self.is_upgrade = True
            self.is_partial = False
            self._unread = b""
        except httptools.HttpParserError as error:
            self.refuse(400, f"this is not HTTP: {error}")
        if self._received:  # else a request has just ended, and the next has not started
            self._check_limits()

    def _check_limits(self) -> None:
        size = len(self._body)
        if not self._has_head and (self._received > MAX_HEAD or len(self._headers) > MAX_HEADERS):
            self._refuse_head()
        elif self._received - size > 2 * MAX_HEAD + MAX_FRAMING_PER_BYTE * size:
            self.refuse(400, "the request has more framing than content")

    def _refuse_head(self) -> None:
        self.refuse(431, f"the head of the request is longer than {MAX_HEAD} bytes or {MAX_HEADERS} headers")

    def refuse(self, status: int, message: str) -> None:
        """Reject the current request, unless it is already rejected."""
        if self.refusal is None:
            self._reject(self._service.refuse(status, message))

    def _reject(self, reply: Reply) -> None:
        """Set the error response, and discard the request. Its remaining bytes are not read."""
        self.refusal = reply
        self.is_partial = True
        self._unread = self._body = b""
        self._headers = []
        self._account()

    def close(self) -> None:
        """Release all references."""
        self.requests.clear()
        self._budget.used -= self._held_bytes
        self._held_bytes = 0
        del self._parser

    def on_message_begin(self) -> None:
        """Note that a request has begun."""
        self.is_partial = True

    def on_url(self, url: bytes) -> None:
        """Append a piece of the target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header. Trailers are dropped."""
        if not self._has_head:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Check the headers before the body is read."""
        if len(self._headers) > MAX_HEADERS:
            self._refuse_head()
        self._has_head = True
        has_body, hosts, length = False, 0, 0
        for name, value in self._headers:
            if name == b"host":
                hosts += 1
            elif name == b"content-length":
                has_body = value != b"0"
                length = int(value[:18]) if value.isdigit() else 0
            elif name == b"transfer-encoding":
                has_body = True
            elif name == b"expect":
                self.wants_continue = value.lower() == b"100-continue"
        if hosts > 1:
            self.refuse(400, "too many Host headers")
        if not has_body or self.refusal is not None:
            return
        head = self._request(b"")
        verdict = self._service.check_head(head)
        if isinstance(verdict, Reply):
            self._reject(verdict)
            return
        self._max_body = verdict
        if length > verdict:
            self._refuse_length()
        elif self._service.review is not None:
            self.unreviewed = head
        self._length = length

    def _request(self, body: bytes) -> HttpRequest:
        method = self._parser.get_method().decode()
        return HttpRequest(method, self._target, self._headers, body, self._transport)

    def on_body(self, piece: bytes) -> None:
        """Append a piece of the body to one buffer, because a body can have many small pieces."""
        if self.refusal is not None:
            return
        if not self._body:
            self._body = piece
        else:
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += piece
        if len(self._body) > self._max_body:
            self._refuse_length()

    def _refuse_length(self) -> None:
        self.refuse(413, f"Request entity too large: limit is {self._max_body}")

    def on_message_complete(self) -> None:
        """Append the request. It is not handled during parsing."""
        if self.refusal is not None:
            return
        self.requests.append((self._request(bytes(self._body)), self._parser.should_keep_alive()))
        self.wants_continue = False
        self._begin()


class ResponseParser:
    """Parses one response after another; after :meth:`take` it expects the next one.

    ``status`` is 0 until the head is complete. ``pieces`` contains the body, and a stream reader removes them. Interim
    responses (such as ``100 Continue``) are skipped.
    """

    def __init__(self) -> None:
        self.status = 0
        self.is_complete = False
        self.keeps_alive = False
        self.pieces: list[bytes] = []
        self._head = b""
        self._count = 0
        self._interim = 0
        # The parser appends to the list directly, without a Python call.
        self.on_body = self.pieces.append
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        """Parse received data; MalformedMessage if it is not HTTP."""
        if not self.status:
            self._head += data
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise MalformedMessage(f"invalid HTTP: {error or 'another protocol'}") from error
        if not self.status and (len(self._head) > MAX_HEAD or self._interim > MAX_INTERIM):
            raise MalformedMessage(f"the head of the message is larger than {MAX_HEAD} bytes")

    def close(self) -> None:
        """Release the parser. Parsed data is kept."""
        del self._parser

    def on_headers_complete(self) -> None:
        """Note the status."""
        if self.is_complete:
            self.keeps_alive = False  # the server sent more than one response
            return
        status = self._parser.get_status_code()
        if status < 100:
            raise MalformedMessage(f"invalid status {status}")
        if status >= 200:
            self.status = status

    def on_message_complete(self) -> None:
        """Mark the response as complete. Data after it is not part of it."""
        if self.is_complete:
            return
        if not self.status:
            self._interim += 1
            self._head = self._head.partition(b"\r\n\r\n")[2]
            return
        self._interim = 0
        self.is_complete = True
        self.keeps_alive = self._parser.should_keep_alive()
        self._count = len(self.pieces)

    def take(self) -> Response:
        """Return the complete response, and expect the next one."""
        # Of the headers only one matters, and only with bad news.
        retry_after = None if self.status < 400 else self.retry_after
        pieces = self.pieces if len(self.pieces) == self._count else self.pieces[: self._count]
        response = Response(self.status, b"".join(pieces), retry_after)
        self.status = 0
        self.is_complete = False
        self.pieces.clear()
        self._head = b""
        return response

    @property
    def retry_after(self) -> str | None:
        """The value of ``Retry-After``."""
        match = _RETRY_AFTER.search(self._head.partition(b"\r\n\r\n")[0])
        return None if match is None else match[1].decode(errors="replace").strip()

    def end_with_connection(self) -> bool:
        """Treat the end of the connection as the end of a response without a length."""
        if self.status and not self.is_complete and _LENGTH.search(self._head.partition(b"\r\n\r\n")[0]) is None:
            self.is_complete = True
            self._count = len(self.pieces)
        return self.is_complete
