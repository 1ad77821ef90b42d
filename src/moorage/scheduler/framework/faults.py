"""Exceptions of plugins: each fails one attempt, including exceptions that would end a program."""

import asyncio
import inspect
import re
import signal
import sysconfig
import traceback
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any, Final

import structlog

from moorage.common.errors import NotStored, PluginError
from moorage.common.text import format_traceback, shortened

PLUGIN_FAULTS: Final = BaseException
"""Caught around every call of a plugin. The functions below propagate exceptions that are not its fault."""

MAX_SHOWN: Final = 2000
MAX_PLACES: Final = 100
"""The number of places in one plugin for which tracebacks are logged."""

log = structlog.get_logger(__name__)


class InvalidReturn(TypeError):
    """A plugin made of a function returned an illegal value. The message names the function, its file and its line."""


def format_text(text: str) -> str:
    """Return a text as it can be sent: not too long, and without lone surrogates, which UTF-8 cannot encode."""
    truncated = shortened(text, MAX_SHOWN)
    return truncated if truncated.isascii() else truncated.encode("utf-8", "replace").decode()


def shown(answer: object) -> str:
    """Return the repr of a plugin's result, even if ``repr`` raises. Close it if it is a coroutine."""
    if inspect.iscoroutine(answer):
        answer.close()
        return f"a coroutine of {format_text(answer.__qualname__)} that it does not await"
    try:
        return format_text(_ADDRESS.sub("", repr(answer)))
    except BaseException as error:
        pass_on_interrupt(error)
        return f"a {type(answer).__name__} that cannot be shown"


_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")
"""The address in a default repr. It differs in each attempt, and messages should not."""
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
        message = format_text(error.msg if isinstance(error, SyntaxError) else str(error))
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
    """The faults of a plugin: exceptions, invalid results and timeouts.

    Each fault is recorded and logged once per location: a plugin that fails for every pod must not fill the log.
    """

    def __init__(self) -> None:
        self.first: BaseException | None = None
        self._problems: dict[Hashable, str] = {}

    @property
    def problems(self) -> list[str]:
        """The recorded faults, one for each place, such as ``X.filter raised KeyError: 'nope' (my_plugin.py:14)``."""
        return [*self._problems.values()]

    def note(self, plugin: str, error: BaseException, problem: str) -> None:
        """Record an exception that a plugin raised, and log its traceback. Expected failures are omitted."""
        if isinstance(error, InvalidReturn):
            self.note_invalid(plugin, "", problem)
        elif self.add(error, problem):
            trace = format_traceback(error, omitted_directory=MOORAGE_DIRECTORY)
            log.error("plugin raised an exception", plugin=plugin, error=problem, exception=trace)

    def note_invalid(self, plugin: str, method: str, problem: str) -> None:
        """Record an invalid result or a timeout of a method."""
        if self._is_new(method, PluginError(plugin, problem), problem):
            log.error("plugin call failed", plugin=plugin, error=problem)

    def note_error(self, method: str, problem: str) -> None:
        """Record an error that a plugin returned where it does not fail the attempt."""
        self._problems.setdefault(method, problem)

    def add(self, error: BaseException, problem: str) -> bool:
        """Record an exception. Return whether it is the first one of its place, and not an expected failure."""
        if is_expected(error):
            return False
        frame = author_frame(error)
        location = (type(error).__name__, None if frame is None else (frame.filename, frame.lineno))
        return self._is_new(location, error, problem)

    def _is_new(self, location: Hashable, error: BaseException, problem: str) -> bool:
        self.first = self.first or error
        if location in self._problems or len(self._problems) >= MAX_PLACES:
            return False
        self._problems[location] = problem
        return True


def is_expected(error: BaseException) -> bool:
    """Return whether an exception is of a class of Moorage: an expected failure with a complete message.

    Reading state that was never stored is a mistake in the author's code.
    """
    is_own_class = str(type(error).__module__).partition(".")[0] == "moorage"
    is_mistake = isinstance(error, InvalidReturn) or (isinstance(error, NotStored) and is_authors(error))
    return is_own_class and not is_mistake


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


