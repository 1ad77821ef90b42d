"""Groups through queue and cycle, as sections 2.2 to 2.10 of the reference have it; Q numbers are its rows."""

import asyncio
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace
from tests.support.groups import GroupBench, a_node, alone, gang, member

from moorage.common.errors import ServerError
from moorage.kube.api.affinity import Affinity, PodAffinityTerm, PodAntiAffinity
from moorage.kube.api.pod import Pod, SchedulingGate
from moorage.kube.api.pod_groups import GangPolicy, PodGroup, PodGroupPolicy
from moorage.kube.api.selectors import LabelSelector
from moorage.scheduler.engine.cycle.profile_runner import ProfileRunner
from moorage.scheduler.engine.cycle.search_result import ExtendedNodes, SearchResult
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import FilterPlugin, ReservePlugin
from moorage.scheduler.framework.status import Status
from moorage.scheduler.queue.entities import QueuedPodInfo
from moorage.testing import in_virtual_time

SCHEDULED = ("True", "Scheduled", "")
NO_VICTIMS = "pod group preemption: No preemption victims found for incoming preemptor"


def with_minimum(group: PodGroup, minimum: int) -> PodGroup:
    policy = PodGroupPolicy(gang=GangPolicy(min_count=minimum))
    return replace(group, spec=replace(group.spec, scheduling_policy=policy))


def members(*names: str, **fields: Any) -> list[Pod]:
    return [member(name, **fields) for name in names]


@in_virtual_time
async def test_gang_is_bound_as_a_unit_and_later_members_separately() -> None:
    bench = GroupBench()
    bench.add(a_node("n"), gang(), *members("a", "b", "c"))
    assert await bench.settle() == 1
    assert set(bench.placed()) == {"a", "b", "c"}
    assert bench.condition() == SCHEDULED
    bench.add(member("d"))
    await bench.settle()
    assert set(bench.placed()) == {"a", "b", "c", "d"}
    assert bench.reserved() == []


@in_virtual_time
async def test_gang_is_tried_when_all_members_exist() -> None:
    bench = GroupBench()
    bench.add(a_node("n"), gang(), *members("a", "b"))
    assert await bench.settle() == 0
    assert (bench.where("a"), bench.where("b")) == ("gated", "gated")
    assert bench.queue.find(bench.pod("a")).attempts == 0
    assert bench.condition() is None
    bench.add(member("c"))
    await bench.settle()
    assert set(bench.placed()) == {"a", "b", "c"}


@pytest.mark.release("1.37")
@in_virtual_time
async def test_members_wait_for_their_group_and_an_infeasible_gang_binds_no_pods() -> None:
    bench = GroupBench()
    blocker = alone("blocker", cpu="2", node="n")
    bench.add(a_node("n"), blocker, *members("a", "b", "c"))
    assert [bench.where(name) for name in "abc"] == ["incomplete"] * 3
    assert bench.queue.sizes().incomplete == 3
    bench.add(gang())
    await bench.step()
    assert set(bench.placed()) == {"blocker"}
    assert bench.reserved() == []
    assert bench.condition() == (
        "False",
        "Unschedulable",
        f"minCount (3) cannot be satisfied: 2 scheduled, 0 remaining, {NO_VICTIMS}",
    )
    assert bench.message("c") == ("Unschedulable", "0/1 nodes are available: 1 Insufficient cpu.")
    why = f"pod group is unschedulable, minCount (3) cannot be satisfied: 2 scheduled, 0 remaining, {NO_VICTIMS}"
    assert bench.message("a") == ("Unschedulable", why)
    assert bench.notes("a") == [why]
    bench.remove(bench.pod("blocker"))
    await bench.wait(3)
    assert set(bench.placed()) == {"a", "b", "c"}
    assert bench.condition() == SCHEDULED


@in_virtual_time
async def test_members_beyond_the_quorum_are_bound_if_they_fit_and_others_follow() -> None:
    bench = GroupBench()
    bench.add(a_node("n"), alone("blocker", node="n"), *members("a", "b", "c", "d"), gang())
    await bench.step()
    assert set(bench.placed()) == {"blocker", "a", "b", "c"}
    assert bench.condition() == SCHEDULED
    assert bench.message("d") == ("Unschedulable", "0/1 nodes are available: 1 Insufficient cpu.")
    bench.remove(bench.pod("blocker"))
    await bench.wait(20)
    assert "d" in bench.placed()


@in_virtual_time
async def test_the_gang_that_is_complete_first_gets_the_node() -> None:
    bench = GroupBench()
    bench.add(a_node("n"), gang("g"), gang("h"))
    for name in "123":
        bench.add(member(f"g{name}", "g"), member(f"h{name}", "h"))
    await bench.settle(6)
    assert set(bench.placed()) == {"g1", "g2", "g3"}
    assert bench.reserved() == []
    assert bench.condition("h") is not None


