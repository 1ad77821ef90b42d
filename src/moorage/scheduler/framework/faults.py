"""Exceptions of plugins: each fails one attempt, including exceptions that would end a program."""

import asyncio
import inspect
import signal
import sysconfig
import traceback
from pathlib import Path
from typing import Final

import structlog

from moorage.common.text import format_traceback, shortened

PLUGIN_FAULTS: Final = BaseException
"""Caught around every call of a plugin; the functions below propagate exceptions that are not its fault."""

MAX_SHOWN: Final = 2000
MAX_PLACES: Final = 100
"""The number of places in one plugin whose tracebacks are logged."""

log = structlog.get_logger(__name__)


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


MOORAGE_DIRECTORY: Final = str(Path(__file__).parents[2])
_LIBRARIES: Final = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def described(error: BaseException, method: str = "") -> str:
    """Describe an exception by its type, its message, and the file and line in the author's code.

    With the method that raised: ``X.filter raised KeyError: 'nope' (my_plugin.py:14)``.

    Exceptions of Moorage's own classes are expected failures with complete messages, some of them upstream's: only
    their message is returned. Exceptions that end programs get a hint.

    >>> described(ValueError("no such zone"))
    'ValueError: no such zone'
    >>> described(SystemExit(3))
    'SystemExit: 3, which is ignored here: return a Status with the reason, or raise an Exception'
    """
    name = type(error).__name__
    try:
        message = written(str(error))
    except BaseException as another:
        pass_on_interrupt(another)
        message = ""
    if is_expected(error):
        return message or name
    text = f"{method} raised {name}" if method else name
    if message:
        text += f": {message}"
    text += _location(error)
    if not isinstance(error, Exception):
        text += ", which is ignored here: return a Status with the reason, or raise an Exception"
    return text


class FaultRecord:
    """The exceptions of one plugin: the first one, and where each was raised.

    The traceback of an exception is logged once for each place, so that a plugin that fails for every pod does not fill
    the log.
    """

    def __init__(self) -> None:
        self.first: BaseException | None = None
        self._places: set[tuple[str, tuple[str, int | None] | None]] = set()

    def note(self, plugin: str, error: BaseException) -> None:
        """Record an exception that a plugin raised; expected failures are omitted."""
        if is_expected(error):
            return
        self.first = self.first or error
        frame = author_frame(error)
        location = (type(error).__name__, None if frame is None else (frame.filename, frame.lineno))
        if location not in self._places and len(self._places) < MAX_PLACES:
            self._places.add(location)
            log.error(
                "plugin raised an exception", plugin=plugin, error=described(error), exception=format_traceback(error)
            )


def is_expected(error: BaseException) -> bool:
    """Return whether an exception is of a class of Moorage: an expected failure with a complete message."""
    return str(type(error).__module__).partition(".")[0] == "moorage"


def author_frame(error: BaseException) -> traceback.FrameSummary | None:
    """Return the innermost frame in the author's code; the innermost of all if Moorage's own code raised."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(("<frozen", MOORAGE_DIRECTORY))]
    # An exception of a library is reported at the author's line that called the library.
    authored = [frame for frame in own if not frame.filename.startswith(_LIBRARIES)]
    if own and not authored:  # the plugin itself is installed as a library: its first frame shows where
        directory = str(Path(own[0].filename).parent)
        authored = [frame for frame in own if frame.filename.startswith(directory)]
    return next(iter((authored or frames)[-1:]), None)


def _location(error: BaseException) -> str:
    frame = author_frame(error)
    if frame is None or isinstance(error, SyntaxError):  # the message of a SyntaxError contains its file and line
        return ""
    return f" ({Path(frame.filename).name}:{frame.lineno})"


def definition(function: object) -> str:
    """Return the file and line of an author's function, as ``my_plugin.py:14``, or an empty string."""
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    return "" if code is None else f"{Path(code.co_filename).name}:{code.co_firstlineno}"


def pass_on_interrupt(error: BaseException) -> None:
    """Raise again what only happened to hit a plugin: a Ctrl-C, or the cancellation of the task that waits for it.

    A daemon never sees a Ctrl-C, its signals are handled. A CancelledError that a plugin raised is its fault.
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


def _is_cancelled() -> bool:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # there is no loop
        return False
    return task is not None and task.cancelling() > 0
