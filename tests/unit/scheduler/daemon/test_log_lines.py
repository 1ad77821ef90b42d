"""The format of log lines, and the selection by level."""

import io
import json
from typing import Any

import pytest
import structlog

from moorage.common.text import format_traceback
from moorage.scheduler.daemon.log_lines import configure_logs
from moorage.scheduler.daemon.options import LoggingOptions
from moorage.scheduler.framework.logs import Verbosity

NOON = 1_767_268_800.123456


def logged(options: LoggingOptions) -> str:
    stream = io.StringIO()
    configure_logs(options, stream, lambda: NOON)
    log = structlog.get_logger("moorage.scheduler.engine.binding")
    log.info("started", port=10259, ready=True)
    log.info("pod placed", v=2, pod="a/b", node="n 1")
    log.info("pod moved", v=5, pod="a/b")
    log.debug("details")
    log.warning("odd", reason='it said "no"')
    return stream.getvalue()


def messages(options: LoggingOptions) -> list[str]:
    return [line.split('"')[1] for line in logged(options).splitlines()]


AMOUNTS = {
    "by default, level 0 and warnings": (LoggingOptions(), ["started", "odd"]),
    "decisions from 2 on": (LoggingOptions(verbosity=2), ["started", "pod placed", "odd"]),
    "debug lines are level 4": (LoggingOptions(verbosity=4), ["started", "pod placed", "details", "odd"]),
    "everything": (LoggingOptions(verbosity=10), ["started", "pod placed", "pod moved", "details", "odd"]),
    "a module by its name": (LoggingOptions(modules={"binding": 2}), ["started", "pod placed", "odd"]),
    "a module by a pattern": (LoggingOptions(modules={"bind*": 2}), ["started", "pod placed", "odd"]),
    "a module by its path": (
        LoggingOptions(modules={"moorage/scheduler/engine/*": 2}),
        ["started", "pod placed", "odd"],
    ),
    "another module": (LoggingOptions(modules={"queue": 9}), ["started", "odd"]),
    "a module can be quieter, too": (LoggingOptions(verbosity=9, modules={"binding": 0}), ["started", "odd"]),
}


@pytest.mark.parametrize(("options", "want"), AMOUNTS.values(), ids=AMOUNTS)
def test_how_much_is_written(options: LoggingOptions, want: list[str]) -> None:
    assert messages(options) == want


def test_text_is_klogs() -> None:
    line, warning = logged(LoggingOptions()).splitlines()
    assert line.startswith("I")
    assert line.endswith(' binding] "started" port=10259 ready=true')
    assert line[5:14] == " " + line[6:14]
    assert ".123456 " in line
    assert warning.startswith("W")
    assert warning.endswith(r'"odd" reason="it said \"no\""')


def test_json_has_a_line_per_message() -> None:
    lines = [json.loads(line) for line in logged(LoggingOptions("json", 2)).splitlines()]
    assert lines[1] == {
        "ts": round(NOON * 1000, 3),
        "caller": "moorage/scheduler/engine/binding",
        "v": 2,
        "msg": "pod placed",
        "pod": "a/b",
        "node": "n 1",
    }
    assert lines[2]["level"] == "warning"
    assert "v" not in lines[2]


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    "fields",
    [{"exc_info": ValueError("too bad")}, {"exception": format_traceback(ValueError("too bad"))}],
    ids=["as exc_info", "as text"],
)
def test_exceptions_are_logged_with_their_traceback(form: str, fields: dict[str, Any]) -> None:
    stream = io.StringIO()
    configure_logs(LoggingOptions(form), stream)
    structlog.get_logger("x").error("work failed", **fields)
    assert "ValueError: too bad" in stream.getvalue()
    assert "exception=" not in stream.getvalue()


def test_verbosity_can_change_while_running() -> None:
    verbosity = Verbosity(0, {"quiet": 0})
    assert verbosity.of("a.b") == 0
    verbosity.set(5)
    assert (verbosity.of("a.b"), verbosity.of("a.quiet")) == (5, 0)
