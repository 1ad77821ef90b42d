"""Work beside the scheduling cycles: binding cycles, evictions, status patches. Nothing that fails is lost silently."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

log = structlog.get_logger(__name__)


class TaskBackground:
    """Runs work as tasks of the running loop and keeps them alive; tells when all of it is done."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Run something; what it raises is logged."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def call_later(self, seconds: float, action: Callable[[], None]) -> None:
        """Run something after a while, between cycles."""
        asyncio.get_running_loop().call_later(seconds, action)

    async def drain(self) -> None:
        """Wait until nothing is left to do."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("background work failed", work=task.get_name(), exc_info=error)
