"""External data for plugins: polled in the background and dropped when it is stale."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from contextlib import nullcontext
from typing import Final, Generic, TypeVar

from moorage.scheduler.framework.faults import PLUGIN_FAULTS, described, pass_on_interrupt
from moorage.scheduler.framework.handle import Handle

T = TypeVar("T")

REPEAT_SECONDS: Final = 300.0
"""The interval in seconds at which a repeated failure is logged."""


class Polled(Generic[T]):
    """The last response of an external service, fetched ``every`` given seconds.

    A cycle never waits for the service: it uses ``value``. If fetching fails, the last value remains valid for
    ``stale_after`` seconds. Then ``value`` is ``None``, and the plugin decides what to do (``Status.skip()`` in
    ``pre_score`` skips its score). Failures are logged immediately and then every five minutes, and are counted in
    ``moorage_plugin_<plugin>_polls_total``.

    ::

        def __init__(self, *, handle: Handle) -> None:
            self.load = Polled(handle, self.fetch, name="load", every=15.0, stale_after=60.0)

        async def start(self) -> None:
            await self.load.start()

        def epoch(self) -> Hashable:
            return self.load.epoch
    """

    def __init__(
        self,
        handle: Handle,
        fetch: Callable[[], Awaitable[T]],
        *,
        name: str,
        every: float = 15.0,
        stale_after: float = 60.0,
        timeout: float = 10.0,
    ) -> None:
        for parameter, seconds in (("every", every), ("stale_after", stale_after), ("timeout", timeout)):
            if not seconds > 0:
                raise ValueError(f"{parameter} of {name!r} is {seconds}: write a number of seconds above 0")
        self.name = name
        self._handle = handle
        self._fetch = fetch
        self._interval, self._stale_after, self._timeout = every, stale_after, timeout
        self._latest: T | None = None
        self._fetched_at: float | None = None
        self._changes = 0
        self._complained_at: float | None = None
        self._polls = handle.metrics.counter("polls_total", "Fetches of external data.", ("source", "result"))

    @property
    def value(self) -> T | None:
        """The last value, or ``None`` if it is missing or stale."""
        return None if self.is_stale else self._latest

    @property
    def age(self) -> float | None:
        """Seconds since the last successful fetch, or ``None`` before the first."""
        return None if self._fetched_at is None else self._handle.clock.now() - self._fetched_at

    @property
    def is_stale(self) -> bool:
        """Whether there is no value, or it is too old."""
        age = self.age
        return age is None or age > self._stale_after

    @property
    def epoch(self) -> Hashable:
        """A value that changes whenever ``value`` does: for the plugin's own ``epoch``."""
        return self._changes, self.is_stale

    async def start(self) -> None:
        """Fetch once, so that the first pods have a value, and continue in the background."""
        await self.refresh()
        self._handle.in_background(self._poll(), name=f"polling {self.name}")

    async def refresh(self) -> None:
        """Fetch now. A failure is logged and counted, and keeps the last value."""
        try:
            # In virtual time, real time passes while a fetch waits for another program.
            outside_wait = getattr(asyncio.get_running_loop(), "awaiting_outside", nullcontext)
            with outside_wait():
                async with asyncio.timeout(self._timeout):
                    fetched = await self._fetch()
        except PLUGIN_FAULTS as error:  # the author's code, or the service's fault: the plugin lives on
            pass_on_interrupt(error)
            self._polls.inc(source=self.name, result="error")
            problem = f"no response within {self._timeout:g} s" if isinstance(error, TimeoutError) else described(error)
            now = self._handle.clock.now()
            is_news = self._complained_at is None or now >= self._complained_at + REPEAT_SECONDS
            state = "stale" if self.is_stale else f"{self.age or 0.0:.0f} s old"
            facts = {"source": self.name, "error": problem, "value": state}
            if is_news:
                self._complained_at = now
                self._handle.log.warning("external data cannot be fetched", **facts)
            else:
                self._handle.log.v(4).info("external data cannot be fetched", **facts)
        else:
            self._polls.inc(source=self.name, result="success")
            if self._fetched_at is None or fetched != self._latest:
                self._changes += 1
            self._latest, self._fetched_at = fetched, self._handle.clock.now()
            if self._complained_at is not None:
                self._complained_at = None
                self._handle.log.info("external data is available again", source=self.name)

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            await self.refresh()
