"""From the informers to the scheduler: changes are applied at once until its loop runs, then between cycles."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from moorage.kube.api.kinds import Kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.client.list_watch import Change
from moorage.kube.client.mending import Mending
from moorage.scheduler.engine.scheduler import Scheduler

T = TypeVar("T")

CYCLES_PER_TURN: Final = 8
"""After so many cycles in a row, everything else on the loop (watches, bindings, leases) gets its turn."""


class Apply(Protocol):
    """Applies one change, as :meth:`moorage.scheduler.engine.event_handlers.EventHandlers.apply` does."""

    def __call__(self, before: KubeObject | None, after: KubeObject | None, *, is_final: bool = True) -> None:
        """Apply a change."""
        ...


class Deliveries:
    """Passes changes on in the order in which they come; one that cannot be applied costs its object only."""

    def __init__(self, apply: Apply, loop: "SchedulingLoop", mending: Mending | None = None) -> None:
        self._apply = apply
        self._loop = loop
        self.mending = mending or Mending()
        self._through_loop = False
        self.waiting: Counter[Kind] = Counter()
        """How many changes of each kind wait for the end of a cycle."""

    def start_through_loop(self) -> None:
        """Have changes wait for the end of a cycle from now on: the loop runs."""
        self._through_loop = True

    async def between_cycles(self, action: Callable[[], T]) -> T:
        """Do something behind all changes that came before, when no cycle is under way, and return its result."""
        if not self._through_loop:
            return action()
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def act() -> None:
            if done.cancelled():
                return  # whoever wanted it has gone
            try:
                done.set_result(action())
            except Exception as error:
                done.set_exception(error)

        self._loop.deliver(act)
        return await done

    def on_changes(self, kind: Kind, changes: Sequence[Change[Any]]) -> None:
        """Take changes from an informer."""
        if self._through_loop:
            self.waiting[kind] += len(changes)
            self._loop.deliver(partial(self._apply_waiting, kind, changes))
        else:
            self._apply_all(kind, changes)

    def _apply_waiting(self, kind: Kind, changes: Sequence[Change[Any]]) -> None:
        self.waiting[kind] -= len(changes)
        self._apply_all(kind, changes)

    def _apply_all(self, kind: Kind, changes: Sequence[Change[Any]]) -> None:
        for change in changes:
            if self.mending.aside:
                self._apply_with_care(kind, change)
                continue
            try:
                self._apply(change.before, change.after, is_final=change.is_final)
            except Exception:  # whatever an object can do to us, it may do to itself only
                self.mending.failed(kind, change, self._apply_change)

    def _apply_with_care(self, kind: Kind, change: Change[Any]) -> None:
        """Apply a change while some objects are set aside, of which this may be one."""
        adjusted = self.mending.adjust(kind, change)
        if adjusted is None:
            return
        try:
            self._apply_change(adjusted)
        except Exception:
            self.mending.failed(kind, adjusted, self._apply_change)
        else:
            self.mending.succeeded(kind, adjusted)

    def _apply_change(self, change: Change[Any]) -> None:
        self._apply(change.before, change.after, is_final=change.is_final)


class SchedulingLoop:
    """Runs a scheduler until it is stopped; when there is nothing to do it sleeps until something arrives."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self._inbox: list[Callable[[], None]] = []
        self._news = asyncio.Event()
        self._stopping = False
        self.cycles = 0
        """How many there were."""
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
        while not self._stopping:
            if await self.step():
                self.cycles += 1
                if self.cycles % CYCLES_PER_TURN == 0:
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
        """Wait for news, or for the moment when the queue releases something by itself, or ``until``."""
        moments = [moment for moment in (self.scheduler.queue.next_wakeup(), until) if moment is not None]
        timeout = max(0.0, min(moments) - self.scheduler.services.clock.now()) if moments else None
        try:
            # Not wait_for: in Python 3.11 it loses a cancellation that comes together with the news.
            async with asyncio.timeout(timeout):
                await self._news.wait()
        except TimeoutError:
            return
