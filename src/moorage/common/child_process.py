"""Child processes that run a Python module and exchange framed messages with their parent.

A frame is a length of four bytes and a message in msgpack. The child receives frames on standard input and sends them
on standard output. It ends with its parent: its input ends, and on Linux the kernel kills it. :class:`RestartPolicy`
decides when a child that ended is restarted.
"""

import asyncio
import os
import socket
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any, Final, TypeVar

import msgspec

from moorage.common.forked_process import end_with_parent

LENGTH: Final = 4
MAX_FRAME: Final = 64 << 20
NICENESS: Final = 10
KILL_SECONDS: Final = 1.0
T = TypeVar("T")

_encode = msgspec.msgpack.Encoder().encode


class ChildEnded(Exception):
    """The child process has ended, or has closed its pipes."""


class RestartPolicy:
    """Decides when a child process that failed is restarted, without starting anything itself.

    The pause is ``first`` seconds and doubles with each failure, up to ``longest``; success resets it. After
    ``max_failures`` within ``window`` seconds, :attr:`is_exhausted` is True until the next success.
    """

    def __init__(
        self,
        first: float = 1.0,
        longest: float = 60.0,
        *,
        max_failures: float = float("inf"),
        window: float = 600.0,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._first, self._longest = first, longest
        self._max_failures, self._window = max_failures, window
        self._now = now
        self._pause = 0.0
        self._not_before = 0.0
        self._failures: list[float] = []

    def failed(self) -> None:
        """Record that the process ended, or had to be killed."""
        now = self._now()
        self._failures = [*(moment for moment in self._failures if now - moment < self._window), now]
        self._pause = min(self._longest, 2.0 * self._pause or self._first)
        self._not_before = now + self._pause

    def succeeded(self) -> None:
        """Record that the process works. The next failure is treated as the first."""
        self._pause = self._not_before = 0.0
        self._failures.clear()

    @property
    def remaining(self) -> float:
        """Seconds until the next start is allowed; 0 if it is allowed now."""
        return max(0.0, self._not_before - self._now())

    @property
    def is_exhausted(self) -> bool:
        """Whether the process failed too often to be restarted."""
        return len(self._failures) >= self._max_failures


def encode_frame(message: object) -> bytes:
    """Return a message as a frame."""
    body = _encode(message)
    return len(body).to_bytes(LENGTH, "big") + body


async def read_frame(reader: asyncio.StreamReader, max_length: int = MAX_FRAME) -> bytes:
    """Return the body of the next frame. Raise IncompleteReadError at the end of the stream."""
    return await reader.readexactly(_check_length(await reader.readexactly(LENGTH), max_length))


def _check_length(head: bytes, max_length: int = MAX_FRAME) -> int:
    length = int.from_bytes(head, "big")
    if length > max_length:
        raise msgspec.DecodeError(f"a frame of {length} bytes is too large")
    return length


def _command(module: str, *arguments: str) -> list[str]:
    # -P: without it, `python -m` imports Python files from the current directory.
    return [sys.executable, "-P", "-m", module, *arguments]


def _environment() -> dict[str, str]:
    """Return an environment in which the child can import the modules that its parent can import."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}


class ChildProcess:
    """A child process of an event loop."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._input, self._output = process.stdin, process.stdout
        self.pid = process.pid

    @classmethod
    async def start(cls, module: str) -> "ChildProcess":
        """Start a module that opens a ParentChannel. A cancelled start leaves no process behind."""
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *_command(module, str(os.getpid())), stdin=PIPE, stdout=PIPE, env=_environment()
            )
        )
        try:
            return cls(await asyncio.shield(starting))
        except asyncio.CancelledError:
            await cls(await starting).close()
            raise

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.returncode is None

    def write(self, frames: bytes) -> None:
        """Write encoded frames into the buffer of the pipe. Never waits."""
        self._input.write(frames)

    async def drain(self) -> None:
        """Wait until the child has read most of the buffer. Raise ChildEnded if it cannot."""
        try:
            await self._input.drain()
        except (OSError, RuntimeError) as error:  # uvloop raises RuntimeError if a pipe is closed
            raise ChildEnded("the process has ended") from error

    async def send(self, message: object) -> None:
        """Send a message."""
        self.write(encode_frame(message))
        await self.drain()

    async def receive(self, decoder: "msgspec.msgpack.Decoder[T]") -> T:
        """Return the next message. Raise ChildEnded at its end, and MsgspecError for an invalid message."""
        try:
            return decoder.decode(await read_frame(self._output))
        except (asyncio.IncompleteReadError, OSError, RuntimeError) as error:
            raise ChildEnded(f"the process ended with code {await self._process.wait()}") from error

    def kill(self) -> None:
        """Kill the process without waiting for its end."""
        if self.is_running:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def close(self) -> None:
        """Kill the process and wait for its end, even if cancelled."""
        self.kill()
        exit_wait = asyncio.ensure_future(self._process.wait())
        try:
            await asyncio.shield(exit_wait)
        except asyncio.CancelledError:
            await exit_wait
            raise
        finally:
            # Unread data would keep the pipes open.
            self._process._transport.close()  # type: ignore[attr-defined]