def is_authors(error: BaseException) -> bool:
    """Return whether an exception passed through the author's code."""
    frames = traceback.extract_tb(error.__traceback__)
    return any(not frame.filename.startswith(("<frozen", MOORAGE_DIRECTORY)) for frame in frames)


def _location(error: BaseException) -> str:
    frame = author_frame(error)
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({Path(error.filename).name}:{error.lineno})"
    if frame is None:
        return ""
    return f" ({Path(frame.filename).name}:{frame.lineno})"


def definition(function: object) -> str:
    """Return the file and line of an author's function, as ``my_plugin.py:14``, or an empty string."""
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    return "" if code is None else f"{Path(code.co_filename).name}:{code.co_firstlineno}"


def described_call(plugin: Any, methods: Sequence[str], error: BaseException) -> str:
    """Describe an exception of a plugin by its method, type, message, file and line.

    The method is the outermost one in the author's code. An exception without a line there, for example because a
    result cannot be iterated over, gets the line of the method.
    """
    if isinstance(error, InvalidReturn):
        return str(error)
    if not is_authors(error) and not is_expected(error):
        return invalid_result(plugin, methods, f"raised {type(error).__name__}: {error}")
    frames = traceback.extract_tb(error.__traceback__)
    names = [frame.name for frame in frames if not frame.filename.startswith(MOORAGE_DIRECTORY)]
    default = next((name for name in methods if not is_own(getattr(type(plugin), name, None))), methods[0])
    method = next((name for name in names if callable(getattr(type(plugin), name, None))), default)
    return described(error, _name_call(plugin, method))


def invalid_result(plugin: Any, methods: Sequence[str], problem: str) -> str:
    """Describe an invalid result by the method that the author defined, with its file and line.

    ``methods`` are the methods that may have returned it.
    """
    kind = type(plugin)
    method = next((name for name in methods if not is_own(getattr(kind, name, None))), methods[0])
    location = definition(plugin._author_function or getattr(kind, method, None))
    return f"{_name_call(plugin, method)}{f' ({location})' if location else ''} {problem}"


def _name_call(plugin: Any, method: str) -> str:
    """Return ``X.filter``, or ``x`` for a plugin made of the function ``x``: its author wrote no method."""
    return str(plugin.name) if plugin._author_function else f"{plugin.name}.{method}"


def is_own(function: object) -> bool:
    """Return whether a function is Moorage's and not an author's."""
    return str(getattr(function, "__module__", "moorage")).partition(".")[0] == "moorage"


def pass_on_interrupt(error: BaseException) -> None:
    """Re-raise what only happened to hit a plugin: a Ctrl-C, or the cancellation of the task that waits for it.

    A daemon never sees a Ctrl-C, its signals are handled. A CancelledError that a plugin raised is its fault.
    """
    if isinstance(error, asyncio.CancelledError) and _is_cancelled():
        raise error
    if not isinstance(error, KeyboardInterrupt):
        return
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    frame = None if trace is None else trace.tb_frame
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    # A command with its own signal handler, such as `moorage lab`, raises in the handler, at any line of a plugin.
    is_raised_by_handler = frame is not None and any(
        frame.f_code is getattr(handler, "__code__", None) for handler in handlers
    )
    is_raised_by_loop = frame is not None and frame.f_globals.get("__name__", "") == "asyncio.runners"
    # SIGINT is ignored in background processes; treat that like Python's default handler.
    is_default = handlers[0] in (signal.default_int_handler, signal.SIG_IGN)
    if is_raised_by_handler or is_raised_by_loop or is_default:
        raise error


def _is_cancelled() -> bool:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # there is no loop
        return False
    return task is not None and task.cancelling() > 0
