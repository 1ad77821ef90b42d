"""Groups that preempt and groups that are preempted: section 4 of the reference; P numbers are its rows."""

from typing import Any

import pytest
from tests.support.groups import COMPOSITE, GATE, GroupBench, a_node, alone, composite, gang, member

from moorage.kube.api.affinity import Affinity, PodAffinityTerm, PodAntiAffinity
from moorage.kube.api.cluster import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import LabelSelector
from moorage.testing import in_virtual_time

LOW, MID, HIGH = 10, 50, 100
SYNC = f"{GATE},SchedulerAsyncPreemption=false"


def low(name: str, node: str, cpu: str = "1", **fields: Any) -> Pod:
    return alone(name, cpu=cpu, priority=fields.pop("priority", LOW), node=node, **fields)


def on(name: str) -> Node:
    return a_node(name, 1, labels={"host": name})


def budget(allowed: int, **labels: str) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name="pdb", namespace="default", uid="pdb"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels=labels)),
        status=PodDisruptionBudgetStatus(disruptions_allowed=allowed),
    )


@pytest.mark.parametrize("minimum", [3, None])
@pytest.mark.parametrize("gates", [GATE, SYNC])
def test_a_full_node_is_emptied_for_a_group(minimum: int | None, gates: str) -> None:
    @in_virtual_time
    async def history() -> None:
        bench = GroupBench(gates=gates)
        bench.add(a_node("n", 3), *(low(f"low{n}", "n") for n in range(3)))
        bench.add(gang(minimum=minimum), member("a"), member("b"), member("c"))
        await bench.step()
        assert set(bench.evicted) == {"low0", "low1", "low2"}
        assert bench.pod("a").nominated_node_name == "n"
        await bench.wait(15)
        assert set(bench.placed()) == {"a", "b", "c"}

    history()


@in_virtual_time
async def test_a_budget_keeps_its_pods() -> None:
    bench = GroupBench()
    covered = {"app": "kept"}
    bench.add(a_node("n", 3), low("x", "n", labels=covered), low("y", "n", labels=covered), low("z", "n"))
    bench.add(budget(0, **covered), gang(minimum=2), member("a", cpu="500m"), member("b", cpu="500m"))
    await bench.step()
    assert bench.evicted == ["z"]


@in_virtual_time
async def test_victims_are_found_on_all_nodes() -> None:
    bench = GroupBench()
    bench.add(a_node("n1", 2), a_node("n2", 2))
    bench.add(*(low(f"low{n}", f"n{1 + n % 2}") for n in range(4)))
    bench.add(gang(minimum=4), *(member(f"p{n}") for n in range(4)))
    await bench.step()
    assert len(bench.evicted) == 4
    assert sorted(bench.pod(f"p{n}").nominated_node_name for n in range(4)) == ["n1", "n1", "n2", "n2"]


@pytest.mark.release("1.37")
@in_virtual_time
async def test_no_pod_is_evicted_if_evictions_are_not_enough() -> None:
    bench = GroupBench()
    bench.add(a_node("n", 3), low("top", "n", priority=500), low("x", "n"), low("y", "n"))
    bench.add(gang(), member("a"), member("b"), member("c"))
    await bench.step()
    assert bench.evicted == []
    assert bench.condition() == (
        "False",
        "Unschedulable",
        "minCount (3) cannot be satisfied: 0 scheduled, 2 remaining, "
        "deallocation and deletion of ResourceClaims completed, "
        "pod group preemption: minCount (3) cannot be satisfied: 2 scheduled, 0 remaining",
    )


@in_virtual_time
async def test_the_more_important_are_spared() -> None:
    bench = GroupBench()
    bench.add(a_node("n", 3), low("mid", "n", priority=MID), low("x", "n"), low("y", "n"))
    bench.add(gang(minimum=2), member("a"), member("b"))
    await bench.step()
    assert set(bench.evicted) == {"x", "y"}


