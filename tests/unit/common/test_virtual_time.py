"""Virtual time and events outside of it."""

import asyncio
import gc
import threading

import pytest

from moorage.common.clock import VirtualClock
from moorage.common.virtual_time import run_virtual


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
