"""Truncation of texts: no message is longer than a few pages, regardless of its input.

The middle is omitted, since a message starts with the place of a problem and ends with the correction.
"""

import traceback
from collections.abc import Iterator, MutableMapping
from typing import Any, Final

MAX_MESSAGE: Final = 16 * 1024
"""Limit of a message. A complete validation error of kube-apiserver for an ordinary object fits."""
MAX_TRACE: Final = 4 * MAX_MESSAGE
MAX_NOTE_BYTES: Final = 1024
"""Limit of the events API."""


def shortened(text: str, limit: int = MAX_MESSAGE) -> str:
    """Replace the middle of a long text by a note.

    >>> shortened("a" * 100, limit=60)
    'aaaaaaaaaaaaaaaaaaaa … (70 characters omitted) … aaaaaaaaaa'
    """
    if len(text) <= limit:
        return text
    kept_length = max(limit - 30, 2)
    tail = kept_length // 3
    left_out = len(text) - kept_length
    return f"{text[: kept_length - tail]} … ({left_out:,} characters omitted) … {text[-tail:]}"


def format_traceback(error: BaseException, *, omitted_directory: str = "") -> str:
    """Return the traceback of an exception for the field ``exception`` of a log line, without local variables.

    Frames of files in ``omitted_directory`` are omitted, unless there are no others. structlog's default renderer shows
    the variables of an ``exc_info``. Their ``repr`` may raise or reveal a secret.
    """
    trace = traceback.TracebackException.from_exception(error)
    if omitted_directory:
        for part in _chain(trace):
            kept = [frame for frame in part.stack if not frame.filename.startswith(omitted_directory)]
            part.stack = traceback.StackSummary.from_list(kept) if kept else part.stack
    return shortened("".join(trace.format()).rstrip(), MAX_TRACE)


def _chain(trace: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    """Yield an exception and those that caused it."""
    current: traceback.TracebackException | None = trace
    while current is not None:
        yield current
        current = current.__cause__ or current.__context__


def cut_note(note: str) -> str:
    """Truncate the note of an event to the limit of the API, between characters, as upstream does."""
    if len(note) <= MAX_NOTE_BYTES // 4:
        return note
    encoded = note.encode(errors="replace")
    if len(encoded) <= MAX_NOTE_BYTES:
        return note
    return encoded[: MAX_NOTE_BYTES - 4].decode(errors="ignore") + " ..."


def shorten_values(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Shorten logged values; a processor for structlog."""
    for key, value in event.items():
        if key in ("exception", "exc_info") or value is None or isinstance(value, bool | float):
            continue
        if isinstance(value, str):
            event[key] = shortened(value)
        elif not isinstance(value, int) or value.bit_length() > 64:
            try:
                text = str(value)
            except ValueError:
                event[key] = "a number of too many digits"
            else:
                if len(text) > MAX_MESSAGE:
                    event[key] = shortened(text)
    return event


def describe_type(content: Any) -> str:
    """Return the YAML type of a value for messages, with an article: ``a list``, ``null``."""
    names = {list: "list", str: "string", bool: "boolean", int: "number", float: "number", dict: "mapping"}
    return "null" if content is None else f"a {names.get(type(content), type(content).__name__)}"
