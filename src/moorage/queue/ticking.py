"""Moments at a steady pace, without a timer."""

import math


class Ticker:
    """The moments first, first + period, first + 2·period, …, and the next one that is due."""

    def __init__(self, first: float, period: float) -> None:
        self.next = first
        """The first tick that was not taken yet."""
        self._period = period

    def first_after(self, moment: float) -> float:
        """Return the first tick to come that lies after a moment."""
        if self.next > moment:
            return self.next
        return self.next + (math.floor((moment - self.next) / self._period) + 1) * self._period

    def take(self, now: float) -> float | None:
        """Return the last tick that has come and was not taken yet; earlier ones that were missed are skipped."""
        if now < self.next:
            return None
        self.next = self.first_after(now)
        return self.next - self._period
