"""Groups defined by a plugin: scheduled like PodGroups, without a gate or further code."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace
from tests.support.groups import GATE, GroupBench, a_node, alone, gang, member

from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import GangPolicy, PodGroupPolicy, PodGroupSpec
from moorage.scheduler.framework.group_plugins import GroupSourcePlugin
from moorage.scheduler.framework.groups import DescribedGroup
from moorage.scheduler.framework.plugin import PreEnqueuePlugin
from moorage.scheduler.framework.status import Status
from moorage.testing import in_virtual_time

TEAM = "team"


class ByTeam(GroupSourcePlugin, PreEnqueuePlugin):
    """Pods of a team start in threes."""

    attempts: list[str] = []

    def group_name(self, pod: Pod) -> str:
        team = pod.metadata.labels.get(TEAM)
        return f"team/{team}" if team else ""

    def describe(self, namespace: str, name: str, members: Iterable[Pod]) -> DescribedGroup | None:
        pods = list(members)
        if not pods:
            return None
        meta = ObjectMeta(name=name, namespace=namespace, uid=name)
        policy = PodGroupPolicy(gang=GangPolicy(min_count=3))
        spec = PodGroupSpec(scheduling_policy=policy, priority=pods[0].priority)
        problem = "the red team may not" if name == "team/red" else ""
        return DescribedGroup(metadata=meta, spec=spec, problem=problem)

    def attempted(self, group: DescribedGroup, status: Status | None) -> None:
        self.attempts.append("placed" if status is None else status.message)

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return None


def of_team(name: str, team: str = "blue") -> Pod:
    return alone(name, labels={TEAM: team})


def bench_with(cpu: int, gates: str = "") -> GroupBench:
    ByTeam.attempts = []
    bench = GroupBench(gates=gates, plugins=[ByTeam])
    bench.add(a_node("n", cpu))
    return bench


@pytest.mark.release("1.37")
@in_virtual_time
async def test_a_described_group_starts_completely() -> None:
    bench = bench_with(3)
    bench.add(of_team("a"), of_team("b"), alone("single"))
    await bench.wait(5)
    assert sorted(bench.placed()) == ["single"]
    assert "minCount (3) cannot be satisfied: 0 scheduled, 2 remaining" in (bench.message("a") or ("", ""))[1]
    bench.add(a_node("m", 1), of_team("c"))
    await bench.wait(20)
    assert len(bench.placed()) == 4
    assert ByTeam.attempts[-1] == "placed"


@in_virtual_time
async def test_invalid_group_is_reported_and_not_tried() -> None:
    bench = bench_with(9)
    bench.add(*(of_team(name, "red") for name in "abc"))
    await bench.settle()
    assert bench.placed() == {}
    assert bench.notes("a") == ["the red team may not"]
    assert bench.message("a") == ("Unschedulable", "the red team may not")


@in_virtual_time
async def test_pod_groups_of_the_api_take_precedence() -> None:
    bench = bench_with(9, GATE)
    combined = replace(member("both"), metadata=replace(member("both").metadata, labels={TEAM: "blue"}))
    bench.add(gang(minimum=1), combined, of_team("a"), of_team("b"))
    await bench.settle()
    assert sorted(bench.placed()) == ["both"], "it is a member of the PodGroup that it names, and of no other"


@in_virtual_time
async def test_a_group_ends_with_its_last_member() -> None:
    bench = bench_with(9)
    bench.add(of_team("a"))
    groups = bench.scheduler.cache.groups
    assert groups is not None
    assert list(groups) == ["default/team/blue"]
    bench.remove(bench.pod("a"))
    assert list(groups) == []


@in_virtual_time
async def test_pods_of_other_profiles_belong_to_no_group() -> None:
    bench = bench_with(9)
    bench.add(alone("foreign", labels={TEAM: "blue"}, scheduler_name="other", node="n"))
    groups = bench.scheduler.cache.groups
    assert groups is not None
    assert list(groups) == []
