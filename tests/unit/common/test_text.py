"""All messages are limited to a few pages, and a shortened message is marked."""

import io
import json
import time

import pytest
import structlog

from moorage.common.errors import ApiError, ConfigError, ConfigErrors, InputError, QuantityError, did_you_mean, explain
from moorage.common.text import MAX_MESSAGE, MAX_NOTE_BYTES, cut_note, shorten_values, shortened
from moorage.scheduler.daemon.log_lines import configure_logs
from moorage.scheduler.daemon.options import LoggingOptions
from moorage.scheduler.framework.faults import described

LONG = "x" * 300_000


@pytest.mark.parametrize("length", [0, 1, MAX_MESSAGE - 1, MAX_MESSAGE])
def test_short_text_is_unchanged(length: int) -> None:
    assert shortened("x" * length) == "x" * length


@pytest.mark.parametrize("limit", [60, 1000, MAX_MESSAGE])
def test_middle_is_omitted_and_its_length_reported(limit: int) -> None:
    short_text = shortened(f"begin{LONG}end", limit)
    assert len(short_text) <= limit + 20
    assert short_text.startswith("begin")
    assert short_text.endswith("end")
    assert "characters omitted" in short_text


ERRORS = {
    "a problem": InputError("here", LONG, hint="write less"),
    "a place": InputError(LONG, "is wrong", hint="write less"),
    "a hint": InputError("here", "is wrong", hint=f"{LONG} write less"),
    "the API's words": ApiError(f"{LONG} write less"),
    "a quantity": QuantityError(f"{LONG} write less"),
    "many problems": ConfigErrors([ConfigError(LONG, LONG, hint="write less") for _ in range(5000)]),
}


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
def test_errors_are_short_and_end_with_the_advice(error: ApiError | InputError | QuantityError) -> None:
    assert len(explain(error)) < 5 * MAX_MESSAGE
    assert "characters omitted" in str(error)
    assert str(error).endswith(("write less", "more"))


def test_plugin_errors_are_shortened() -> None:
    assert len(described(ValueError(LONG))) < MAX_MESSAGE


def test_no_similar_name_is_searched_for_long_text() -> None:
    began = time.process_time()
    assert did_you_mean(LONG, [f"name-{number}" for number in range(1000)]) == ""
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    "value", [LONG, [LONG], {"a": LONG}, 10**6000, ValueError(LONG)], ids=["text", "list", "dict", "number", "error"]
)
def test_lines_of_the_log_are_short(form: str, value: object) -> None:
    stream = io.StringIO()
    configure_logs(LoggingOptions(format=form), stream)
    structlog.get_logger("a").warning("something", value=value, pod="default/p", seconds=1.5, count=3)
    line = stream.getvalue()
    assert len(line) < 2 * MAX_MESSAGE
    assert "default/p" in line
    if form == "json":
        assert json.loads(line)["count"] == 3


def test_ordinary_values_are_logged_unchanged() -> None:
    event = {"a": "b", "n": 5, "x": 1.5, "t": True, "none": None, "list": [1]}
    assert shorten_values(None, "info", dict(event)) == event


@pytest.mark.parametrize("note", ["a" * 5000, "\u00e9" * 5000, "\U0001f600" * 5000], ids=["ascii", "accents", "faces"])
def test_notes_of_events_are_cut_to_their_bytes(note: str) -> None:
    assert len(cut_note(note).encode()) <= MAX_NOTE_BYTES
    assert cut_note(note).endswith(" ...")
