"""Groups placed by topology: section 3 of the reference; T numbers are its rows."""

import asyncio
from collections.abc import Hashable, Sequence
from random import Random
from typing import Any, ClassVar

import numpy as np
import pytest
from msgspec.structs import replace
from tests.support.groups import COMPOSITE, TOPOLOGY, GroupBench, a_node, alone, composite, gang, member

from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import PodGroup
from moorage.scheduler.engine.groups.algorithm import PODS_PER_TURN
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.group_plugins import PlacementGeneratePlugin, PlacementScorePlugin
from moorage.scheduler.framework.groups import GroupTree, Placement
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import DependsOn, FilterPlugin
from moorage.scheduler.framework.status import IntArray, Status
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
async def test_a_gang_is_placed_where_all_members_fit() -> None:
    bench = GroupBench(gates=TOPOLOGY)
    bench.add(*rack("r1", 2, 1), *rack("r2", 2, 1), alone("x", node="r2-0"))
    bench.add(gang(topology=RACK), *pods(3))
    await bench.step()
    assert racks(bench, "g0", "g1", "g2") == {"r1"}
    assert bench.condition() == SCHEDULED


@pytest.mark.release("1.37")
@in_virtual_time
async def test_a_gang_that_fits_in_no_rack_is_not_spread_over_several() -> None:
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
async def test_a_gang_waits_for_capacity_in_the_only_rack() -> None:
    bench = GroupBench(gates=TOPOLOGY)
    bench.add(*rack("r1", 3), a_node("elsewhere", 8), *(alone(f"x{n}", node="r1-0") for n in range(3)))
    bench.add(gang(minimum=1, topology=RACK), *pods(1))
    await bench.wait(5)
    assert "g0" not in bench.placed()
    bench.remove(bench.pod("x0"))
    await bench.wait(20)
    assert bench.placed("g0") == {"g0": "r1-0"}


@in_virtual_time
async def test_the_rack_that_would_be_the_fullest_is_the_best() -> None:
    bench = GroupBench(gates=TOPOLOGY)
    bench.add(*rack("a", 4), *rack("b", 6), *rack("c", 3, 6), *rack("d", 2))
    bench.add(alone("x", cpu="2", node="b-0"), alone("y", cpu="3", node="c-1"))
    bench.add(gang(topology=RACK), *pods(3))
    await bench.step()
    # a would be full to 75 %, b to 83 %, c to 67 %; d is too small.
    assert racks(bench, "g0", "g1", "g2") == {"b"}


@in_virtual_time
async def test_later_members_are_pinned_to_the_rack_of_the_first() -> None:
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
async def test_rack_with_more_feasible_pods_is_preferred() -> None:
    bench = GroupBench(gates=TOPOLOGY)
    bench.add(*rack("r1", 2), *rack("r2", 3), gang(minimum=2, topology=RACK), *pods(3))
    await bench.settle(3)
    assert (racks(bench), len(bench.placed())) == ({"r2"}, 3)


@in_virtual_time
async def test_basic_group_remains_in_one_rack() -> None:
    bench = GroupBench(gates=TOPOLOGY)
    bench.add(*rack("r1", 2), *rack("r2", 2), gang(minimum=None, topology=RACK), *pods(3))
    await bench.wait(10)
    assert (len(racks(bench)), len(bench.placed())) == (1, 2)


@in_virtual_time
async def test_groups_by_rack_and_by_zone_share_a_cluster() -> None:
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
async def test_pods_are_evicted_in_one_rack_only() -> None:
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
async def test_nodes_without_the_label_are_not_a_placement() -> None:
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
def test_members_in_two_domains_are_an_error(second: str, text: str) -> None:
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
    """Prefers the placement named b."""

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


TRYING = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    filter: {enabled: [ENABLED]}
"""

PREFERRING_B = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    placementScore: {disabled: [{name: "*"}], enabled: [{name: LikesB}]}
"""


class TriesEach(FilterPlugin):
    """Accepts every node, but cannot count pods per node, so that all racks have to be tried."""

    depends_on = DependsOn.REQUESTS
    asked: ClassVar[list[str]] = []

    def sign(self, pod: Pod) -> Hashable:
        return ""

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        self.asked.append(node.name)
        return None


