"""Health checks and exit codes of the supervisor, without a scheduler."""

import pytest

from moorage.scheduler.daemon.serving.health import HealthChecks
from moorage.scheduler.daemon.supervisor.process import BEAT, IS_STOPPING, IS_SYNCED, SharedState
from moorage.scheduler.daemon.supervisor.supervisor import exit_code, list_checks
from moorage.scheduler.daemon.supervisor.watchdog import BEAT_SECONDS, Watchdog

STATES = {
    "a synced leader is healthy": ({IS_SYNCED: 1.0}, False, True, set()),
    "a scheduler that starts is alive but not ready": ({}, False, True, {"readyz"}),
    "a scheduler that stops is alive but not ready": ({IS_SYNCED: 1.0, IS_STOPPING: 1.0}, False, True, {"readyz"}),
    "an overdue renewal is unhealthy, but no reason to restart": (
        {IS_SYNCED: 1.0},
        True,
        True,
        {"healthz", "readyz"},
    ),
    "an unknown lease candidate is not ready": ({IS_SYNCED: 1.0}, False, False, {"readyz"}),
    "a blocked loop is unhealthy and not alive": ({IS_SYNCED: 1.0, BEAT: 1.0}, False, True, {"healthz", "livez"}),
}


@pytest.mark.parametrize(("cells", "is_overdue", "is_known", "failing"), STATES.values(), ids=STATES)
def test_endpoints_that_fail(cells: dict[int, float], is_overdue: bool, is_known: bool, failing: set[str]) -> None:
    state = SharedState()
    for cell, number in cells.items():
        state[cell] = number
    watchdog = Watchdog(state, limit=1.0)
    for look in range(10):
        watchdog.look(look * BEAT_SECONDS)
    checks = HealthChecks(list_checks(state, watchdog, lambda: is_overdue, lambda: is_known))
    assert {name for name in checks.endpoints if not checks.report(name).is_healthy} == failing


CODES = {
    "a scheduler that ends without an error": (0, 0),
    "a scheduler that fails": (1, 1),
    "a scheduler that is killed by SIGKILL": (-9, 137),
    "a scheduler that is ended by SIGTERM": (-15, 143),
}


@pytest.mark.parametrize(("code", "expected"), CODES.values(), ids=CODES)
def test_exit_code_of_the_program(code: int, expected: int) -> None:
    assert exit_code(code) == expected
