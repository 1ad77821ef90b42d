"""The task pool for work in parallel with scheduling cycles: binding cycles, evictions and status patches."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import partial
from typing import Any

import structlog
from msgspec import Struct

from moorage.common.background import start_task

log = structlog.get_logger(__name__)


class Work(Struct):
    """A coroutine and its name."""

    steps: Coroutine[Any, Any, object]
    name: str
    has_begun: bool = False


class TaskBackground:
    """Runs coroutines as tasks of the running loop.

    A finished task is reused for the next coroutine: creating a task takes longer than most phases of an attempt.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle: list[asyncio.Future[Work]] = []
        self._under_way = 0
        self._drained: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return self._under_way

    def start(self, work: Coroutine[Any, Any, object], *, name: str) -> None:
        """Run a coroutine. Its exceptions are logged."""
        self._under_way += 1
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._idle = loop, []
        while self._idle:
            slot = self._idle.pop()
            if not slot.cancelled():
                slot.set_result(Work(work, name))
                return
        first = Work(work, name)
        # The task outlives the attempt, so it must not inherit the context variables of the attempt.
        task = loop.create_task(self._run(loop, first), context=Context())
        self._tasks.add(task)
        task.add_done_callback(partial(self._remove, first))

    def spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None] | None:
        """Run a coroutine that :meth:`drain` does not wait for, and return its task to the caller."""
        return start_task(work, name)

    def call_later(self, seconds: float, action: Callable[[], None]) -> None:
        """Call a function after a delay, between cycles."""
        asyncio.get_running_loop().call_later(seconds, action)

    async def drain(self) -> None:
        """Wait until all coroutines have ended."""
        while self._under_way:
            self._drained = self._drained or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)

    async def _run(self, loop: asyncio.AbstractEventLoop, work: Work) -> None:
        task = asyncio.current_task(loop)
        assert task is not None
        while True:
            # The name is shown in listings of all tasks of the process.
            task.set_name(work.name)
            work.has_begun = True
            try:
                await work.steps
            except Exception:
                log.exception("background work failed", work=work.name)
            finally:
                self._on_end()
            slot: asyncio.Future[Work] = loop.create_future()
            self._idle.append(slot)
            try:
                work = await slot
            except asyncio.CancelledError:
                if not slot.cancelled():
                    self._drop(slot.result())
                raise

    def _remove(self, first: Work, task: asyncio.Task[None]) -> None:
        """Remove a cancelled task, which perhaps never began."""
        self._tasks.discard(task)
        if not first.has_begun:
            self._drop(first)

    def _drop(self, work: Work) -> None:
        work.steps.close()
        self._on_end()

    def _on_end(self) -> None:
        self._under_way -= 1
        if not self._under_way and self._drained is not None:
            self._drained.set_result(None)
            self._drained = None
