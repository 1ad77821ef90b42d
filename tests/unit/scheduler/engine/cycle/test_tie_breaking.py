"""The node that is picked: the best of those found, by rules that go through them one by one."""

from typing import Any

import numpy as np
import pytest
from tests.support.engine import config_with, registry_with
from tests.unit.scheduler.engine.cached_results.test_combined_result import root_after_init

from moorage.cluster.simulation.simulated_cluster import SimulatedCluster
from moorage.cluster.simulation.simulation import Simulation
from moorage.common.clock import VirtualClock
from moorage.kube.api.affinity import Affinity, PodAffinityTerm, PodAntiAffinity, TopologySpreadConstraint
from moorage.kube.api.node import HOSTNAME_LABEL, ZONE_LABEL
from moorage.kube.api.pod import Pod
from moorage.kube.api.quantity import Quantity
from moorage.kube.api.selectors import LabelSelector
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import default_config
from moorage.scheduler.engine.cycle import tie_breaking
from moorage.scheduler.engine.cycle.profile_runner import ProfileRunner
from moorage.scheduler.engine.cycle.search_result import NoNode, SeveralNodes
from moorage.scheduler.engine.reference import filter_all, pre_filtered_cycle, score_all
from moorage.scheduler.engine.statuses import StatusTable
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import ScorePlugin
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.framework.status import IntArray
from moorage.scheduler.plugins.included_plugins import IN_TREE
from moorage.scheduler.wiring.policy import Policy
from moorage.testing import make_node, make_pod

ZONES = 3


def spread(key: str, action: str) -> dict[str, object]:
    constraint = TopologySpreadConstraint(
        max_skew=1,
        topology_key=key,
        when_unsatisfiable=action,
        label_selector=LabelSelector(match_labels={"app": "web"}),
    )
    return {"topology_spread_constraints": (constraint,)}


KINDS: dict[str, dict[str, object]] = {
    "pods like any other": {},
    "pods that must be spread over zones": spread(ZONE_LABEL, "DoNotSchedule"),
    "pods that should be spread over zones": spread(ZONE_LABEL, "ScheduleAnyway"),
    "pods that should be spread over hosts": spread(HOSTNAME_LABEL, "ScheduleAnyway"),
    "pods that select some of the nodes": {"node_selector": {"disk": "ssd"}},
    "pods of some of the nodes that must be spread": {
        "node_selector": {"disk": "ssd"},
        **spread(ZONE_LABEL, "DoNotSchedule"),
    },
}


def picked_from_nothing(runner: ProfileRunner, result: SeveralNodes) -> str:
    """Score the nodes in the order in which they are found, and sift them through a heap."""
    cache = runner.cache
    rows = np.array([row for row in np.roll(cache.order, -result.start) if result.feasible[row]])
    window = cache.nodes.take(rows)
    state = pre_filtered_cycle(runner.profile, result.pod, cache.nodes)
    filter_all(runner.profile, state, result.pod, window, StatusTable())
    totals = score_all(runner.profile, state, result.pod, window).totals.tolist()
    return window[root_after_init(totals)].name


@pytest.mark.parametrize("fields", KINDS.values(), ids=KINDS)
def test_the_best_of_the_nodes_found_is_picked(fields: dict[str, object]) -> None:
    world = SimulatedCluster(VirtualClock())
    scheduler = Simulation(world, Policy(default_config(), Registry(IN_TREE), FeatureGates())).scheduler
    for number in range(17):
        labels = {"disk": "ssd"} if number % 4 else {}
        scheduler.handlers.apply(None, make_node(f"n{number}", zone=f"z{number % ZONES}", labels=labels))
    runner = scheduler.runners["default-scheduler"]
    for number in range(40):
        pod: Pod = make_pod(f"p{number}", labels={"app": "web"}, requests={"cpu": "300m"}, **fields)  # type: ignore[arg-type]
        result = runner.find(pod)
        assert not isinstance(result, NoNode)
        choice = runner.choose(result)
        if isinstance(result, SeveralNodes):
            assert choice.node.name == picked_from_nothing(runner, result)
        scheduler.handlers.pod_added(pod.on_node(choice.node.name))


@pytest.mark.parametrize("start", [0, 5])
@pytest.mark.parametrize("many_equals", [0, tie_breaking.MANY_EQUALS], ids=["first places", "all equals"])
@pytest.mark.parametrize("requests", [{}, {"cpu": "300m"}], ids=["many equals", "few equals"])
def test_where_few_nodes_are_rejected_the_best_is_found_without_going_through_the_others(
    requests: dict[str, Quantity], many_equals: int, start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tie_breaking, "MANY_NODES", 0)
    monkeypatch.setattr(tie_breaking, "MANY_EQUALS", many_equals)
    world = SimulatedCluster(VirtualClock())
    scheduler = Simulation(world, Policy(default_config(), Registry(IN_TREE), FeatureGates())).scheduler
    for number in range(61):
        scheduler.handlers.apply(None, make_node(f"n{number}", zone=f"z{number % ZONES}"))
    runner = scheduler.runners["default-scheduler"]
    visited: list[SeveralNodes] = []
    monkeypatch.setattr(runner.scoring._order, "visited", visited.append)
    for number in range(40):
        labels = {"group": f"g{number // 8}"}
        term = PodAffinityTerm(topology_key=HOSTNAME_LABEL, label_selector=LabelSelector(match_labels=labels))
        affinity = Affinity(pod_anti_affinity=PodAntiAffinity(required=(term,)))
        pod = make_pod(f"p{number}", labels=labels, requests=requests, affinity=affinity)
        runner.filtering.rotation.start = start
        result = runner.find(pod)
        assert isinstance(result, SeveralNodes)
        if result.count < len(result.feasible):
            choice = runner.choose(result)
            assert choice.node.name == picked_from_nothing(runner, result)
            scheduler.handlers.pod_added(pod.on_node(choice.node.name))
        else:
            scheduler.handlers.pod_added(pod.on_node(f"n{number}"))
    assert not visited


class Narrow(ScorePlugin):
    """Likes nodes with a high number, and counts in the smallest integers there are."""

    def score_nodes(self, _cycle: Any, _pod: Pod, nodes: NodeTable) -> Any:
        return np.array([int(node.name[1:]) for node in nodes], dtype=np.uint8)

    def normalize_scores(self, _cycle: Any, _pod: Pod, _nodes: NodeTable, scores: IntArray) -> Any:
        return scores.astype(np.uint8)


def test_scores_of_small_integers_add_up_with_all_others() -> None:
    world = SimulatedCluster(VirtualClock())
    scheduler = Simulation(world, Policy(config_with(Narrow), registry_with(Narrow), FeatureGates())).scheduler
    for number in range(99):
        scheduler.handlers.apply(None, make_node(f"n{number}"))
    runner = scheduler.runners["default-scheduler"]
    result = runner.find(make_pod())
    assert isinstance(result, SeveralNodes)
    assert runner.choose(result).node.name == "n98" == picked_from_nothing(runner, result)
