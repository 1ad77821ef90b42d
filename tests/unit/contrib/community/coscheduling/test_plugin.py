"""Coscheduling: gangs by label and by annotation, all or nothing, and the messages of their pods."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace
from tests.support.gangs import annotated, coscheduling_bench, labeled, pod_group
from tests.support.groups import GATE, GroupBench, a_node, alone, gang, member

from moorage.contrib.community.coscheduling.gangs import GANG_SIZE, GROUP_LABEL, CoschedulingGroup
from moorage.kube.api.pod import Pod
from moorage.testing import in_virtual_time

Make = Callable[[str], Pod]
EITHER = pytest.mark.parametrize("make", [labeled, annotated], ids=["by label", "by annotation"])


def bench_with(*nodes: int, args: str = "{}", gates: str = "", minimum: int = 3) -> GroupBench:
    """Return a scheduler over nodes with the given CPUs, and a group that annotated pods do not use."""
    bench = coscheduling_bench(args, gates)
    bench.add(pod_group(minimum=minimum), *(a_node(f"n{number}", cpu) for number, cpu in enumerate(nodes)))
    return bench


@EITHER
@in_virtual_time
async def test_a_gang_starts_together(make: Make) -> None:
    bench = bench_with(2, 2)
    bench.add(make("a"), make("b"))
    await bench.wait(5)
    assert bench.placed() == {}, "two of three must not start"
    bench.add(make("c"))
    await bench.wait(1)
    assert sorted(bench.placed()) == ["a", "b", "c"]


@EITHER
@in_virtual_time
async def test_infeasible_gang_reserves_nothing(make: Make) -> None:
    bench = bench_with(2)
    bench.add(*map(make, "abc"))
    await bench.settle()
    assert bench.placed() == {}
    assert bench.reserved() == []
    reason, text = bench.message("a") or ("", "")
    assert reason == "Unschedulable"
    assert "minMember (3) cannot be satisfied: 2 scheduled, 0 remaining" in text
    bench.add(alone("single", cpu="2"))
    await bench.wait(1)
    assert bench.placed() == {"single": "n0"}, "what the gang does not get is there for others"


@in_virtual_time
async def test_both_kinds_of_groups_coexist() -> None:
    bench = bench_with(9, gates=GATE)
    bench.add(gang(), *(member(f"native-{name}") for name in "abc"))
    bench.add(*(labeled(f"label-{name}") for name in "abc"), *(annotated(f"annotation-{name}") for name in "abc"))
    await bench.wait(1)
    assert len(bench.placed()) == 9, "three groups of one name"
    assert bench.condition() == ("True", "Scheduled", "")


@pytest.mark.release("1.37")
@in_virtual_time
async def test_scheduling_group_is_ignored_without_the_gate() -> None:
    bench = bench_with(4)
    bench.add(member("a", "nowhere"))
    await bench.wait(1)
    assert "a" in bench.placed()


@in_virtual_time
async def test_a_pod_remains_in_its_initial_group() -> None:
    bench = bench_with(4)
    bench.add(labeled("a"), labeled("b"))
    pod = bench.pod("a")
    bench.change(replace(pod, metadata=replace(pod.metadata, labels={GROUP_LABEL: "other"})))
    bench.add(labeled("c"))
    await bench.wait(1)
    assert len(bench.placed()) == 3


@EITHER
@in_virtual_time
async def test_gang_without_nodes_reports_it(make: Make) -> None:
    bench = bench_with()
    bench.add(*map(make, "abc"))
    await bench.settle()
    assert bench.message("a") == ("Unschedulable", "no nodes available to schedule pods")


POINT_BY_POINT = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: "*"}]}
    preFilter: {enabled: [{name: Coscheduling}]}
    postFilter: {enabled: [{name: Coscheduling}]}
    permit: {enabled: [{name: Coscheduling}]}
    reserve: {enabled: [{name: Coscheduling}]}
"""


@pytest.mark.release("1.37")
@in_virtual_time
async def test_a_configuration_may_name_the_points_one_by_one() -> None:
    bench = GroupBench(gates="", config=POINT_BY_POINT)
    bench.add(a_node("n", 2), *map(annotated, "ab"))
    await bench.wait(5)
    assert bench.placed() == {}
    assert (bench.message("a") or ("", ""))[1] == 'the group "g" requires 3 pods, but only 2 exist'
    bench.add(annotated("c"), a_node("m", 1))
    await bench.wait(30)
    assert len(bench.placed()) == 3


