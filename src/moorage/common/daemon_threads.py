"""Calls of code that may never return, such as imports of plugins, in threads that do not delay the end."""

import asyncio
import ctypes
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from moorage.common.errors import MoorageError

INTERRUPT_SECONDS: Final = 2.0
"""Time in which an interrupted thread ends."""

T = TypeVar("T")


async def call_in_thread(call: Callable[[], T], seconds: float, description: str) -> T:
    """Run a function in a thread and return its result. Raise MoorageError if it does not end in time.

    A thread that runs Python code is then interrupted. One that waits in a system call remains, and ends with the
    process.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    completion = asyncio.Event()

    def settle(result: T | None, error: BaseException | None) -> None:
        completion.set()
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, error = None, None
        try:
            result = call()
        except BaseException as caught:
            error = caught
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, result, error)

    thread = threading.Thread(target=run, name=description, daemon=True)
    thread.start()
    try:
        async with asyncio.timeout(seconds):
            return await future
    except TimeoutError as error:
        interrupt = ctypes.pythonapi.PyThreadState_SetAsyncExc
        interrupt(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
        with suppress(TimeoutError):
            async with asyncio.timeout(INTERRUPT_SECONDS):
                await completion.wait()
        remains = "; it cannot be interrupted: restart this process after a fix" if not completion.is_set() else ""
        raise MoorageError(f"{description} did not end within {seconds:g} s{remains}") from error
