"""A plain function as a plugin."""

from typing import Any

import pytest

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.functions import filter_function, score_function
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.registry import Registry, extension_points
from moorage.scheduler.framework.status import Code, Status
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


def test_functions_are_plugins() -> None:
    registry = Registry([spot_only, by_name])
    assert {name: extension_points(kind) for name, kind in registry.items()} == {
        "spot_only": {"filter"},
        "by_name": {"score"},
    }
    assert (spot_only.__doc__, spot_only.__module__) == ("Keep batch pods on spot capacity.", __name__)
    check_plugin(spot_only, labels={"batch": ["yes"], "capacity": ["spot", "reserved"]}, examples=50)
    check_plugin(by_name, examples=20, require_coverage=False)


def test_decorators_work_with_and_without_parentheses() -> None:
    @filter_function
    def on_spot(pod: Pod, node: NodeInfo) -> bool:
        return node.name == "spot"

    @filter_function()
    def anywhere(pod: Pod, node: NodeInfo) -> bool:
        return True

    @score_function()
    def five(pod: Pod, node: NodeInfo) -> int:
        return 5

    status = on_spot().filter(CycleState(), WEB, USUAL)
    assert status is not None
    assert status.reasons == ("node(s) were rejected by on_spot",)
    assert on_spot().filter(CycleState(), WEB, SPOT) is None
    assert anywhere().filter(CycleState(), WEB, USUAL) is None
    assert five().score(CycleState(), WEB, USUAL) == 5


def test_function_may_return_a_status() -> None:
    @filter_function
    def never(pod: Pod, node: NodeInfo) -> Status:
        return Status.unschedulable("closed today")

    assert never().filter(CycleState(), WEB, USUAL) == Status.unschedulable("closed today")


@pytest.mark.parametrize("result", [None, "false", 1])
def test_filter_function_that_returns_no_bool_is_reported_with_its_line(result: Any) -> None:
    @filter_function
    def unclear(pod: Pod, node: NodeInfo) -> Any:
        return result

    with pytest.raises(TypeError, match=r"unclear \(test_functions.py:\d+\) returned .*: return True to accept"):
        unclear().filter(CycleState(), WEB, USUAL)


async def waits(pod: Any, node: Any) -> bool:
    return True


FUNCTIONS: dict[str, Any] = {
    "with the parameters of a class": lambda cycle, pod, node: True,
    "with parameters in another order": lambda node, pod: True,
    "with the name of the node": lambda pod, node_name: True,
    "that is async": waits,
    "a class": Pod,
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_function_that_cannot_be_called_is_rejected_with_the_line_to_write(function: Any) -> None:
    for decorate, result in ((filter_function("no"), "bool"), (score_function, "int")):
        with pytest.raises(TypeError, match=rf"write @\w+ above `def .*\(pod, node\) -> {result}`"):
            decorate(function)
