"""Every extension point of groups × every invalid result: only the attempt of this group fails."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.support.groups import TOPOLOGY, GroupBench, a_node, alone, gang, member
from tests.unit.scheduler.engine.test_odd_answers import ANSWERS, coroutines_are_closed
from tests.unit.scheduler.engine.test_raising_plugins import _signals_as_in_a_daemon

from moorage.scheduler.framework.group_plugins import (
    GroupPostFilterResult,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    PodGroupPostFilterPlugin,
)
from moorage.scheduler.framework.groups import Placement
from moorage.scheduler.framework.plugin import Plugin
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
    "a result of other things": lambda: GroupPostFilterResult(5, nominated=[7], victims=9, message=3),  # type: ignore[arg-type]
    "placements of other things": lambda: [Placement(5, 7)],  # type: ignore[arg-type]
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
