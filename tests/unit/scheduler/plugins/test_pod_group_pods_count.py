"""PodGroupPodsCount: placements that fit more pods are preferred."""

import numpy as np
import pytest
from tests.support.groups import gang

from moorage.common.errors import MoorageError
from moorage.kube.api.node import Node
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.groups import GroupTree, Placement, Proposal
from moorage.scheduler.plugins.node_resources_fit.plugin import NodeResourcesFit
from moorage.scheduler.plugins.pod_group_pods_count import PodGroupPodsCount
from moorage.testing import make_node, make_pod
from moorage.testing.rig import Rig

TREE = GroupTree(gang())


def node(name: str, rack: str | None = None, **more: str) -> Node:
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110", **more}
    return make_node(name, allocatable=allocatable, labels={} if rack is None else {"rack": rack})  # type: ignore[arg-type]


def proposal(name: str, **requests: str) -> Proposal:
    return Proposal(make_pod(name, requests=requests or {"cpu": "1", "memory": "2Gi"}), "n1", CycleState())


def test_more_pods_are_better() -> None:
    plugin, rig = PodGroupPodsCount(), Rig(node("n1"))
    placements = [Placement(str(count), rig.nodes, tuple(proposal(str(n)) for n in range(count))) for count in (2, 3)]
    scores = plugin.score_placements(CycleState(), TREE, placements)
    assert scores.tolist() == [2, 3]
    assert plugin.normalize_placement_scores(CycleState(), TREE, placements, scores).tolist() == [66, 100]
    with pytest.raises(MoorageError, match="no pods from pod group"):
        plugin.normalize_placement_scores(CycleState(), TREE, placements, np.zeros(2, dtype=np.int64))


def test_both_forms_of_a_placement_score_agree() -> None:
    rig = Rig(node("n1"), node("n2"), make_pod("old", node="n2", requests={"cpu": "1"}))
    placements = [Placement(str(n), rig.nodes.take(np.array([n])), (proposal("a"),)) for n in range(2)]
    plugin = NodeResourcesFit(handle=rig)
    scores = plugin.score_placements(CycleState(), TREE, placements)
    assert scores.tolist() == [plugin.score_placement(CycleState(), TREE, placement) for placement in placements]
