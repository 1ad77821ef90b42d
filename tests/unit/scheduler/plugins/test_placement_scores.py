"""Placements of groups: generation and scores."""

import numpy as np
import pytest
from tests.support.groups import gang, member

from moorage.kube.api.node import Node
from moorage.scheduler.config.args import NodeResourcesFitArgs, ResourceSpec, ScoringStrategy
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.groups import GroupTree, Placement, Proposal
from moorage.scheduler.plugins.node_resources_fit.plugin import NodeResourcesFit
from moorage.scheduler.plugins.pod_group_pods_count import PodGroupPodsCount
from moorage.scheduler.plugins.topology_placement_generator import TopologyPlacementGenerator
from moorage.testing import make_node, make_pod
from moorage.testing.rig import Rig

TREE = GroupTree(gang())


def node(name: str, rack: str | None = None, **more: str) -> Node:
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110", **more}
    return make_node(name, allocatable=allocatable, labels={} if rack is None else {"rack": rack})  # type: ignore[arg-type]


def proposal(name: str, **requests: str) -> Proposal:
    return Proposal(make_pod(name, requests=requests or {"cpu": "1", "memory": "2Gi"}), "n1", CycleState())


def test_t14_a_placement_is_scored_by_how_full_it_would_be() -> None:
    rig = Rig(node("n1"), node("n2"))
    placement = Placement("r", rig.nodes, (proposal("a"), proposal("b")))
    assert NodeResourcesFit(handle=rig).score_placement(CycleState(), TREE, placement) == 25
    rig.add(make_pod("old", node="n1", requests={"cpu": "2", "memory": "4Gi"}))
    assert NodeResourcesFit(handle=rig).score_placement(CycleState(), TREE, placement) == 50


def test_t14_a_device_counts_only_if_it_is_requested() -> None:
    gpu = "example.com/gpu"
    rig = Rig(node("n1", **{gpu: "4"}), make_pod("old", node="n1", requests={gpu: "2"}))
    resources = tuple(ResourceSpec(name=name, weight=1) for name in ("cpu", "memory", gpu))
    args = NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(type="LeastAllocated", resources=resources))
    plugin = NodeResourcesFit(args=args, handle=rig)
    plain = Placement("r", rig.nodes, (proposal("a"),))
    asking = Placement("r", rig.nodes, (proposal("a", cpu="1", memory="2Gi", **{gpu: "1"}),))
    # 27 % of cpu and 27 % of memory, the defaults of the old pod included; with the device 75 % of that, too.
    assert plugin.score_placement(CycleState(), TREE, plain) == 27
    assert plugin.score_placement(CycleState(), TREE, asking) == (27 + 27 + 75) // 3


def test_more_pods_are_better() -> None:
    plugin, rig = PodGroupPodsCount(), Rig(node("n1"))
    placements = [Placement(str(count), rig.nodes, tuple(proposal(str(n)) for n in range(count))) for count in (2, 3)]
    scores = plugin.score_placements(CycleState(), TREE, placements)
    assert scores.tolist() == [2, 3]
    assert plugin.normalize_placement_scores(CycleState(), TREE, placements, scores).tolist() == [66, 100]
    with pytest.raises(ValueError, match="no pods from pod group"):
        plugin.normalize_placement_scores(CycleState(), TREE, placements, np.zeros(2, dtype=np.int64))


def test_both_forms_of_a_placement_score_agree() -> None:
    rig = Rig(node("n1"), node("n2"), make_pod("old", node="n2", requests={"cpu": "1"}))
    placements = [Placement(str(n), rig.nodes.take(np.array([n])), (proposal("a"),)) for n in range(2)]
    plugin = NodeResourcesFit(handle=rig)
    scores = plugin.score_placements(CycleState(), TREE, placements)
    assert scores.tolist() == [plugin.score_placement(CycleState(), TREE, placement) for placement in placements]


def test_nodes_are_split_by_label_without_unlabelled_nodes() -> None:
    rig = Rig(node("a", "r1"), node("b"), node("c", "r2"), node("d", "r1"))
    plugin = TopologyPlacementGenerator(handle=rig)
    tree = GroupTree(gang(topology="rack"))
    placements = plugin.generate_placements(CycleState(), tree, rig.nodes)
    result = {placement.name: placement.nodes.names for placement in placements}  # type: ignore[union-attr]
    assert result == {"r1": ["a", "d"], "r2": ["c"]}
    by_node = {info.name: plugin.placement_of(CycleState(), tree, info) for info in rig.nodes}
    assert by_node == {"a": "r1", "b": None, "c": "r2", "d": "r1"}


def test_a_group_without_constraints_may_have_all_nodes() -> None:
    rig = Rig(node("a", "r1"), node("b"))
    (placement,) = TopologyPlacementGenerator(handle=rig).generate_placements(CycleState(), TREE, rig.nodes)  # type: ignore[misc]
    assert placement.nodes.names == ["a", "b"]


def test_members_that_have_a_node_pin_the_group() -> None:
    rig = Rig(node("a", "r1"), node("b", "r2"))
    tree = GroupTree(gang(topology="rack"), scheduled=(member("x", node="b"),))
    placements = TopologyPlacementGenerator(handle=rig).generate_placements(CycleState(), tree, rig.nodes)
    assert [placement.name for placement in placements] == ["r2"]  # type: ignore[union-attr]
