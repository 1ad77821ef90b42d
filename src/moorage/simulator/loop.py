"""Virtual time: an asyncio loop whose clock jumps to the next timer instead of waiting for it.

Ten minutes of backoff take no time at all, and the same inputs give the same bytes: callbacks run in the order in which
they were scheduled, and nothing in the loop looks at the machine's clock.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from moorage.clock import VirtualClock

T = TypeVar("T")


class _JumpingSelector(selectors.DefaultSelector):
    """Where the loop would sleep, the clock moves on instead."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("everything waits for something that virtual time cannot bring about")
            self._clock.advance(max(0.0, timeout))
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time; its clock is the scheduler's clock as well."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(_JumpingSelector(clock))
        self.clock = clock
        # A timer may be due a rounding error after the clock was moved to it; without this the loop would spin.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """Return the virtual time."""
        return self.clock.now()


def run_virtual(work: Coroutine[Any, Any, T], clock: VirtualClock) -> T:
    """Run something to its end in virtual time."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        return runner.run(work)