@in_virtual_time
async def test_an_older_single_pod_is_first() -> None:
    bench = GroupBench()
    bench.add(a_node("n"), gang(), alone("one", cpu="2"), *members("a", "b", "c"))
    await bench.settle(6)
    assert set(bench.placed()) == {"one"}


@in_virtual_time
async def test_a_basic_group_binds_the_members_that_fit() -> None:
    bench = GroupBench()
    bench.add(a_node("n"), alone("blocker", cpu="2", node="n"), *members("a", "b", "c"), gang(minimum=None))
    await bench.step()
    assert set(bench.placed()) == {"blocker", "a", "b"}
    bench.remove(bench.pod("blocker"))
    await bench.wait(20)
    assert set(bench.placed()) == {"a", "b", "c"}


@in_virtual_time
async def test_a_lower_minimum_wakes_the_group() -> None:
    bench = GroupBench()
    bench.add(a_node("n"), gang(minimum=5), *members("a", "b", "c", "d"))
    assert await bench.settle() == 0
    bench.change(with_minimum(bench.group(), 4))
    await bench.settle()
    assert set(bench.placed()) == {"a", "b", "c", "d"}


@in_virtual_time
async def test_a_lower_minimum_makes_a_group_feasible() -> None:
    bench = GroupBench()
    bench.add(a_node("n"), gang(minimum=5), *members("a", "b", "c", "d", "e"))
    await bench.step()
    assert bench.placed() == {}
    bench.change(with_minimum(bench.group(), 4))
    await bench.wait(30)
    assert len(bench.placed()) == 4
    assert bench.condition() == SCHEDULED


@in_virtual_time
async def test_a_higher_minimum_activates_no_pods() -> None:
    bench = GroupBench()
    bench.add(a_node("n"), gang(minimum=5), *members("a", "b", "c", "d"))
    bench.change(with_minimum(bench.group(), 6))
    assert await bench.settle() == 0
    assert bench.where("a") == "gated"


@in_virtual_time
async def test_gated_member_delays_the_group() -> None:
    for minimum in (3, None):
        bench = GroupBench()
        gated = member("c", scheduling_gates=(SchedulingGate(name="later"),))
        bench.add(a_node("n"), gang(minimum=minimum), *members("a", "b"), gated)
        assert await bench.settle() == 0
        assert {bench.where(name) for name in "abc"} == {"gated"}
        bench.change(replace(gated, spec=replace(gated.spec, scheduling_gates=())))
        await bench.settle()
        assert len(bench.placed()) == 3


@in_virtual_time
async def test_a_gated_newcomer_holds_an_active_group_back_until_the_flush() -> None:
    bench = GroupBench()
    gated = member("d", scheduling_gates=(SchedulingGate(name="later"),))
    bench.add(a_node("n"), gang(), *members("a", "b", "c"))
    assert bench.where("a") == "active"
    bench.add(gated)
    assert bench.where("a") == "gated"
    bench.remove(bench.pod("d"))
    assert bench.where("a") == "gated"
    await bench.wait(200)
    assert bench.placed() == {}
    await bench.wait(150)
    assert set(bench.placed()) == {"a", "b", "c"}


@in_virtual_time
async def test_member_with_a_failed_binding_is_queued_separately() -> None:
    bench = GroupBench()
    failures = ["b"]

    def refuse(verb: str, obj: Any) -> None:
        if verb == "bind" and obj.name in failures:
            failures.remove(obj.name)
            raise ServerError("etcd is busy", status=500)

    bench.refuse = refuse
    bench.add(a_node("n"), gang(), *members("a", "b", "c"))
    await bench.step()
    assert set(bench.placed()) == {"a", "c"}
    assert bench.where("b") == "active"
    await bench.settle()
    assert set(bench.placed()) == {"a", "b", "c"}


@in_virtual_time
async def test_without_their_group_members_are_incomplete() -> None:
    bench = GroupBench()
    bench.add(a_node("n"), gang(), *members("a", "b", "c"))
    await bench.settle()
    bench.remove(bench.group())
    bench.add(member("d"))
    assert bench.where("d") == "incomplete"

    bench = GroupBench()
    bench.add(a_node("n", 2), gang(), *members("a", "b", "c"))
    await bench.step()
    assert bench.where("a") == "backoff"
    bench.remove(bench.group())
    assert {bench.where(name) for name in "abc"} == {"incomplete"}
    assert await bench.settle() == 0


