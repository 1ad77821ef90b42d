"""The lab's counts equal the scheduler's counts after any sequence of events."""

from typing import TypeVar

import pytest
from msgspec.structs import replace
from tests.support.lab import random_trial

from moorage.common.clock import VirtualClock
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.gpu_sharing import GPU_COUNT, GPU_DEVICES, GPU_MILLI
from moorage.kube.api.meta import KubeObject
from moorage.lab.cluster import PRICE, WATTS_BUSY, WATTS_IDLE
from moorage.lab.fragmentation import load_trial_policy
from moorage.lab.ledger import CPU, RESOURCES, UsageLedger
from moorage.lab.playing import Play, TrialWatch
from moorage.testing import make_node, make_pod

K = TypeVar("K", bound=KubeObject)


def annotate(obj: K, annotations: dict[str, str]) -> K:
    return replace(obj, metadata=replace(obj.metadata, annotations=annotations))


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
            play = self.play
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
        play = Play(trial, load_trial_policy(trial), clock, Checking)
        await play.run()
        assert not play.scheduler.unexpected
        play.scheduler.queue.check_invariants()
        assert len(play.lives) == 60

    run_virtual(scenario(), clock)


def test_capacity_shrinks_with_a_removed_node() -> None:
    ledger = UsageLedger()
    n1, n2 = make_node("n1", allocatable={"cpu": 4, "memory": 8}), make_node("n2", allocatable={"cpu": 2, "memory": 0})
    ledger.add_node(annotate(n1, {PRICE: "2", WATTS_IDLE: "100", WATTS_BUSY: "300"}))
    ledger.add_node(annotate(n2, {PRICE: "1", WATTS_BUSY: "50"}))
    assert (ledger.total, ledger.free) == ([6000, 8, 0], [6000, 8, 0])
    assert (ledger.price, ledger.watts) == (3.0, 100.0)
    ledger.take(pod := make_pod("p", requests={"cpu": 1}, node="n1"))
    assert (ledger.watts, ledger.watts_used, ledger.price_used, ledger.running) == (150.0, 150.0, 2.0, 1)
    ledger.release(pod.uid)
    assert (ledger.watts, ledger.watts_used, ledger.price_used, ledger.running) == (100.0, 0.0, 0.0, 0)
    ledger.remove_node("n1")
    assert (ledger.total, ledger.free) == ([2000, 0, 0], [2000, 0, 0])
    assert (ledger.price, ledger.watts) == (1.0, 0.0)
    assert list(ledger.nodes) == ["n2"]


GPUS = {GPU_COUNT: 2, GPU_MILLI: 2000}


def test_pod_uses_the_devices_of_its_annotation_or_the_first_with_space() -> None:
    ledger = UsageLedger()
    ledger.add_node(make_node("n1", allocatable=GPUS))
    annotated = {GPU_COUNT: "1", GPU_MILLI: "700", GPU_DEVICES: "1"}
    ledger.take(annotate(make_pod("annotated", requests={GPU_MILLI: 700}, node="n1"), annotated))
    assert ledger.nodes["n1"].devices == [1000, 300]
    half = {GPU_COUNT: "1", GPU_MILLI: "300"}
    ledger.take(annotate(make_pod("first", requests={GPU_MILLI: 300}, node="n1"), half))
    assert ledger.nodes["n1"].devices == [700, 300]
    large = {GPU_COUNT: "1", GPU_MILLI: "800"}
    too_large = annotate(make_pod("too-large", requests={GPU_MILLI: 800}, node="n1"), large | {GPU_DEVICES: "0"})
    ledger.take(too_large)
    assert ledger.nodes["n1"].devices == [-100, 300]
    assert ledger.overcommitted == 1
    ledger.release(too_large.uid)
    assert ledger.nodes["n1"].devices == [700, 300]


def test_node_without_cpu_uses_its_idle_power() -> None:
    ledger = UsageLedger()
    ledger.add_node(annotate(make_node("n1", allocatable={"cpu": 0}), {WATTS_IDLE: "100", WATTS_BUSY: "300"}))
    assert ledger.watts == 100.0
    assert ledger.share(CPU) == 0.0
    assert ledger.node_shares(CPU).tolist() == []


def test_busy_power_is_at_least_the_idle_power() -> None:
    ledger = UsageLedger()
    ledger.add_node(annotate(make_node("n1", allocatable={"cpu": 1}), {WATTS_IDLE: "100"}))
    ledger.take(make_pod("p", requests={"cpu": 1}, node="n1"))
    assert ledger.watts == 100.0


def test_pods_beyond_the_capacity_are_treated_as_overcommitted() -> None:
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
