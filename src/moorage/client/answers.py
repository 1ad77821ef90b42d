"""What an API server says when it refuses, as exceptions."""

import re
from typing import Final

import msgspec

from moorage.api.codec import UNREADABLE
from moorage.errors import (
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

LONGEST_RUBBISH: Final = 200

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
    """The details of a refusal that matter to us."""

    retry_after_seconds: float | None = None


class StatusAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The API's own description of a failure (``kind: Status``)."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: Details | None = None


def api_error(status: int, body: bytes, retry_after: str | None = None, source: str = "") -> ApiError:
    """Turn an answer that is no success into the error that says what happens next."""
    told = parsed(body)
    message = told.message or body[:LONGEST_RUBBISH].decode(errors="replace").strip() or f"HTTP status {status}"
    kind = _BY_STATUS.get(status, ServerError if status >= 500 else ApiError)
    if kind is Conflict and told.reason == "AlreadyExists":
        kind = AlreadyExists
    elif kind is Forbidden:
        message = _with_missing_permission(message)
    elif kind is Unauthorized:
        message = f"the server does not accept our credentials ({source}): {message}"
    seconds = _seconds(retry_after)
    if seconds is None and told.details is not None:
        seconds = told.details.retry_after_seconds
    return kind(message, status=status, reason=told.reason, retry_after=seconds)


def parsed(body: bytes) -> StatusAnswer:
    """Read the API's own description of a failure; anything else tells us nothing."""
    try:
        return msgspec.json.decode(body, type=StatusAnswer)
    except UNREADABLE:
        return StatusAnswer()


def _with_missing_permission(message: str) -> str:
    """Say in RBAC's own terms what is missing."""
    found = _FORBIDDEN.search(message)
    if found is None:
        return message
    verb, resource, group, where = found.groups()
    return f'{message}\n  hint: allow verb "{verb}" on resource "{resource}" of apiGroup "{group}"{where} to our user'


def _seconds(retry_after: str | None) -> float | None:
    """Read a Retry-After header; an API server writes seconds, never a date."""
    return float(retry_after) if retry_after and retry_after.isdecimal() else None
