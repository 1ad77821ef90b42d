"""One trial: what comes and goes, what is measured, and that nothing but the input decides."""

import pickle
from itertools import pairwise

import msgspec
import pytest
from tests.support.lab import pool_cluster, trial_with

from moorage.kube.api.pod import Pod
from moorage.lab.cluster import Scaling
from moorage.lab.cluster_files import NodePool, Watts, cluster_of_pools
from moorage.lab.conditions import NodeFailures
from moorage.lab.experiment import ConfigurationEntry, changed_config
from moorage.lab.generating import generate
from moorage.lab.presets import preset_cluster
from moorage.lab.rows import TrialResult
from moorage.lab.trace import NodeOutage, Trace, TracePod
from moorage.lab.trial import PolicyText, Trial, run_trial
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import ScorePlugin


def config_with(**changes: object) -> str:
    return msgspec.json.encode(changed_config(ConfigurationEntry("x", **changes))).decode()  # type: ignore[arg-type]


def waited(result: TrialResult) -> dict[str, float | None]:
    return {row.pod: row.waited for row in result.pods}


def test_pod_without_a_feasible_node_waits_until_another_finishes() -> None:
    first, second = TracePod("first", 0.0, 100.0, cpu_milli=4000), TracePod("second", 10.0, 5.0, cpu_milli=4000)
    result = run_trial(trial_with(first, second, cluster=pool_cluster(1)))
    times = waited(result)
    assert times["first"] == 0.0
    assert times["second"] is not None
    assert 90.0 <= times["second"] < 102.0, "it is woken when room is made, after its backoff at most"
    assert result.trial.measures["overcommitted"] == 0


def test_pod_that_never_fits_is_reported_and_ends_the_trial() -> None:
    result = run_trial(trial_with(TracePod("huge", cpu_milli=64_000), TracePod("fine", cpu_milli=100)))
    assert (result.trial.placed, result.trial.unplaced) == (1, 1)
    assert waited(result)["huge"] is None


def test_the_important_evict_and_the_evicted_come_back() -> None:
    low = TracePod("low", 0.0, 50.0, cpu_milli=4000)
    high = TracePod("high", 10.0, 20.0, cpu_milli=4000, priority=100)
    result = run_trial(trial_with(low, high, cluster=pool_cluster(1)))
    assert result.trial.measures["evictions"] == 1
    rows = {row.pod: row for row in result.pods}
    assert rows["low"].evictions == 1
    assert rows["low"].node, "it came back and got a node again"
    assert result.trial.measures["seconds"] >= 30.0


def test_a_node_that_fails_sends_its_pods_elsewhere() -> None:
    pods = (TracePod("a", 0.0, 500.0, cpu_milli=4000), TracePod("late", 300.0, 1.0, cpu_milli=1))
    trial = trial_with(*pods)
    outage = NodeOutage("pool-0", 100.0, 200.0)
    trial_with_outages = Trial(
        Trace("trace", pods, (outage, NodeOutage("pool-1", 250.0))), trial.cluster, trial.policy, 1
    )
    result = run_trial(trial_with_outages)
    assert result.trial.measures["evictions"] >= 1
    assert min(point.nodes for point in result.points) == 1


def test_nodes_fail_at_random_by_seed() -> None:
    pods = [TracePod(f"p{n}", n * 60.0, 600.0, cpu_milli=500) for n in range(60)]
    failing = NodeFailures(mean_seconds_between=900.0, repair_seconds=120.0)
    results = [run_trial(trial_with(*pods, seed=seed, node_failures=failing)) for seed in (1, 1, 2)]
    assert results[0] == results[1]
    assert results[0] != results[2]
    assert results[0].trial.measures["evictions"] > 0
    assert results[0].trial.placed == 60


def test_autoscaled_pool_grows_for_pending_pods_and_shrinks_when_idle() -> None:
    scaling = Scaling(at_most=3, startup_seconds=60.0, idle_seconds=120.0)
    cluster = pool_cluster(1, scaling=scaling, price=1.0)
    pods = [TracePod(f"p{n}", 0.0, 300.0, cpu_milli=4000) for n in range(4)]
    result = run_trial(trial_with(*pods, TracePod("late", 3600.0, 1.0, cpu_milli=100), cluster=cluster))
    nodes = [point.nodes for point in result.points]
    assert max(nodes) == 3, "no more than it may have"
    assert nodes[-1] == 1, "those that were added are gone, the first stays"
    waits = sorted(time for time in waited(result).values() if time is not None)
    assert waits[0] == 0.0
    assert 60.0 <= waits[2] <= 75.0, "a node takes a minute to come"


