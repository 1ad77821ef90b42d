"""Every extension point of groups × every invalid result: only the attempt of this group fails."""

from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from tests.support.groups import TOPOLOGY, GroupBench, a_node, alone, gang, member
from tests.unit.scheduler.engine.test_extension_points import ANSWERS, coroutines_are_closed
from tests.unit.scheduler.engine.test_scheduler import _signals_as_in_a_daemon

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState, StateKey
from moorage.scheduler.framework.group_plugins import (
    GroupPostFilterResult,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    PodGroupPostFilterPlugin,
)
from moorage.scheduler.framework.groups import GroupTree, Placement
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import FilterPlugin, Plugin, ReservePlugin
from moorage.scheduler.framework.status import Status
from moorage.testing import in_virtual_time

__all__ = ["_signals_as_in_a_daemon", "coroutines_are_closed"]

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    POINT: {disabled: [{name: "*"}], enabled: [{name: Odd}]}
"""


class Point(NamedTuple):
    """A method, its extension point in the configuration, and its result for ordinary groups."""

    kind: type[Plugin]
    method: str
    configured: str
    ordinary: Any
    fillers: dict[str, Any] = {}
    cpu: str = "1"


POINTS: dict[str, Point] = {
    "placement_of": Point(PlacementGeneratePlugin, "placement_of", "placementGenerate", lambda *_: "all"),
    "generate_placements": Point(
        PlacementGeneratePlugin,
        "generate_placements",
        "placementGenerate",
        lambda _c, _g, nodes: [Placement("all", nodes)],
    ),
    "score_placement": Point(PlacementScorePlugin, "score_placement", "placementScore", lambda *_: 1),
    "score_placements": Point(
        PlacementScorePlugin, "score_placements", "placementScore", lambda _c, _g, parts: np.ones(len(parts), np.int64)
    ),
    "normalize_placement_scores": Point(
        PlacementScorePlugin,
        "normalize_placement_scores",
        "placementScore",
        lambda _c, _g, _p, scores: scores,
        {"score_placement": lambda *_: 1},
    ),
    "post_filter_group": Point(
        PodGroupPostFilterPlugin,
        "post_filter_group",
        "podGroupPostFilter",
        lambda *_: GroupPostFilterResult(Status.unschedulable("no")),
        cpu="100",
    ),
}
RESULTS = {
    "a result of wrong types": lambda: GroupPostFilterResult(5, nominated=[7], victims=9, message=3),  # type: ignore[arg-type]
    "placements of wrong types": lambda: [Placement(5, 7)],  # type: ignore[arg-type]
}


def odd_plugin(point: Point, answer: Any) -> type[Plugin]:
    def respond(_self: Plugin, *arguments: Any) -> Any:
        return answer() if arguments[1].key == "default/odd" else point.ordinary(*arguments)

    async def wait(self: Plugin, *arguments: Any) -> Any:
        return respond(self, *arguments)

    method = wait if point.method == "post_filter_group" else respond
    return type("Odd", (point.kind,), {point.method: method, **point.fillers})


@pytest.mark.usefixtures("_signals_as_in_a_daemon")
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
def test_every_invalid_result_fails_only_the_attempt_of_the_group(point: Point) -> None:
    for name, answer in (ANSWERS | RESULTS).items():
        try:
            attempt(point, answer)
        except BaseException as error:
            error.add_note(f"the answer was {name}")
            raise


@in_virtual_time
async def attempt(point: Point, answer: Any) -> None:
    config = CONFIG.replace("POINT", point.configured)
    bench = GroupBench(gates=TOPOLOGY, config=config, plugins=[odd_plugin(point, answer)])
    bench.add(*(a_node(f"{rack}{number}", labels={"rack": rack}) for rack in "ab" for number in range(2)))
    for group, cpu in (("odd", point.cpu), ("fine", "1")):
        bench.add(gang(group, 2, topology="rack"), *(member(f"{group}-{n}", group, cpu=cpu) for n in range(2)))
    bench.add(alone("single"))
    await bench.wait(10.0)
    assert {"fine-0", "fine-1", "single"} <= set(bench.placed())
    assert bench.scheduler.unexpected is None


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
async def test_group_state_of_filters_is_available_to_post_filters() -> None:
    bench = GroupBench(plugins=[Remembering])
    # Preemption could evict this pod. It retries the group with its own state, without success.
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
    """Allows two holders: running pods count by their label, other pods by their reservation."""

    reserved: ClassVar[set[str]] = set()

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        running = sum(neighbor.labels.get("holds") == "running" for neighbor in node.pods.values())
        return None if running + len(self.reserved) < 2 else Status.unschedulable("held by two")

    def reserve(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        self.reserved.add(pod.name)
        return None

    def unreserve(self, cycle: CycleState, pod: Pod, node_name: str) -> None:
        self.reserved.discard(pod.name)


@in_virtual_time
async def test_filters_see_the_reservations_of_members_before_when_victims_are_chosen() -> None:
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
