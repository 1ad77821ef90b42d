"""Measures of a trial, recomputed from the scheduler's cache and from the rows of its pods."""

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from tests.support.lab import config_with, pool_cluster, random_trial, trial_with

from moorage.common.clock import VirtualClock
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.gpu_sharing import GPU_MILLI
from moorage.kube.api.pod import Pod
from moorage.lab.cluster import PRICE, NodePool, Watts, build_cluster
from moorage.lab.fragmentation import load_trial_policy
from moorage.lab.generating import generate
from moorage.lab.measuring import Measures, run_trial
from moorage.lab.playing import Play, PodLife
from moorage.lab.trace import TracePod
from moorage.lab.trial import Trial, TrialResult

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


@pytest.mark.parametrize(("horizon", "until"), [(None, 100.0), (50.0, 50.0), (75.0, 75.0), (400.0, 400.0)])
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


class Recomputing(Measures):
    """Measures a trial again, from the scheduler's cache and the annotations of its nodes."""

    def __init__(self, play: Play[Any]) -> None:
        super().__init__(play)
        self.sums: Counter[str] = Counter()
        self.before = 0.0
        self.expected_points: list[tuple[float, ...]] = []
        self.end = max(pod.arrives for pod in play.trial.trace.pods)
        self.arrived_gpus = 0

    def arrived(self, life: PodLife) -> None:
        super().arrived(life)
        self.arrived_gpus += life.line.gpus * life.line.gpu_milli

    def read_state(self) -> dict[str, float]:
        infos = list(self.play.scheduler.cache.nodes)
        state = {"nodes.mean": float(len(infos)), "nodes.used": float(sum(1 for info in infos if info.pods))}
        state |= {"cost": 0.0, "cost.used": 0.0, "energy": 0.0, "energy.used": 0.0}
        for name, key in (("cpu", "cpu"), ("memory", "memory"), ("gpu", GPU_MILLI)):
            total = sum(info.allocatable.get(key, 0) for info in infos)
            used = sum(info.requested.get(key, 0) for info in infos)
            state[f"allocation.{name}"] = used / total if total else 0.0
        for info in infos:
            cpu = info.requested.get("cpu", 0) / info.allocatable["cpu"]
            price, watts = float(info.node.annotations[PRICE]), 100 + 200 * cpu
            state["cost"] += price / 3600
            state["energy"] += watts / 3600 / 1000
            if info.pods:
                state["cost.used"] += price / 3600
                state["energy.used"] += watts / 3600 / 1000
        return state

    def time_passes(self, until: float) -> None:
        state = self.read_state()
        running = sum(1 for pod in self.play.scheduler.objects[Pod].list() if pod.node_name)
        step = self.end / 100
        for number in range(1, 101):
            if self.before < number * step <= min(until, self.end):
                gpus = sum(info.allocatable.get(GPU_MILLI, 0) for info in self.play.trial.cluster.nodes)
                self.expected_points.append(
                    (
                        number * step,
                        self.arrived_gpus / gpus,
                        state["nodes.mean"],
                        running,
                        state["allocation.cpu"],
                        state["allocation.memory"],
                        state["allocation.gpu"],
                    )
                )
        seconds = max(0.0, min(until, self.end) - self.before)
        self.sums.update({name: value * seconds for name, value in state.items()})
        self.before = max(self.before, min(until, self.end))
        super().time_passes(until)


def run_recomputing(trial: Trial) -> tuple[Recomputing, TrialResult]:
    clock = VirtualClock()

    async def run() -> tuple[Recomputing, TrialResult]:
        play = Play(trial, load_trial_policy(trial), clock, Recomputing)
        await play.run()
        return play.watch, play.watch.result()

    return run_virtual(run(), clock)


@pytest.mark.parametrize("seed", range(4))
def test_measures_equal_those_recomputed_from_the_scheduler(seed: int) -> None:
    watch, result = run_recomputing(random_trial(seed))
    measures = result.trial.measures
    for name in ("allocation.cpu", "allocation.memory", "allocation.gpu", "nodes.mean", "nodes.used"):
        assert measures[name] == pytest.approx(watch.sums[name] / watch.end), name
    for name in ("cost", "cost.used", "energy", "energy.used"):
        assert measures[name] == pytest.approx(watch.sums[name]), name
    assert measures["evictions"] == sum(row.evictions for row in result.pods)
    assert result.trial.placed == sum(1 for row in result.pods if row.waited is not None)
    assert result.trial.unplaced == sum(1 for row in result.pods if row.waited is None)
    assert result.trial.pods == len(result.pods) == 60


