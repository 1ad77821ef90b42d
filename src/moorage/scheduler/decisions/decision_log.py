"""A decision log: what `--decision-log` writes, one JSON line a decision, and how it is read back.

The fields are those of ``decisions/decision.py``, and what only a scheduler at work knows. Of the nodes the
winner and its runners-up are described; those that were rejected are counted in groups.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol, TypeVar

import msgspec

from moorage.common.errors import InputError
from moorage.kube.api.meta import parse_time
from moorage.scheduler.decisions.decision import Decision


class TimedLine(Protocol):
    """A line of such a file: when it was written stands in it."""

    @property
    def time(self) -> str:
        """When, in UTC."""
        ...


L = TypeVar("L", bound=TimedLine)

MAX_LINE: Final = 16 << 20
"""A line longer than this is none of ours."""
_SHOWN: Final = 60


class RejectedNodes(msgspec.Struct, frozen=True, omit_defaults=True):
    """Nodes that were rejected for the same reasons: how many, and the names of a few."""

    count: int
    plugin: str = ""
    code: str = ""
    reasons: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


class LoggedDecision(Decision, frozen=True, kw_only=True):
    """One attempt of a scheduler at work; ``attempts`` is its number, ``nodes`` are the winner and its runners-up.

    ``failed_on``: a node had been chosen, and the binding cycle ended otherwise.
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
        """When it was made, in seconds since the epoch."""
        return parse_time(self.time)


def read_log(path: Path) -> Iterator[LoggedDecision]:
    """Read a log and what was rotated out of it, oldest first; InputError names the file and the line that is bad."""
    return read_lines(path, LoggedDecision, written_by="--decision-log")


def read_lines(path: Path, kind: type[L], *, written_by: str) -> Iterator[L]:
    """Read a file of JSON lines and what was rotated out of it, oldest first, as a flag of the scheduler writes it."""
    files = log_files(path)
    if not files:
        raise InputError(str(path), "there is no such file", hint=f"name what {written_by} of the scheduler wrote")
    for file in files:
        yield from _read_file(file, kind)


def log_files(path: Path) -> list[Path]:
    """Return the files of a log, oldest first: FILE.2, FILE.1, FILE."""
    rotated = re.compile(re.escape(path.name) + r"\.([1-9][0-9]{0,5})")
    found = {int(match[1]): other for other in path.parent.glob("*") if (match := rotated.fullmatch(other.name))}
    older = [found[number] for number in sorted(found, reverse=True)]
    return [*older, *([path] if path.exists() else [])]


def _read_file(path: Path, kind: type[L]) -> Iterator[L]:
    decoder = msgspec.json.Decoder(kind)
    try:
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE), b""), 1):
                if not line.strip():
                    continue
                try:
                    decoded = decoder.decode(line)
                    parse_time(decoded.time)
                except (msgspec.MsgspecError, ValueError) as error:
                    if not line.endswith(b"\n") and len(line) < MAX_LINE:
                        return  # the scheduler is in the middle of it
                    start = line[:_SHOWN].decode(errors="replace").rstrip()
                    hint = "such a file has one decision a line; mend or remove this one"
                    raise InputError(f"{path}:{number}", f"{error}: {start}", hint=hint) from error
                yield decoded
    except OSError as error:
        raise InputError(str(path), f"it cannot be read: {error.strerror}") from error
