"""The process of a policy: time limits and restarts."""

from time import monotonic

import pytest
from tests.unit.contrib.learned_score.policy_builders import BRIEF, POD, counted, started

from moorage.contrib.learned_score.process import NOT_RUNNING, SLOW
from moorage.scheduler.config.durations import Duration
from moorage.testing.builders import make_pod
from moorage.testing.rig import SCORE_FORMS, run_score


def test_hanging_policy_times_out_and_its_process_ends() -> None:
    with started("hangs", BRIEF) as (plugin, rig):
        process = plugin._process._child._process
        began = monotonic()
        assert run_score(plugin, rig, POD, SCORE_FORMS[1]) == [0, 66, 100]
        assert monotonic() - began < 20  # it would never return otherwise
        assert process.returncode == -9
        assert run_score(plugin, rig, POD, SCORE_FORMS[1]) == [0, 66, 100]
        assert counted(plugin) == {SLOW: 1, NOT_RUNNING: 1}


def test_ended_process_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    with started("sleeps_for_large_pods", Duration.of(seconds=2)) as (plugin, rig):
        assert run_score(plugin, rig, POD, SCORE_FORMS[1]) == [100, 33, 0]
        assert run_score(plugin, rig, make_pod("large", requests={"cpu": "2", "memory": "1Gi"}), SCORE_FORMS[1]) == [
            0,
            66,
            100,
        ]
        monkeypatch.setattr("moorage.contrib.learned_score.process.monotonic", lambda: monotonic() + 60)
        plugin._process.start()
        assert run_score(plugin, rig, POD, SCORE_FORMS[1]) == [100, 33, 0]
        assert counted(plugin) == {SLOW: 1}


def test_dead_process_fails_one_request() -> None:
    with started("dies") as (plugin, rig):
        assert run_score(plugin, rig, POD, SCORE_FORMS[1]) == [0, 66, 100]
        assert counted(plugin) == {NOT_RUNNING: 1}
