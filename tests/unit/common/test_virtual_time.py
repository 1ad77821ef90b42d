"""Virtual time and events in real time."""

import asyncio
import gc
import threading

import pytest

from moorage.common.clock import VirtualClock
from moorage.common.virtual_time import interrupt_virtual_loop, run_virtual


def test_remaining_thread_is_joined_at_the_end() -> None:
    """A name that is looked up leaves one: nothing in virtual time ends it."""
    may_end = threading.Event()

    async def work() -> None:
        asyncio.get_running_loop().run_in_executor(None, may_end.wait)
        threading.Timer(0.2, may_end.set).start()

    run_virtual(work(), VirtualClock())
    assert may_end.is_set()


def test_interrupted_task_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def interrupt() -> None:
        raise KeyboardInterrupt

    async def fail() -> None:
        raise ValueError("logged")

    async def main() -> None:
        tasks = [asyncio.create_task(fail()), asyncio.create_task(interrupt())]
        await asyncio.sleep(1)
        del tasks

    with pytest.raises(KeyboardInterrupt):
        run_virtual(main(), VirtualClock())
    gc.collect()
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ValueError]


def test_interrupt_ends_the_loop_between_two_callbacks() -> None:
    steps = []

    async def main() -> None:
        assert interrupt_virtual_loop()
        steps.append("rest of the callback")
        await asyncio.sleep(1)
        steps.append("next callback")

    assert not interrupt_virtual_loop()
    with pytest.raises(KeyboardInterrupt):
        run_virtual(main(), VirtualClock())
    assert steps == ["rest of the callback"]