@pytest.mark.parametrize("seed", range(4))
def test_points_equal_those_recomputed_from_the_scheduler(seed: int) -> None:
    watch, result = run_recomputing(random_trial(seed))
    points = [
        (point.at, point.asked, point.nodes, point.running, point.cpu, point.memory, point.gpu)
        for point in result.points
    ]
    assert len(points) in (99, 100), "the sum of the steps may exceed the end by a rounding error"
    assert points == [pytest.approx(expected) for expected in watch.expected_points[: len(points)]]
    fragments = [point.fragmentation for point in result.points if point.fragmentation is not None]
    assert result.trial.measures["fragmentation"] == pytest.approx(sum(fragments) / len(points))


def test_waiting_times_are_summarized_by_class() -> None:
    pods = [TracePod("blocker", 0.0, 1000.0, cpu_milli=4000, kind="web")]
    pods += [TracePod(f"waits-{number}", 100.0 * number, 1.0, cpu_milli=4000, kind="batch") for number in range(1, 4)]
    pods += [TracePod("never", 400.0, 1.0, cpu_milli=5000, kind="batch"), TracePod("plain", 400.0, 1.0, cpu_milli=4000)]
    result = run_trial(trial_with(*pods, cluster=pool_cluster(1)))
    waits = {row.pod: row.waited for row in result.pods}
    batch = sorted(wait for name, wait in waits.items() if name.startswith("waits") and wait is not None)
    assert len(batch) == 3
    measures = result.trial.measures
    assert measures["wait.mean.batch"] == pytest.approx(sum(batch) / 3)
    assert measures["wait.p50.batch"] == pytest.approx(batch[1])
    assert measures["wait.p95.batch"] == pytest.approx(batch[1] + 0.9 * (batch[2] - batch[1]))
    every = [wait for wait in waits.values() if wait is not None]
    assert measures["wait.mean"] == pytest.approx(sum(every) / 5)
    assert measures["wait.mean.web"] == waits["blocker"] == 0.0
    assert waits["never"] is None
    assert "wait.mean." not in measures


def test_imbalance_is_the_mean_deviation_of_the_nodes_at_the_points() -> None:
    pods = (TracePod("a", 0.0, 50.0, cpu_milli=4000), TracePod("b", 100.0, 1.0, cpu_milli=1))
    measures = run_trial(trial_with(*pods, cluster=pool_cluster(2), point_every=20.0)).trial.measures
    # The shares of both nodes are 1 and 0 at 20 and 40, then 0 and 0 at 60, 80 and 100.
    assert measures["spread.cpu"] == pytest.approx(2 * 0.5 / 5)
    assert measures["seconds"] == 100.0


def test_pending_pods_are_counted_at_the_points() -> None:
    pods = (TracePod("a", 0.0, 50.0, cpu_milli=4000), TracePod("b", 30.0, 10.0, cpu_milli=4000))
    last = TracePod("c", 100.0, 1.0, cpu_milli=1)
    result = run_trial(trial_with(*pods, last, cluster=pool_cluster(1), point_every=20.0))
    assert [(point.at, point.waiting) for point in result.points] == [
        (20.0, 0),
        (40.0, 1),
        (60.0, 0),
        (80.0, 0),
        (100.0, 0),
    ]


def test_pods_that_arrive_one_by_one_are_measured_once_per_cent_of_requests() -> None:
    # Each pod requests 0.4% of 4 cores, so percents 1, 2, 3 and 4 are crossed by pods 3, 5, 8 and 10.
    pods = [TracePod(f"p{number}", float(number), cpu_milli=16) for number in range(10)]
    result = run_trial(trial_with(*pods, cluster=pool_cluster(1), arrivals_only=True))
    assert [(point.at, point.asked) for point in result.points] == [
        (2.0, 0.012),
        (4.0, 0.02),
        (7.0, 0.032),
        (9.0, 0.04),
    ]


def test_means_of_nodes_and_queue_cover_the_time_until_the_last_arrival() -> None:
    pods = (TracePod("a", 0.0, 60.0, cpu_milli=4000), TracePod("huge", 50.0, 9.0, cpu_milli=9000))
    last = TracePod("last", 100.0, 1.0, cpu_milli=1)
    measures = run_trial(trial_with(*pods, last, cluster=pool_cluster(2))).trial.measures
    assert measures["nodes.mean"] == 2.0
    assert measures["nodes.used"] == pytest.approx(0.6)
    assert (measures["queue.mean"], measures["queue.max"]) == (pytest.approx(0.5), 1.0)


