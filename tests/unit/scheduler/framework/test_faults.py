"""Whose fault an interrupt is: that of a plugin that raises it, or of nobody if a user wants an end."""

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
def test_a_plugin_that_raises_it_is_to_blame() -> None:
    pass_on_interrupt(raised(KeyboardInterrupt(), "somebodys_plugin"))
    pass_on_interrupt(raised(SystemExit(), "asyncio.runners"))


@pytest.mark.usefixtures("handled")
def test_one_of_the_loops_own_handler_is_the_users() -> None:
    with pytest.raises(KeyboardInterrupt):
        pass_on_interrupt(raised(KeyboardInterrupt(), "asyncio.runners"))


def test_with_pythons_own_handler_it_is_the_users() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            pass_on_interrupt(raised(KeyboardInterrupt(), "somebodys_plugin"))
    finally:
        signal.signal(signal.SIGINT, before)
