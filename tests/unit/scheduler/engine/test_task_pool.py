"""Background work: all of it runs, even if some of it fails, and with as few tasks as possible."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from moorage.scheduler.engine.task_pool import TaskBackground


async def noting(finished_names: list[str], name: str) -> None:
    await asyncio.sleep(0)
    finished_names.append(name)


async def failing() -> None:
    await asyncio.sleep(0)
    raise RuntimeError("no route to host")


def test_drain_waits_for_all_work() -> None:
    async def work() -> tuple[list[str], int]:
        background, finished_names = TaskBackground(), list[str]()
        for name in ("a", "b", "c"):
            background.start(noting(finished_names, name), name=name)
        assert len(background) == 3
        await background.drain()
        return finished_names, len(background)

    assert asyncio.run(work()) == (["a", "b", "c"], 0)


def test_failure_is_logged_by_name_and_stops_no_other_work(logged: list[Any]) -> None:
    async def work() -> list[str]:
        background, finished_names = TaskBackground(), list[str]()
        background.start(failing(), name="binding of default/p")
        await background.drain()
        background.start(noting(finished_names, "next"), name="next")
        await background.drain()
        return finished_names

    assert asyncio.run(work()) == ["next"]
    assert [(line["event"], line["work"]) for line in logged] == [("background work failed", "binding of default/p")]


def test_tasks_are_reused_and_named_after_their_current_work() -> None:
    async def work() -> tuple[int, list[str]]:
        background, names = TaskBackground(), list[str]()

        async def naming() -> None:
            task = asyncio.current_task()
            assert task is not None
            names.append(task.get_name())

        for number in range(20):
            background.start(naming(), name=f"work {number}")
            await background.drain()
        return len(asyncio.all_tasks()) - 1, names

    assert asyncio.run(work()) == (1, [f"work {number}" for number in range(20)])


def test_work_continues_in_another_loop() -> None:
    background, finished_names = TaskBackground(), list[str]()

    async def work(name: str) -> None:
        background.start(noting(finished_names, name), name=name)
        await background.drain()

    asyncio.run(work("a"))
    asyncio.run(work("b"))
    assert finished_names == ["a", "b"]


def test_cancelled_tasks_end(recwarn: Any) -> None:
    """Cancel tasks both during their work and before they start it."""

    async def cancel_all() -> None:
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def work(begin: Callable[[TaskBackground], Coroutine[Any, Any, None]]) -> list[str]:
        background, finished_names = TaskBackground(), list[str]()
        await begin(background)
        background.start(noting(finished_names, "cancelled"), name="cancelled")
        await cancel_all()
        assert len(background) == 0
        background.start(noting(finished_names, "later"), name="later")
        await background.drain()
        return finished_names

    async def nothing(background: TaskBackground) -> None:
        return None

    async def rest(background: TaskBackground) -> None:
        background.start(asyncio.sleep(0), name="before")
        await background.drain()

    async def rest_then_cancel(background: TaskBackground) -> None:
        await rest(background)
        await cancel_all()

    for begin in (nothing, rest, rest_then_cancel):
        assert asyncio.run(work(begin)) == ["later"], begin.__name__
    assert not [warning for warning in recwarn if "never awaited" in str(warning.message)]
