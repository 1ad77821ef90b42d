"""Background tasks: failures are logged, and tasks that must not end are restarted."""

import asyncio
import itertools
from collections.abc import MutableMapping
from typing import Any

import pytest

from moorage.common.background import MAX_PAUSE, keep_running, start_task
from moorage.common.clock import VirtualClock
from moorage.common.virtual_time import run_virtual

Logged = list[MutableMapping[str, Any]]


def test_failed_task_is_logged_with_its_name(logged: Logged) -> None:
    async def fail() -> None:
        raise ValueError("a mistake")

    async def main() -> None:
        await asyncio.gather(start_task(fail(), "cleaning"), return_exceptions=True)

    asyncio.run(main())
    assert [(line["event"], line["task"]) for line in logged] == [("a background task failed", "cleaning")]


def test_failing_task_is_restarted_until_it_returns(logged: Logged) -> None:
    starts: list[float] = []

    async def work() -> None:
        starts.append(asyncio.get_running_loop().time())
        if len(starts) < 9:
            raise OSError("a mistake")

    async def main() -> None:
        await keep_running(work, "following")

    run_virtual(main(), VirtualClock())
    pauses = [later - earlier for earlier, later in itertools.pairwise(starts)]
    assert pauses == pytest.approx([1, 2, 4, 8, 16, 32, MAX_PAUSE, MAX_PAUSE])
    assert [line["task"] for line in logged] == ["following"] * 8


def test_cancelled_task_is_not_restarted(logged: Logged) -> None:
    starts: list[None] = []

    async def work() -> None:
        starts.append(None)
        await asyncio.sleep(1000)

    async def main() -> None:
        task = keep_running(work, "following")
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()

    run_virtual(main(), VirtualClock())
    assert (len(starts), logged) == (1, [])