def test_allocation_and_nodes_in_use_are_those_at_the_end_if_pods_arrive_one_by_one() -> None:
    pods = [TracePod(f"p{number}", float(number), cpu_milli=4000) for number in range(2)]
    measures = run_trial(trial_with(*pods, cluster=pool_cluster(3), arrivals_only=True)).trial.measures
    assert measures["nodes.used"] == 2.0
    assert measures["allocation.cpu"] == pytest.approx(2 / 3)


def test_fairness_compares_the_served_shares_of_tenants() -> None:
    first = TracePod("a", 0.0, 30.0, cpu_milli=4000, tenant="red")
    second = TracePod("b", 20.0, 30.0, cpu_milli=4000, tenant="blue")
    result = run_trial(trial_with(first, second, cluster=pool_cluster(1)))
    waited = next(row.waited for row in result.pods if row.pod == "b")
    assert waited is not None
    assert waited >= 10.0
    share = 30.0 / (30.0 + waited)
    assert result.trial.measures["fairness.least"] == pytest.approx(share)
    assert result.trial.measures["fairness.jain"] == pytest.approx((1 + share) ** 2 / (2 * (1 + share**2)))


def test_pods_that_arrive_together_are_measured_for_the_longest_duration() -> None:
    pods = (TracePod("a", 0.0, 30.0, cpu_milli=4000), TracePod("b", 0.0, 60.0, cpu_milli=4000))
    measures = run_trial(trial_with(*pods, TracePod("c", 0.0, 10.0, cpu_milli=4000), cluster=pool_cluster(2)))
    assert 0.5 < measures.trial.measures["allocation.cpu"] <= 1.0


def published(seed: int, **scores: int) -> Trial:
    pools = [
        NodePool("g2", 6, "96", "512Gi", pods=500, gpus=8, gpu_model="G2"),
        NodePool("t4", 4, "96", "512Gi", gpus=2, gpu_model="T4"),
    ]
    config = config_with(enabled=("GpuShare",), disabled=("DefaultPreemption",), scores=scores)
    return trial_with(
        *generate("openb", seed, pods=60).pods,
        cluster=build_cluster("gpus", pools, "a test"),
        config=config,
        seed=seed,
        **{"shuffle": True, "inflate": 1.3, "arrivals_only": True, "skip_unplaced": True, "ties": "name"},
    )


def test_arrival_experiment_is_measured_at_every_per_cent() -> None:
    result = run_trial(published(1, FGD=1))
    shares = [point.asked for point in result.points]
    assert shares == sorted(shares)
    assert shares[-1] >= 1.3
    assert max(right - smaller for smaller, right in pairwise(shares)) < 0.2
    assert all(point.fragmentation is not None for point in result.points)
    assert result.trial.measures["overcommitted"] == 0
    assert result.trial.measures["attempts"] == result.trial.pods, "each pod is tried once"
    assert result.trial.unplaced > 0
    assert 0.6 < result.trial.measures["allocation.gpu"] <= 1.0


def test_cost_and_energy_follow_price_and_power() -> None:
    pool = NodePool("p", 2, 4, "8Gi", price=2.0, watts=Watts(100.0, 300.0))
    priced_cluster = build_cluster("priced", [pool], "a test")
    pods = (TracePod("a", 0.0, None, cpu_milli=4000), TracePod("b", 3600.0, None, cpu_milli=1))
    measures = run_trial(trial_with(*pods, cluster=priced_cluster)).trial.measures
    assert measures["cost"] == pytest.approx(4.0)
    assert measures["cost.used"] == pytest.approx(2.0)
    assert measures["energy"] == pytest.approx(0.4)
    assert measures["energy.used"] == pytest.approx(0.3)
    assert measures["allocation.cpu"] == pytest.approx(0.5)


def test_measures_over_time_cover_the_horizon_after_the_last_arrival() -> None:
    pods = (TracePod("first", 0.0, 50.0, cpu_milli=4000), TracePod("last", 10.0, 100.0, cpu_milli=4000))
    short = run_trial(trial_with(*pods, cluster=pool_cluster(2), horizon=100.0))
    assert short.points[-1].at == 100.0
    assert short.trial.measures["allocation.cpu"] == pytest.approx((50 + 90) / 200)
