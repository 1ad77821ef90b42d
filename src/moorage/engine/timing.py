"""How long extension points take: a profile has a stopwatch, which whoever measures puts there."""

from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Final

from moorage.framework.status import Code

PRE_FILTER: Final = "PreFilter"
FILTER: Final = "Filter"
POST_FILTER: Final = "PostFilter"
PRE_SCORE: Final = "PreScore"
SCORE: Final = "Score"
RESERVE: Final = "Reserve"
UNRESERVE: Final = "Unreserve"
PERMIT: Final = "Permit"
PRE_BIND_PRE_FLIGHT: Final = "PreBindPreFlight"
PRE_BIND: Final = "PreBind"
BIND: Final = "Bind"
POST_BIND: Final = "PostBind"

read = perf_counter
"""Reads the stopwatch: real seconds, even where everything else runs in virtual ones."""


Take = Callable[[float], None]
"""Takes some seconds."""

_IGNORE: Final[Take] = deque[float](maxlen=0).append


class Stopwatch(dict[str, Take]):
    """Takes how long each extension point took, once per attempt; this one takes no note.

    ``stopwatch[point](seconds)`` is for points that succeeded: nine of them are timed for every pod, so they are kept
    ready. A point at which nobody was asked took no time.
    """

    def __missing__(self, point: str) -> Take:
        take = self[point] = self.cell(point, Code.SUCCESS)
        return take

    def took(self, point: str, since: float, code: Code = Code.SUCCESS) -> None:
        """Note that a point that began at ``since`` has ended, and with which code."""
        self.cell(point, code)(read() - since)

    def cell(self, point: str, code: Code) -> Take:
        """Return what takes the seconds of a point that ended with a code."""
        return _IGNORE