class Counts(TriesEach):
    """The same, but it can count pods per node."""

    def how_many(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        return np.full(len(nodes), 1_000)


class PlainB(LikesB):
    """Prefers the placement named b, without looking at nodes."""

    uses_nodes = False


@pytest.mark.parametrize(("filtering", "scoring"), [(TriesEach, PlainB), (Counts, LikesB), (Counts, PlainB)])
def test_racks_are_counted_if_all_plugins_agree_and_any_rack_may_win(
    filtering: type[TriesEach], scoring: type[LikesB]
) -> None:
    @in_virtual_time
    async def history() -> None:
        filtering.asked.clear()
        config = PREFERRING_B.replace(
            "plugins:", f"plugins:\n    filter: {{enabled: [{{name: {filtering.__name__}}}]}}"
        )
        bench = GroupBench(
            gates=TOPOLOGY, config=config.replace("LikesB", scoring.__name__), plugins=[scoring, filtering]
        )
        bench.scheduler.runners["default-scheduler"].filtering.cross_check = None
        bench.scheduler.runners["default-scheduler"].scoring.cross_check = None
        for millicores, name in enumerate("acdefghijb"):
            bench.add(*rack(name, 2, 2), alone(f"x{name}", cpu=f"{millicores}m", node=f"{name}-0"))
        bench.add(gang(topology=RACK), *pods(3))
        await bench.step()
        assert sorted(bench.placed("g0", "g1", "g2").values()) == ["b-0", "b-1", "b-1"]
        filtered_racks = {node.partition("-")[0] for node in filtering.asked[20:]}
        assert (filtered_racks == {"a", "b"}) == (filtering is Counts and scoring is PlainB)

    history()


def some_racks(dice: Random) -> list[KubeObject]:
    """Return racks of nodes that differ in every respect that counts, with pods on some of them."""
    objects: list[KubeObject] = []
    for number in range(dice.randint(2, 6)):
        nodes = rack(f"r{number}", *(dice.randint(1, 4) for _ in range(dice.randint(1, 4))))
        for node in nodes:
            cordoned = replace(node.spec, unschedulable=dice.random() < 0.15)
            objects.append(replace(node, spec=cordoned))
            if dice.random() < 0.5:
                ports = [80] if dice.random() < 0.5 else []
                cpu = f"{dice.randint(1, 20)}00m"
                objects.append(alone(f"x-{node.name}", cpu=cpu, node=node.name, host_ports=ports))
    return objects


def check_that_counting_changes_nothing(gates: str, groups: Sequence[PodGroup], objects: Sequence[KubeObject]) -> None:
    outcomes: list[object] = []

    @in_virtual_time
    async def note_outcome(*plugins: type[FilterPlugin]) -> None:
        enabled = "".join(f"{{name: {plugin.__name__}}}" for plugin in plugins)
        bench = GroupBench(gates=gates, config=TRYING.replace("ENABLED", enabled), plugins=plugins)
        bench.add(*objects)
        await bench.step()
        messages = {pod.name: bench.message(pod.name) for pod in objects if isinstance(pod, Pod) and not pod.node_name}
        outcomes.append((bench.placed(), [bench.condition(group.name) for group in groups], messages, bench.reserved()))

    note_outcome()
    note_outcome(TriesEach)
    assert outcomes[0] == outcomes[1]


def in_zone(node: Node, zone: str) -> Node:
    return replace(node, metadata=replace(node.metadata, labels={**node.labels, "zone": zone}))


@pytest.mark.parametrize("seed", range(24))
def test_counting_and_trying_agree(seed: int) -> None:
    dice = Random(seed)
    cluster = some_racks(dice)
    size = dice.randint(2, 7)
    ports = [80] if dice.random() < 0.2 else []
    members = pods(size, cpu=dice.choice(["1", "500m", "1700m"]), host_ports=ports)
    group = gang(minimum=dice.choice([None, 1, size - 1, size, size]), topology=RACK)

    check_that_counting_changes_nothing(TOPOLOGY, [group], [*cluster, group, *members])


@pytest.mark.parametrize("seed", range(14))
def test_counting_and_trying_agree_below_a_tree(seed: int) -> None:
    dice = Random(seed)
    cluster = [
        in_zone(obj, f"z{index % 2}") if isinstance(obj, Node) else obj
        for index, obj in enumerate([*some_racks(dice), *rack("r8", 4, 4), *rack("r9", 3, 3)])
    ]
    groups = [gang(f"g{n}", dice.randint(1, 3), topology=RACK, parent="top") for n in range(3)]
    members = [pod for group in groups for pod in pods(dice.randint(1, 4), group.name, cpu="700m")]
    top = composite("top", dice.choice([None, 1, 2, 3]), topology="zone")

    check_that_counting_changes_nothing(COMPOSITE, groups, [*cluster, top, *groups, *members])


@in_virtual_time
async def test_the_loop_turns_in_a_frozen_world_while_a_large_group_is_tried() -> None:
    bench = GroupBench(gates=TOPOLOGY)
    bench.add(*rack("r", *[50] * 5), gang(minimum=None, topology=RACK), *pods(PODS_PER_TURN + 1))
    thawed_states: list[bool] = []

    async def look() -> None:
        while True:
            thawed_states.append(bench.scheduler.services.freeze.thawed is not None)
            await asyncio.sleep(0)

    looking = asyncio.create_task(look())
    await bench.step()
    looking.cancel()
    assert True in thawed_states
    assert len(bench.placed()) == PODS_PER_TURN + 1


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


def at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}Z"


