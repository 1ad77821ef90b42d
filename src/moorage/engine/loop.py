"""The loop around the cycles: what arrived is applied between them; an idle scheduler sleeps until something does."""

import asyncio
from collections.abc import Callable
from typing import Final

from moorage.engine.scheduler import Scheduler

CYCLES_PER_TURN: Final = 8
"""After so many cycles in a row, everything else on the loop (watches, bindings, leases) gets its turn."""


class SchedulingLoop:
    """Runs a scheduler until it is stopped."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self._inbox: list[Callable[[], None]] = []
        self._news = asyncio.Event()
        self._stopping = False
        scheduler.services.wake = self._news.set

    @property
    def has_news(self) -> bool:
        """Whether something arrived that has not been applied yet."""
        return bool(self._inbox)

    def deliver(self, apply: Callable[[], None]) -> None:
        """Have something applied to the world before the next cycle."""
        self._inbox.append(apply)
        self._news.set()

    def stop(self) -> None:
        """Begin no further cycle."""
        self._stopping = True
        self._news.set()

    async def run(self) -> None:
        """Schedule until stopped."""
        cycles = 0
        while not self._stopping:
            if await self.step():
                cycles += 1
                if cycles % CYCLES_PER_TURN == 0:
                    await asyncio.sleep(0)
            else:
                await self.sleep()

    async def step(self) -> bool:
        """Apply what arrived and try one pod; return whether there was one to try."""
        self._news.clear()
        if self._inbox:
            self.apply_inbox()
        self.scheduler.queue.flush(self.scheduler.services.clock.now())
        return await self.scheduler.schedule_next() is not None

    def apply_inbox(self) -> None:
        """Apply everything that arrived, in order."""
        while self._inbox:
            arrived, self._inbox = self._inbox, []
            for apply in arrived:
                apply()

    async def sleep(self, until: float | None = None) -> None:
        """Wait until something arrives, the queue releases a pod by itself, or the moment ``until`` has come."""
        moments = [moment for moment in (self.scheduler.queue.next_wakeup(), until) if moment is not None]
        timeout = max(0.0, min(moments) - self.scheduler.services.clock.now()) if moments else None
        try:
            # Not wait_for: in Python 3.11 it loses a cancellation that comes together with the event.
            async with asyncio.timeout(timeout):
                await self._news.wait()
        except TimeoutError:
            return
