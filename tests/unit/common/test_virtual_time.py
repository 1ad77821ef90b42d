"""Virtual time and events outside of it."""

import asyncio
import threading

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
