"""A plugin that is a plain function."""

import pytest

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.functions import filter_function, score_function
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.registry import Registry, extension_points
from moorage.scheduler.framework.status import Code
from moorage.testing import check_plugin, make_node, make_pod


@filter_function("node(s) were not spot capacity")
def spot_only(pod: Pod, node: NodeInfo) -> bool:
    """Keep batch pods on spot capacity."""
    return "batch" not in pod.labels or node.labels.get("capacity") == "spot"


@score_function
def by_name(pod: Pod, node: NodeInfo) -> int:
    return len(node.name)


SPOT, USUAL = NodeInfo(make_node("spot", labels={"capacity": "spot"})), NodeInfo(make_node("usual"))
BATCH, WEB = make_pod(labels={"batch": "yes"}), make_pod()


@pytest.mark.parametrize(
    ("pod", "node", "fits"),
    [(BATCH, SPOT, True), (BATCH, USUAL, False), (WEB, USUAL, True)],
    ids=["a batch pod on spot", "a batch pod elsewhere", "any other pod"],
)
def test_function_filters_nodes(pod: Pod, node: NodeInfo, fits: bool) -> None:
    status = spot_only().filter(CycleState(), pod, node)
    assert (status is None) is fits
    if status is not None:
        assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        assert status.reasons == ("node(s) were not spot capacity",)


def test_a_function_rates() -> None:
    assert by_name().score_nodes(CycleState(), WEB, NodeTable.of(SPOT, USUAL)).tolist() == [4, 5]


def test_functions_are_plugins_like_any_other() -> None:
    registry = Registry([spot_only, by_name])
    assert {name: extension_points(kind) for name, kind in registry.items()} == {
        "spot_only": {"filter"},
        "by_name": {"score"},
    }
    assert (spot_only.__doc__, spot_only.__module__) == ("Keep batch pods on spot capacity.", __name__)
    check_plugin(spot_only, by_name, examples=20)
