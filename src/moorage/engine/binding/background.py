"""Work beside the scheduling cycles: binding cycles, evictions, status patches. Nothing that fails is lost silently."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import structlog
from msgspec import Struct

log = structlog.get_logger(__name__)


class Work(Struct):
    """Something to be done, and what to call it."""

    steps: Coroutine[Any, Any, None]
    name: str
    has_begun: bool = False


class TaskBackground:
    """Runs work as tasks of the running loop, and knows when all of it is done.

    A task that is done waits for more work: making a new one takes longer than most steps of placing a pod.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._at_rest: list[asyncio.Future[Work]] = []
        self._under_way = 0
        self._drained: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return self._under_way

    def start(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Run something; what it raises is logged."""
        self._under_way += 1
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._at_rest = loop, []
        while self._at_rest:
            rest = self._at_rest.pop()
            if not rest.cancelled():
                rest.set_result(Work(work, name))
                return
        first = Work(work, name)
        task = loop.create_task(self._run(loop, first))
        self._tasks.add(task)
        task.add_done_callback(partial(self._gone, first))

    def call_later(self, seconds: float, action: Callable[[], None]) -> None:
        """Run something after a while, between cycles."""
        asyncio.get_running_loop().call_later(seconds, action)

    async def drain(self) -> None:
        """Wait until nothing is left to do."""
        while self._under_way:
            self._drained = self._drained or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)

    async def _run(self, loop: asyncio.AbstractEventLoop, work: Work) -> None:
        task = asyncio.current_task(loop)
        assert task is not None
        while True:
            # Whoever lists the tasks of the process reads what each is at.
            task.set_name(work.name)
            work.has_begun = True
            try:
                await work.steps
            except Exception:
                log.exception("background work failed", work=work.name)
            finally:
                self._ended()
            rest: asyncio.Future[Work] = loop.create_future()
            self._at_rest.append(rest)
            try:
                work = await rest
            except asyncio.CancelledError:
                if not rest.cancelled():
                    self._drop(rest.result())
                raise

    def _gone(self, first: Work, task: asyncio.Task[None]) -> None:
        """Forget a task, which was cancelled; perhaps before it could begin."""
        self._tasks.discard(task)
        if not first.has_begun:
            self._drop(first)

    def _drop(self, work: Work) -> None:
        work.steps.close()
        self._ended()

    def _ended(self) -> None:
        self._under_way -= 1
        if not self._under_way and self._drained is not None:
            self._drained.set_result(None)
            self._drained = None
