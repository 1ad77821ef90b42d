"""The scheduling loop, and the delivery of changes from informers to it.

Changes are applied immediately until the loop runs, and between cycles afterward.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from moorage.kube.api.kinds import Kind
from moorage.kube.client.apply_retry import ApplyRetry
from moorage.kube.client.list_watch import Change
from moorage.scheduler.engine.observing import Apply
from moorage.scheduler.engine.scheduler import Scheduler

T = TypeVar("T")

CYCLES_PER_TURN: Final = 8
"""The number of cycles after which other tasks of the event loop (watches, bindings) run."""


class Deliveries:
    """Delivers changes in order. A change that cannot be applied affects only its own object."""

    def __init__(self, apply: Apply, loop: "SchedulingLoop", retry: ApplyRetry | None = None) -> None:
        self._apply = apply
        self._loop = loop
        self.retry = retry or ApplyRetry()
        self._through_loop = False
        self.pending: Counter[Kind] = Counter()
        """The number of changes of each kind that wait for the end of a cycle."""

    def start_through_loop(self) -> None:
        """Apply changes between cycles from now on, because the loop runs."""
        self._through_loop = True

    async def between_cycles(self, action: Callable[[], T]) -> T:
        """Run an action between two cycles, after all changes that arrived before, and return its result."""
        if not self._through_loop:
            return action()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def act() -> None:
            if future.cancelled():
                return  # the caller was cancelled
            try:
                future.set_result(action())
            except Exception as error:
                future.set_exception(error)

        self._loop.deliver(act)
        return await future

    def on_changes(self, kind: Kind, changes: Sequence[Change[Any]]) -> None:
        """Accept changes from an informer."""
        if self._through_loop:
            self.pending[kind] += len(changes)
            self._loop.deliver(partial(self._apply_pending, kind, changes))
        else:
            self._apply_all(kind, changes)

    def _apply_pending(self, kind: Kind, changes: Sequence[Change[Any]]) -> None:
        self.pending[kind] -= len(changes)
        self._apply_all(kind, changes)

    def _apply_all(self, kind: Kind, changes: Sequence[Change[Any]]) -> None:
        for change in changes:
            # If some objects could not be applied, this one may be one of them.
            adjusted = self.retry.adjust(kind, change) if self.retry.failed_objects else change
            if adjusted is None:
                continue
            try:
                self._apply(adjusted.before, adjusted.after, is_final=adjusted.is_final)
            except Exception:  # an invalid object must not affect other objects
                self.retry.failed(kind, adjusted, self._apply_change)
            else:
                if self.retry.failed_objects:
                    self.retry.succeeded(kind, adjusted)

    def _apply_change(self, change: Change[Any]) -> None:
        self._apply(change.before, change.after, is_final=change.is_final)


class SchedulingLoop:
    """Runs scheduling cycles until stopped, and sleeps while there is nothing to schedule."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self._inbox: list[Callable[[], None]] = []
        self._is_awake = False
        self._sleeping: asyncio.Future[None] | None = None
        self._stopping = False
        self.cycles = 0
        """The number of cycles since the start."""
        scheduler.services.wake = self.wake

    @property
    def has_changes(self) -> bool:
        """Whether changes have not been applied."""
        return bool(self._inbox)

    def deliver(self, apply: Callable[[], None]) -> None:
        """Run an action before the next cycle."""
        self._inbox.append(apply)
        self.wake()

    def stop(self) -> None:
        """Start no further cycle."""
        self._stopping = True
        self.wake()

    def wake(self) -> None:
        """End the current or the next sleep."""
        self._is_awake = True
        if self._sleeping is not None:
            _end(self._sleeping)

    async def run(self) -> None:
        """Schedule until stopped."""
        while not self._stopping:
            if await self.step():
                self.cycles += 1
                if self.cycles % CYCLES_PER_TURN == 0:
                    await asyncio.sleep(0)
            else:
                await self.sleep()

    async def step(self) -> bool:
        """Apply changes and schedule one pod. Return whether there was one."""
        self._is_awake = False
        if self._inbox:
            self.apply_inbox()
        self.scheduler.queue.flush(self.scheduler.services.clock.now())
        return await self.scheduler.schedule_next() is not None

    def apply_inbox(self) -> None:
        """Run all delivered actions in order."""
        while self._inbox:
            actions, self._inbox = self._inbox, []
            for action in actions:
                action()

    async def sleep(self, until: float | None = None) -> None:
        """Wait for a change, for the next wakeup of the queue, or for ``until``."""
        if self._is_awake:
            return
        times = [time for time in (self.scheduler.queue.next_wakeup(), until) if time is not None]
        loop = asyncio.get_running_loop()
        # Under a steady load there are two sleeps per pod: an Event and asyncio.timeout would cost four times as much.
        self._sleeping = sleeping = loop.create_future()
        alarm = None
        if times:
            alarm = loop.call_later(max(0.0, min(times) - self.scheduler.services.clock.now()), _end, sleeping)
        try:
            await sleeping
        finally:
            self._sleeping = None
            if alarm is not None:
                alarm.cancel()


def _end(sleeping: asyncio.Future[None]) -> None:
    if not sleeping.done():
        sleeping.set_result(None)
