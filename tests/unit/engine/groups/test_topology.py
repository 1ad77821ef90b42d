"""Groups placed by topology: section 3 of the reference; T numbers are its rows."""

from collections.abc import Hashable
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace
from tests.support.groups import TOPOLOGY, GroupBench, a_node, alone, gang, member

from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.framework.cycle import CycleState
from moorage.framework.group_plugins import PlacementGeneratePlugin, PlacementScorePlugin
from moorage.framework.groups import GroupTree, Placement
from moorage.framework.nodeinfo import NodeInfo
from moorage.framework.plugin import DependsOn, FilterPlugin
from moorage.framework.status import Status
from moorage.testing import in_virtual_time

RACK = "rack"
SCHEDULED = ("True", "Scheduled", "")


def rack(name: str, *cpus: int, **labels: str) -> list[Node]:
    """Return the nodes of a rack, by their CPUs."""
    return [a_node(f"{name}-{n}", cpu, labels={RACK: name, **labels}) for n, cpu in enumerate(cpus)]


def pods(count: int, group: str = "g", **fields: Any) -> list[Pod]:
    return [member(f"{group}{n}", group, **fields) for n in range(count)]


def racks(bench: GroupBench, *names: str) -> set[str]:
    return {node.rpartition("-")[0] for node in bench.placed(*names).values()}


@in_virtual_time
async def test_t1_a_gang_goes_where_all_of_it_fits() -> None:
    bench = GroupBench(gates=TOPOLOGY)
    bench.add(*rack("r1", 2, 1), *rack("r2", 2, 1), alone("x", node="r2-0"))
    bench.add(gang(topology=RACK), *pods(3))
    await bench.step()
    assert racks(bench, "g0", "g1", "g2") == {"r1"}
    assert bench.condition() == SCHEDULED


@in_virtual_time
async def test_t2_a_gang_that_fits_in_no_rack_is_not_spread_over_several() -> None:
    bench = GroupBench(gates=TOPOLOGY)
    bench.add(*rack("r1", 2), *rack("r2", 2), gang(topology=RACK), *pods(3))
    await bench.step()
    assert bench.placed() == {}
    condition = bench.condition()
    assert condition is not None
    assert condition[2].startswith(
        "pod group is unschedulable, 0/2 placements are available, "
        "first placement status: minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
    )
    assert bench.message("g2") == ("Unschedulable", "0/1 nodes are available: 1 Insufficient cpu.")
    assert bench.reserved() == []


@in_virtual_time
async def test_t3_a_gang_waits_for_room_in_the_only_rack() -> None:
    bench = GroupBench(gates=TOPOLOGY)
    bench.add(*rack("r1", 3), a_node("elsewhere", 8), *(alone(f"x{n}", node="r1-0") for n in range(3)))
    bench.add(gang(minimum=1, topology=RACK), *pods(1))
    await bench.wait(5)
    assert "g0" not in bench.placed()
    bench.remove(bench.pod("x0"))
    await bench.wait(20)
    assert bench.placed("g0") == {"g0": "r1-0"}


@in_virtual_time
async def test_t4_the_rack_that_would_be_the_fullest_is_the_best() -> None:
    bench = GroupBench(gates=TOPOLOGY)
    bench.add(*rack("a", 4), *rack("b", 6), *rack("c", 3, 6), *rack("d", 2))
    bench.add(alone("x", cpu="2", node="b-0"), alone("y", cpu="3", node="c-1"))
    bench.add(gang(topology=RACK), *pods(3))
    await bench.step()
    # a would be full to 75 %, b to 83 %, c to 67 %; d is too small.
    assert racks(bench, "g0", "g1", "g2") == {"b"}


@in_virtual_time
async def test_t5_later_members_are_pinned_to_the_rack_of_the_first() -> None:
    bench = GroupBench(gates=TOPOLOGY)
    bench.add(*rack("small", 4), *rack("big", 6), *rack("tiny", 1), gang(topology=RACK), *pods(3))
    await bench.settle()
    assert racks(bench) == {"small"}
    bench.add(member("g3"))
    await bench.settle()
    bench.add(member("g4"))
    await bench.settle(3)
    assert (racks(bench), len(bench.placed())) == ({"small"}, 4)


@in_virtual_time
async def test_t7_a_rack_that_takes_more_pods_is_better() -> None:
    bench = GroupBench(gates=TOPOLOGY)
    bench.add(*rack("r1", 2), *rack("r2", 3), gang(minimum=2, topology=RACK), *pods(3))
    await bench.settle(3)
    assert (racks(bench), len(bench.placed())) == ({"r2"}, 3)


@in_virtual_time
async def test_t8_a_basic_group_stays_in_one_rack_too() -> None:
    bench = GroupBench(gates=TOPOLOGY)
    bench.add(*rack("r1", 2), *rack("r2", 2), gang(minimum=None, topology=RACK), *pods(3))
    await bench.wait(10)
    assert (len(racks(bench)), len(bench.placed())) == (1, 2)


@in_virtual_time
async def test_t10_groups_by_rack_and_by_zone_share_a_cluster() -> None:
    bench = GroupBench(gates=TOPOLOGY)
    bench.add(
        *rack("r1", 3, zone="z1"), *rack("r2", 2, zone="z1"), *rack("r3", 2, zone="z2"), *rack("r4", 2, zone="z2")
    )
    bench.add(gang("a", 3, topology=RACK), *pods(3, "a"))
    await bench.settle()
    bench.add(gang("b", 4, topology="zone"), *pods(4, "b"))
    await bench.settle()
    assert racks(bench, "a0", "a1", "a2") == {"r1"}
    assert racks(bench, "b0", "b1", "b2", "b3") == {"r3", "r4"}


