"""What supervisor and scheduler send each other: messages over a pair of sockets; the end of one is the end of both."""

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from moorage.kube.client.leader import LeaseSettings
from moorage.scheduler.daemon.options import AuthenticationOptions, AuthorizationOptions, ServingOptions
from moorage.scheduler.daemon.supervisor.stacks import Span

_LENGTH: Final = 4
MAX_BACKLOG: Final = 1 << 20
"""Bytes that may wait for a scheduler that does not read; what can be done without is dropped beyond."""


class Setup(Struct, frozen=True, tag=True):
    """The scheduler sends what it was configured to be."""

    serving: ServingOptions
    authentication: AuthenticationOptions
    authorization: AuthorizationOptions
    stuck_seconds: float
    kubeconfig: str = ""
    master: str = ""
    lease: LeaseSettings | None = None
    component: str = ""


class Located(Struct, frozen=True, tag=True):
    """The scheduler sends where the code of its plugins stands."""

    spans: list[Span]


class Campaign(Struct, frozen=True, tag=True):
    """The scheduler is ready to lead."""


class Answered(Struct, frozen=True, tag=True):
    """The scheduler answers a request for a page."""

    number: int
    status: int
    body: bytes
    content_type: str
    headers: tuple[tuple[str, str], ...] = ()


class SchedulerFailed(Struct, frozen=True, tag=True):
    """The scheduler ends because of something that a user can fix."""

    message: str


class Lead(Struct, frozen=True, tag=True):
    """The supervisor got the lease: begin to work."""

    is_first: bool = False
    """Whether nobody has led before."""


class Announcement(Struct, frozen=True, tag=True):
    """The supervisor has an event about the lease to record; the lease as JSON."""

    note: str
    lease: bytes


class Stop(Struct, frozen=True, tag=True):
    """The supervisor was asked to end: finish what is under way, and end."""

    reason: str


class Asked(Struct, frozen=True, tag=True):
    """The supervisor got a request for a page that only the scheduler can write."""

    number: int
    method: str
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Measured(Struct, frozen=True, tag=True):
    """The supervisor has something to count, or with a value to observe, among the scheduler's metrics."""

    metric: str
    labels: tuple[str, ...]
    value: float | None = None


Message: TypeAlias = (
    Setup | Located | Campaign | Answered | SchedulerFailed | Lead | Announcement | Stop | Asked | Measured
)

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Message)


class Link:
    """One end of the pair, on a running loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, end: socket.socket) -> "Link":
        """Open an end."""
        return cls(*await asyncio.open_unix_connection(sock=end))

    @property
    def is_backed_up(self) -> bool:
        """Whether the other end has not read for long."""
        return self._writer.transport.get_write_buffer_size() > MAX_BACKLOG

    def send(self, message: Message) -> None:
        """Send a message; never waits."""
        self._writer.write(framed(message))

    async def messages(self) -> AsyncIterator[Message]:
        """Yield what comes, until the other end is gone."""
        try:
            while True:
                length = int.from_bytes(await self._reader.readexactly(_LENGTH), "big")
                yield _decoder.decode(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            return

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


def framed(message: Message) -> bytes:
    """Write a message as it goes over the link."""
    body = _encoder.encode(message)
    return len(body).to_bytes(_LENGTH, "big") + body