def test_failed_pods_run_again() -> None:
    pods = (TracePod("flaky", 0.0, 10.0, cpu_milli=100, fails=2), TracePod("last", 100.0, 1.0, cpu_milli=100))
    result = run_trial(trial_with(*pods))
    assert result.trial.measures["attempts"] == 4


def test_the_same_input_gives_the_same_bytes_even_elsewhere() -> None:
    trial = Trial(generate("mixed", 3, pods=60), preset_cluster("mixed"), PolicyText("default"), 3)
    first = msgspec.json.encode(run_trial(trial))
    assert msgspec.json.encode(run_trial(pickle.loads(pickle.dumps(trial)))) == first


def published(seed: int, **scores: int) -> Trial:
    pools = [
        NodePool("g2", 6, "96", "512Gi", pods=500, gpus=8, gpu_model="G2"),
        NodePool("t4", 4, "96", "512Gi", gpus=2, gpu_model="T4"),
    ]
    config = config_with(enabled=("GpuShare",), disabled=("DefaultPreemption",), scores=scores)
    return trial_with(
        *generate("openb", seed, pods=60).pods,
        cluster=cluster_of_pools("gpus", pools, "a test"),
        config=config,
        seed=seed,
        **{"shuffle": True, "inflate": 1.3, "arrivals_only": True, "skip_unplaced": True, "ties": "name"},
    )


def test_the_published_experiment_is_measured_at_every_per_cent() -> None:
    result = run_trial(published(1, FGD=1))
    shares = [point.asked for point in result.points]
    assert shares == sorted(shares)
    assert shares[-1] >= 1.3
    assert max(right - smaller for smaller, right in pairwise(shares)) < 0.2
    assert all(point.fragmentation is not None for point in result.points)
    assert result.trial.measures["overcommitted"] == 0
    assert result.trial.measures["attempts"] == result.trial.pods, "everybody is tried once"
    assert result.trial.unplaced > 0
    assert 0.6 < result.trial.measures["allocation.gpu"] <= 1.0


def test_ties_are_drawn_by_seed() -> None:
    pods = [TracePod(f"p{n}", cpu_milli=10) for n in range(20)]
    config = config_with(scores={"ImageLocality": 1})  # which reports 0 for every node

    def nodes(seed: int, ties: str) -> list[str]:
        trial = trial_with(*pods, cluster=pool_cluster(8), config=config, seed=seed, arrivals_only=True, ties=ties)
        return [row.node for row in run_trial(trial).pods]

    assert nodes(1, "random") == nodes(1, "random")
    assert nodes(1, "random") != nodes(2, "random")
    assert nodes(1, "upstream") == nodes(2, "upstream")
    assert len(set(nodes(1, "random"))) > 4


def test_or_by_the_name_that_comes_first() -> None:
    pods = [TracePod(f"p{n}", cpu_milli=10) for n in range(3)]
    config = config_with(scores={"ImageLocality": 1})
    cluster = pool_cluster(8)
    backwards = msgspec.structs.replace(cluster, nodes=tuple(reversed(cluster.nodes)))
    trial = trial_with(*pods, cluster=backwards, config=config, seed=1, arrivals_only=True, ties="name")
    assert {row.node for row in run_trial(trial).pods} == {min(node.name for node in cluster.nodes)}


class Broken(ScorePlugin):
    """Fails on its third pod."""

    def __init__(self) -> None:
        self.asked = 0

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        if pod.name == "p3":
            raise ValueError("no idea")
        return 0


def test_failing_policy_fails_its_trial_and_is_named() -> None:
    pods = [TracePod(f"p{n}", float(n), cpu_milli=10) for n in range(5)]
    entry = ConfigurationEntry("broken", enabled=("Broken",))
    config = msgspec.json.encode(changed_config(entry)).decode()
    trial = trial_with(*pods)
    policy = PolicyText("broken", config, (f"{__name__}:Broken",))
    result = run_trial(Trial(trial.trace, trial.cluster, policy, 1))
    assert "Broken" in result.trial.error
    assert "no idea" in result.trial.error
    assert "p3" in result.trial.error
    assert result.trial.measures == {}


def test_cost_and_energy_follow_price_and_power() -> None:
    pool = NodePool("p", 2, 4, "8Gi", price=2.0, watts=Watts(100.0, 300.0))
    priced_cluster = cluster_of_pools("priced", [pool], "a test")
    pods = (TracePod("a", 0.0, None, cpu_milli=4000), TracePod("b", 3600.0, None, cpu_milli=1))
    measures = run_trial(trial_with(*pods, cluster=priced_cluster)).trial.measures
    assert measures["cost"] == pytest.approx(4.0)
    assert measures["cost.used"] == pytest.approx(2.0)
    assert measures["energy"] == pytest.approx(0.4)
    assert measures["energy.used"] == pytest.approx(0.3)
    assert measures["allocation.cpu"] == pytest.approx(0.5)
