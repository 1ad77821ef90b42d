"""The decision log of a scheduler, opened as its flags say."""

from pathlib import Path
from typing import Final, Protocol

from moorage.common.clock import Clock
from moorage.common.errors import InputError
from moorage.scheduler.daemon.decision_log.deciding import DecisionLog
from moorage.scheduler.daemon.decision_log.writing import BUFFER, DISK, LineWriter, LogLimits, RotatedFile
from moorage.scheduler.framework.metering import NumberCell

DROPPED: Final = "moorage_decision_log_dropped_total"
MIN_SIZE: Final = 64 << 10
MAX_FILES: Final = 1000


class CountsLines(Protocol):
    """Where lines are counted: by metric and labels."""

    def __call__(self, metric: str, *labels: str) -> NumberCell:
        """Return what counts."""
        ...


class OpenDecisionLog:
    """The observer that makes lines, and the file that they go to."""

    def __init__(self, path: str, limits: LogLimits, clock: Clock, counters: CountsLines) -> None:
        # The two reasons are counted by different threads, so each has a cell of its own.
        dropped = {reason: counters(DROPPED, reason) for reason in (BUFFER, DISK)}
        self._file = LineWriter(RotatedFile(Path(path), limits), lambda reason, count: dropped[reason].inc(count))
        self.observer = DecisionLog(self._file.put, clock)

    def start(self) -> None:
        """Open the file; InputError if that cannot be done."""
        self._file.start()

    def close(self) -> None:
        """Write the last lines."""
        self._file.close()


def limits_of(size: int, files: int) -> LogLimits:
    """Check the limits that flags give; InputError says which is out of bounds."""
    if size < MIN_SIZE:
        hint = "write a size such as 100Mi"
        raise InputError("--decision-log-max-size", f"{size} bytes are too few for a file", hint=hint)
    if not 0 <= files <= MAX_FILES:
        raise InputError("--decision-log-max-files", f"{files} is not a number of files from 0 to {MAX_FILES}")
    return LogLimits(size, files)
