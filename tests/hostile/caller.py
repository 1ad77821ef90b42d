"""A client that sends raw bytes and reads responses with a deadline."""

import random
import socket
from collections.abc import Sequence
from http.client import HTTPException, HTTPResponse
from typing import Any, Final, NamedTuple

from moorage.cluster.apiserver.server import MAX_BODY
from tests.hostile.requests import Request

#: Far longer than any response takes, also on a busy machine.
DEADLINE: Final = 60.0
GLANCE: Final = 0.01
RUBBISH: Final = (
    *(b"", b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03"),
    *(b"GET / HTTP/1.1\r\nA", b"GET / HTTP/1.1\r\n: b\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x00" * 100),
    *(
        b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 9\r\n\r\n",
    ),
    *(
        b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nHost: a\nHost: b\r\n\r\n",
    ),
    *(b"GET " + b"/x" * 200_000 + b" HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 60_000 + b"\r\n"),
    *(b"GET /\xff\xfe HTTP/1.1\r\n\r\n", b"GET http://[::1/x HTTP/1.1\r\n\r\n", b"OPTIONS * HTTP/1.1\r\n\r\n"),
)
WAYS: Final = ("plain", "pieces", "chunked", "pipelined", "upgrade", "cut", "hang up", "oversize", "flood", "rubbish")
WEIGHTS: Final = (640, 60, 80, 60, 20, 40, 40, 6, 6, 48)


class Heard(NamedTuple):
    """A response; ``body`` is ``None`` for a watch, which has no end."""

    status: int
    content_type: str
    body: bytes | None


class Silence(Exception):
    """The server did not respond in time, or its response was not HTTP."""


class Caller:
    """Sends requests in various forms over successive connections."""

    def __init__(self, chance: random.Random, port: int, token: str) -> None:
        self.way = ""
        self._chance = chance
        self._port = port
        self._token = token
        self._socket: socket.socket | None = None
        self._file: Any = None

    def call(self, requests: Sequence[Request]) -> list[tuple[Request, Heard]]:
        """Send one request or several pipelined ones; return the responses with their requests."""
        way = self.way = self._chance.choices(WAYS, WEIGHTS)[0]
        batch = list(requests) if way == "pipelined" else list(requests[:1])
        try:
            self._connect(reconnects=way in ("cut", "rubbish"))
            self._send(way, batch)
            if way == "hang up":
                self.close()
                return []
            return self._hear(batch)
        except (BrokenPipeError, ConnectionError):
            # The server may close the connection on unreadable input; the next request shows that it still serves.
            self.close()
            return []

    def _hear(self, batch: list[Request]) -> list[tuple[Request, Heard]]:
        recorded: list[tuple[Request, Heard]] = []
        for request in batch:
            answer = self._cached_result(request.method)
            if answer is None:
                break
            recorded.append((request, answer))
            if self._socket is None:
                break
        return recorded

    def _connect(self, *, reconnects: bool) -> None:
        if reconnects or self._socket is None:
            self.close()
            self._socket = socket.create_connection(("127.0.0.1", self._port), DEADLINE)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._file = _Kept(self._socket)

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._socket is not None:
            self._file.file.close()
            self._socket.close()
            self._socket = None

    def _send(self, way: str, batch: list[Request]) -> None:
        assert self._socket is not None
        complete = b"".join(self._rendered(request, way) for request in batch)
        match way:
            case "rubbish":
                self._socket.sendall(self._chance.choice(RUBBISH) or self._chance.randbytes(300))
                self._socket.shutdown(socket.SHUT_WR)
            case "cut" | "hang up":
                self._socket.sendall(complete[: self._chance.randrange(len(complete))])
                if way == "cut":
                    self._socket.shutdown(socket.SHUT_WR)
            case "pieces":
                for start in range(0, len(complete), 1 + len(complete) // 7):
                    self._socket.sendall(complete[start : start + 1 + len(complete) // 7])
            case _:
                self._socket.sendall(complete)

    def _rendered(self, request: Request, way: str) -> bytes:
        body = request.body
        lines = [f"{request.method} {request.target} HTTP/1.1", "Host: here", f"Authorization: Bearer {self._token}"]
        lines += [f"{name}: {text}" for name, text in request.headers]
        lines += [f"Accept: {request.accept}"] if request.accept else []
        lines += [f"Content-Type: {request.content_type}"] if request.content_type else []
        if way == "upgrade":
            lines += [
                "Connection: Upgrade",
                "Upgrade: websocket",
                "Sec-WebSocket-Version: 13",
                "Sec-WebSocket-Key: eA==",
            ]
        if way == "oversize":
            body += b" " * (MAX_BODY + 1)
        if way == "flood":
            return _head(lines, "Transfer-Encoding: chunked") + b"ffffffff\r\n" + b" " * (MAX_BODY + 1)
        if way == "chunked":
            cut = self._chance.randrange(len(body) + 1)
            pieces = [piece for piece in (body[:cut], body[cut:]) if piece]
            output = b"".join(b"%x;a=b\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
            return _head(lines, "Transfer-Encoding: chunked") + output + b"0\r\nTrailer: x\r\n\r\n"
        return _head(lines, f"Content-Length: {len(body)}") + body

    def _cached_result(self, method: str) -> Heard | None:
        """Read one response; ``None`` if the server closed the connection instead."""
        if not self._file.peek():
            self.close()
            return None
        try:
            response = HTTPResponse(self._file, method=method)
            response.begin()
            kind = response.getheader("Content-Type", "")
            if response.chunked and response.status == 200:
                self._glance()
                return Heard(response.status, kind, None)
            received = Heard(response.status, kind, response.read())
        except (HTTPException, TimeoutError) as error:
            raise Silence(repr(error)) from error
        if response.will_close:
            self.close()
        return received

    def _glance(self) -> None:
        """Read a watch for a short time, and disconnect."""
        assert self._socket is not None
        self._socket.settimeout(GLANCE)
        try:
            self._socket.recv(1 << 16)
        except TimeoutError:
            pass  # no event in that time
        finally:
            self.close()


def _head(lines: list[str], last: str) -> bytes:
    return "\r\n".join((*lines, last, "", "")).encode(errors="replace")


class _Kept:
    """A socket for http.client, which would close it after each response and lose its read buffer."""

    def __init__(self, connection: socket.socket) -> None:
        self.file = connection.makefile("rb")

    def makefile(self, *_: object) -> "_Kept":
        return self

    def peek(self) -> bytes:
        try:
            return self.file.peek(1)
        except TimeoutError as error:
            raise Silence("no answer") from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def close(self) -> None:
        """Do not close."""

    def flush(self) -> None:
        """Do nothing: the socket is only read."""