class BlockingChild:
    """A child process of synchronous code. Each operation has a deadline of :func:`time.monotonic`."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._socket, child_socket = socket.socketpair()
        with child_socket:
            # No parent id: the kernel would end the child with the thread that started it, which may be short-lived.
            command, child_fd = _command(module, "0", *arguments), child_socket.fileno()
            self._process = subprocess.Popen(command, stdin=child_fd, stdout=child_fd, env=_environment())

    def send(self, message: object, deadline: float) -> None:
        """Send a message. Raise TimeoutError or another OSError."""
        self._set_timeout(deadline)
        self._socket.sendall(encode_frame(message))

    def receive(self, decoder: "msgspec.msgpack.Decoder[T]", deadline: float) -> T:
        """Return the next message. Raise TimeoutError or another OSError."""
        return decoder.decode(self._read(_check_length(self._read(LENGTH, deadline)), deadline))

    def _read(self, count: int, deadline: float) -> bytes:
        content = b""
        while len(content) < count:
            self._set_timeout(deadline)
            chunk = self._socket.recv(count - len(content))
            if not chunk:
                raise ConnectionResetError("the process closed the connection")
            content += chunk
        return content

    def _set_timeout(self, deadline: float) -> None:
        # A timeout of 0 would make the socket non-blocking, which raises another exception.
        self._socket.settimeout(max(deadline - monotonic(), 1e-6))

    def close(self) -> None:
        """Kill the process."""
        self._socket.close()
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(KILL_SECONDS)


class ParentChannel:
    """The child's side: takes over standard input and output. ``arguments`` are those of the command line."""

    def __init__(self) -> None:
        parent, *self.arguments = sys.argv[1:]
        if int(parent):
            end_with_parent(int(parent))
        self._input = os.fdopen(os.dup(0), "rb")
        self._output = os.fdopen(os.dup(1), "wb")
        # Plugins and logs may print, or read standard input: neither must touch the frames.
        os.dup2(2, 1)
        with open(os.devnull, "rb") as empty:
            os.dup2(empty.fileno(), 0)

    def send(self, message: object) -> None:
        """Send a message."""
        self._output.write(encode_frame(message))
        self._output.flush()

    def receive(self, decoder: "msgspec.msgpack.Decoder[T]") -> T | None:
        """Return the next message, or None if the parent has closed the channel."""
        head = self._input.read(LENGTH)
        return None if len(head) < LENGTH else decoder.decode(self._input.read(_check_length(head)))

    async def open_reader(self) -> asyncio.StreamReader:
        """Return a stream of the frames on the running loop, for :func:`read_frame`."""
        reader = asyncio.StreamReader()
        protocol: Any = asyncio.StreamReaderProtocol(reader)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, self._input)
        return reader


def lower_priority() -> None:
    """Leave the processors to the scheduler."""
    os.nice(NICENESS)