@in_virtual_time
async def test_a_rejected_group_only_backs_off_and_is_never_unschedulable() -> None:
    bench = GroupBench()
    bench.add(a_node("n", 2), gang(), *members("a", "b", "c"))
    await bench.step()
    (entry,) = bench.queue.entries()
    assert (bench.where("a"), entry.unschedulable_count, entry.consecutive_errors, entry.attempts) == (
        "backoff",
        1,
        0,
        1,
    )
    # No other work makes it be tried early, as a single rejected pod would be.
    assert await bench.settle() == 0
    await bench.wait(3)
    (entry,) = bench.queue.entries()
    assert entry.unschedulable_count == 2


@in_virtual_time
async def test_the_rest_of_a_group_keeps_its_place_and_newcomers_go_behind() -> None:
    bench = GroupBench()
    bench.add(a_node("n", 3), gang(), *members("a", "b", "c", "d"))
    await asyncio.sleep(1)
    bench.add(alone("later"))
    await bench.step()
    assert len(bench.placed()) == 3
    popped = bench.queue.pop()
    assert popped.is_group
    assert [info.pod.name for info in popped.members] == ["d"]


@in_virtual_time
async def test_members_with_assigned_nodes_need_no_attempt() -> None:
    bench = GroupBench()
    bench.add(a_node("n"), gang(minimum=2), *members("a", "b"))
    popped = bench.queue.pop()
    for name in "ab":
        bench.scheduler.cache.assume(bench.pod(name).on_node("n"))
    bench.add(member("c"))
    assert bench.where("c") == "pending"
    await bench.scheduler.groups.try_group(popped)
    assert [bench.where(name) for name in "abc"] == [None, None, "active"]
    assert (bench.bound, bench.events, bench.condition()) == ({}, [], None)
    await bench.settle()
    assert bench.bound == {"c": "n"}


@pytest.mark.release("1.37")
@in_virtual_time
async def test_members_of_two_schedulers_are_an_error() -> None:
    config = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: default-scheduler}, {schedulerName: other}]