@in_virtual_time
async def test_t11_room_is_made_in_one_rack_only() -> None:
    bench = GroupBench(gates=TOPOLOGY)
    bench.add(*rack("r1", 2), *rack("r2", 2))
    bench.add(*(alone(f"low{r}{n}", priority=1, node=f"r{r}-0") for r in (1, 2) for n in (1, 2)))
    bench.add(gang(minimum=2, topology=RACK), *pods(2))
    await bench.step()
    assert len(bench.evicted) == 2
    assert len({name[3] for name in bench.evicted}) == 1
    await bench.wait(15)
    assert len(racks(bench, "g0", "g1")) == 1


@in_virtual_time
async def test_t12_nodes_without_the_label_are_no_placement() -> None:
    bench = GroupBench(gates=TOPOLOGY)
    bench.add(a_node("n", 8), gang(topology=RACK), *pods(3))
    await bench.step()
    assert bench.message("g0") == ("Unschedulable", "no feasible placements found")


@pytest.mark.parametrize(
    ("second", "text"),
    [
        ("r2-0", "more than 1 domain found for pod group: "),
        ("n", "no topology domain found for pod default/old1"),
    ],
)
def test_t13_members_in_two_domains_are_an_error(second: str, text: str) -> None:
    @in_virtual_time
    async def history() -> None:
        bench = GroupBench(gates=TOPOLOGY)
        bench.add(*rack("r1", 4), *rack("r2", 4), a_node("n"), gang(minimum=1, topology=RACK))
        bench.add(member("old0", node="r1-0"), member("old1", node=second), *pods(1))
        await bench.step()
        condition = bench.condition()
        assert condition is not None
        assert condition[1] == "SchedulerError"
        assert condition[2].startswith(f"cannot determine domain for already scheduled pods: {text}")

    history()


@in_virtual_time
async def test_groups_without_constraints_are_placed_as_without_the_gate() -> None:
    bench = GroupBench(gates=TOPOLOGY)
    bench.add(a_node("n"), gang(), *pods(3))
    await bench.step()
    assert len(bench.placed()) == 3
    bench.add(gang("h"), *pods(3, "h"))
    await bench.step()
    assert bench.message("h0") is not None


class ByFirstLetter(PlacementGeneratePlugin):
    """Divides nodes by the first letter of their names, node by node."""

    def placement_of(self, cycle: CycleState, group: GroupTree, node: NodeInfo) -> str | None:
        return node.name[0]


class LikesB(PlacementScorePlugin):
    """Likes what begins with a b."""

    def score_placement(self, cycle: CycleState, group: GroupTree, placement: Placement) -> int:
        return 100 if placement.name == "b" else 0


@in_virtual_time
async def test_authors_divide_and_score_node_by_node() -> None:
    config = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    placementGenerate: {disabled: [{name: TopologyPlacementGenerator}], enabled: [{name: ByFirstLetter}]}
    placementScore: {disabled: [{name: "*"}], enabled: [{name: LikesB, weight: 5}]}
"""
    bench = GroupBench(gates=TOPOLOGY, config=config, plugins=[ByFirstLetter, LikesB])
    bench.add(a_node("a1"), a_node("b1", 1), a_node("b2", 2), a_node("c1"), gang(), *pods(3))
    await bench.step()
    assert {node[0] for node in bench.placed().values()} == {"b"}


PREFERRING_B = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    placementScore: {disabled: [{name: "*"}], enabled: [{name: LikesB}]}
"""


class Asked(FilterPlugin):
    """Counts how often it is asked about a window."""

    depends_on = DependsOn.REQUESTS
    windows: ClassVar[list[int]] = []

    def sign(self, pod: Pod) -> Hashable:
        return ""

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        self.windows.append(1)
        return None


@in_virtual_time
async def test_racks_that_are_alike_are_tried_once_and_any_of_them_may_win() -> None:
    Asked.windows.clear()
    config = PREFERRING_B.replace("plugins:", "plugins:\n    filter: {enabled: [{name: Asked}]}")
    bench = GroupBench(gates=TOPOLOGY, config=config, plugins=[LikesB, Asked])
    bench.scheduler.cycles["default-scheduler"].filtering.cross_check = None
    bench.scheduler.cycles["default-scheduler"].scoring.cross_check = None
    for name in "acdefghijb":
        bench.add(*rack(name, 2, 2))
    bench.add(gang(topology=RACK), *pods(3))
    await bench.step()
    assert racks(bench) == {"b"}
    assert sorted(bench.placed().values()) == ["b-0", "b-0", "b-1"]
    asked = len(Asked.windows)

    Asked.windows.clear()
    bench = GroupBench(gates=TOPOLOGY, config=config, plugins=[LikesB, Asked])
    bench.scheduler.cycles["default-scheduler"].filtering.cross_check = None
    bench.scheduler.cycles["default-scheduler"].scoring.cross_check = None
    for used, name in enumerate("acdefghijb"):
        bench.add(*rack(name, 2, 2), alone(f"x{name}", cpu=f"{used}m", node=f"{name}-0"))
    bench.add(gang(topology=RACK), *pods(3))
    await bench.step()
    assert racks(bench, "g0", "g1", "g2") == {"b"}
    assert len(Asked.windows) > 2 * asked


@in_virtual_time
async def test_a_rack_is_not_taken_for_like_another_if_its_nodes_are_not() -> None:
    bench = GroupBench(gates=TOPOLOGY)
    bench.add(*rack("a", 4), *rack("b", 4), *rack("c", 4))
    for name in "ab":
        node = bench.objects[Node, f"{name}-0"]
        assert isinstance(node, Node)
        bench.change(replace(node, spec=replace(node.spec, unschedulable=True)))
    bench.add(gang(topology=RACK), *pods(3))
    await bench.step()
    assert racks(bench) == {"c"}
