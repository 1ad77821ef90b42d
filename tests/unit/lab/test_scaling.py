"""Autoscaled pools."""

from tests.support.lab import pool_cluster, trial_with

from moorage.lab.cluster import Scaling
from moorage.lab.measuring import run_trial
from moorage.lab.trace import TracePod
from moorage.lab.trial import TrialResult


def waited(result: TrialResult) -> dict[str, float | None]:
    return {row.pod: row.waited for row in result.pods}


def test_autoscaled_pool_grows_for_pending_pods_and_shrinks_when_idle() -> None:
    scaling = Scaling(at_most=3, startup_seconds=60.0, idle_seconds=120.0)
    cluster = pool_cluster(1, scaling=scaling, price=1.0)
    pods = [TracePod(f"p{n}", 0.0, 300.0, cpu_milli=4000) for n in range(4)]
    result = run_trial(trial_with(*pods, TracePod("late", 3600.0, 1.0, cpu_milli=100), cluster=cluster))
    nodes = [point.nodes for point in result.points]
    assert max(nodes) == 3, "the limit of the pool"
    assert nodes[-1] == 1, "added nodes are removed, the initial one stays"
    waits = sorted(time for time in waited(result).values() if time is not None)
    assert waits[0] == 0.0
    assert 60.0 <= waits[2] <= 75.0, "a node starts within a minute"
