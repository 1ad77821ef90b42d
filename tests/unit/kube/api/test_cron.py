from datetime import UTC, datetime

import pytest

from moorage.common.errors import InputError
from moorage.kube.api.cron import find_zone, parse

START = "2026-01-01 00:00"
"""A Thursday."""
NEXT = {
    "every minute": ("* * * * *", "2026-01-01 00:01"),
    "every quarter of an hour": ("*/15 * * * *", "2026-01-01 00:15"),
    "from a minute on, in steps": ("7/20 * * * *", "2026-01-01 00:07"),
    "once a day": ("30 4 * * *", "2026-01-01 04:30"),
    "a time that is now is next day's": ("0 0 * * *", "2026-01-02 00:00"),
    "on working days": ("0 9 * * 1-5", "2026-01-01 09:00"),
    "days by name": ("0 9 * * Sat", "2026-01-03 09:00"),
    "months by name": ("0 0 1 feb,mar *", "2026-02-01 00:00"),
    "a day or a weekday, if both are given": ("0 0 20 * mon", "2026-01-05 00:00"),
    "a leap day": ("0 0 29 2 *", "2028-02-29 00:00"),
    "a word": ("@monthly", "2026-02-01 00:00"),
    "a pause": ("@every 1h30m", "2026-01-01 01:30"),
}


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(("text", "want"), NEXT.values(), ids=NEXT)
def test_is_due_next(text: str, want: str) -> None:
    assert parse(text).after(seconds(START)) == seconds(want)


def test_schedule_on_an_impossible_date() -> None:
    assert parse("0 0 30 2 *").after(seconds(START)) is None


LATEST = {
    "a minute ago": ("* * * * *", "2026-01-01 12:34:30", "2026-01-01 12:34"),
    "this very moment": ("0 12 * * *", "2026-01-01 12:00", "2026-01-01 12:00"),
    "hours ago": ("0 2 * * *", "2026-01-01 12:00", "2026-01-01 02:00"),
    "weeks ago": ("0 0 2 1 *", "2026-01-25 12:00", "2026-01-02 00:00"),
    "months ago": ("0 0 2 1 *", "2026-09-25 12:00", "2026-01-02 00:00"),
}


@pytest.mark.parametrize(("text", "now", "want"), LATEST.values(), ids=LATEST)
def test_was_due_last(text: str, now: str, want: str) -> None:
    assert parse(text).latest(seconds(START), seconds(now)) == seconds(want)


def test_was_not_due_since() -> None:
    assert parse("0 0 1 2 *").latest(seconds(START), seconds("2026-01-20 00:00")) is None


def test_time_zones() -> None:
    assert parse("0 4 * * *").after(seconds("2026-07-01 00:00"), find_zone("Europe/Berlin")) == seconds(
        "2026-07-01 02:00"
    )
    with pytest.raises(InputError, match="unknown"):
        find_zone("Europe/Atlantis")


BAD = ("", "* * * *", "60 * * * *", "* * * * 7", "5-1 * * * *", "*/0 * * * *", "x * * * *", "@sometimes", "@every 0s")


@pytest.mark.parametrize("text", BAD)
def test_invalid_schedule_is_rejected(text: str) -> None:
    with pytest.raises(InputError):
        parse(text)
