"""Every gate that is on by default can be switched off: either something shows it, or there is a reason why not.

What decides about pods is also checked against kube-scheduler: `gates` in tests/parity/decisions.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.parity.gate_clusters import CLUSTERS, settings
from tests.support.serving import page_sources, served

from moorage.cluster.dry_run import DryRun
from moorage.cluster.files.loading import build_cluster_input
from moorage.cluster.simulation.simulated_cluster import SimulatedCluster
from moorage.cluster.simulation.simulation import Simulation
from moorage.common.clock import VirtualClock
from moorage.common.version import NEWEST, RELEASE
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.features import GATES, RELEASES, FeatureGates
from moorage.scheduler.config import completed_view, default_config
from moorage.scheduler.daemon.feature_gates import MOOT, PERMANENT
from moorage.scheduler.decisions.decision import to_builtins
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.plugins.default_preemption.plugin import DefaultPreemption
from moorage.scheduler.plugins.included_plugins import IN_TREE
from moorage.scheduler.plugins.node_resources_fit.plugin import NodeResourcesFit
from moorage.scheduler.wiring.policy import Policy, load_policy
from moorage.testing import make_node, make_pod
from moorage.testing.rig import Rig, attempt


def fate(gate: str, *, on: bool) -> str:
    """Return the node of pod p in the cluster of a gate, or why it got none."""
    example = CLUSTERS[gate]
    overrides = {"SchedulerAsyncPreemption": False, **settings(gate, on=on)}
    features = FeatureGates(overrides, release=example.release)
    cluster = build_cluster_input(example.objects, features=features)
    decisions = DryRun(cluster, load_policy(Registry(IN_TREE), features=features)).run()
    (decision,) = to_builtins(decisions)["decisions"]
    outcome: str = decision.get("node") or decision["message"]
    return outcome


@pytest.mark.parametrize("gate", CLUSTERS)
def test_gate_changes_the_outcome_of_a_pod(gate: str) -> None:
    assert fate(gate, on=True) == CLUSTERS[gate].on
    assert fate(gate, on=False) == CLUSTERS[gate].off


def filter_timeout(features: FeatureGates) -> str:
    config = json.dumps(completed_view(default_config(gates=features)))
    return "bounded" if '"filterTimeout": "10s"' in config else "unbounded"


def writes_within_post_filter(features: FeatureGates) -> list[str]:
    """Preempt, and list the writes before the plugin returned."""
    victim = make_pod("victim", node="n", priority=1, requests={"cpu": 4})
    preemptor = make_pod("big", priority=10, requests={"cpu": 4}, uid="uid-of-big")
    rig = Rig(make_node("n", allocatable={"cpu": 4}), victim, preemptor, features=features)
    writes: list[str] = []

    def note(verb: str, obj: KubeObject) -> None:
        writes.append(f"{verb} {obj.name}")

    rig.filters = [NodeResourcesFit(handle=rig)]
    world = SimulatedCluster(rig.clock, fault=note)
    world.add(victim, preemptor)
    rig.cluster = world.cluster
    cycle, statuses = attempt(rig, preemptor)

    async def preempt() -> list[str]:
        await DefaultPreemption(handle=rig).post_filter(cycle, preemptor, statuses)
        writes_before = [*writes]
        for work in rig.background:
            await work
        return writes_before

    return run_virtual(preempt(), rig.clock)


def waits_out_its_penalty(features: FeatureGates) -> bool:
    """Return whether a recently rejected pod remains pending in an idle scheduler when a node suits it."""
    clock = VirtualClock()
    world = SimulatedCluster(clock)

    async def wait() -> bool:
        simulation = Simulation(world, Policy(default_config(gates=features), Registry(IN_TREE), features))
        simulation.load([make_node("full", allocatable={"cpu": 1}), make_pod("p", requests={"cpu": 2})])
        await simulation.run_until_quiet()
        began = clock.now()
        world.add(make_node("roomy", allocatable={"cpu": 4}))
        await simulation.loop.step()
        while not any(pod.node_name for pod in world.store.list(Pod)):
            if not await simulation.loop.step():
                await simulation.loop.sleep(until=began + 60)
        return clock.now() - began >= 1

    return run_virtual(wait(), clock)


def announced(features: FeatureGates) -> str:
    """Return the reported node of a pod while its volume is being provisioned."""
    clock = VirtualClock()
    world = SimulatedCluster(clock)
    cluster = build_cluster_input(CLUSTERS["StorageCapacityScoring"].objects, features=features)

    async def bind() -> str:
        simulation = Simulation(world, Policy(default_config(gates=features), Registry(IN_TREE), features))
        simulation.load(cluster.objects)
        await simulation.run_until_quiet(max_seconds=1)
        (pod,) = world.store.list(Pod)
        return pod.nominated_node_name

    return run_virtual(bind(), clock)


def page(path: str) -> Callable[[FeatureGates], int]:
    def visit(features: FeatureGates) -> int:
        async def work() -> int:
            async with served(page_sources(features=features)) as visitor:
                return (await visitor.ask(path)).status

        return asyncio.run(work())

    return visit


def default_plugin(name: str) -> Callable[[FeatureGates], bool]:
    def is_enabled(features: FeatureGates) -> bool:
        return f'"name": "{name}"' in json.dumps(completed_view(default_config(gates=features)))

    return is_enabled


EFFECTS: dict[str, tuple[Callable[[FeatureGates], Any], Any, Any]] = {
    "DRASchedulerFilterTimeout": (filter_timeout, "bounded", "unbounded"),
    "SchedulerAsyncPreemption": (writes_within_post_filter, [], ["patch victim", "delete victim"]),
    "SchedulerPopFromBackoffQ": (waits_out_its_penalty, False, True),
    "NominatedNodeNameForExpectation": (announced, "n2", ""),
    "ComponentFlagz": (page("/flagz"), 200, 404),
    "ComponentStatusz": (page("/statusz"), 200, 404),
    "GenericWorkload": (default_plugin("GangScheduling"), True, False),
    "TopologyAwareWorkloadScheduling": (default_plugin("TopologyPlacementGenerator"), True, False),
    "InPlacePodVerticalScalingSchedulerPreemption": (default_plugin("DeferredPodScheduling"), True, False),
}


@pytest.mark.release("1.37")
@pytest.mark.parametrize("gate", EFFECTS)
def test_gate_changes_its_effect(gate: str) -> None:
    look, on, off = EFFECTS[gate]
    needs = dict.fromkeys(GATES[gate].needs, True)
    assert look(FeatureGates({**needs, gate: True})) == on
    assert look(FeatureGates({**needs, gate: False})) == off


SWITCHABLE = [name for name, gate in GATES.items() if gate.default and not gate.locked]
LAST_SWITCHABLE = {
    name: release
    for release, gates in reversed(RELEASES.items())
    for name, gate in gates.items()
    if gate.default and not gate.locked
}


@pytest.mark.parametrize("gate", SWITCHABLE)
def test_no_gate_is_without_an_effect_or_a_reason(gate: str) -> None:
    listed_in = [gate in CLUSTERS, gate in EFFECTS, gate in MOOT]
    assert listed_in.count(True) == 1, f"{gate}: show what changes when it is off, or say in MOOT why nothing does"


@pytest.mark.parametrize(("gate", "release"), LAST_SWITCHABLE.items(), ids=LAST_SWITCHABLE)
def test_every_gate_of_earlier_releases_has_an_effect_or_a_reason(gate: str, release: str) -> None:
    assert gate in CLUSTERS or gate in EFFECTS or gate in MOOT or gate in PERMANENT
    if gate in CLUSTERS:
        assert CLUSTERS[gate].release in (release, RELEASE)


def test_reasons_name_existing_gates() -> None:
    assert {*MOOT, *PERMANENT, *CLUSTERS, *EFFECTS} <= {*GATES, *RELEASES[NEWEST]}