# ── messages of pods ─────────────────────────────────────────────────────────────────────────────────────────────────


WRONG: dict[str, tuple[list[Pod], str]] = {
    "a group that does not exist": (
        [labeled("a", "gone"), labeled("b", "gone")],
        'there is no PodGroup "gone" of scheduling.x-k8s.io/v1alpha1 in the namespace "default", '
        "which the label scheduling.x-k8s.io/pod-group names",
    ),
    "too few members": (
        [labeled("a"), labeled("b")],
        'the group "g" requires 3 pods, but only 2 exist',
    ),
    "too few members of a gang by annotation": (
        [annotated("a")],
        'the group "g" requires 3 pods, but only 1 exist',
    ),
    "no size": (
        [annotated("a", size=None)],
        'a is in the gang "g" without a pod count: add moorage.io/gang-size',
    ),
    "a size that is no number": (
        [annotated("a", size="three")],
        'moorage.io/gang-size of a is "three": write a whole number from 1 to 100000',
    ),
    "a size of nothing": (
        [annotated("a", size="0")],
        'moorage.io/gang-size of a is "0": write a whole number from 1 to 100000',
    ),
    "a negative size": (
        [annotated("a", size="-3")],
        'moorage.io/gang-size of a is "-3": write a whole number from 1 to 100000',
    ),
    "a size beyond reason": (
        [annotated("a", size="999999")],
        'moorage.io/gang-size of a is "999999": write a whole number from 1 to 100000',
    ),
    "a size of a thousand characters": (
        [annotated("a", size="9" * 1000)],
        f'moorage.io/gang-size of a is "{"9" * 40}...": write a whole number from 1 to 100000',
    ),
    "digits of another script": (
        [annotated("a", size="٣")],
        'moorage.io/gang-size of a is "٣": write a whole number from 1 to 100000',
    ),
    "members that disagree": (
        [annotated("a", size="2"), annotated("b", size="3")],
        'the pods of gang "g" have different values of moorage.io/gang-size: "2" in a, "3" in b',
    ),
    "a name without end": (
        [annotated("a", "x" * 5000)],
        "the annotation moorage.io/gang is too long: the name of a gang has at most 253 characters",
    ),
    "members of two priorities": (
        [annotated("a", size="2", priority=5), annotated("b", size="2", priority=6)],
        "all pods in a single pod group should have the same priority as the pod group's priority, got 6 and 5",
    ),
}


@pytest.mark.release("1.37")
@pytest.mark.parametrize(("pods", "text"), WRONG.values(), ids=WRONG)
@in_virtual_time
async def test_pods_get_the_problem_of_their_group(pods: list[Pod], text: str) -> None:
    bench = bench_with(9)
    bench.add(*pods)
    await bench.wait(15)
    for pod in pods:
        assert text in bench.notes(pod.name)
        assert (bench.message(pod.name) or ("", ""))[1] == text
    assert bench.placed() == {}


@in_virtual_time
async def test_pods_that_arrive_one_by_one_do_not_report_each_other() -> None:
    bench = bench_with(9)
    for name in "abc":
        bench.add(labeled(name))
        await bench.wait(2)
    assert len(bench.placed()) == 3
    assert bench.notes("a") == []


@in_virtual_time
async def test_permanent_problem_is_repeated_at_intervals() -> None:
    bench = bench_with(9)
    bench.add(labeled("a"))
    await bench.wait(250)
    assert len(bench.notes("a")) == 1
    await bench.wait(500)
    assert 2 <= len(bench.notes("a")) <= 3


@in_virtual_time
async def test_pods_wait_for_a_group_that_is_created_later() -> None:
    bench = coscheduling_bench()
    bench.add(a_node("n", 4), *map(labeled, "abc"))
    await bench.wait(30)
    assert bench.placed() == {}
    bench.add(pod_group())
    await bench.wait(15)
    assert len(bench.placed()) == 3


@in_virtual_time
async def test_deleted_group_is_reported_as_missing() -> None:
    bench = bench_with(2)
    bench.add(*map(labeled, "abc"))
    await bench.settle()
    bench.remove(bench.objects[CoschedulingGroup, "default/g"])
    await bench.wait(20)
    assert "there is no PodGroup" in (bench.message("a") or ("", ""))[1]
    assert bench.placed() == {}
    bench.add(pod_group(minimum=2))
    await bench.wait(30)
    assert len(bench.placed()) == 2, "the group is back, and asks for less"


