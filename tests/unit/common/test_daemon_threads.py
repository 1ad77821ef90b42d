"""Calls that do not end are reported, and their threads interrupted."""

import asyncio
import threading
import time

import pytest

from moorage.common.daemon_threads import call_in_thread
from moorage.common.errors import MoorageError


def test_result_and_exception_reach_the_caller() -> None:
    assert asyncio.run(call_in_thread(lambda: 7, 60.0, "counting")) == 7
    with pytest.raises(ZeroDivisionError):
        asyncio.run(call_in_thread(lambda: 1 / 0, 60.0, "dividing"))


def test_endless_call_is_reported_and_interrupted() -> None:
    def spin() -> None:
        while True:
            pass

    with pytest.raises(MoorageError, match=r"spinning did not end within 0\.1 s$"):
        asyncio.run(call_in_thread(spin, 0.1, "spinning"))
    deadline = time.monotonic() + 300
    while any(thread.name == "spinning" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_call_that_cannot_be_interrupted_needs_a_restart() -> None:
    gate = threading.Lock()
    gate.acquire()
    with pytest.raises(MoorageError, match="it cannot be interrupted: restart this process"):
        asyncio.run(call_in_thread(gate.acquire, 0.1, "waiting"))
    gate.release()
