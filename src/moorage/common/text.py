"""The one place where texts are shortened: whatever somebody sends us, no message of ours is longer than a few pages.

What is left out is the middle, since a message begins with where it was found and ends with what to write instead.
"""

from collections.abc import MutableMapping
from typing import Any, Final

MAX_MESSAGE: Final = 16 * 1024
"""For one message. What kube-apiserver says of all that is wrong with an ordinary object has room in it."""
MAX_TRACE: Final = 4 * MAX_MESSAGE
MAX_NOTE_BYTES: Final = 1024
"""What the events API takes."""


def shortened(text: str, limit: int = MAX_MESSAGE) -> str:
    """Leave out the middle of a text that is too long, and say so.

    >>> shortened("a" * 100, limit=60)
    'aaaaaaaaaaaaaaaaaaaa … (70 characters left out) … aaaaaaaaaa'
    """
    if len(text) <= limit:
        return text
    kept = max(limit - 30, 2)
    tail = kept // 3
    left_out = len(text) - kept
    return f"{text[: kept - tail]} … ({left_out:,} characters left out) … {text[-tail:]}"


def cut_note(note: str) -> str:
    """Cut the note of an event to the bytes the API takes, between characters, as upstream does."""
    if len(note) <= MAX_NOTE_BYTES // 4:
        return note
    encoded = note.encode(errors="replace")
    if len(encoded) <= MAX_NOTE_BYTES:
        return note
    return encoded[: MAX_NOTE_BYTES - 4].decode(errors="ignore") + " ..."


def shorten_values(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Shorten what is logged; a processor for structlog."""
    for key, value in event.items():
        if key == "exc_info" or value is None or isinstance(value, bool | float):
            continue
        if isinstance(value, str):
            event[key] = shortened(value)
        elif not isinstance(value, int) or value.bit_length() > 64:
            try:
                shown = str(value)
            except ValueError:
                event[key] = "a number of too many digits"
            else:
                if len(shown) > MAX_MESSAGE:
                    event[key] = shortened(shown)
    return event
