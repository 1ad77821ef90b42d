"""How long extension points take: a profile has a stopwatch, which whoever measures puts there."""

from time import perf_counter
from typing import Final, Protocol

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


class Stopwatch(Protocol):
    """Is told how long each extension point took, once per attempt."""

    def took(self, point: str, since: float, code: Code = Code.SUCCESS) -> None:
        """Note that a point that began at ``since`` has ended, and with which code."""
        ...


class NoStopwatch:
    """Measures nothing."""

    def took(self, point: str, since: float, code: Code = Code.SUCCESS) -> None:
        """Take no note."""


NO_STOPWATCH: Final = NoStopwatch()
