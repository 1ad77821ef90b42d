"""Unauthenticated clients that send endless data or connect repeatedly. Their cost in bytes is bounded."""

import gc
import itertools
import socket
import ssl
import tempfile
import time
import urllib.request
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import yaml

from moorage.cluster.apiserver.server import ApiServer
from tests.live.scheduler import SchedulerProcess
from tests.live.scheduler import scheduler as running_scheduler
from tests.support.control_plane import free_ports

MAX_SENT: Final = 4 << 20
"""Maximum bytes read from an unauthenticated client, in addition to the buffers of two sockets."""
MAX_GROWTH: Final = 32 << 20
MAX_UNREAD: Final = 320 << 20
"""Growth by the 256 connections that the scheduler keeps; TLS buffers up to 1 MiB for each."""
PIPELINES: Final = 480
WAVES: Final = 3
SILENT: Final = 2000
CROWD: Final = 3000
DEADLINE: Final = 30.0
PROBE_SECONDS: Final = 15.0
"""The chart's timeout of a probe."""
CHUNKED: Final = b"POST /api/v1/nodes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
WATCH: Final = b"GET /readyz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


def repeated(first: bytes, piece: bytes) -> Iterator[bytes]:
    yield first
    yield from itertools.repeat(piece * (1 + 16384 // len(piece)))


ENDLESS: Final[dict[str, tuple[bytes, bytes]]] = {
    "an address": (b"GET /", b"x"),
    "headers": (b"GET / HTTP/1.1\r\n", b"A: b\r\n"),
    "one header": (b"GET / HTTP/1.1\r\nA: ", b"x"),
    "tiny chunks": (CHUNKED, b"2\r\nab\r\n"),
    "a chunk": (CHUNKED + b"7fffffff\r\n", b"x"),
    "an extension of a chunk": (CHUNKED + b"1;", b"x"),
    "trailers": (CHUNKED + b"0\r\n", b"A: b\r\n"),
    "one trailer": (CHUNKED + b"0\r\nA: ", b"x"),
    "trailers of a public endpoint": (WATCH + b"0\r\n", b"A: b\r\n"),
    "a body with a length": (b"POST /api/v1/nodes HTTP/1.1\r\nContent-Length: 2147483647\r\n\r\n", b"x"),
    "data that is not HTTP": (b"", b"\x00\x01\x02"),
}


def problems(server: ApiServer) -> list[str]:
    """Connect without a token in every known way; return the problems."""
    port = int(server.plain_url.rpartition(":")[2])
    selected = [problem for name, pieces in ENDLESS.items() if (problem := _flood(port, name, repeated(*pieces)))]
    selected += _smuggle(port, f"Authorization: Bearer {server.token}")
    for name, visit in {"short connections": _come_and_go, "open connections": _stay}.items():
        before = _resident()
        visit(int(server.url.rpartition(":")[2]))
        if (growth := _resident() - before) > MAX_GROWTH:
            selected.append(f"{CROWD} {name} took {growth >> 20} MiB")
        selected += _still_serves(server, name)
    return selected


def problems_of_daemon(server: ApiServer) -> list[str]:
    """Connect without a token to a scheduler's port, where its supervisor serves the health endpoints."""
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory() as directory:
        kubeconfig = Path(directory, "kubeconfig")
        kubeconfig.write_text(yaml.safe_dump(server.kubeconfig()))
        with running_scheduler(kubeconfig, f"--secure-port={port}") as process:
            return list(_find_violations(process, port))


def _find_violations(process: SchedulerProcess, port: int) -> Iterator[str]:
    deadline = time.monotonic() + DEADLINE
    while not _is_healthy(port):
        if time.monotonic() > deadline:
            yield f"the scheduler never serves:\n{process.log[-2000:]}"
            return
        time.sleep(0.1)
    before = _resident(process.pid)
    for name, pieces in ENDLESS.items():
        if problem := _flood(port, name, repeated(*pieces), encrypted=True):
            yield f"the scheduler's port: {problem}"
    _come_and_go(port)
    _stay(port)
    if (growth := _resident(process.pid) - before) > MAX_GROWTH:
        yield f"the scheduler's port: strangers took {growth >> 20} MiB"
    yield from _unread(process, port)
    yield from _silent(port)
    if not _is_healthy(port) or "Traceback" in process.log:
        yield f"the scheduler's port after strangers:\n{process.log[-2000:]}"


def _is_healthy(port: int) -> bool:
    try:
        with _connected(port, encrypted=True) as connection:
            connection.settimeout(PROBE_SECONDS)
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            return connection.recv(12) == b"HTTP/1.1 200"
    except OSError:
        return False


def _connected(port: int, *, encrypted: bool) -> socket.socket:
    plain = socket.create_connection(("127.0.0.1", port), DEADLINE)
    if not encrypted:
        return plain
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(plain)


def _flood(port: int, name: str, pieces: Iterator[bytes], *, encrypted: bool = False) -> str:
    sent = 0
    with _connected(port, encrypted=encrypted) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        with suppress(ConnectionError, ssl.SSLError):
            for piece in pieces:
                connection.settimeout(0.5)
                try:
                    connection.sendall(piece)
                except TimeoutError:
                    break  # the server has stopped reading
                sent += len(piece)
                if sent > MAX_SENT and not _is_refused(connection):
                    return f"{name}: {sent} bytes were read from a stranger, and no answer came"
                if sent > MAX_SENT:
                    break
    return ""


def _is_refused(connection: socket.socket) -> bool:
    connection.settimeout(DEADLINE)
    try:
        return connection.recv(12)[:10] in (b"HTTP/1.1 4", b"")
    except TimeoutError:
        return False
    except (ConnectionError, ssl.SSLError):
        return True


def _smuggle(port: int, trailer: str) -> list[str]:
    """Authenticate with a trailer, which a proxy would not have checked."""
    request = b"GET /api/v1/nodes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n%b\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), DEADLINE) as connection:
        connection.sendall(request % trailer.encode())
        status = connection.recv(12)
    return [] if status == b"HTTP/1.1 401" else [f"a token in a trailer: {status!r}"]


def _come_and_go(port: int) -> None:
    """Connect, request and disconnect, as probes do. Garbage collection is as rare as in the daemon."""
    gc.disable()
    try:
        for _ in range(CROWD):
            with _connected(port, encrypted=True) as connection:
                connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                while connection.recv(65536):
                    pass
    finally:
        gc.enable()


def _stay(port: int) -> None:
    """Connect to the TLS port and send nothing, as often as descriptors allow."""
    silent: list[socket.socket] = []
    try:
        for _ in range(min(CROWD, 400)):
            silent.append(_connected(port, encrypted=False))
    finally:
        for connection in silent:
            connection.close()


def _unread(process: SchedulerProcess, port: int) -> Iterator[str]:
    """Pipeline tiny requests on many connections, and read no response. Repeated waves take no more memory than one."""
    before = _resident(process.pid)
    for wave in range(1, WAVES + 1):
        connections = []
        try:
            for _ in range(PIPELINES):
                with suppress(OSError):
                    connections.append(_connected(port, encrypted=True))
            for connection in connections:
                connection.settimeout(0.05)
                with suppress(OSError):
                    connection.sendall(b"GET / HTTP/1.1\r\n\r\n" * 30_000)
            if (growth := _resident(process.pid) - before) > MAX_UNREAD:
                yield f"{wave} times {len(connections)} connections with pipelined requests took {growth >> 20} MiB"
            if not _is_healthy(port):
                yield "pipelined requests: /livez does not respond"
        finally:
            for connection in connections:
                connection.close()


def _silent(port: int) -> Iterator[str]:
    """Connect repeatedly without a handshake, and probe as a kubelet does."""
    silent: deque[socket.socket] = deque()
    try:
        for number in range(SILENT):
            try:
                client = socket.socket()
                client.setblocking(False)
                client.connect_ex(("127.0.0.1", port))
                silent.append(client)
            except OSError:
                silent.popleft().close()
            if number % 200 == 199 and not _is_healthy(port):
                yield f"/livez does not respond next to {len(silent)} silent connections"
                return
    finally:
        for connection in silent:
            connection.close()


def _still_serves(server: ApiServer, name: str) -> list[str]:
    request = urllib.request.Request(f"{server.plain_url}/readyz")
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
            return [] if answer.status == 200 else [f"after {name}: {answer.status}"]
    except OSError as error:
        return [f"after {name}: {error}"]


def _resident(pid: int | str = "self") -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
