"""Files that a user names: regular files up to a limit, private output files, and one wording for each problem."""

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from moorage.common.errors import InputError

MAX_SETTINGS: Final = 16 << 20
"""Limit in bytes of kubeconfigs, configurations, certificates and tokens."""
MAX_OBJECTS: Final = 2 << 30
"""Limit in bytes of manifests, snapshots and clusters: 100,000 complete pods take less than half."""

_OTHER_KINDS: Final[tuple[tuple[Callable[[int], bool], str], ...]] = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)


def _locate(path: str | Path, where: str) -> str:
    """Return ``--option PATH``, ``field: PATH`` or ``PATH``."""
    return f"{where}{'' if where.startswith('-') else ':'} {path}" if where else str(path)


def open_file(path: str | Path, *, where: str = "", hint: str = "") -> BinaryIO:
    """Open a regular file. Raise InputError if that is impossible.

    ``location`` is the flag or field that names the file. ``hint`` describes the expected file.
    """
    location = _locate(path, where)
    try:
        # Opening a pipe waits for its writer, and a device may never end: check before opening.
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            kind = next((name for matches, name in _OTHER_KINDS if matches(mode)), "a device")
            raise InputError(location, f"this is {kind}, not a regular file", hint=hint)
        # A pipe that replaces the file now must not block either.
        return open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(location, "the file does not exist", hint=hint) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(location, f"the file cannot be read: {reason}") from error


def read_file(path: str | Path, *, limit: int = MAX_SETTINGS, where: str = "", hint: str = "") -> bytes:
    """Read a regular file of at most ``limit`` bytes. Raise InputError if that is impossible."""
    location = _locate(path, where)
    with open_file(path, where=where, hint=hint) as file:
        try:
            # The size may be unknown, as in /proc, or grow.
            is_large = os.fstat(file.fileno()).st_size > limit
            content = b"" if is_large else file.read(limit + 1) or b""
        except OSError as error:
            raise InputError(location, f"the file cannot be read: {error.strerror}") from error
    if is_large or len(content) > limit:
        raise too_large(location, limit)
    return content


def read_text(path: str | Path, *, limit: int = MAX_SETTINGS, where: str = "", hint: str = "") -> str:
    """Read a regular file of UTF-8 text. A byte order mark is skipped."""
    content = read_file(path, limit=limit, where=where, hint=hint)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        location = _locate(path, where)
        raise not_utf8(location, content.splitlines(keepends=True)) from error


@contextmanager
def private_file(path: Path, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Write a file that only its owner can read. It appears complete at the end of the block, or does not appear.

    The content is written to a new temporary file, which then replaces the path: a link at the path is not followed.
    """
    import tempfile  # only commands that write files need it

    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def not_writable(path: str | Path, error: OSError, *, where: str = "", hint: str = "") -> InputError:
    """Return the error for an output file that cannot be written."""
    location = _locate(path, where)
    problem = f"the file cannot be written: {error.strerror or error}"
    return InputError(location, problem, hint=hint or "use a file in an existing, writable directory")


def not_utf8(source: str, lines: Iterable[bytes]) -> InputError:
    """Return the error for a file of invalid text, with the position of the first invalid byte."""
    for number, line in enumerate(lines, start=1):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            source = f"{source}, line {number}, column {error.start + 1}"
            break
    return InputError(source, "the file is not UTF-8 text", hint="save it as UTF-8")


def too_large(source: str, limit: int) -> InputError:
    """Return the error for a file above the limit."""
    return InputError(source, f"the file is too large: the limit is {limit >> 20:,} MiB")
