"""How long to wait before the next try."""

from random import Random
from typing import Final

from msgspec import Struct


class Delays(Struct, frozen=True):
    """Waits that grow by a factor up to a longest one, each stretched at random by up to ``jitter`` times itself."""

    first: float
    factor: float
    longest: float
    jitter: float

    def after(self, failures: int, chance: Random) -> float:
        """Return the seconds to wait after so many failures in a row, the first being 1."""
        # The exponent is bounded before the power is taken: after days of failures it would not fit a float.
        delay = min(self.longest, self.first * self.factor ** min(failures - 1, 64))
        return delay * (1 + self.jitter * chance.random())


WATCH_DELAYS: Final = Delays(first=0.8, factor=2.0, longest=30.0, jitter=1.0)
WRITE_DELAYS: Final = Delays(first=0.01, factor=5.0, longest=2.5, jitter=0.1)
EVENT_DELAYS: Final = Delays(first=10.0, factor=1.0, longest=10.0, jitter=1.0)
