"""Planned changes of an offline cluster in virtual time: lab trials and forecasts."""

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

from moorage.cluster.offline import InstantApi, OfflineScheduler
from moorage.common.clock import VirtualClock
from moorage.common.virtual_time import VirtualLoop

NEVER: Final = 10.0 * 365 * 86_400
"""Disable the queue's periodic flush: virtual time loses no events, so queueing hints wake all rejected pods."""
ROUNDING: Final = 1e-5
"""Tolerance for the loop's clock, which counts from 1970."""
_FIRST: Final = 1 << 62
"""Offset of the numbers of changes that happen first at their moment."""


class Agenda:
    """Planned changes of a cluster. Those of the same moment happen in the order in which they were planned."""

    def __init__(self, offline: OfflineScheduler[InstantApi], clock: VirtualClock) -> None:
        self.now = 0.0
        """Seconds since the beginning; separate from the clock, because its large numbers round them."""
        self._offline = offline
        self._clock = clock
        self._start = clock.now()
        self._changes: list[tuple[float, int, Callable[[], None]]] = []
        self._planned = 0

    def plan(self, moment: float, change: Callable[[], None], *, is_first: bool = False) -> None:
        """Plan a change. ``is_first`` puts it before the other changes of the moment."""
        self._planned += 1
        heappush(self._changes, (moment, self._planned - (_FIRST if is_first else 0), change))

    def next_moment(self, *, retries: bool = True) -> float | None:
        """Return the time of the next change or retry, or ``None`` if nothing will happen any more.

        Without ``retries`` the ends of backoffs do not count.
        """
        moments = [self._changes[0][0]] if self._changes else []
        queue = self._offline.scheduler.queue
        if retries and queue.sizes().backoff and (wakeup := queue.next_wakeup()) is not None:
            moments.append(wakeup - self._start + ROUNDING)
        if not moments and len(self._offline.api.background):
            moments.append(self.now + 1.0)  # a pod waits in Permit, or a plugin waits for a timer
        return max(min(moments), self.now) if moments else None

    async def pass_time(self, moment: float, on_passed: Callable[[float], None] = lambda _now: None) -> None:
        """Let time pass until a moment, or until an earlier timer. Then carry out the changes that are due.

        ``on_passed`` is called before the changes.
        """
        loop = asyncio.get_running_loop()
        if isinstance(loop, VirtualLoop) and loop.has_timers:
            await self._offline.loop.sleep(until=self._start + moment)
            passed = self._clock.now() - self._start
            self.now = moment if passed > moment - ROUNDING else max(self.now, passed)
        else:
            self._clock.advance_to(self._start + moment)
            self.now = moment
        on_passed(self.now)
        while self._changes and self._changes[0][0] <= self.now:
            _, _, change = heappop(self._changes)
            change()
