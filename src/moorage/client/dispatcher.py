"""Writes to the API: so many at a time, the most important pods first, tried again where that can help."""

import asyncio
from collections.abc import Awaitable, Callable
from heapq import heappop, heappush
from random import Random
from typing import Final, TypeVar

from moorage.client.backoff import WRITE_DELAYS
from moorage.clock import Clock, SteadyClock
from moorage.errors import ApiError, Conflict, ServerError, TooManyRequests, Unreachable

T = TypeVar("T")

MAX_WRITES: Final = 32
MAX_ATTEMPTS: Final = 4
MAX_REQUESTED_WAITS: Final = 10
"""How often we wait because the server asked us to, before the write fails after all."""

RETRIED_STATUSES: Final = (500, 503)
DEFAULT_QPS: Final = 50.0
DEFAULT_BURST: Final = 100


class TokenBucket:
    """So many requests a second on average, and a burst of them at once; used only where the user asks for a limit."""

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._qps = qps
        self._burst = float(burst)
        self._clock = clock
        self._tokens = float(burst)
        self._since = clock.now()

    def take(self) -> float:
        """Take a token that is there, or will be; return the seconds until then."""
        now = self._clock.now()
        self._tokens = min(self._burst, self._tokens + (now - self._since) * self._qps) - 1.0
        self._since = now
        return max(0.0, -self._tokens / self._qps)

    async def pass_through(self) -> None:
        """Wait for a token."""
        if (wait := self.take()) > 0:
            await asyncio.sleep(wait)


class Dispatcher:
    """Lets writes through by priority.

    A write runs in the coroutine that asks for it: no task is made, and while there is room nothing is queued.
    """

    def __init__(
        self,
        *,
        most: int = MAX_WRITES,
        limit: TokenBucket | None = None,
        chance: Random | None = None,
    ) -> None:
        self._free = most
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._sequence = 0
        self._limit = limit
        self._chance = chance or Random()

    @property
    def waiting(self) -> int:
        """How many writes wait for their turn."""
        return len(self._waiting)

    async def run(self, write: Callable[[], Awaitable[T]], *, priority: int = 0, retries_conflicts: bool = False) -> T:
        """Carry out a write when its turn comes; ApiError if it is refused, or keeps failing."""
        if self._free:
            self._free -= 1
        else:
            await self._wait_for_turn(priority)
        try:
            if self._limit is not None:
                await self._limit.pass_through()
            return await write()
        except ApiError as error:
            return await self._try_again(write, error, retries_conflicts)
        finally:
            self._leave()

    async def _try_again(self, write: Callable[[], Awaitable[T]], error: ApiError, retries_conflicts: bool) -> T:
        failures = waits = 0
        while True:
            if error.retry_after is not None and isinstance(error, TooManyRequests | ServerError):
                waits += 1
                if waits > MAX_REQUESTED_WAITS:
                    raise error
                await asyncio.sleep(error.retry_after)
            else:
                failures += 1
                if failures >= MAX_ATTEMPTS or not is_passing(error, retries_conflicts):
                    raise error
                await asyncio.sleep(WRITE_DELAYS.after(failures, self._chance))
            if self._limit is not None:
                await self._limit.pass_through()
            try:
                return await write()
            except ApiError as again:
                error = again

    async def _wait_for_turn(self, priority: int) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._sequence += 1
        heappush(self._waiting, (-priority, self._sequence, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave()
            raise

    def _leave(self) -> None:
        """Hand the place to the next in line, or keep it free."""
        while self._waiting:
            turn = heappop(self._waiting)[2]
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


def is_passing(error: ApiError, conflicts_pass: bool) -> bool:
    """Return whether the same request may well succeed in a moment."""
    if isinstance(error, Unreachable):
        return not error.was_sent
    return error.status in RETRIED_STATUSES or (conflicts_pass and isinstance(error, Conflict))


def limit_of(qps: float | None, burst: int | None, clock: Clock | None = None) -> TokenBucket | None:
    """Return the limit a configuration asks for: none where nothing is written, and none where qps is negative.

    As upstream, a qps of 0 stands for 50 and a burst of 0 for 100.
    """
    if (qps is None and burst is None) or (qps is not None and qps < 0):
        return None
    return TokenBucket(qps or DEFAULT_QPS, burst or DEFAULT_BURST, clock or SteadyClock())
