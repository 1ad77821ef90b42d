"""Background tasks: failures are logged immediately, and tasks that must not end are restarted."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

import structlog

FIRST_PAUSE: Final = 1.0
MAX_PAUSE: Final = 60.0

log = structlog.get_logger(__name__)


def start_task(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """Run a coroutine that no other code waits for. An exception is logged."""
    task = asyncio.get_running_loop().create_task(work, name=name)
    task.add_done_callback(_report)
    return task


def keep_running(work: Callable[[], Coroutine[Any, Any, None]], name: str) -> asyncio.Task[None]:
    """Run a coroutine until it returns or the task is cancelled. Log exceptions and restart it after a pause."""
    return asyncio.get_running_loop().create_task(_restart(work, name), name=name)


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("a background task failed", task=task.get_name(), exc_info=error)


async def _restart(work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
    pause = FIRST_PAUSE
    while True:
        try:
            return await work()
        except Exception:
            log.exception("a background task failed and is restarted", task=name, seconds=pause)
        await asyncio.sleep(pause)
        pause = min(2 * pause, MAX_PAUSE)
