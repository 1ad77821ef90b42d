"""State of plugins while a group is tried; row numbers are those of the reference."""

from typing import ClassVar

from tests.support.groups import GroupBench, a_node, alone, gang, member

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState, StateKey
from moorage.scheduler.framework.group_plugins import GroupPostFilterResult, PodGroupPostFilterPlugin
from moorage.scheduler.framework.groups import GroupTree
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import FilterPlugin, ReservePlugin
from moorage.scheduler.framework.status import Status
from moorage.testing import in_virtual_time

SEEN: StateKey[set[str]] = StateKey("pods that were looked at")


class Remembering(FilterPlugin, PodGroupPostFilterPlugin):
    """Rejects every pod, and finally lists the pods rejected in this attempt of the group."""

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        assert cycle.group is not None
        cycle.group[SEEN] = {pod.name, *(cycle.group.get(SEEN) or ())}
        return Status.unschedulable("no")

    async def post_filter_group(self, cycle: CycleState, group: GroupTree) -> GroupPostFilterResult:
        return GroupPostFilterResult(Status.unschedulable(f"refused {sorted(cycle[SEEN])}"))


@in_virtual_time
async def test_q34_group_state_of_filters_is_available_to_post_filters() -> None:
    bench = GroupBench(plugins=[Remembering])
    # Preemption could evict this pod. It tries the group again with its own state, without success.
    bench.add(a_node("n"), alone("low", node="n", priority=10))
    bench.add(gang(minimum=None), member("a"), member("b"))
    await bench.step()
    condition = bench.condition()
    assert condition is not None
    assert condition[2].endswith("refused ['a', 'b']")
    bench.remove(bench.pod("a"))
    await bench.wait(10)
    condition = bench.condition()
    assert condition is not None
    assert condition[2].endswith("refused ['b']"), "nothing of the attempt before is remembered"


class TwoAtMost(FilterPlugin, ReservePlugin):
    """Lets two pods hold a thing: those that run count by their label, the others by their reservation."""

    reserved: ClassVar[set[str]] = set()

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        running = sum(neighbour.labels.get("holds") == "running" for neighbour in node.pods.values())
        return None if running + len(self.reserved) < 2 else Status.unschedulable("held by two")

    def reserve(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        self.reserved.add(pod.name)
        return None

    def unreserve(self, cycle: CycleState, pod: Pod, node_name: str) -> None:
        self.reserved.discard(pod.name)


@in_virtual_time
async def test_p14_filters_see_the_reservations_of_members_before_when_victims_are_chosen() -> None:
    TwoAtMost.reserved.clear()
    bench = GroupBench(plugins=[TwoAtMost])
    holder = alone("holder", node="n", priority=15, labels={"holds": "running"})
    bench.add(a_node("n", 8), holder, alone("other", node="n", priority=10))
    bench.add(gang(minimum=2), member("a"), member("b"))
    await bench.step()
    assert bench.evicted == ["holder"], "though it is the more important one"
    assert TwoAtMost.reserved == set()
    await bench.wait(15)
    assert {"a", "b"} <= set(bench.placed())
