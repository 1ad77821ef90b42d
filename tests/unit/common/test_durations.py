"""Parsing of durations."""

import pytest

from moorage.common.durations import parse_duration
from moorage.common.errors import InputError

DURATIONS = {"90": 90.0, "1.5s": 1.5, "500ms": 0.5, "1m30s": 90.0, "2h": 7200.0, "7d": 604_800.0}


@pytest.mark.parametrize(("text", "want"), DURATIONS.items())
def test_duration_is_parsed(text: str, want: float) -> None:
    assert parse_duration(text, where="annotation") == want


def test_option_requires_a_unit() -> None:
    with pytest.raises(InputError, match="--for: 10 has no unit\n  hint: write 10s, 10m or 10h"):
        parse_duration("10", where="--for")
    assert parse_duration("0", where="--for") == 0


@pytest.mark.parametrize("text", ["", "soon", "5 s", "-3s", "3w"])
def test_invalid_duration_raises_with_a_hint(text: str) -> None:
    with pytest.raises(InputError, match="use a duration such as 30s"):
        parse_duration(text, where="--for")
