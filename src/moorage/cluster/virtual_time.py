"""Virtual time: an asyncio loop whose clock jumps to the next timer instead of waiting for it.

Ten minutes of backoff take no time at all, and the same inputs give the same bytes: callbacks run in the order in which
they were scheduled, and nothing in the loop looks at the machine's clock, unless somebody outside is waited for.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from math import ulp
from time import monotonic
from typing import Any, Final, TypeVar

from moorage.common.clock import VirtualClock
from moorage.scheduler.wiring.http_extender import HttpExtender

T = TypeVar("T")

MAX_WAIT: Final = 0.05
"""So long at a time a program outside is waited for, in real seconds."""


class _JumpingSelector(selectors.DefaultSelector):
    """Where the loop would sleep, the clock moves on instead."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock
        self.awaited_outside = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.awaited_outside and timeout != 0:
            began = monotonic()
            ready = super().select(MAX_WAIT if timeout is None else min(timeout, MAX_WAIT))
            self._clock.advance(monotonic() - began)
            return ready
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("everything waits for something that virtual time cannot bring about")
            self._clock.advance(max(0.0, timeout))
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time; its clock is the scheduler's clock as well."""

    def __init__(self, clock: VirtualClock) -> None:
        self._jumping = _JumpingSelector(clock)
        super().__init__(self._jumping)
        self.clock = clock
        # A timer may be due a rounding error after the clock was moved to it; without this the loop would spin. In a
        # year of four digits such an error is up to thirty microseconds.
        self._clock_resolution = max(1e-6, 4 * ulp(clock.now()))

    def time(self) -> float:
        """Return the virtual time."""
        return self.clock.now()

    @property
    def has_timers(self) -> bool:
        """Whether something waits for a moment to come: if not, the clock may be moved without asking the loop."""
        return bool(self._scheduled)  # type: ignore[attr-defined]

    @contextmanager
    def awaiting_outside(self) -> Iterator[None]:
        """Let time pass as it does outside while a block lasts: it waits for another program."""
        self._jumping.awaited_outside += 1
        try:
            yield
        finally:
            self._jumping.awaited_outside -= 1

    async def shutdown_default_executor(self, *args: Any) -> None:
        """Wait for threads, which looked up the name of a service for instance: they end when they end."""
        with self.awaiting_outside():
            await super().shutdown_default_executor(*args)


class AwaitedExtender(HttpExtender):
    """An extender that is asked from virtual time: its answers take as long as they take."""

    async def _send(self, verb: str, request: Mapping[str, Any]) -> bytes:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop), "in real time there is nothing to do"
        with loop.awaiting_outside():
            return await super()._send(verb, request)


def run_anywhere(runner: asyncio.Runner, work: Coroutine[Any, Any, T]) -> T:
    """Run something to its end by a runner, also where another loop is at work, as in a notebook.

    There a thread does it, and the loop waits: two cannot run in one thread.
    """
    return aside(lambda: runner.run(work))


def aside(action: Callable[[], T]) -> T:
    """Do something that needs a thread without a running loop: here if there is none, else in a thread of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return action()
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(action).result()


def run_virtual(work: Coroutine[Any, Any, T], clock: VirtualClock) -> T:
    """Run something to its end in virtual time."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        return runner.run(work)
