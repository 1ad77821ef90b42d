"""Logs: klog's text or JSON, how much by -v and --vmodule, and one line per decision from -v=2 on.

Levels are klog's numbers. Code logs with structlog's methods (``info`` is level 0, ``debug`` level 4), or names a
level: ``log.info("pod placed", v=2, pod=…)``. Warnings and errors are always written.
"""

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from typing import Any, Final, TextIO

import structlog

from moorage.common.text import MAX_TRACE, format_traceback, shorten_values, shortened
from moorage.scheduler.daemon.options import LoggingOptions
from moorage.scheduler.framework.logs import VERBOSITY

_LETTERS: Final = {"debug": "I", "info": "I", "warning": "W", "error": "E", "critical": "F", "exception": "E"}
_DEBUG_LEVEL: Final = 4

EventDict = MutableMapping[str, Any]


def configure_logs(
    options: LoggingOptions, stream: TextIO | None = None, clock: Callable[[], float] = time.time
) -> None:
    """Configure the format and verbosity of all later log lines."""
    VERBOSITY.modules = dict(options.modules or {})
    VERBOSITY.set(options.verbosity)
    render = _json_line if options.format == "json" else _text_line
    output = stream or sys.stderr

    def finish(_logger: Any, method: str, event: EventDict) -> str:
        return render(method, event, clock())

    structlog.configure(
        processors=[_filter, shorten_values, finish],
        wrapper_class=structlog.BoundLogger,
        logger_factory=lambda *names: _NamedLogger(output, str(names[0]) if names else ""),
        cache_logger_on_first_use=False,
    )


class _NamedLogger:
    """Writes lines. A line that cannot be written is lost: logging must not fail because the reader has exited."""

    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream = stream
        self.name = name

    def write(self, line: str) -> None:
        """Write and flush one line."""
        with suppress(OSError, ValueError):
            self._stream.write(line + "\n")
            self._stream.flush()

    debug = info = warning = error = critical = exception = write


def _filter(logger: Any, method: str, event: EventDict) -> EventDict:
    """Drop records above the configured verbosity."""
    event["module"] = logger.name
    level = event.pop("v", None)
    if method in ("info", "debug"):
        level = level if level is not None else (_DEBUG_LEVEL if method == "debug" else 0)
        if level > VERBOSITY.of(logger.name):
            raise structlog.DropEvent
        event["level"] = level
    return event


def _text_line(method: str, event: EventDict, now: float) -> str:
    module, message, trace = event.pop("module"), event.pop("event"), _trace(event)
    event.pop("level", None)
    moment = time.strftime("%m%d %H:%M:%S", time.localtime(now)) + f".{int(now % 1 * 1_000_000):06d}"
    head = f"{_LETTERS[method]}{moment} {os.getpid():7d} {module.rpartition('.')[2]}] {_quote(message)}"
    pairs = "".join(f" {key}={_format_value(value)}" for key, value in event.items())
    return f"{head}{pairs}" + (f"\n{trace}" if trace else "")


def _json_line(method: str, event: EventDict, now: float) -> str:
    module, message, trace = event.pop("module"), event.pop("event"), _trace(event)
    line: dict[str, Any] = {"ts": round(now * 1000, 3), "caller": module.replace(".", "/")}
    if "level" in event:
        line["v"] = event.pop("level")
    else:
        line["level"] = "warning" if method == "warning" else "error"
    line["msg"] = message
    line.update(event)
    if trace:
        line["stacktrace"] = trace
    return json.dumps(line, default=str, ensure_ascii=False)


def _format_value(value: Any) -> str:
    """Quote a value. One of several lines is indented under its key, as klog does."""
    if isinstance(value, str) and "\n" in value:
        return "<\n" + "".join(f"\t{line}\n" for line in value.strip("\n").splitlines()) + " >"
    return _quote(value)


def _quote(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return json.dumps(str(value), ensure_ascii=False)


def _trace(event: EventDict) -> str:
    error = event.pop("exc_info", None)
    if isinstance(error, BaseException):
        return format_traceback(error)
    if error:
        return shortened(traceback.format_exc().rstrip(), MAX_TRACE)
    return str(event.pop("exception", ""))