"""
    bench = GroupBench(config=config)
    bench.add(a_node("n"), gang(), *members("a", "b"), member("c", scheduler_name="other"))
    await bench.step()
    prefix = "all pods in a single pod group should have the same"
    text = f'{prefix} .spec.schedulerName set, got: "other" and "default-scheduler"'
    assert bench.condition() == ("False", "SchedulerError", text)
    assert {bench.message(name) for name in "abc"} == {("SchedulerError", text)}
    assert bench.where("a") == "backoff"


@pytest.mark.release("1.37")
@in_virtual_time
async def test_a_bound_member_of_another_priority_is_an_error() -> None:
    bench = GroupBench()
    bench.add(a_node("n"), gang(), member("old", node="n", priority=7), *members("a", "b", "c"))
    await bench.step()
    text = "all pods in a single pod group should have the same priority as the pod group's priority, got 7 and 100"
    assert bench.condition() == ("False", "SchedulerError", text)
    assert bench.message("a") == ("SchedulerError", text)


@pytest.mark.release("1.37")
@in_virtual_time
async def test_with_its_gate_the_policy_of_the_group_counts() -> None:
    gates = "GenericWorkload=true,PodGroupPreemptionPolicy=true"
    bench = GroupBench(gates=gates)
    bench.add(a_node("n"), gang(preemption_policy="Never"), *members("a", "b", "c"))
    await bench.step()
    prefix = "all pods in a single pod group should have the same preemption policy"
    text = f"{prefix} as the pod group's preemption policy, got PreemptLowerPriority and Never"
    assert bench.condition() == ("False", "SchedulerError", text)

    bench = GroupBench()
    bench.add(a_node("n"), gang(), *members("a", "b"), member("c", preemption_policy="Never"))
    await bench.step()
    assert bench.condition() == ("False", "SchedulerError", f"{prefix}, got Never and PreemptLowerPriority")


class BreaksOnA(FilterPlugin):
    """Fails for the pod named a."""

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        if pod.name == "a":
            raise ValueError("broken")
        return None


@in_virtual_time
async def test_an_error_of_one_pod_fails_the_group() -> None:
    bench = GroupBench(plugins=[BreaksOnA])
    bench.add(a_node("n"), gang(), *members("a", "b", "c"))
    await bench.step()
    own = bench.message("a")
    assert own is not None
    assert own[0] == "SchedulerError"
    group = f"failed to schedule other pod from a pod group: {own[1]}"
    assert bench.condition() == ("False", "SchedulerError", group)
    assert bench.message("b") == ("SchedulerError", group)
    assert bench.reserved() == []
    assert bench.where("a") == "backoff"


@in_virtual_time
async def test_condition_transition_time_changes_only_with_the_status() -> None:
    bench = GroupBench()
    bench.add(a_node("n", 3), gang(), *members("a", "b", "c"))
    await bench.settle()
    assert bench.condition() == SCHEDULED
    bench.add(member("d"))
    await bench.settle(4)
    assert bench.condition() == SCHEDULED

    bench = GroupBench()
    bench.add(a_node("n", 2), gang(), *members("a", "b", "c"))
    await bench.step()
    first = bench.group().status.conditions[0]
    bench.add(alone("x", node="n"))
    await bench.wait(5)
    second = bench.group().status.conditions[0]
    assert first.message != second.message
    assert first.last_transition_time == second.last_transition_time


def apart(name: str) -> Pod:
    term = PodAffinityTerm(
        topology_key="kubernetes.io/hostname", label_selector=LabelSelector(match_labels={"app": "x"})
    )
    anti = Affinity(pod_anti_affinity=PodAntiAffinity(required=(term,)))
    return member(name, labels={"app": "x"}, affinity=anti)


@pytest.mark.parametrize("nodes", [1, 2])
def test_members_see_each_other(nodes: int) -> None:
    @in_virtual_time
    async def history() -> None:
        bench = GroupBench()
        bench.add(*(a_node(f"n{n}", labels={"kubernetes.io/hostname": f"n{n}"}) for n in range(nodes)))
        bench.add(gang(minimum=2), apart("a"), apart("b"))
        await bench.step()
        assert len(set(bench.placed().values())) == (2 if nodes == 2 else 0)

    history()


class TwoHolders(ReservePlugin):
    """Lets a third pod fail, in the real reservation only."""

    real: ClassVar[int] = 0

    def reserve(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        if cycle.group is None:
            type(self).real += 1
            if type(self).real == 3:
                return Status.unschedulable("only two")
        return None

    def unreserve(self, cycle: CycleState, pod: Pod, node_name: str) -> None:
        pass


@in_virtual_time
async def test_a_real_reservation_that_fails_costs_its_pod_only() -> None:
    TwoHolders.real = 0
    bench = GroupBench(plugins=[TwoHolders])
    bench.add(a_node("n"), gang(minimum=2), *members("a", "b", "c"))
    await bench.step()
    assert set(bench.placed()) == {"a", "b"}
    assert bench.message("c") == ("Unschedulable", "0/1 nodes are available: 1 only two.")
    assert bench.condition() == SCHEDULED
    await bench.settle()
    assert set(bench.placed()) == {"a", "b", "c"}


@in_virtual_time
async def test_a_complete_group_whose_newcomer_fits_nowhere_is_unschedulable() -> None:
    bench = GroupBench()
    bench.add(a_node("n", 3), gang(), *members("a", "b", "c"))
    await bench.settle()
    bench.add(member("d"))
    await bench.step()
    assert bench.message("d") == ("Unschedulable", "0/1 nodes are available: 1 Insufficient cpu.")
    assert bench.where("d") == "backoff"


class OnceTooOften(ReservePlugin):
    """Rejects the first real reservation of the pod p0."""

    refused: ClassVar[bool] = False

    def reserve(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        if cycle.group is None and pod.name == "p0" and not type(self).refused:
            type(self).refused = True
            return Status.unschedulable("not yet")
        return None

    def unreserve(self, cycle: CycleState, pod: Pod, node_name: str) -> None:
        pass


@pytest.mark.release("1.37")
@in_virtual_time
async def test_the_rest_of_a_large_gang_is_tried_while_its_members_wait_for_it() -> None:
    """Pods that wait on permit are not treated as bindings in progress, or the last member would never be tried."""
    OnceTooOften.refused = False
    bench = GroupBench(plugins=[OnceTooOften])
    nodes = [a_node(f"n{n}") for n in range(3)]
    bench.add(*nodes, gang(minimum=300), *(member(f"p{n}", cpu="1m") for n in range(300)))
    await bench.step()
    assert bench.placed() == {}
    assert len(bench.reserved()) == 299
    await bench.settle()
    assert len(bench.placed()) == 300
    assert bench.reserved() == []


class FailsOnce(AttemptObserver):
    """Fails as only our own code would: not as a plugin, and not with an error of ours."""

    has_failed = False

    def on_search(self, queued: QueuedPodInfo, runner: ProfileRunner, result: SearchResult | ExtendedNodes) -> None:
        if queued.pod.name == "b" and not self.has_failed:
            self.has_failed = True
            raise ValueError("ours")


@in_virtual_time
async def test_unexpected_error_fails_one_group_attempt_and_leaves_no_state() -> None:
    bench = GroupBench()
    bench.scheduler.observer = FailsOnce()
    bench.add(a_node("n"), gang(), *members("a", "b", "c"))
    await bench.step()
    assert bench.reserved() == []
    [note] = {event.note for event in bench.events}
    assert note.startswith("internal error: ")
    assert ": ours (test_group_cycle.py:" in note
    assert str(bench.scheduler.unexpected) == "ours"
    await bench.wait(30)
    assert set(bench.placed()) == {"a", "b", "c"}
