"""Write lines into a rotated file from a separate thread: the caller never waits and never fails.

Lines that come faster than the disk accepts them are dropped and counted, and so are lines that a full disk refuses.
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

import msgspec
import structlog

from moorage.common.errors import InputError
from moorage.common.user_files import not_writable

MIN_SIZE: Final = 64 << 10
MAX_FILES: Final = 1000
MAX_WAITING: Final = 4096
BATCH: Final = 256
BUFFER: Final = "buffer"
DISK: Final = "disk"
CLOSE_SECONDS: Final = 2.0
"""Time limit for the last lines at shutdown."""
_TAIL: Final = 1 << 20

log = structlog.get_logger(__name__)


class LogLimits(msgspec.Struct, frozen=True):
    """The size at which a file is rotated, and the number of rotated files to keep."""

    size: int = 100 << 20
    files: int = 5


class RotatedFile:
    """A file to which whole lines are added; at its limit it becomes FILE.1, and the oldest one is removed."""

    def __init__(self, path: Path, limits: LogLimits) -> None:
        self.path, self._limits = path, limits
        self._descriptor = -1
        self._size = 0

    def open(self) -> None:
        """Open the file, and cut off half a line that a kill left at its end; OSError if that cannot be done."""
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        size = os.fstat(self._descriptor).st_size
        tail = os.pread(self._descriptor, _TAIL, max(0, size - _TAIL))
        cut = len(tail) - (tail.rfind(b"\n") + 1)
        self._size = size - cut
        if cut:
            os.ftruncate(self._descriptor, self._size)

    def write(self, lines: bytes) -> None:
        """Add lines, all or none; OSError if the disk does not take them."""
        if self._descriptor < 0:
            self.open()
        if self._size and self._size + len(lines) > self._limits.size:
            self.close()
            for number in range(self._limits.files, 0, -1):
                older = self._numbered(number - 1) if number > 1 else self.path
                if older.exists():
                    older.replace(self._numbered(number))
            if not self._limits.files:
                self.path.unlink(missing_ok=True)
            self.open()
        offset = 0
        try:
            while offset < len(lines):
                offset += os.pwrite(self._descriptor, lines[offset:], self._size + offset)
        except OSError:
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(lines)

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class LineWriter:
    """Encodes and writes lines in a thread; ``count_dropped`` is called with the cause of a lost line."""

    def __init__(
        self, file: RotatedFile, count_dropped: Callable[[str, int], None], flag: str = "--decision-log"
    ) -> None:
        self._file, self._count_dropped, self._flag = file, count_dropped, flag
        self._waiting: SimpleQueue[Any] = SimpleQueue()
        self._is_failing = False
        self._thread = threading.Thread(target=self._run, name=flag.removeprefix("--"), daemon=True)

    def start(self) -> None:
        """Open the file and start; raise InputError if the file is not writable."""
        try:
            self._file.open()
        except OSError as error:
            raise not_writable(self._file.path, error, where=self._flag) from error
        self._thread.start()

    def put(self, line: msgspec.Struct) -> None:
        """Queue a line, or drop it if the queue is full."""
        if self._waiting.qsize() >= MAX_WAITING:
            self._count_dropped(BUFFER, 1)
        else:
            self._waiting.put(line)

    def close(self) -> None:
        """Write the queued lines, with a timeout."""
        if self._thread.ident is not None:
            self._waiting.put(None)
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        encode = msgspec.json.Encoder().encode
        is_open = True
        while is_open:
            batch = [self._waiting.get()]
            while len(batch) < BATCH and not self._waiting.empty():
                batch.append(self._waiting.get())
            if None in batch:
                is_open = False
                batch = [line for line in batch if line is not None]
            lines = b"".join(encode(line) + b"\n" for line in batch)
            if lines:
                self._write(lines, len(batch))
        self._file.close()

    def _write(self, lines: bytes, count: int) -> None:
        try:
            self._file.write(lines)
        except OSError as error:
            self._count_dropped(DISK, count)
            if not self._is_failing:
                log.warning("lines of the log are lost", file=str(self._file.path), error=error.strerror or str(error))
            self._is_failing = True
        else:
            self._is_failing = False


def check_limits(size: int, files: int) -> LogLimits:
    """Check the limits from flags; raise InputError that names the limit out of bounds."""
    if size < MIN_SIZE:
        hint = "write a size such as 100Mi"
        raise InputError("--decision-log-max-size", f"{size} bytes is too small", hint=hint)
    if not 0 <= files <= MAX_FILES:
        raise InputError("--decision-log-max-files", f"{files} must be between 0 and {MAX_FILES}")
    return LogLimits(size, files)
