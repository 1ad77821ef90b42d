"""Retry-After of API errors: no response may block a client forever."""

import json

import pytest

from moorage.common.errors import ServerError, TooManyRequests
from moorage.kube.client.api_errors import MAX_RETRY_AFTER, api_error

HEADERS = {
    "a few seconds": ("4", 4.0),
    "no amount": ("0", 0.0),
    "years": ("1000000000", MAX_RETRY_AFTER),
    "more digits than a float has": ("9" * 400, MAX_RETRY_AFTER),
    "more digits than an int may have": ("9" * 5000, MAX_RETRY_AFTER),
    "less than nothing": ("-1", None),
    "not a number": ("nan", None),
    "infinity": ("inf", None),
    "digits of another script": ("٤", None),
    "raised digits": ("²", None),
    "a date": ("Wed, 21 Oct 2015 07:28:00 GMT", None),
    "nothing": ("", None),
}


@pytest.mark.parametrize(("text", "want"), HEADERS.values(), ids=HEADERS)
def test_retry_after(text: str, want: float | None) -> None:
    assert api_error(503, b"", text).retry_after == want


DETAILS = {
    "a few seconds": ("4", 4.0),
    "half a second": ("0.5", 0.5),
    "years": ("1e9", MAX_RETRY_AFTER),
    "more than a float holds": ("9" * 400, MAX_RETRY_AFTER),
    "less than nothing": ("-3", None),
    "a text": ('"soon"', None),
    "true": ("true", None),
    "null": ("null", None),
}


@pytest.mark.parametrize(("text", "want"), DETAILS.values(), ids=DETAILS)
def test_retry_after_seconds(text: str, want: float | None) -> None:
    body = b'{"kind":"Status","message":"busy","details":{"retryAfterSeconds":%s}}' % text.encode()
    error = api_error(429, body)
    assert isinstance(error, TooManyRequests)
    assert (str(error), error.retry_after) == ("busy", want)


def test_the_header_counts_first() -> None:
    body = json.dumps({"message": "x", "details": {"retryAfterSeconds": 9}}).encode()
    assert api_error(500, body, "3").retry_after == 3.0


def test_invalid_status_is_shown_truncated() -> None:
    error = api_error(500, b"x" * 10_000)
    assert isinstance(error, ServerError)
    assert len(str(error)) == 200
