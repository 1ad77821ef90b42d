"""Deadlines of awaited plugin methods. A method that suppresses its cancellation is abandoned."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")

CANCEL_SECONDS: Final = 1.0
"""The time that a cancelled method has to clean up."""

_abandoned: "set[asyncio.Task[Any]]" = set()
"""The loop has only weak references to its tasks."""


class DeadlineExceeded(Exception):
    """A call did not return in time. ``str`` is its description, without the name of the method."""


async def call_with_timeout(seconds: float, method: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """Await a method in its own task, and raise its exceptions. Raise DeadlineExceeded after ``seconds``."""

    async def invoke() -> tuple[T | None, BaseException | None]:
        # Exceptions are results: in a task, SystemExit would end the loop.
        try:
            return await method(*arguments), None
        except BaseException as error:
            return None, error

    # find_innermost_call reads this variable.
    call = asyncio.get_running_loop().create_task(invoke())
    try:
        await asyncio.wait((call,), timeout=seconds)
    except asyncio.CancelledError:
        await _cancel(call)
        raise
    if not call.done():
        has_ended = await _cancel(call)
        problem = f"did not return within {seconds:g} s"
        raise DeadlineExceeded(problem if has_ended else f"{problem} and ignores its cancellation")
    result, error = call.result()
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


def find_innermost_call(coroutine: Any) -> Any:
    """Return the coroutine that a suspended :func:`call_with_timeout` awaits, or ``None`` for other coroutines."""
    if coroutine.cr_code is not call_with_timeout.__code__:
        return None
    call = coroutine.cr_frame.f_locals.get("call")
    return None if call is None else call.get_coro()


async def _cancel(call: "asyncio.Task[Any]") -> bool:
    """Cancel a call and return whether it has ended."""
    call.cancel()
    try:
        await asyncio.wait((call,), timeout=CANCEL_SECONDS)
    finally:
        if not call.done():
            _abandoned.add(call)
            call.add_done_callback(_abandoned.discard)
            # Without this, asyncio.run would wait for the task at its end.
            asyncio._unregister_task(call)
            call._log_destroy_pending = False  # type: ignore[attr-defined]
    return call.done()
