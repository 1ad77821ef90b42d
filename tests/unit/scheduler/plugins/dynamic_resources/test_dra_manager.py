"""Devices behind an extended resource, counted for scores."""

from collections.abc import Sequence

import pytest
from tests.unit.scheduler.plugins.dynamic_resources.device_builders import (
    device,
    held,
    in_zone,
    make_claim,
    make_class,
    make_slice,
)

from moorage.kube.api.meta import KubeObject
from moorage.scheduler.config.args import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    ResourceSpec,
    ScoringStrategy,
)
from moorage.scheduler.plugins.dynamic_resources.cel.program import Program
from moorage.scheduler.plugins.dynamic_resources.dra_manager import device_counts
from moorage.scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from moorage.scheduler.plugins.node_resources_fit.plugin import NodeResourcesFit
from moorage.testing import make_node, make_pod
from moorage.testing.rig import SCORE_FORMS, Rig, ScoreForm, run_score

GPU = "example.com/gpu"
NODE = make_node("n1", labels={"zone": "a"})
CLASS = make_class("gpu", resource=GPU)
TWO = make_slice(device("d", attributes={"size": "big"}), device("e"))
BIG = 'device.attributes["gpu.example"].?size.orValue("") == "big"'

COUNTED: dict[str, tuple[Sequence[KubeObject], tuple[int, int]]] = {
    "devices of the node": ([NODE, CLASS, TWO], (2, 0)),
    "some are in use": ([NODE, CLASS, TWO, make_claim(allocation=held("d"))], (2, 1)),
    "only those of the class": ([NODE, make_class("gpu", BIG, resource=GPU), TWO], (1, 0)),
    "none of another node": ([NODE, CLASS, make_slice(device("d"), node="n2")], (0, 0)),
    "those for all nodes": ([NODE, CLASS, make_slice(device("d"), all_nodes=True)], (1, 0)),
    "those for its zone": ([NODE, CLASS, make_slice(device("d"), node_selector=in_zone("a"))], (1, 0)),
    "none for other zones": ([NODE, CLASS, make_slice(device("d"), node_selector=in_zone("b"))], (0, 0)),
    "devices that chose the node": (
        [
            NODE,
            CLASS,
            make_slice(device("d", node_name="n1"), device("e", node_name="n2"), per_device_node_selection=True),
        ],
        (1, 0),
    ),
    "those of an incomplete pool are counted as well": ([NODE, CLASS, make_slice(device("d"), of=2)], (1, 0)),
    "and those of a slice that names no node": ([NODE, CLASS, make_slice(device("d"), node=None)], (1, 0)),
    "an expression that fails leaves the resource out": (
        [NODE, make_class("gpu", 'device.attributes["x"].y', resource=GPU), TWO],
        (0, 0),
    ),
    "no class offers the resource": ([NODE, make_class("gpu"), TWO], (0, 0)),
    "a device plugin serves it": ([make_node("n1", allocatable={GPU: 4}), CLASS, TWO], (0, 0)),
}


@pytest.mark.parametrize(("objects", "want"), COUNTED.values(), ids=COUNTED)
def test_counts(objects: Sequence[KubeObject], want: tuple[int, int]) -> None:
    rig = Rig(*objects)
    stock = device_counts(rig, [GPU])
    assert stock is not None
    stock.refresh()
    assert stock.on_node(rig.nodes[0], GPU) == want


def test_expressions_are_evaluated_once_per_device() -> None:
    # No other test has an equal device: equal devices share the results of expressions.
    devices = make_slice(device("d", attributes={"size": "big", "test": "evaluated once"}))
    rig = Rig(NODE, make_class("gpu", BIG, resource=GPU), devices)
    stock = device_counts(rig, [GPU])
    assert stock is not None
    stock.refresh()
    before = Program.evaluations
    for _ in range(3):
        assert stock.on_node(rig.nodes[0], GPU) == (1, 0)
    assert Program.evaluations == before + 1


def test_devices_are_not_counted_for_cpu_and_memory() -> None:
    assert device_counts(Rig(), ["cpu", "memory"]) is None


def mixed() -> Rig:
    """Make nodes with devices, nodes with a device plugin and nodes without either."""
    nodes = [make_node(f"n{i}", allocatable={GPU: 4} if i % 3 == 0 else {}) for i in range(9)]
    slices = [
        make_slice(*(device(f"d{k}") for k in range(i)), name=f"s{i}", pool=f"p{i}", node=f"n{i}") for i in (1, 4, 7)
    ]
    return Rig(*nodes, *slices, CLASS, make_claim(allocation=held("d0", pool="p4")))


@pytest.mark.parametrize("form", SCORE_FORMS)
def test_fit_scores_by_devices(form: ScoreForm) -> None:
    args = NodeResourcesFitArgs(scoring_strategy=ScoringStrategy("LeastAllocated", resources=(ResourceSpec(GPU, 1),)))
    rig = mixed()
    scores = run_score(NodeResourcesFit(args=args, handle=rig), rig, make_pod(requests={GPU: 1}), form)
    assert scores == [75, 0, 0, 75, 50, 0, 75, 85, 0]


@pytest.mark.parametrize("form", SCORE_FORMS)
def test_balance_is_scored_by_devices(form: ScoreForm) -> None:
    args = NodeResourcesBalancedAllocationArgs(resources=(ResourceSpec("cpu", 1), ResourceSpec(GPU, 1)))
    rig = mixed()
    plugin = NodeResourcesBalancedAllocation(args=args, handle=rig)
    scores = run_score(plugin, rig, make_pod(requests={GPU: 1, "cpu": 1}), form)
    assert scores is not None
    assert scores[0] == 75  # a quarter of the CPU and a quarter of the devices
    assert scores[1] < 75  # all of the devices
    assert scores[2] == 75  # nothing to balance CPU with


def test_scores_by_devices_are_not_shared() -> None:
    args = NodeResourcesFitArgs(scoring_strategy=ScoringStrategy("LeastAllocated", resources=(ResourceSpec(GPU, 1),)))
    plugin = NodeResourcesFit(args=args, handle=mixed())
    assert plugin.sign(make_pod(requests={GPU: 1})) is None
    assert plugin.sign(make_pod(requests={"cpu": 1})) is not None
