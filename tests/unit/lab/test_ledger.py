"""The lab's counts equal the scheduler's counts after any sequence of events."""

from random import Random

import pytest
from tests.support.lab import pool_cluster, trial_with
from tests.unit.lab.test_trials import config_with

from moorage.common.clock import VirtualClock
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.gpu_sharing import GPU_MILLI
from moorage.lab.cluster_files import Watts
from moorage.lab.conditions import NodeFailures
from moorage.lab.ledger import CPU, RESOURCES, UsageLedger
from moorage.lab.playing import Play, TrialWatch
from moorage.lab.trace import TracePod
from moorage.lab.trial import Trial, load_trial_policy
from moorage.testing import make_node, make_pod


def random_trial(seed: int) -> Trial:
    chance = Random(seed)
    pods = [
        TracePod(
            f"p{number}",
            arrives=number * chance.uniform(0, 20),
            runs=chance.choice([None, 30.0, 400.0]),
            cpu_milli=chance.choice([100, 1000, 3000]),
            memory_mib=chance.choice([128, 4096]),
            gpus=(gpus := chance.choice([0, 0, 1, 1, 2])),
            gpu_milli=1000 if gpus == 2 else chance.choice([250, 600, 1000]) if gpus else 0,
            priority=chance.choice([0, 0, 10]),
            fails=chance.choice([0, 0, 1]),
        )
        for number in range(60)
    ]
    failing = NodeFailures(600.0, 60.0) if seed % 2 else None
    config = config_with(enabled=("GpuShare",), weights={"FGD": 2})
    return trial_with(
        *pods,
        cluster=pool_cluster(3, 8, gpus=4, price=1.5, watts=Watts(100, 300)),
        config=config,
        seed=seed,
        node_failures=failing,
    )


def check_sums(ledger: UsageLedger) -> None:
    """Recompute the incremental sums from the accounts of the nodes."""
    accounts = ledger.nodes.values()
    used = [account for account in accounts if account.pods]
    assert ledger.price == pytest.approx(sum(account.price for account in accounts))
    assert ledger.price_used == pytest.approx(sum(account.price for account in used))
    assert ledger.watts == pytest.approx(sum(account.watts for account in accounts))
    assert ledger.watts_used == pytest.approx(sum(account.watts for account in used))
    assert ledger.total == [sum(column) for column in zip(*(account.total for account in accounts), strict=True)]
    assert ledger.free == [sum(column) for column in zip(*(account.free for account in accounts), strict=True)]


@pytest.mark.parametrize("seed", range(6))
def test_no_node_is_over_capacity_and_counts_match_the_scheduler(seed: int) -> None:
    trial, clock = random_trial(seed), VirtualClock()

    class Checking(TrialWatch):
        def decided(self) -> None:
            ledger = play.ledger
            assert ledger.overcommitted == 0
            infos = {info.name: info for info in play.scheduler.cache.nodes}
            assert infos.keys() == ledger.nodes.keys()
            check_sums(ledger)
            for name, info in infos.items():
                free = [info.allocatable.get(key, 0) - info.requested.get(key, 0) for key in RESOURCES]
                assert free == ledger.nodes[name].free, name
                assert sum(ledger.nodes[name].devices) == free[RESOURCES.index(GPU_MILLI)]

    async def scenario() -> None:
        nonlocal play
        play = Play(trial, load_trial_policy(trial), clock, Checking())
        await play.run()
        assert not play.scheduler.unexpected
        play.scheduler.queue.check_invariants()

    play: Play
    run_virtual(scenario(), clock)
    assert len(play.lives) == 60


def test_pods_beyond_the_capacity_count_as_overcommitted() -> None:
    ledger = UsageLedger()
    ledger.add_node(make_node("n1", allocatable={"cpu": 2}))
    ledger.take(make_pod("fits", requests={"cpu": 2}, node="n1"))
    assert ledger.overcommitted == 0
    ledger.take(make_pod("too-much", requests={"cpu": 1}, node="n1"))
    assert ledger.overcommitted == 1


def test_node_shares_are_the_requested_parts() -> None:
    ledger = UsageLedger()
    ledger.add_node(make_node("n1", allocatable={"cpu": 4}))
    ledger.add_node(make_node("n2", allocatable={"cpu": 4}))
    ledger.take(make_pod("p", requests={"cpu": 1}, node="n1"))
    assert ledger.node_shares(CPU).tolist() == [0.25, 0.0]
    assert ledger.share(CPU) == 0.125
    assert ledger.nodes_used == 1
