"""RetryBackoff between attempts and limits on the rate of requests."""

import asyncio
from random import Random
from typing import Final

from msgspec import Struct

from moorage.common.clock import Clock, SteadyClock

DEFAULT_QPS: Final = 50.0
DEFAULT_BURST: Final = 100


class RetryBackoff(Struct, frozen=True):
    """Delays that grow by a factor up to a maximum, each increased at random by up to ``jitter`` times itself."""

    first: float
    factor: float
    maximum: float
    jitter: float

    def delay(self, failures: int, random: Random) -> float:
        """Return the seconds to wait after this number of consecutive failures, at least 1."""
        # Bound the exponent first: after days of failures the power would overflow a float.
        seconds = min(self.maximum, self.first * self.factor ** min(failures - 1, 64))
        return seconds * (1 + self.jitter * random.random())


WATCH_BACKOFF: Final = RetryBackoff(first=0.8, factor=2.0, maximum=30.0, jitter=1.0)
WRITE_BACKOFF: Final = RetryBackoff(first=0.01, factor=5.0, maximum=2.5, jitter=0.1)
EVENT_BACKOFF: Final = RetryBackoff(first=10.0, factor=1.0, maximum=10.0, jitter=1.0)


class TokenBucket:
    """Limit requests to ``qps`` per second on average, with bursts; used only if the user configures a limit."""

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._qps = qps
        self._burst = float(burst)
        self._clock = clock
        self._tokens = float(burst)
        self._since = clock.now()

    def take(self) -> float:
        """Take a token, possibly a future one. Return the seconds until it is available."""
        now = self._clock.now()
        self._tokens = min(self._burst, self._tokens + (now - self._since) * self._qps) - 1.0
        self._since = now
        return max(0.0, -self._tokens / self._qps)

    async def acquire(self) -> None:
        """Wait for a token."""
        if (wait := self.take()) > 0:
            await asyncio.sleep(wait)


def make_rate_limit(qps: float | None, burst: int | None, clock: Clock | None = None) -> TokenBucket | None:
    """Return the rate limit of a configuration; None if neither value is set, or if qps is negative.

    As in kube-scheduler, a qps of 0 means 50 and a burst of 0 means 100.
    """
    if (qps is None and burst is None) or (qps is not None and qps < 0):
        return None
    return TokenBucket(qps or DEFAULT_QPS, burst or DEFAULT_BURST, clock or SteadyClock())
