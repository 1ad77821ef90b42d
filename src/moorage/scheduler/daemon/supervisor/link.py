"""Messages between supervisor and scheduler over a pair of sockets. Each process ends with the other."""

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from moorage.common.child_process import encode_frame, read_frame
from moorage.kube.client.leader import LeaseSettings
from moorage.scheduler.daemon.options import AuthenticationOptions, AuthorizationOptions, ServingOptions
from moorage.scheduler.daemon.supervisor.stacks import Span

MAX_BACKLOG: Final = 1 << 20
"""Bytes that may be queued for a blocked scheduler. Optional messages are dropped above the limit."""


class Setup(Struct, frozen=True, tag=True):
    """From the scheduler: its configuration."""

    serving: ServingOptions
    authentication: AuthenticationOptions
    authorization: AuthorizationOptions
    stuck_seconds: float
    kubeconfig: str = ""
    master: str = ""
    lease: LeaseSettings | None = None
    component: str = ""


class Located(Struct, frozen=True, tag=True):
    """From the scheduler: the source lines of its plugins."""

    spans: list[Span]


class Campaign(Struct, frozen=True, tag=True):
    """From the scheduler: it is ready to lead."""


class Answered(Struct, frozen=True, tag=True):
    """From the scheduler: the reply to a request for a page."""

    number: int
    status: int
    body: bytes
    content_type: str
    headers: tuple[tuple[str, str], ...] = ()


class SchedulerFailed(Struct, frozen=True, tag=True):
    """From the scheduler: it ends because of an error that the user can fix."""

    message: str


class Lead(Struct, frozen=True, tag=True):
    """From the supervisor: the lease is acquired; start to schedule."""

    is_first: bool = False
    """Whether this is the first leader ever."""


class Announcement(Struct, frozen=True, tag=True):
    """From the supervisor: an event about the lease to record; the lease as JSON."""

    note: str
    lease: bytes


class Stop(Struct, frozen=True, tag=True):
    """From the supervisor: shut down gracefully."""

    reason: str


class Asked(Struct, frozen=True, tag=True):
    """From the supervisor: a request for a page of the scheduler."""

    number: int
    method: str
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Measured(Struct, frozen=True, tag=True):
    """From the supervisor: the number of times to count a metric, or the values to observe."""

    metric: str
    labels: tuple[str, ...]
    number: int = 0
    values: list[float] = []


Message: TypeAlias = (
    Setup | Located | Campaign | Answered | SchedulerFailed | Lead | Announcement | Stop | Asked | Measured
)

_decoder: Final = msgspec.msgpack.Decoder(Message)


class Link:
    """One side of the connection, on a running loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, end: socket.socket) -> "Link":
        """Open one side."""
        return cls(*await asyncio.open_unix_connection(sock=end))

    @property
    def is_backed_up(self) -> bool:
        """Whether the other process is not reading."""
        return self._writer.transport.get_write_buffer_size() > MAX_BACKLOG

    def send(self, message: Message) -> None:
        """Send a message. Never waits."""
        self._writer.write(encode_frame(message))

    async def messages(self) -> AsyncIterator[Message]:
        """Yield messages until the other process closes its side."""
        try:
            while True:
                yield _decoder.decode(await read_frame(self._reader, max_length=1 << 32))
        except (asyncio.IncompleteReadError, ConnectionError):
            return

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()
