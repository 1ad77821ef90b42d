"""Durations read and print as Go's do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.scheduler.config import Duration
from moorage.scheduler.config.durations import RFC3339, GoLayout

PRINTED = {
    "seconds": ("15s", "15s"),
    "a minute is spelled out": ("600s", "10m0s"),
    "so is an hour": ("1h", "1h0m0s"),
    "several units": ("1h2m3.5s", "1h2m3.5s"),
    "milliseconds": ("1500ms", "1.5s"),
    "less than a second": ("250ms", "250ms"),
    "microseconds": ("1.5us", "1.5µs"),
    "nanoseconds": ("7ns", "7ns"),
    "nothing": ("0", "0s"),
    "nothing with a unit": ("0s", "0s"),
    "negative": ("-1.5h", "-1h30m0s"),
    "a leading point": (".5s", "500ms"),
}

REFUSED = {
    "no unit": ("10", 'time: missing unit in duration "10"'),
    "an unknown unit": ("3d", 'time: unknown unit "d" in duration "3d"'),
    "an unknown unit after a known one": ("1h3d", 'time: unknown unit "d" in duration "1h3d"'),
    "no number": ("soon", 'time: invalid duration "soon"'),
    "nothing": ("", 'time: invalid duration ""'),
    "more than Go can hold": ("9999999h", 'time: invalid duration "9999999h"'),
}


@pytest.mark.parametrize(("text", "want"), PRINTED.values(), ids=PRINTED)
def test_print(text: str, want: str) -> None:
    assert str(Duration.parse(text)) == want


@pytest.mark.parametrize(("text", "problem"), REFUSED.values(), ids=REFUSED)
def test_rejected(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match="time:") as refusal:
        Duration.parse(text)
    assert str(refusal.value) == problem


@given(st.integers(min_value=-(2**62), max_value=2**62))
def test_printed_output_can_be_parsed(nanoseconds: int) -> None:
    assert Duration.parse(str(Duration(nanoseconds))) == Duration(nanoseconds)


READ = {
    (RFC3339, "1970-01-01T00:01:00Z"): 60.0,
    (RFC3339, "1970-01-01T01:01:00+01:00"): 60.0,
    (RFC3339, "1970-01-01T00:01:00.25Z"): 60.0,
    ("2006-01-02", "1970-01-02"): 86400.0,
    ("02.01.2006 15:04", "02.01.1970 00:01"): 86460.0,
    ("Jan 02 2006 03:04 PM", "Jan 01 1970 01:00 PM"): 46800.0,
    ("2006-01-02 15:04:05.000", "1970-01-01 00:00:05.000"): 5.0,
    ("100% 2006", "100% 1970"): None,
}


@pytest.mark.parametrize(("layout", "text"), READ, ids=str)
def test_times_are_read(layout: str, text: str) -> None:
    if READ[layout, text] is None:
        with pytest.raises(ValueError, match="has no meaning"):
            GoLayout.parse(layout)
    else:
        assert GoLayout.parse(layout).seconds(text) == READ[layout, text]


@pytest.mark.parametrize("text", ["", "yesterday", "1970-13-01", "1970-01-01T", "9" * 100, "0000-01-01"])
def test_invalid_time_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        GoLayout.parse("2006-01-02").seconds(text)


@pytest.mark.parametrize("layout", ["", "%Y-%m-%d", "yyyy-MM-dd", "2006-01-02 9"])
def test_invalid_layout_is_rejected(layout: str) -> None:
    with pytest.raises(ValueError, match=r"year|has no meaning"):
        GoLayout.parse(layout)
