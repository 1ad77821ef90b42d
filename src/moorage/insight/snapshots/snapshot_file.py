"""Snapshot files: a Kubernetes List with the time and the server, one object per line."""

import gzip
import zlib
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import msgspec

from moorage.common.errors import InputError
from moorage.common.user_files import MAX_OBJECTS, not_writable, private_file, read_file, too_large
from moorage.kube.api.codec import UNREADABLE
from moorage.kube.api.meta import format_time, parse_time

TAKEN_AT: Final = "moorage.io/taken-at"
TAKEN_FROM: Final = "moorage.io/taken-from"
VERSIONS: Final = "moorage.io/resource-versions"
OLD_SECONDS: Final = 600.0
"""Age from which a note warns that the snapshot is old."""
COMPRESSED: Final = ".gz"
MAX_RATIO: Final = 100
MIN_UNPACKED: Final = 256 << 20
_CHUNK: Final = 1 << 20


class SnapshotFacts(msgspec.Struct, frozen=True):
    """When a snapshot was taken, in seconds since 1970, and from which server."""

    taken_at: float
    source: str

    def age(self, now: float) -> str:
        """Return the age in words.

        >>> SnapshotFacts(0.0, "").age(90.0), SnapshotFacts(0.0, "").age(7200.0), SnapshotFacts(0.0, "").age(200_000.0)
        ('2 minutes', '2 hours', '2 days')
        """
        seconds = max(0.0, now - self.taken_at)
        for unit, length in (("day", 86_400.0), ("hour", 3600.0), ("minute", 60.0)):
            if seconds >= length:
                count = round(seconds / length)
                return f"{count} {unit}" + ("s" if count > 1 else "")
        return f"{round(seconds)} seconds"


def write_snapshot(
    path: Path, contents: Iterable[Mapping[str, Any]], *, source: str, versions: Mapping[str, str]
) -> None:
    """Write a snapshot that only its owner can read, or nothing; InputError if it cannot be written."""
    annotations = {
        TAKEN_AT: format_time(datetime.now(UTC).timestamp()),
        TAKEN_FROM: source,
        VERSIONS: msgspec.json.encode(versions).decode(),
    }
    head = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "metadata": {"annotations": annotations}})
    encoder = msgspec.json.Encoder()
    try:
        with (
            private_file(path) as plain,
            gzip.GzipFile("", "wb", 3, plain) if path.suffix == COMPRESSED else nullcontext(plain) as file,
        ):
            file.write(head[:-1] + b',"items":[\n')
            is_first = True
            for content in contents:
                file.write((b"" if is_first else b",\n") + encoder.encode(content))
                is_first = False
            file.write(b"\n]}\n")
    except OSError as error:
        raise not_writable(path, error) from error


def read_snapshot(path: str) -> tuple[list[Any], SnapshotFacts]:
    """Read a snapshot. Raise InputError if the file is not one."""
    hint = "create a snapshot with: moorage snapshot FILE; use -f for other files of objects"
    raw = read_file(path, limit=MAX_OBJECTS, hint=hint)
    try:
        content = msgspec.json.decode(_unpack(path, raw) if path.endswith(COMPRESSED) else raw)
    except UNREADABLE as error:
        raise InputError(path, "not a snapshot (it is not JSON)", hint=hint) from error
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(path, f"not a snapshot: {error}", hint=hint) from error
    annotations = _mapping(_mapping(_mapping(content).get("metadata")).get("annotations"))
    try:
        taken_at = parse_time(str(annotations.get(TAKEN_AT)))
    except ValueError:
        taken_at = None
    if taken_at is None or not isinstance(content.get("items"), list):
        raise InputError(path, "not a snapshot: the timestamp is missing", hint=hint)
    return content["items"], SnapshotFacts(taken_at, str(annotations.get(TAKEN_FROM, "")))


def _unpack(path: str, packed: bytes) -> bytearray:
    """Decompress a file in steps, because a small file can expand beyond all memory."""
    content = bytearray()
    # Real snapshots are compressed by a factor of 10 to 50.
    limit = min(MAX_OBJECTS, max(MIN_UNPACKED, MAX_RATIO * len(packed)))
    with gzip.open(BytesIO(packed)) as file:
        while chunk := file.read(_CHUNK):
            content += chunk
            if len(content) > limit:
                raise too_large(path, limit)
    return content


def _mapping(content: Any) -> Mapping[str, Any]:
    return content if isinstance(content, dict) else {}
