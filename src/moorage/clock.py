"""What time it is: a protocol, the machine's clock, and one that only moves when told to."""

import time
from typing import Protocol


class Clock(Protocol):
    """Where the scheduler reads the time; nothing below the app asks the machine itself."""

    def now(self) -> float:
        """Return seconds since the Unix epoch."""
        ...


class SystemClock:
    """The machine's wall clock."""

    now = staticmethod(time.time)
    """Return seconds since the Unix epoch."""


class VirtualClock:
    """A clock that stands still until it is moved; simulator and tests run on it."""

    def __init__(self, start: float = 1_767_225_600.0) -> None:
        self._now = start

    def now(self) -> float:
        """Return the virtual seconds since the Unix epoch."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        if seconds < 0:
            raise ValueError(f"time cannot go back by {-seconds} s")
        self._now += seconds

    def advance_to(self, moment: float) -> None:
        """Jump to a moment; one in the past leaves the clock where it is."""
        self._now = max(self._now, moment)
