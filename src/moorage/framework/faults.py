"""What a plugin may raise: all of it costs one attempt, even what would end a program."""

import signal
import traceback
from pathlib import Path
from typing import Final

PLUGIN_FAULTS: Final = (Exception, SystemExit, GeneratorExit, KeyboardInterrupt)
"""Caught wherever a plugin is called. A task that is cancelled is not a fault of whoever it waits for."""


_HERE: Final = str(Path(__file__).parents[1])


def described(error: BaseException) -> str:
    """Put what a plugin raised into words; what was meant to end something gets advice with it.

    >>> described(ValueError("no such zone"))
    'no such zone'
    >>> described(SystemExit(3))
    'it raised SystemExit(3), which ends nothing here: return a Status that says why, or raise an Exception'
    """
    if isinstance(error, Exception):
        return str(error) or type(error).__name__
    return f"it raised {error!r}, which ends nothing here: return a Status that says why, or raise an Exception"


def pass_on_interrupt(error: BaseException) -> None:
    """Raise a Ctrl-C again that only happened to hit a plugin; a daemon never sees one, its signals are handled."""
    if not isinstance(error, KeyboardInterrupt):
        return
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    raised_in = "" if trace is None else trace.tb_frame.f_globals.get("__name__", "")
    # Ignored where a program is started in the background: then nobody handles it, as with Python's own handler.
    if raised_in == "asyncio.runners" or signal.getsignal(signal.SIGINT) in (
        signal.default_int_handler,
        signal.SIG_IGN,
    ):
        raise error


def place_of(error: BaseException) -> str:
    """Say in which file of an author's an error arose, if that is not in the message already."""
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError) or not frames:
        return ""
    own = [frame for frame in frames if not frame.filename.startswith(("<frozen", _HERE))]
    last = own[-1] if own else frames[-1]
    return f" ({last.filename}, line {last.lineno})"
