"""Groups of groups: section 5 of the reference; C numbers are its rows."""

from typing import Any

import pytest
from tests.support.groups import COMPOSITE, GroupBench, a_node, composite, gang, member

from moorage.testing import in_virtual_time

SCHEDULED = ("True", "Scheduled", "")


def at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}Z"


def child(name: str, minimum: int | None = 2, **fields: Any) -> Any:
    return gang(name, minimum, **{"parent": "top", **fields})


@in_virtual_time
async def test_c1_members_are_incomplete_until_the_root_is_there() -> None:
    bench = GroupBench(gates=COMPOSITE)
    bench.add(a_node("n"), composite("mid", parent="top"), child("g", parent="mid"), member("a"), member("b"))
    assert {bench.where("a"), bench.where("b")} == {"incomplete"}
    bench.add(composite("top"))
    await bench.settle()
    assert set(bench.placed()) == {"a", "b"}
    assert bench.condition() == SCHEDULED


@in_virtual_time
async def test_c2_a_tree_without_room_backs_off_and_is_bound_when_there_is() -> None:
    bench = GroupBench(gates=COMPOSITE)
    bench.add(composite("top", 1), child("g"), member("a"), member("b"))
    await bench.step()
    assert bench.where("a") == "backoff"
    bench.add(a_node("n"))
    await bench.wait(5)
    assert set(bench.placed()) == {"a", "b"}


@in_virtual_time
async def test_c3_a_tree_waits_for_enough_groups() -> None:
    bench = GroupBench(gates=COMPOSITE)
    bench.add(a_node("n"), composite("top", 2), child("g"))
    bench.add(member("a"), member("b"), member("c", "h"), member("d", "h"))
    assert [bench.where(name) for name in "abcd"] == ["gated", "gated", "incomplete", "incomplete"]
    bench.add(child("h"))
    await bench.settle()
    assert len(bench.placed()) == 4


@in_virtual_time
async def test_c4_a_tree_waits_for_enough_pods() -> None:
    bench = GroupBench(gates=COMPOSITE)
    bench.add(a_node("n"), composite("top", 2), child("g"), child("h"))
    bench.add(member("a"), member("b"), member("c", "h"))
    assert await bench.settle() == 0
    assert {bench.where(name) for name in "abc"} == {"gated"}
    bench.add(member("d", "h"))
    await bench.settle()
    assert len(bench.placed()) == 4


@in_virtual_time
async def test_c5_the_groups_created_first_are_placed_first() -> None:
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
async def test_c6_nothing_is_bound_if_too_few_groups_fit() -> None:
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
async def test_c7_a_basic_root_binds_the_children_that_fit() -> None:
    bench = GroupBench(gates=COMPOSITE)
    bench.add(a_node("n", 2), composite("top"), child("g", 3, created=at(1)), child("h", created=at(2)))
    bench.add(*(member(f"g{n}", "g") for n in range(3)), *(member(f"h{n}", "h") for n in range(2)))
    await bench.step()
    assert set(bench.placed()) == {"h0", "h1"}
    assert bench.condition("h") == SCHEDULED
    assert {bench.where(f"g{n}") for n in range(3)} == {"active"}


@in_virtual_time
async def test_c8_a_basic_root_without_feasible_children_is_unschedulable() -> None:
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
async def test_c9_a_new_branch_of_a_running_tree_waits_for_its_own_quorum() -> None:
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
async def test_c10_a_group_that_comes_while_its_tree_is_about_to_be_tried_is_not_lost() -> None:
    """Upstream takes its snapshot later and then gives up; ours is tried at once, and the newcomers come next."""
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
def test_c11_the_policy_of_the_root_decides_about_preemption(policy: str | None) -> None:
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
async def test_t15_a_zone_is_chosen_first_and_racks_inside_it() -> None:
    bench = GroupBench(gates=COMPOSITE)
    for zone, rack, cpu in (("z1", "r1", 2), ("z1", "r2", 1), ("z2", "r3", 2), ("z2", "r4", 2)):
        bench.add(a_node(rack, cpu, labels={"zone": zone, "rack": rack}))
    bench.add(composite("top", 2, topology="zone"), child("g", topology="rack"), child("h", topology="rack"))
    bench.add(*(member(f"{name}{n}", name) for n in range(2) for name in "gh"))
    await bench.step()
    assert set(bench.placed().values()) == {"r3", "r4"}
    assert len(set(bench.placed("g0", "g1").values())) == 1
