"""Events of a trial: arrivals, evictions, failures and ties."""

import msgspec
import pytest
from tests.support.lab import config_with, pool_cluster, trial_with

from moorage.kube.api.pod import Pod
from moorage.lab.cluster import Scaling
from moorage.lab.experiment import ConfigurationEntry, changed_config
from moorage.lab.measuring import run_trial
from moorage.lab.trace import NodeOutage, Trace, TracePod
from moorage.lab.trial import PolicyText, Trial, TrialResult
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import ScorePlugin


def waited(result: TrialResult) -> dict[str, float | None]:
    return {row.pod: row.waited for row in result.pods}


def test_pod_without_a_feasible_node_waits_until_another_finishes() -> None:
    first, second = TracePod("first", 0.0, 100.0, cpu_milli=4000), TracePod("second", 10.0, 5.0, cpu_milli=4000)
    result = run_trial(trial_with(first, second, cluster=pool_cluster(1)))
    times = waited(result)
    assert times["first"] == 0.0
    assert times["second"] is not None
    assert 90.0 <= times["second"] < 102.0, "it is retried when a node has space, at the latest after its backoff"
    assert result.trial.measures["overcommitted"] == 0


def test_pod_that_never_fits_is_reported_and_ends_the_trial() -> None:
    result = run_trial(trial_with(TracePod("huge", cpu_milli=64_000), TracePod("fine", cpu_milli=100)))
    assert (result.trial.placed, result.trial.unplaced) == (1, 1)
    assert waited(result)["huge"] is None


def test_evicted_pod_returns_and_gets_a_node() -> None:
    low = TracePod("low", 0.0, 50.0, cpu_milli=4000)
    high = TracePod("high", 10.0, 20.0, cpu_milli=4000, priority=100)
    result = run_trial(trial_with(low, high, cluster=pool_cluster(1)))
    assert result.trial.measures["evictions"] == 1
    rows = {row.pod: row for row in result.pods}
    assert rows["low"].evictions == 1
    assert rows["low"].node, "it returned and got a node again"
    assert result.trial.measures["seconds"] >= 30.0


def test_pods_of_a_failed_node_move_to_another() -> None:
    pods = (TracePod("a", 0.0, 500.0, cpu_milli=4000), TracePod("late", 300.0, 1.0, cpu_milli=1))
    trial = trial_with(*pods)
    outage = NodeOutage("pool-0", 100.0, 200.0)
    trial_with_outages = Trial(
        Trace("trace", pods, (outage, NodeOutage("pool-1", 250.0))), trial.cluster, trial.policy, 1
    )
    result = run_trial(trial_with_outages)
    assert result.trial.measures["evictions"] >= 1
    assert min(point.nodes for point in result.points) == 1


def test_failed_pods_are_recreated() -> None:
    pods = (TracePod("flaky", 0.0, 10.0, cpu_milli=100, fails=2), TracePod("last", 100.0, 1.0, cpu_milli=100))
    result = run_trial(trial_with(*pods))
    assert result.trial.measures["attempts"] == 4


def test_random_ties_depend_on_the_seed() -> None:
    pods = [TracePod(f"p{n}", cpu_milli=10) for n in range(20)]
    config = config_with(scores={"ImageLocality": 1})  # which reports 0 for every node

    def nodes(seed: int, ties: str) -> list[str]:
        trial = trial_with(*pods, cluster=pool_cluster(8), config=config, seed=seed, arrivals_only=True, ties=ties)
        return [row.node for row in run_trial(trial).pods]

    assert nodes(1, "random") == nodes(1, "random")
    assert nodes(1, "random") != nodes(2, "random")
    assert nodes(1, "upstream") == nodes(2, "upstream")
    assert len(set(nodes(1, "random"))) > 4


def test_ties_by_name_select_the_first_name() -> None:
    pods = [TracePod(f"p{n}", cpu_milli=10) for n in range(3)]
    config = config_with(scores={"ImageLocality": 1})
    cluster = pool_cluster(8)
    backwards = msgspec.structs.replace(cluster, nodes=tuple(reversed(cluster.nodes)))
    trial = trial_with(*pods, cluster=backwards, config=config, seed=1, arrivals_only=True, ties="name")
    assert {row.node for row in run_trial(trial).pods} == {min(node.name for node in cluster.nodes)}


def test_shuffled_ties_fill_one_node_after_the_other_in_an_order_of_the_seed() -> None:
    pods = [TracePod(f"p{n}", cpu_milli=1000) for n in range(12)]
    config = config_with(scores={"ImageLocality": 1})

    def nodes(seed: int) -> list[str]:
        conditions = {"arrivals_only": True, "ties": "shuffled"}
        trial = trial_with(*pods, cluster=pool_cluster(8), config=config, seed=seed, **conditions)
        return list(dict.fromkeys(row.node for row in run_trial(trial).pods))

    assert nodes(1) == nodes(1)
    assert len({tuple(nodes(seed)) for seed in range(1, 6)}) > 1
    assert len(nodes(1)) in (3, 4)


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


def test_requested_node_that_is_not_needed_is_removed_after_its_idle_time() -> None:
    cluster = pool_cluster(1, scaling=Scaling(at_most=2, startup_seconds=60.0, idle_seconds=120.0))
    pods = (
        TracePod("first", 0.0, 10.0, cpu_milli=4000),
        TracePod("second", 1.0, 1000.0, cpu_milli=4000),
        TracePod("late", 3600.0, 1.0, cpu_milli=100),
    )
    result = run_trial(trial_with(*pods, cluster=cluster))
    assert waited(result)["second"] == pytest.approx(9.0, abs=2.0), "the first one ends before the node starts"
    nodes = [(point.at, point.nodes) for point in result.points]
    assert max(count for _, count in nodes) == 2
    assert {count for at, count in nodes if at > 60.0 + 120.0} == {1}


def test_pods_that_do_not_fit_are_dropped_on_request() -> None:
    pods = (TracePod("huge", 0.0, 10.0, cpu_milli=64_000), TracePod("fine", 5.0, 10.0, cpu_milli=100))
    for skip_unplaced in (False, True):
        result = run_trial(trial_with(*pods, skip_unplaced=skip_unplaced))
        assert (result.trial.placed, result.trial.unplaced) == (1, 1)


def test_pending_gang_is_retried_after_changes_and_not_after_each_backoff() -> None:
    month = 30 * 86_400.0
    gang = [TracePod(f"g{n}", 10.0, 100.0, cpu_milli=4000, job="g", gang="g", gang_size=2) for n in range(2)]
    trial = trial_with(TracePod("first", 0.0, month, cpu_milli=4000), *gang)
    trial = msgspec.structs.replace(trial, policy=PolicyText("gangs", gates={"GenericWorkload": True}))
    result = run_trial(trial)
    assert waited(result)["g0"] == pytest.approx(month - 10.0, abs=20.0), "it starts when the first pod has ended"
    assert result.trial.measures["attempts"] < 20
