"""Exceptions of plugins: each fails one attempt, including those that would end a program."""

import asyncio
import inspect
import signal
import traceback
from pathlib import Path
from typing import Final

from moorage.common.text import shortened

PLUGIN_FAULTS: Final = BaseException
"""Caught wherever a plugin is called; the functions below propagate exceptions that are not its fault."""

MAX_SHOWN: Final = 2000


def written(text: str) -> str:
    """Return a text as it can be sent: not too long, and without halves of characters, which no encoding has."""
    cut = shortened(text, MAX_SHOWN)
    return cut if cut.isascii() else cut.encode("utf-8", "replace").decode()


def shown(answer: object) -> str:
    """Return the repr of a plugin's result, even if ``repr`` raises; close it if it is a coroutine."""
    if inspect.iscoroutine(answer):
        answer.close()
        return f"a coroutine of {written(answer.__qualname__)} that it does not await"
    try:
        return written(repr(answer))
    except BaseException as error:
        pass_on_interrupt(error)
        return f"a {type(answer).__name__} that cannot be shown"


_HERE: Final = str(Path(__file__).parents[2])


def described(error: BaseException) -> str:
    """Describe an exception of a plugin; exceptions that end programs get a hint.

    >>> described(ValueError("no such zone"))
    'no such zone'
    >>> described(SystemExit(3))
    'it raised SystemExit(3), which is ignored here: return a Status with the reason, or raise an Exception'
    """
    if isinstance(error, Exception):
        try:
            return written(str(error)) or type(error).__name__
        except BaseException as another:
            pass_on_interrupt(another)
            return type(error).__name__
    return f"it raised {shown(error)}, which is ignored here: return a Status with the reason, or raise an Exception"


def pass_on_interrupt(error: BaseException) -> None:
    """Raise again what only happened to hit a plugin: a Ctrl-C, or the cancellation of the task that waits for it.

    A daemon never sees a Ctrl-C, its signals are handled. A CancelledError that a plugin made up is its fault.
    """
    if isinstance(error, asyncio.CancelledError) and _is_cancelled():
        raise error
    if not isinstance(error, KeyboardInterrupt):
        return
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    raised_in = "" if trace is None else trace.tb_frame.f_globals.get("__name__", "")
    # SIGINT is ignored in background processes; treat that like Python's default handler.
    if raised_in == "asyncio.runners" or signal.getsignal(signal.SIGINT) in (
        signal.default_int_handler,
        signal.SIG_IGN,
    ):
        raise error


def place_of(error: BaseException) -> str:
    """Return the file and line of an error in the author's code, unless the message contains it."""
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError) or not frames:
        return ""
    own = [frame for frame in frames if not frame.filename.startswith(("<frozen", _HERE))]
    last = own[-1] if own else frames[-1]
    return f" ({last.filename}, line {last.lineno})"


def _is_cancelled() -> bool:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # there is no loop
        return False
    return task is not None and task.cancelling() > 0
