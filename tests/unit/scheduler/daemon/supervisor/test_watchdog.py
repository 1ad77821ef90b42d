"""How long the scheduler has been blocked, measured by a process that may be blocked itself."""

import pytest

from moorage.scheduler.daemon.supervisor.process import BEAT, WAITING_SINCE, SharedState
from moorage.scheduler.daemon.supervisor.watchdog import BEAT_SECONDS, Watchdog

LOOKS = 8  # two seconds


class Scene:
    def __init__(self, limit: float = 2.0) -> None:
        self.state = SharedState()
        self.dog = Watchdog(self.state, limit)
        self.now = 1000.0

    def pass_time(self, looks: int = LOOKS, *, beats: bool = True, waits_since: float = 0.0) -> None:
        for _ in range(looks):
            self.now += BEAT_SECONDS
            if beats:
                self.state[BEAT] = self.now
            self.state[WAITING_SINCE] = waits_since
            self.dog.look(self.now)


def test_a_loop_that_turns_is_neither_blocked_nor_stuck() -> None:
    scene = Scene()
    scene.pass_time()
    assert (scene.dog.blocked, scene.dog.is_blocked, scene.dog.is_stuck) == (0.0, False, False)


def test_a_loop_that_has_not_begun_is_not_blocked() -> None:
    scene = Scene()
    scene.pass_time(beats=False)
    assert not scene.dog.is_blocked


def test_a_loop_that_stops_turning_is_blocked_after_a_second_and_stuck_at_the_limit() -> None:
    scene = Scene()
    scene.pass_time(1)
    scene.pass_time(3, beats=False)
    assert not scene.dog.is_blocked
    scene.pass_time(1, beats=False)
    assert (scene.dog.is_blocked, scene.dog.is_stuck) == (True, False)
    scene.pass_time(4, beats=False)
    assert scene.dog.is_stuck


def test_one_heartbeat_ends_the_blocked_state() -> None:
    scene = Scene()
    scene.pass_time(1)
    scene.pass_time(40, beats=False)
    scene.pass_time(1)
    assert (scene.dog.is_blocked, scene.dog.is_stuck) == (False, False)


def test_unobserved_time_does_not_count() -> None:
    """Both were frozen together: the scheduler has not had a chance to beat."""
    scene = Scene()
    scene.pass_time(1)
    scene.now += 3600
    scene.pass_time(1, beats=False)
    assert not scene.dog.is_blocked


def test_a_cycle_that_waits_for_a_plugin_is_stuck_though_the_loop_turns() -> None:
    scene = Scene()
    scene.pass_time(waits_since=1000.0)
    assert not scene.dog.is_stuck
    scene.pass_time(1, waits_since=1000.0)
    assert (scene.dog.is_blocked, scene.dog.is_stuck) == (False, True)


def test_every_cycle_has_a_separate_time() -> None:
    scene = Scene()
    for begin in range(20):
        scene.pass_time(4, waits_since=1000.0 + begin)
    assert not scene.dog.is_stuck


@pytest.mark.parametrize("beats", [True, False])
def test_no_limit_disables_the_watchdog(beats: bool) -> None:
    scene = Scene(limit=0.0)
    scene.pass_time(1)
    scene.pass_time(4000, beats=beats, waits_since=1.0)
    assert not scene.dog.is_stuck
