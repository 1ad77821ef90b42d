"""NodeResourcesAllocatable: small or large nodes first, by their allocatable resources."""

import pytest

from moorage.contrib.community.node_resources_allocatable import NodeResourcesAllocatable
from moorage.scheduler.config.args import ResourceSpec
from moorage.scheduler.config.contrib_args import NodeResourcesAllocatableArgs
from moorage.scheduler.framework.handle import Handle
from moorage.testing import check_plugin, make_node, make_pod
from moorage.testing.rig import SCORE_FORMS, Rig, ScoreForm, run_score

CPU = (ResourceSpec("cpu", 1),)
CASES: dict[str, tuple[NodeResourcesAllocatableArgs, list[dict[str, str]], list[int]]] = {
    "the smallest is the best": (
        NodeResourcesAllocatableArgs(CPU),
        [{"cpu": "2"}, {"cpu": "4"}, {"cpu": "6"}],
        [100, 50, 0],
    ),
    "or the largest": (
        NodeResourcesAllocatableArgs(CPU, "Most"),
        [{"cpu": "2"}, {"cpu": "5"}, {"cpu": "6"}],
        [0, 75, 100],
    ),
    "nodes of one size are alike": (NodeResourcesAllocatableArgs(CPU), [{"cpu": "2"}, {"cpu": "2"}], [0, 0]),
    "by default a thousandth of a CPU is worth a mebibyte": (
        NodeResourcesAllocatableArgs(mode="Most"),
        [{"cpu": "1", "memory": "1000Mi"}, {"cpu": "2", "memory": "0"}, {"cpu": "3", "memory": "0"}],
        [0, 0, 100],
    ),
    "weights count": (
        NodeResourcesAllocatableArgs((ResourceSpec("cpu", 1), ResourceSpec("example.com/gpu", 1000)), "Most"),
        [{"cpu": "8"}, {"cpu": "1", "example.com/gpu": "8"}],
        [0, 100],
    ),
}


@pytest.mark.parametrize("form", SCORE_FORMS)
@pytest.mark.parametrize(("args", "nodes", "scores"), CASES.values(), ids=CASES)
def test_scores(
    args: NodeResourcesAllocatableArgs, nodes: list[dict[str, str]], scores: list[int], form: ScoreForm
) -> None:
    rig = Rig(*(make_node(f"n{number}", allocatable=has) for number, has in enumerate(nodes)))
    assert run_score(NodeResourcesAllocatable(args=args), rig, make_pod(), form) == scores


def test_running_pods_do_not_affect_the_score() -> None:
    rig = Rig(make_node("a", allocatable={"cpu": "2"}), make_node("b", allocatable={"cpu": "4"}))
    rig.add(make_pod("busy", node="a", uid="busy", requests={"cpu": "2"}))
    plugin = NodeResourcesAllocatable(args=NodeResourcesAllocatableArgs(CPU))
    assert run_score(plugin, rig, make_pod(), SCORE_FORMS[0]) == [100, 0]


def test_both_forms_agree() -> None:
    def make(_: Handle) -> NodeResourcesAllocatable:
        return NodeResourcesAllocatable()

    check_plugin(make, examples=20)
