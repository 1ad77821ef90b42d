"""TopologyPlacementGenerator: one placement for each domain."""

from tests.support.groups import gang, member

from moorage.kube.api.node import Node
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.groups import GroupTree
from moorage.scheduler.plugins.topology_placement_generator import TopologyPlacementGenerator
from moorage.testing import make_node
from moorage.testing.rig import Rig

TREE = GroupTree(gang())


def node(name: str, rack: str | None = None, **more: str) -> Node:
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110", **more}
    return make_node(name, allocatable=allocatable, labels={} if rack is None else {"rack": rack})  # type: ignore[arg-type]


def test_nodes_are_split_by_label_without_unlabeled_nodes() -> None:
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