@in_virtual_time
async def test_corrected_size_helps() -> None:
    bench = bench_with(4)
    bench.add(annotated("a", size="two"), annotated("b", size="2"))
    await bench.wait(20)
    pod = bench.pod("a")
    mended = {**(pod.metadata.annotations or {}), GANG_SIZE: "2"}
    bench.change(replace(pod, metadata=replace(pod.metadata, annotations=mended)))
    await bench.wait(15)
    assert len(bench.placed()) == 2


@in_virtual_time
async def test_a_lower_minimum_helps() -> None:
    bench = bench_with(2)
    bench.add(*map(labeled, "abc"))
    await bench.wait(5)
    bench.change(pod_group(minimum=2))
    await bench.wait(30)
    assert len(bench.placed()) == 2


# ── what the arguments and the group's fields do ─────────────────────────────────────────────────────────────────────


@in_virtual_time
async def test_a_group_waits_out_its_backoff() -> None:
    bench = bench_with(2, args="{podGroupBackoffSeconds: 60}")
    bench.add(*map(labeled, "abc"))
    await bench.wait(5)
    attempts = len(bench.notes("a"))
    bench.add(a_node("more", 4))
    await bench.wait(50)
    assert bench.placed() == {}
    assert len(bench.notes("a")) == attempts == 1
    await bench.wait(10)
    assert len(bench.placed()) == 3


@pytest.mark.parametrize(
    ("resources", "fits"),
    [({"cpu": "4"}, True), ({"cpu": "4001m"}, False), ({"memory": "64Gi"}, True), ({"example.com/gpu": 1}, False)],
)
@in_virtual_time
async def test_min_resources_must_be_free_in_the_cluster(resources: dict[str, object], fits: bool) -> None:
    bench = coscheduling_bench()
    bench.add(pod_group(min_resources=resources), a_node("n", 4), *map(labeled, "abc"))
    await bench.wait(1)
    assert len(bench.placed()) == (3 if fits else 0)
    if not fits:
        text = f"minResources of the group exceed the free {next(iter(resources))} of the cluster"
        assert text in (bench.message("a") or ("", ""))[1]


@in_virtual_time
async def test_resources_of_running_members_count_for_min_resources() -> None:
    bench = coscheduling_bench()
    bench.add(pod_group(minimum=2, min_resources={"cpu": "3"}), a_node("n", 4))
    bench.add(labeled("a", cpu="2", node="n"), labeled("b", cpu="1"))
    await bench.wait(1)
    assert "b" in bench.placed()


@in_virtual_time
async def test_older_group_is_first_despite_failures() -> None:
    bench = coscheduling_bench()
    bench.add(a_node("n", 2), pod_group("old", 3), pod_group("new", 3))
    bench.add(*(labeled(f"old-{name}", "old") for name in "abc"))
    await bench.wait(3)
    bench.add(*(labeled(f"new-{name}", "new") for name in "abc"))
    await bench.wait(60)
    bench.add(a_node("m", 1))
    await bench.wait(60)
    assert sorted(bench.placed()) == ["old-a", "old-b", "old-c"]


@in_virtual_time
async def test_gang_preempts_lower_priority_pods() -> None:
    bench = bench_with(3)
    bench.add(*(alone(f"low-{name}", priority=1) for name in "xyz"))
    await bench.settle()
    bench.add(*map(labeled, "abc"))
    await bench.wait(20)
    assert sorted(bench.placed()) == ["a", "b", "c"]
    assert sorted(bench.evicted) == ["low-x", "low-y", "low-z"]


@in_virtual_time
async def test_no_pod_is_evicted_for_an_incomplete_gang() -> None:
    bench = bench_with(3)
    bench.add(*(alone(f"low-{name}", priority=1) for name in "xyz"))
    await bench.settle()
    bench.add(labeled("a"), labeled("b"))
    await bench.wait(20)
    assert bench.evicted == []


@in_virtual_time
async def test_a_gang_bound_by_halves_is_completed_by_the_next_scheduler() -> None:
    bench = bench_with(4)
    bench.add(labeled("a", node="n0"), labeled("b"), labeled("c"))
    bench.restart()
    await bench.wait(1)
    assert len(bench.placed()) == 3
