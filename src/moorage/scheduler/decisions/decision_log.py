"""The decision log that ``--decision-log`` writes: one decision per line, as JSON.

The fields are those of :class:`Decision` and a few that only a running scheduler has. The chosen node and its
runners-up are described. Rejected nodes are counted in groups.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol, TypeVar

import msgspec

from moorage.common.errors import InputError
from moorage.common.user_files import open_file
from moorage.kube.api.codec import UNREADABLE
from moorage.kube.api.meta import parse_time
from moorage.scheduler.decisions.decision import Decision


class TimedLine(Protocol):
    """A line with a timestamp."""

    @property
    def time(self) -> str:
        """The time in UTC, in RFC 3339 format."""
        ...


L = TypeVar("L", bound=TimedLine)

MAX_LINE: Final = 16 << 20
"""Longer lines are invalid."""
_SHOWN: Final = 60


class RejectedNodes(msgspec.Struct, frozen=True, omit_defaults=True):
    """Nodes that were rejected for the same reasons: their number, and a few names."""

    count: int
    plugin: str = ""
    code: str = ""
    reasons: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


class LoggedDecision(Decision, frozen=True, kw_only=True):
    """One attempt of a running scheduler. ``attempts`` is its number, ``nodes`` are the winner and its runners-up.

    ``failed_on`` is the chosen node if the binding cycle failed.
    """

    time: str
    uid: str = ""
    took: float = 0.0
    node_count: int = 0
    feasible: int = 0
    rejected: tuple[RejectedNodes, ...] = ()
    failed_on: str = ""
    priority: int = 0
    created: str = ""
    requests: dict[str, str] = {}

    @property
    def moment(self) -> float:
        """The time of the decision, in seconds since the epoch."""
        return parse_time(self.time)


def read_log(path: Path) -> Iterator[LoggedDecision]:
    """Read a log and its rotated files, oldest first; InputError names the file and line of an invalid entry."""
    return read_lines(path, LoggedDecision, written_by="--decision-log")


def read_lines(path: Path, kind: type[L], *, written_by: str) -> Iterator[L]:
    """Read a file of JSON lines and its rotated files, oldest first. ``written_by`` is the flag that writes it."""
    hint = f"pass a file that the scheduler wrote with {written_by}"
    for file in log_files(path) or [path]:
        yield from _read_file(file, kind, hint)


def log_files(path: Path) -> list[Path]:
    """Return the files of a log, oldest first: FILE.2, FILE.1, FILE."""
    rotated = re.compile(re.escape(path.name) + r"\.([1-9][0-9]{0,5})")
    rotations = {int(match[1]): file for file in path.parent.glob("*") if (match := rotated.fullmatch(file.name))}
    older = [rotations[number] for number in sorted(rotations, reverse=True)]
    return [*older, *([path] if path.exists() else [])]


def _read_file(path: Path, kind: type[L], hint: str) -> Iterator[L]:
    decoder = msgspec.json.Decoder(kind)
    with open_file(path, hint=hint) as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE), b""), 1):
            if not line.strip():
                continue
            try:
                decoded = decoder.decode(line)
                parse_time(decoded.time)
            except (*UNREADABLE, ValueError) as error:
                if not line.endswith(b"\n") and len(line) < MAX_LINE:
                    return  # the scheduler is still writing this line
                if number == 1 and not line.startswith(b"{"):
                    raise InputError(str(path), "not a log of the scheduler", hint=hint) from error
                start = line[:_SHOWN].decode(errors="replace").rstrip()
                hint = "the file must have one decision per line; fix or remove this line"
                problem = f"invalid JSON: {str(error).removeprefix('JSON is malformed: ')}: {start}"
                raise InputError(f"{path}, line {number}", problem, hint=hint) from error
            yield decoded
