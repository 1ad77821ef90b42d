"""Moments at a steady pace, without a timer."""

import math


class Ticker:
    """The moments first, first + period, first + 2·period, …, and the next one that is due."""

    def __init__(self, first: float, period: float) -> None:
        self._next = first
        self._period = period

    def first_after(self, moment: float) -> float:
        """Return the first tick to come that lies after a moment."""
        if self._next > moment:
            return self._next
        return self._next + (math.floor((moment - self._next) / self._period) + 1) * self._period

    def is_due(self, now: float) -> bool:
        """Tell whether a tick has come since this was last true; several that were missed count as one."""
        if now < self._next:
            return False
        self._next = self.first_after(now)
        return True
