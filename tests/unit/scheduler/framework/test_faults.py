"""The source of an interrupt: a plugin that raises it, or a user who stops the program."""

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from moorage.scheduler.framework.faults import pass_on_interrupt


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
