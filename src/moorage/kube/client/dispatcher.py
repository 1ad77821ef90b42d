"""Writes to the API server: a bounded number at a time, by priority, with retries."""

import asyncio
from collections.abc import Awaitable, Callable
from heapq import heappop, heappush
from random import Random
from typing import Final, TypeVar

from moorage.common.errors import ApiError, Conflict, ServerError, TooManyRequests, Unreachable
from moorage.kube.client.flow_control import WRITE_BACKOFF, TokenBucket

W = TypeVar("W")

MAX_WRITES: Final = 32
MAX_ATTEMPTS: Final = 4
MAX_WAITS: Final = 10
"""Maximum number of waits that the server requests (Retry-After) before a write fails."""
RETRIED_STATUSES: Final = (500, 503)


class Dispatcher:
    """Run writes by priority.

    A write runs in the coroutine of its caller. There is no task per write, and no queue below the limit.
    """

    def __init__(
        self,
        *,
        max_writes: int = MAX_WRITES,
        limit: TokenBucket | None = None,
        random: Random | None = None,
    ) -> None:
        self._free = max_writes
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._sequence = 0
        self._limit = limit
        self._random = random or Random()

    @property
    def waiting(self) -> int:
        """The number of queued writes."""
        return len(self._waiting)

    async def run(self, write: Callable[[], Awaitable[W]], *, priority: int = 0, retries_conflicts: bool = False) -> W:
        """Run a write when a slot is free. Raise ApiError if it is rejected or keeps failing."""
        if self._free:
            self._free -= 1
        else:
            await self._wait_for_slot(priority)
        # Retries keep the slot: a struggling server gets fewer writes, not more.
        try:
            if self._limit is not None:
                await self._limit.acquire()
            return await write()
        except ApiError as error:
            return await self._retry(write, error, retries_conflicts)
        finally:
            self._release()

    async def _retry(self, write: Callable[[], Awaitable[W]], error: ApiError, retries_conflicts: bool) -> W:
        failures = waits = 0
        in_doubt = False
        while True:
            in_doubt |= isinstance(error, ServerError)
            if in_doubt and isinstance(error, Unreachable):
                error.was_sent = True  # an earlier attempt was sent and may have succeeded
            if error.retry_after is not None and isinstance(error, TooManyRequests | ServerError):
                waits += 1
                if waits > MAX_WAITS:
                    raise error
                await asyncio.sleep(error.retry_after)
            else:
                failures += 1
                if failures >= MAX_ATTEMPTS or not _is_retriable(error, retries_conflicts):
                    raise error
                await asyncio.sleep(WRITE_BACKOFF.delay(failures, self._random))
            if self._limit is not None:
                await self._limit.acquire()
            try:
                return await write()
            except ApiError as next_error:
                error = next_error

    async def _wait_for_slot(self, priority: int) -> None:
        slot = asyncio.get_running_loop().create_future()
        self._sequence += 1
        # The number keeps equal priorities in order, and keeps heapq from comparing futures, which raises.
        heappush(self._waiting, (-priority, self._sequence, slot))
        try:
            await slot
        except asyncio.CancelledError:
            # The slot was granted in the same turn of the loop as the cancellation; without this it would be lost.
            if slot.done() and not slot.cancelled():
                self._release()
            raise

    def _release(self) -> None:
        """Give the slot to the next write in the queue, or mark it as free."""
        while self._waiting:
            slot = heappop(self._waiting)[2]
            # Cancelled writers remain in the heap until here: removing them from the middle would cost more.
            if not slot.done():
                slot.set_result(None)
                return
        self._free += 1


def _is_retriable(error: ApiError, retries_conflicts: bool) -> bool:
    if isinstance(error, Unreachable):
        # A write that was sent may have succeeded. The caller reads the object to find out.
        return not error.was_sent
    return error.status in RETRIED_STATUSES or (retries_conflicts and isinstance(error, Conflict))
