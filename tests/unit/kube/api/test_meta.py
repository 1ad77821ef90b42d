"""Times in Kubernetes' formats, and identities of objects."""

import pytest

from moorage.kube.api.meta import KubeObject, ObjectMeta, format_micro_time, format_time, parse_time

TIMES = {
    "1970-01-01T00:00:10Z": 10.0,
    "1970-01-01T01:00:00+01:00": 0.0,
    "1970-01-01T00:00:00.25Z": 0.25,
    "1969-12-31T23:59:59Z": -1.0,
}


@pytest.mark.parametrize(("text", "seconds"), TIMES.items(), ids=TIMES)
def test_time_is_parsed(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "now", "1970-01-01", "1970-13-01T00:00:00Z", "1970-01-01T00:00:00", "9" * 100])
def test_invalid_time_is_reported(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time; write it like 2026-01-31T12:00:00Z"):
        parse_time(text)


def test_times_are_written_in_seconds_or_microseconds() -> None:
    assert (format_time(10.9), format_micro_time(10.0000006)) == ("1970-01-01T00:00:10Z", "1970-01-01T00:00:10.000001Z")
    assert (format_time(-1e12), format_time(1e12)) == ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z")


def test_key_contains_an_existing_namespace() -> None:
    assert KubeObject(ObjectMeta(name="a", namespace="b")).key == "b/a"
    assert KubeObject(ObjectMeta(name="a")).key == "a"