@in_virtual_time
async def test_all_pods_of_a_disrupted_group_are_evicted() -> None:
    bench = GroupBench()
    bench.add(a_node("n", 3), gang("v", 3, priority=LOW, whole=True))
    bench.add(*(member(f"v{n}", "v", priority=LOW, node="n") for n in range(3)))
    bench.add(gang(minimum=1), member("a"))
    await bench.step()
    assert set(bench.evicted) == {"v0", "v1", "v2"}
    note = "Preempted by podgroup uid-g on node cluster"
    assert bench.notes("v0", "Preempted") == [note]
    await bench.wait(15)
    assert bench.placed() == {"a": "n"}


@in_virtual_time
async def test_members_beyond_the_quorum_do_not_always_fit() -> None:
    bench = GroupBench()
    bench.add(*(a_node(f"n{n}", 1) for n in range(4)))
    bench.add(low("l0", "n0"), low("l1", "n1"), low("h2", "n2", priority=200), low("h3", "n3", priority=200))
    bench.add(gang(minimum=1), member("a"), member("b"), member("c"))
    await bench.wait(30)
    assert set(bench.evicted) == {"l0", "l1"}
    assert len(set(bench.placed()) & {"a", "b", "c"}) == 2


@pytest.mark.parametrize("gates", [f"{GATE},PodGroupPreemptionPolicy=true", GATE])
def test_a_policy_of_never_evicts_no_pods(gates: str) -> None:
    @in_virtual_time
    async def history() -> None:
        bench = GroupBench(gates=gates)
        bench.add(a_node("n", 1), low("x", "n"))
        bench.add(gang(minimum=1, preemption_policy="Never"), member("a", preemption_policy="Never"))
        await bench.step()
        assert bench.evicted == []
        condition = bench.condition()
        assert condition is not None
        assert condition[2].endswith("pod group preemption: not eligible due to preemptionPolicy=Never.")

    history()


@in_virtual_time
async def test_only_pods_that_conflict_with_affinity_are_evicted() -> None:
    term = PodAffinityTerm(topology_key="host", label_selector=LabelSelector(match_labels={"app": "foe"}))
    hates = Affinity(pod_anti_affinity=PodAntiAffinity(required=(term,)))
    bench = GroupBench()
    bench.add(a_node("n1", 4, labels={"host": "n1"}), a_node("n2", 1, labels={"host": "n2"}))
    bench.add(low("foe", "n1", labels={"app": "foe"}), low("other", "n2", priority=1))
    bench.add(gang(minimum=2), member("a", affinity=hates), member("b", affinity=hates))
    await bench.step()
    assert bench.evicted == ["foe"]


@in_virtual_time
async def test_pods_that_fit_are_bound_before_any_eviction() -> None:
    bench = GroupBench()
    bench.add(a_node("n", 4), gang(minimum=2), member("x", node="n"), member("y", node="n"), low("low", "n"))
    bench.add(member("a"), member("b"))
    await bench.step()
    assert (set(bench.placed()) & {"a", "b"}, bench.evicted) == ({"a"}, [])
    await bench.wait(15)
    assert bench.evicted == ["low"]
    assert {"a", "b"} <= set(bench.placed())


@pytest.mark.release("1.37")
@pytest.mark.parametrize("gates", [GATE, SYNC])
def test_a_group_waits_for_victims_that_take_their_time(gates: str) -> None:
    @in_virtual_time
    async def history() -> None:
        bench = GroupBench(gates=gates)
        bench.slow.add("low")
        bench.add(a_node("n", 1), low("low", "n"), gang(minimum=1), member("a"))
        await bench.step()
        preempting = "pod group preemption: found a placement for podgroup, preempting 1 victims"
        assert bench.condition() == (
            "False",
            "Unschedulable",
            f"minCount (1) cannot be satisfied: 0 scheduled, 0 remaining, {preempting}",
        )
        await bench.wait(5)
        condition = bench.condition()
        assert condition is not None
        if gates == SYNC:
            # Nothing holds the group back in the queue: it is retried, and other pods are terminating.
            assert condition[2].endswith("pod group preemption: ongoing preemption on nominated nodes")
        assert bench.evicted == ["low"]
        assert bench.pod("a").nominated_node_name == "n"
        bench.gone("low")
        await bench.wait(15)
        assert bench.placed() == {"a": "n"}

    history()


