"""Error responses of an API server, as exceptions."""

import re
from typing import Any, Final

import msgspec

from moorage.common.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
)
from moorage.kube.api.codec import UNREADABLE

MAX_SHOWN: Final = 200
"""Maximum length of a response without a Status in a message."""
MAX_RETRY_AFTER: Final = 60.0
"""Maximum of ``Retry-After`` in seconds. A longer delay is not useful."""

_BY_STATUS: Final[dict[int, type[ApiError]]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    429: TooManyRequests,
}
_FORBIDDEN: Final = re.compile(r'cannot (\w+) resource "([^"]+)" in API group "([^"]*)"(.*)')


class Details(msgspec.Struct, frozen=True, rename="camel"):
    """The details of a rejection that matter to us."""

    retry_after_seconds: Any = None


class StatusAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The API's own description of a failure (``kind: Status``)."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: Details | None = None


def api_error(status: int, body: bytes, retry_after: str | None = None, source: str = "") -> ApiError:
    """Convert an error response to the exception that determines the reaction."""
    answer = parse_status(body)
    message = answer.message or body[:MAX_SHOWN].decode(errors="replace").strip() or f"HTTP status {status}"
    kind = _BY_STATUS.get(status, ServerError if status >= 500 else ApiError)
    if kind is Conflict and answer.reason == "AlreadyExists":
        kind = AlreadyExists
    elif kind is Forbidden and (match := _FORBIDDEN.search(message)) is not None:
        verb, resource, group, location = match.groups()
        hint = f'allow verb "{verb}" on resource "{resource}" of apiGroup "{group}"{location} to this user'
        message = f"{message}\n  hint: {hint}"
    elif kind is Unauthorized:
        message = f"the server rejected the credentials ({source}): {message}"
    seconds = bounded(retry_after)
    if seconds is None and answer.details is not None:
        seconds = bounded(answer.details.retry_after_seconds)
    return kind(message, status=status, reason=answer.reason, retry_after=seconds)


def parse_status(body: bytes) -> StatusAnswer:
    """Read the API's own description of a failure. Anything else is ignored."""
    try:
        return msgspec.json.decode(body, type=StatusAnswer)
    except UNREADABLE:
        return StatusAnswer()


def bounded(seconds: object) -> float | None:
    """Return the delay from a header or a Status, or ``None`` if it is missing or invalid.

    An API server writes whole seconds, never a date.
    """
    if isinstance(seconds, str):
        seconds = float(seconds) if seconds.isascii() and seconds.isdecimal() else None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        return None
    return float(min(seconds, MAX_RETRY_AFTER))
