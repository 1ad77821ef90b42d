"""Layouts of Go, and times that are written after them."""

import pytest

from moorage.scheduler.config.go_times import RFC3339, GoLayout

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
