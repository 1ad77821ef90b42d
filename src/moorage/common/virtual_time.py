"""Virtual time: an asyncio loop with a clock that jumps to the next timer instead of waiting for it.

Ten minutes of backoff take no time, and the same input gives the same output. Callbacks run in the order in which they
were scheduled. The loop does not read the system clock unless it waits for a program outside.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from math import ulp
from time import monotonic
from typing import Any, Final, TypeVar

from moorage.common.clock import VirtualClock

T = TypeVar("T")

MAX_WAIT: Final = 0.05
"""Longest single wait for a program outside, in real seconds."""


class _JumpingSelector(selectors.DefaultSelector):
    """Advances the clock where the loop would sleep."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock
        self.outside_waits = 0
        self.is_interrupted = False

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.is_interrupted:
            self.is_interrupted = False
            raise KeyboardInterrupt
        if self.outside_waits and timeout != 0:
            began = monotonic()
            ready = super().select(MAX_WAIT if timeout is None else min(timeout, MAX_WAIT))
            self._clock.advance(monotonic() - began)
            return ready
        # Time jumps only if no socket is ready: otherwise timeouts would expire before data that has already arrived.
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("deadlock: all tasks wait, and no timer is set")
            self._clock.advance(max(0.0, timeout))
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time. The scheduler under test uses the same clock."""

    def __init__(self, clock: VirtualClock) -> None:
        self._jumping = _JumpingSelector(clock)
        super().__init__(self._jumping)
        self.clock = clock
        # A timer may be due a rounding error after the clock was moved to it; without this the loop would spin.
        self._clock_resolution = max(1e-6, 4 * ulp(clock.now()))

    def time(self) -> float:
        """Return the virtual time."""
        return self.clock.now()

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt from the loop, between two callbacks. A signal handler may call it."""
        self._jumping.is_interrupted = True

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Log a failed task, unless Ctrl-C interrupted it: the loop also raises that to its caller."""
        if not isinstance(context.get("exception"), KeyboardInterrupt):
            super().call_exception_handler(context)

    @property
    def has_timers(self) -> bool:
        """Whether a timer is set. If not, the clock may be advanced without the loop."""
        return bool(self._scheduled)  # type: ignore[attr-defined]

    @contextmanager
    def awaiting_outside(self) -> Iterator[None]:
        """Let time pass in real time inside the block, which waits for another program."""
        self._jumping.outside_waits += 1
        try:
            yield
        finally:
            self._jumping.outside_waits -= 1

    async def shutdown_default_executor(self, *args: Any) -> None:
        """Wait in real time for the threads of the executor, for example DNS lookups."""
        with self.awaiting_outside():
            await super().shutdown_default_executor(*args)


class VirtualRunner:
    """Runs coroutines to completion on one loop in virtual time; must be closed.

    It also works where another loop is running, as in a notebook. A thread runs the coroutine then.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self._runner = asyncio.Runner(loop_factory=lambda: VirtualLoop(clock))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result."""
        return call_outside_loop(lambda: self._runner.run(work))

    def close(self) -> None:
        """Close the loop."""
        call_outside_loop(self._runner.close)


def call_outside_loop(action: Callable[[], T]) -> T:
    """Call a function in a thread without a running loop: in this thread, or else in a new one."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return action()
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(action).result()


def interrupt_virtual_loop() -> bool:
    """Interrupt the virtual loop that runs in this thread. Return whether there is one."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return False
    if not isinstance(loop, VirtualLoop):
        return False
    loop.interrupt()
    return True


def run_virtual(work: Coroutine[Any, Any, T], clock: VirtualClock) -> T:
    """Run a coroutine to completion in virtual time."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        return runner.run(work)
