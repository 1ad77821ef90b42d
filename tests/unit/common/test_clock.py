"""Clocks: the system clock, and a virtual clock."""

import time

import pytest

from moorage.common.clock import SteadyClock, SystemClock, VirtualClock


def test_virtual_clock_advances_on_request() -> None:
    clock = VirtualClock(100.0)
    assert clock.now() == clock.now() == 100.0
    clock.advance(2.5)
    assert clock.now() == 102.5
    clock.advance_to(110.0)
    assert clock.now() == 110.0
    clock.advance_to(50.0)
    assert clock.now() == 110.0


def test_time_does_not_go_back() -> None:
    with pytest.raises(ValueError, match=r"time cannot go back by 1\.5 s"):
        VirtualClock().advance(-1.5)


def test_the_systems_clock_is_the_machines() -> None:
    before = time.time()
    assert before <= SystemClock().now() <= time.time()


def test_the_steady_clock_counts_from_the_start_of_the_machine() -> None:
    """Not from the epoch: setting the wall clock cannot move it."""
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= SteadyClock().now() <= time.clock_gettime(time.CLOCK_BOOTTIME)
    assert abs(SteadyClock().wall() - time.time()) < 60