def child(name: str, minimum: int | None = 2, **fields: Any) -> Any:
    return gang(name, minimum, **{"parent": "top", **fields})


@in_virtual_time
async def test_members_are_incomplete_without_the_root() -> None:
    bench = GroupBench(gates=COMPOSITE)
    bench.add(a_node("n"), composite("mid", parent="top"), child("g", parent="mid"), member("a"), member("b"))
    assert {bench.where("a"), bench.where("b")} == {"incomplete"}
    bench.add(composite("top"))
    await bench.settle()
    assert set(bench.placed()) == {"a", "b"}
    assert bench.condition() == SCHEDULED


@in_virtual_time
async def test_an_infeasible_tree_backs_off_and_is_bound_when_it_fits() -> None:
    bench = GroupBench(gates=COMPOSITE)
    bench.add(composite("top", 1), child("g"), member("a"), member("b"))
    await bench.step()
    assert bench.where("a") == "backoff"
    bench.add(a_node("n"))
    await bench.wait(5)
    assert set(bench.placed()) == {"a", "b"}


@in_virtual_time
async def test_a_tree_waits_for_enough_groups() -> None:
    bench = GroupBench(gates=COMPOSITE)
    bench.add(a_node("n"), composite("top", 2), child("g"))
    bench.add(member("a"), member("b"), member("c", "h"), member("d", "h"))
    assert [bench.where(name) for name in "abcd"] == ["gated", "gated", "incomplete", "incomplete"]
    bench.add(child("h"))
    await bench.settle()
    assert len(bench.placed()) == 4


@in_virtual_time
async def test_a_tree_waits_for_enough_pods() -> None:
    bench = GroupBench(gates=COMPOSITE)
    bench.add(a_node("n"), composite("top", 2), child("g"), child("h"))
    bench.add(member("a"), member("b"), member("c", "h"))
    assert await bench.settle() == 0
    assert {bench.where(name) for name in "abc"} == {"gated"}
    bench.add(member("d", "h"))
    await bench.settle()
    assert len(bench.placed()) == 4


@in_virtual_time
async def test_the_groups_created_first_are_placed_first() -> None:
    bench = GroupBench(gates=COMPOSITE)
    bench.add(a_node("n", 4), composite("top", 2))
    for order, name in enumerate("gih"):
        bench.add(child(name, created=at(order)))
    bench.add(*(member(f"{name}{n}", name) for n in range(2) for name in "ghi"))
    await bench.step()
    assert set(bench.placed()) == {"g0", "g1", "i0", "i1"}
    assert (bench.condition("g"), bench.condition("i")) == (SCHEDULED, SCHEDULED)
    condition = bench.condition("h")
    assert condition is not None
    assert condition[:2] == ("False", "Unschedulable")
    assert bench.message("h0") is not None


@in_virtual_time
async def test_nothing_is_bound_if_too_few_groups_fit() -> None:
    bench = GroupBench(gates=COMPOSITE)
    bench.add(a_node("n", 3), composite("top", 2), child("g", created=at(1)), child("h", created=at(2)))
    bench.add(*(member(f"{name}{n}", name) for n in range(2) for name in "gh"))
    await bench.step()
    assert (bench.placed(), bench.reserved()) == ({}, [])
    condition = bench.condition("g")
    assert condition is not None
    text = "pod group is unschedulable, 0/1 placements are available, first placement status: "
    assert condition[2].startswith(f"{text}minCount (2) cannot be satisfied: 1 scheduled, 0 remaining")


