"""Clocks: a protocol, the system clock, and a virtual clock that is advanced explicitly."""

import time
from functools import partial
from typing import Protocol

#: Seconds since the machine was started, those that it slept included; setting the wall clock does not change it.
boot_time = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Clock(Protocol):
    """The source of time; only entry points use the system clock directly."""

    def now(self) -> float:
        """Return seconds since some moment in the past: for durations and deadlines."""
        ...

    def wall(self) -> float:
        """Return seconds since the Unix epoch, for timestamps that other systems read or wrote."""
        ...


class SystemClock:
    """The machine's wall clock, for who compares all moments with those in objects, as the embedded cluster does."""

    now = staticmethod(time.time)
    wall = staticmethod(time.time)


class SteadyClock:
    """A clock that no setting of the wall clock moves: leases, backoffs and limits of a daemon go by it."""

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
        """Let time pass."""
        if seconds < 0:
            raise ValueError(f"time cannot go back by {-seconds} s")
        self._now += seconds

    def advance_to(self, moment: float) -> None:
        """Jump to a moment; one in the past leaves the clock where it is."""
        self._now = max(self._now, moment)
