"""Exceptions of plugins: their descriptions, their log, and interrupts, which may be raised by a plugin or a user."""

import json
import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from moorage.common.errors import PluginError
from moorage.scheduler.framework import faults
from moorage.scheduler.framework.faults import FaultRecord, described, pass_on_interrupt


@pytest.fixture
def handled() -> Iterator[None]:
    """Handle the signal, as a daemon does."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    yield
    signal.signal(signal.SIGINT, before)


def raised(error: BaseException, module: str) -> BaseException:
    scope: dict[str, Any] = {"error": error, "__name__": module}
    try:
        exec("raise error", scope)
    except BaseException as caught:
        return caught
    raise AssertionError


@pytest.mark.usefixtures("handled")
def test_interrupt_raised_by_a_plugin_is_a_plugin_error() -> None:
    pass_on_interrupt(raised(KeyboardInterrupt(), "somebodys_plugin"))
    pass_on_interrupt(raised(SystemExit(), "asyncio.runners"))


@pytest.mark.usefixtures("handled")
def test_interrupt_from_the_loop_handler_is_passed_on() -> None:
    with pytest.raises(KeyboardInterrupt):
        pass_on_interrupt(raised(KeyboardInterrupt(), "asyncio.runners"))


def test_interrupt_with_the_python_handler_is_passed_on() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            pass_on_interrupt(raised(KeyboardInterrupt(), "somebodys_plugin"))
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_raised_by_the_handler_of_a_command_is_passed_on(number: signal.Signals) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            signal.raise_signal(number)
        with pytest.raises(KeyboardInterrupt):
            pass_on_interrupt(caught.value)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def raise_here() -> BaseException:
    with pytest.raises(KeyError) as caught:
        {}["nope"]
    return caught.value


def test_method_type_file_and_line_are_named() -> None:
    line = raise_here.__code__.co_firstlineno + 2
    assert described(raise_here(), "X.filter") == f"X.filter raised KeyError: 'nope' (test_faults.py:{line})"


def test_exceptions_of_a_library_are_located_in_the_authors_code() -> None:
    with pytest.raises(ValueError, match="Expecting") as caught:
        json.loads("{")
    assert described(caught.value).rpartition(" (")[2].startswith("test_faults.py:")


def test_expected_failures_have_only_their_message() -> None:
    assert described(PluginError("X", "no claim"), "X.filter") == "no claim"


def test_traceback_is_logged_once_per_place(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[dict[str, Any]] = []
    monkeypatch.setattr(faults, "log", SimpleNamespace(error=lambda _event, **fields: logged.append(fields)))
    record = FaultRecord()
    record.note("X", PluginError("X", "expected"), "expected")
    assert record.first is None
    first = raise_here()
    for error in (first, raise_here(), ValueError("elsewhere")):
        record.note("X", error, f"X.filter raised {error!r}")
    record.note_invalid("X", "filter", "X.filter returned 5")
    record.note_invalid("X", "filter", "X.filter returned 6")
    assert record.first is first
    assert record.problems == [
        "X.filter raised KeyError('nope')",
        "X.filter raised ValueError('elsewhere')",
        "X.filter returned 5",
    ]
    assert logged.pop() == {"plugin": "X", "error": "X.filter returned 5"}
    # A field ``exc_info`` would be rendered with local variables, and their repr may raise.
    assert [set(fields) for fields in logged] == [{"plugin", "error", "exception"}] * 2
    assert [fields["exception"].splitlines()[-1] for fields in logged] == ["KeyError: 'nope'", "ValueError: elsewhere"]