@in_virtual_time
async def test_a_basic_root_binds_the_children_that_fit() -> None:
    bench = GroupBench(gates=COMPOSITE)
    bench.add(a_node("n", 2), composite("top"), child("g", 3, created=at(1)), child("h", created=at(2)))
    bench.add(*(member(f"g{n}", "g") for n in range(3)), *(member(f"h{n}", "h") for n in range(2)))
    await bench.step()
    assert set(bench.placed()) == {"h0", "h1"}
    assert bench.condition("h") == SCHEDULED
    assert {bench.where(f"g{n}") for n in range(3)} == {"active"}


@in_virtual_time
async def test_a_basic_root_without_feasible_children_is_unschedulable() -> None:
    bench = GroupBench(gates=COMPOSITE)
    bench.add(a_node("n", 1), composite("top"), child("g"), child("h"))
    bench.add(*(member(f"{name}{n}", name) for n in range(2) for name in "gh"))
    await bench.step()
    assert bench.placed() == {}
    for name in "gh":
        condition = bench.condition(name)
        assert condition is not None
        assert condition[2].endswith("pod group preemption: No preemption victims found for incoming preemptor")


@in_virtual_time
async def test_new_branch_of_a_running_tree_waits_for_its_quorum() -> None:
    bench = GroupBench(gates=COMPOSITE)
    bench.add(a_node("n", 8), composite("top"), child("g"), member("a"), member("b"))
    await bench.settle()
    assert len(bench.placed()) == 2
    bench.add(composite("sub", 2, parent="top"), child("h", 1, parent="sub"), member("c", "h"))
    await bench.step()
    assert "c" not in bench.placed()
    assert bench.where("c") == "backoff"
    bench.add(child("i", 1, parent="sub"), member("d", "i"))
    await bench.wait(10)
    assert len(bench.placed()) == 4


@in_virtual_time
async def test_a_group_added_before_the_attempt_of_its_tree_is_not_lost() -> None:
    """Upstream takes its snapshot later and then fails; here the tree is tried immediately, and new groups follow."""
    bench = GroupBench(gates=COMPOSITE)
    bench.add(a_node("n"), composite("top", 1), child("g"), member("a"), member("b"))
    popped = bench.queue.pop()
    bench.add(child("h"), member("c", "h"), member("d", "h"))
    assert {bench.where(name) for name in "cd"} == {"pending"}
    await bench.scheduler.groups.try_group(popped)
    assert {bench.where(name) for name in "cd"} == {"active"}
    await bench.settle()
    assert set(bench.placed()) == {"a", "b", "c", "d"}
    assert (bench.condition("g"), bench.condition("h")) == (SCHEDULED, SCHEDULED)


@in_virtual_time
async def test_a_circle_of_groups_leaves_its_pods_waiting() -> None:
    bench = GroupBench(gates=COMPOSITE)
    bench.add(a_node("n"), composite("top", parent="sub"), composite("sub", parent="top"), child("g", 1), member("a"))
    assert await bench.settle() == 0
    assert bench.where("a") == "incomplete"
    bench.remove(bench.objects[type(composite("sub")), "default/sub"])
    bench.add(composite("sub"))
    await bench.settle()
    assert set(bench.placed()) == {"a"}


@pytest.mark.parametrize("policy", [None, "PreemptLowerPriority", "Never"])
def test_the_policy_of_the_root_decides_about_preemption(policy: str | None) -> None:
    @in_virtual_time
    async def history() -> None:
        bench = GroupBench(gates=f"{COMPOSITE},PodGroupPreemptionPolicy=true")
        own = {"preemption_policy": policy}
        bench.add(a_node("n", 1), composite("top", 1, **own), child("g", 1, **own))
        bench.add(member("low", "", priority=1, node="n"), member("a", preemption_policy=policy))
        await bench.step()
        assert bench.evicted == ([] if policy == "Never" else ["low"])

    history()


@in_virtual_time
async def test_a_zone_is_chosen_first_and_racks_inside_it() -> None:
    bench = GroupBench(gates=COMPOSITE)
    for zone, rack, cpu in (("z1", "r1", 2), ("z1", "r2", 1), ("z2", "r3", 2), ("z2", "r4", 2)):
        bench.add(a_node(rack, cpu, labels={"zone": zone, "rack": rack}))
    bench.add(composite("top", 2, topology="zone"), child("g", topology="rack"), child("h", topology="rack"))
    bench.add(*(member(f"{name}{n}", name) for n in range(2) for name in "gh"))
    await bench.step()
    assert set(bench.placed().values()) == {"r3", "r4"}
    assert len(set(bench.placed("g0", "g1").values())) == 1