@in_virtual_time
async def test_the_priority_of_a_group_protects_its_pods() -> None:
    for preemptor in (member("a"), alone("a")):
        bench = GroupBench()
        bench.add(a_node("n", 1), gang("v", 1, priority=200), member("v0", "v", priority=LOW, node="n"))
        bench.add(gang(minimum=1), preemptor)
        await bench.step()
        assert bench.evicted == []


@pytest.mark.parametrize(("complete", "victims"), [(True, {"v1", "v2"}), (False, {"v1"})])
def test_a_single_pod_evicts_pods_that_belong_together(complete: bool, victims: set[str]) -> None:
    @in_virtual_time
    async def history() -> None:
        bench = GroupBench(gates=COMPOSITE)
        bench.add(on("n1"), on("n2"), composite("c", priority=LOW, whole=complete))
        bench.add(gang("v", 2, priority=LOW, parent="c"))
        bench.add(member("v1", "v", priority=LOW, node="n1"), member("v2", "v", priority=LOW, node="n2"))
        bench.add(alone("a", node_selector={"host": "n1"}))
        await bench.step()
        assert set(bench.evicted) == victims

    history()


@in_virtual_time
async def test_a_group_of_groups_is_worth_more_than_a_group() -> None:
    bench = GroupBench(gates=COMPOSITE)
    bench.add(a_node("n1", 1), a_node("n2", 1), composite("c", priority=LOW, whole=True))
    bench.add(gang("v", 1, priority=LOW), gang("w", 1, priority=LOW, parent="c"))
    bench.add(member("v1", "v", priority=LOW, node="n1"), member("w1", "w", priority=LOW, node="n2"))
    bench.add(gang(minimum=1), member("a"))
    await bench.step()
    assert len(bench.evicted) == 1


@pytest.mark.parametrize(
    ("grand", "parent", "victims"), [(True, False, {"v1", "w1"}), (False, True, {"v1"}), (False, False, {"v1"})]
)
def test_the_highest_disrupted_group_decides(grand: bool, parent: bool, victims: set[str]) -> None:
    @in_virtual_time
    async def history() -> None:
        bench = GroupBench(gates=COMPOSITE)
        bench.add(on("n1"), on("n2"))
        bench.add(composite("top", priority=LOW, whole=grand))
        bench.add(composite("left", priority=LOW, whole=parent, parent="top"))
        bench.add(composite("right", priority=LOW, whole=parent, parent="top"))
        bench.add(gang("v", 1, priority=LOW, parent="left"), gang("w", 1, priority=LOW, parent="right"))
        bench.add(member("v1", "v", priority=LOW, node="n1"), member("w1", "w", priority=LOW, node="n2"))
        bench.add(gang(minimum=1), member("a", node_selector={"host": "n1"}))
        await bench.step()
        assert set(bench.evicted) == victims

    history()


@pytest.mark.parametrize(("release", "evicted"), [("1.37", "x"), ("1.38", "y")])
def test_a_group_evicts_equal_pods_by_uid_from_1_38(release: str, evicted: str) -> None:
    @in_virtual_time
    async def history() -> None:
        bench = GroupBench(gates=GATE, release=release)
        bench.add(a_node("n", 2), low("y", "n"), low("x", "n"))
        bench.add(gang(minimum=1), member("a"))
        await bench.step()
        assert bench.evicted == [evicted]

    history()
