"""Clocks: a protocol, the system clock, and a virtual clock that is advanced explicitly."""

import time
from functools import partial
from typing import Protocol

#: Seconds since the machine booted, including suspended time; independent of the wall clock.
boot_time = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Clock(Protocol):
    """The source of time; only entry points use the system clock directly."""

    def now(self) -> float:
        """Return seconds since an arbitrary moment, for durations and deadlines."""
        ...

    def wall(self) -> float:
        """Return seconds since the Unix epoch, for timestamps of other systems."""
        ...


class SystemClock:
    """The wall clock, for code that compares times with timestamps of objects, such as the embedded cluster."""

    now = staticmethod(time.time)
    wall = staticmethod(time.time)


class SteadyClock:
    """A clock that changes of the wall clock do not affect, for leases, backoffs and timeouts of a daemon."""

    now = staticmethod(boot_time)
    wall = staticmethod(time.time)


class VirtualClock:
    """A clock that advances only when it is moved; used by simulations and tests."""

    def __init__(self, start: float = 1_767_225_600.0) -> None:
        self._now = start

    def now(self) -> float:
        """Return the virtual seconds since the Unix epoch."""
        return self._now

    wall = now

    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        if seconds < 0:
            raise ValueError(f"time cannot go back by {-seconds} s")
        self._now += seconds

    def advance_to(self, moment: float) -> None:
        """Advance to a moment. A moment in the past has no effect."""
        self._now = max(self._now, moment)
