"""Cycles that wait for a plugin, sampled from outside."""

from moorage.scheduler.daemon.supervisor.supervisor_client import Cycles
from moorage.scheduler.daemon.supervisor.watchdog import WARN_SECONDS
from moorage.scheduler.engine.services import Freeze


def test_cycles_without_a_freeze_do_not_wait() -> None:
    cycles = Cycles()
    assert cycles.waiting_since(10.0) == 0.0
    assert not cycles.is_news(20.0)


def test_wait_is_reported_once_after_a_second() -> None:
    cycles = Cycles()
    cycles.freeze = freeze = Freeze()
    with freeze:
        assert cycles.waiting_since(10.0) == 10.0
        assert cycles.waiting_since(10.5) == 10.0
        assert not cycles.is_news(10.0 + WARN_SECONDS / 2)
        assert cycles.is_news(10.0 + WARN_SECONDS)
        assert not cycles.is_news(10.0 + 2 * WARN_SECONDS)
    assert cycles.waiting_since(12.0) == 0.0


def test_each_wait_has_its_own_report() -> None:
    cycles = Cycles()
    cycles.freeze = freeze = Freeze()
    for moment in (10.0, 20.0):
        with freeze:
            assert cycles.waiting_since(moment) == moment
            assert cycles.is_news(moment + WARN_SECONDS)


def test_excused_wait_does_not_count_until_the_next_one() -> None:
    cycles = Cycles()
    cycles.freeze = freeze = Freeze()
    with freeze:
        cycles.waiting_since(10.0)
        cycles.excuse()
        assert cycles.waiting_since(11.0) == 0.0
    with freeze:
        assert cycles.waiting_since(12.0) == 12.0
