"""The input and the result of a trial."""

import pickle
from itertools import pairwise

import msgspec
import pytest
from msgspec.structs import replace
from tests.support.lab import pool_cluster, trial_with

from moorage.common.errors import InputError
from moorage.lab.generating import generate, preset_cluster
from moorage.lab.ledger import CPU, GPU
from moorage.lab.measuring import run_trial
from moorage.lab.trace import NodeOutage, TracePod
from moorage.lab.trial import NodeFailures, PolicyText, Trial, arrange_outages, arrange_pods, measure_capacity


def test_pickled_trial_gives_the_same_bytes() -> None:
    trial = Trial(generate("mixed", 3, pods=60), preset_cluster("mixed"), PolicyText("default"), 3)
    first = msgspec.json.encode(run_trial(trial))
    assert msgspec.json.encode(run_trial(pickle.loads(pickle.dumps(trial)))) == first


PODS = [TracePod(f"p{number}", 10.0 * number, 5.0, cpu_milli=1000, fails=1) for number in range(8)]


def test_pods_are_sorted_by_arrival() -> None:
    assert arrange_pods(trial_with(*reversed(PODS))) == PODS


def test_shuffle_keeps_the_times_and_depends_on_the_seed() -> None:
    shuffled = arrange_pods(trial_with(*PODS, shuffle=True))
    assert [pod.arrives for pod in shuffled] == [pod.arrives for pod in PODS]
    assert sorted(pod.name for pod in shuffled) == [pod.name for pod in PODS]
    assert shuffled != PODS
    assert shuffled == arrange_pods(trial_with(*PODS, shuffle=True))
    assert shuffled != arrange_pods(trial_with(*PODS, shuffle=True, seed=2))


def test_clones_are_appended_until_the_share_is_requested() -> None:
    pods = arrange_pods(trial_with(*PODS, cluster=pool_cluster(2, 5), inflate=1.25))
    assert sum(pod.cpu_milli for pod in pods) == 13_000, "the first sum of at least 12.5 cores"
    assert {pod.arrives for pod in pods[8:]} == {70.0}, "clones arrive with the last pod"
    assert len({pod.name for pod in pods}) == 13
    with pytest.raises(InputError, match="no pod of the trace requests GPUs"):
        arrange_pods(trial_with(*PODS, cluster=pool_cluster(2, gpus=1), inflate=1.25))


def test_pods_arrive_one_by_one_and_remain() -> None:
    pods = arrange_pods(trial_with(*PODS, arrivals_only=True))
    assert [(pod.arrives, pod.runs, pod.fails) for pod in pods] == [(float(index), None, 0) for index in range(8)]


def test_capacity_counts_gpus_if_any_exist() -> None:
    assert measure_capacity(pool_cluster(2, 4)) == (8000, CPU)
    assert measure_capacity(pool_cluster(2, 4, gpus=3)) == (6000, GPU)


def test_recorded_and_random_outages_are_sorted() -> None:
    trial = trial_with(*PODS, node_failures=NodeFailures(50.0, 10.0))
    trial = replace(trial, trace=replace(trial.trace, outages=(NodeOutage("pool-1", 60.0), NodeOutage("pool-0", 60.0))))
    outages = arrange_outages(trial, 500.0)
    assert outages == sorted(outages, key=lambda outage: (outage.down, outage.node))
    random = [outage for outage in outages if outage.up is not None]
    assert len(outages) == len(random) + 2
    for name in ("pool-0", "pool-1"):
        times = [(outage.down, outage.up) for outage in random if outage.node == name]
        assert len(times) > 2
        assert all(up == pytest.approx(down + 10.0) for down, up in times)
        assert all(down < 500.0 for down, _ in times)
        assert all(up <= down for (_, up), (down, _) in pairwise(times)), "repaired before the next failure"
    assert arrange_outages(trial_with(*PODS), 500.0) == []


def test_random_failures_depend_on_the_seed() -> None:
    pods = [TracePod(f"p{n}", n * 60.0, 600.0, cpu_milli=500) for n in range(60)]
    failing = NodeFailures(mean_seconds_between=900.0, repair_seconds=120.0)
    results = [run_trial(trial_with(*pods, seed=seed, node_failures=failing)) for seed in (1, 1, 2)]
    assert results[0] == results[1]
    assert results[0] != results[2]
    assert results[0].trial.measures["evictions"] > 0
    assert results[0].trial.placed == 60
