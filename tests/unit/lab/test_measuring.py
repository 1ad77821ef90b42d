"""Measures of a trial, recomputed from the rows of its pods."""

import pytest
from tests.support.lab import pool_cluster, trial_with

from moorage.lab.cluster_files import Watts
from moorage.lab.rows import TrialResult
from moorage.lab.trace import TracePod
from moorage.lab.trial import run_trial

PODS = (
    TracePod("short", 0.0, 40.0, cpu_milli=1000),
    TracePod("long", 20.0, 500.0, cpu_milli=2000),
    TracePod("last", 100.0, 300.0, cpu_milli=500),
)
CORES = 8.0


def recompute_cpu(result: TrialResult, until: float) -> float:
    """Return the mean requested share of the CPU from the start to a moment."""
    by_name = {pod.name: pod for pod in PODS}
    busy = 0.0
    for row in result.pods:
        pod = by_name[row.pod]
        start = pod.arrives + (row.waited or 0.0)
        busy += pod.cpu_milli / 1000 * max(0.0, min(start + (pod.runs or 0.0), until) - min(start, until))
    return busy / (CORES * until)


@pytest.mark.parametrize(("horizon", "until"), [(None, 100.0), (50.0, 50.0), (400.0, 100.0)])
def test_means_cover_the_window_until_the_last_arrival_or_the_horizon(horizon: float | None, until: float) -> None:
    result = run_trial(trial_with(*PODS, cluster=pool_cluster(2), horizon=horizon))
    assert result.trial.measures["allocation.cpu"] == pytest.approx(recompute_cpu(result, until), abs=1e-3)


def test_costs_are_summed_over_the_window() -> None:
    cluster = pool_cluster(2, price=3.0, watts=Watts(100, 100))
    measures = run_trial(trial_with(*PODS, cluster=cluster)).trial.measures
    assert measures["cost"] == pytest.approx(2 * 3.0 * 100.0 / 3600, abs=1e-4)
    assert measures["energy"] == pytest.approx(2 * 0.1 * 100.0 / 3600, abs=1e-4)


def test_used_nodes_cost_only_while_they_have_pods() -> None:
    pods = (TracePod("first", 0.0, 30.0, cpu_milli=100), TracePod("last", 90.0, 1.0, cpu_milli=100))
    measures = run_trial(trial_with(*pods, cluster=pool_cluster(1, price=2.0))).trial.measures
    assert measures["cost.used"] == pytest.approx(2.0 * 30.0 / 3600, abs=1e-4)
    assert measures["cost"] == pytest.approx(2.0 * 90.0 / 3600, abs=1e-4)
