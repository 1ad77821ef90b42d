"""Typical shapes, and the idle GPU capacity that is of no use to them."""

import pytest
from tests.support.gpus import gpu_node, gpu_pod
from tests.unit.contrib.gpu.gpu_builders import SHAPES

from moorage.contrib.gpu.columns import GpuTable
from moorage.contrib.gpu.devices import NodeGpus
from moorage.contrib.gpu.gpu_share import (
    GpuShare,
)
from moorage.contrib.gpu.shapes import GpuShape, Typical
from moorage.kube.api.gpu_sharing import GPU_DEVICES
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.contrib_args import GpuShareArgs
from moorage.scheduler.framework.cycle import ASSUMED, CycleState
from moorage.testing.rig import Rig


def test_most_frequent_shapes_are_typical() -> None:
    shapes = [GpuShape(1000)] * 60 + [GpuShape(2000, 1, 500)] * 35 + [GpuShape(3000, 1, 1000)] * 5
    assert Typical.covering(shapes).counts == {GpuShape(1000): 60, GpuShape(2000, 1, 500): 35}
    assert Typical.covering(shapes, 96).weight == 100
    assert Typical.covering(shapes, 60).counts == {GpuShape(1000): 60}


FRAGMENTED: dict[str, tuple[NodeGpus, int]] = {
    "a whole device and a part": (NodeGpus((1000, 300), None, 8000), 3800),
    "no idle device": (NodeGpus((0, 0), None, 8000), 0),
    "no free CPU": (NodeGpus((1000, 300), None, 0), 6 * 1300),
    "useful for all shapes with GPUs": (NodeGpus((1000, 1000), None, 16000), 2000),
    "too small for all shapes except one": (NodeGpus((200, 100), None, 16000), 5 * 300 + 100),
}


@pytest.mark.parametrize(("node", "expected"), FRAGMENTED.values(), ids=FRAGMENTED)
def test_fragmentation(node: NodeGpus, expected: int) -> None:
    typical = Typical({GpuShape(s.cpu_milli, s.gpus, s.gpu_milli): s.pods for s in SHAPES})
    assert typical.node_fragmentation(node) == expected
    assert typical.fragmentation(GpuTable.of([node, node])).tolist() == [expected, expected]


def test_a_shape_of_another_model_cannot_use_a_node() -> None:
    typical = Typical({GpuShape(0, 1, 500, ("T4",)): 1})
    there, elsewhere = NodeGpus((1000, 300), "T4", 0), NodeGpus((1000, 300), "G2", 0)
    assert [typical.node_fragmentation(node) for node in (there, elsewhere)] == [300, 1300]
    assert typical.fragmentation(GpuTable.of([there, elsewhere])).tolist() == [300, 1300]


CHOSEN: dict[str, tuple[str, Pod, tuple[int, ...]]] = {
    "whole devices are taken in numerical order": ("Policy", gpu_pod(gpus=2), (2, 3)),
    "without a policy the tightest device is taken": ("Policy", gpu_pod(milli=200), (1,)),
    "the tightest device with enough left is taken": ("Tightest", gpu_pod(milli=400), (0,)),
    "the device with most left is taken": ("Loosest", gpu_pod(milli=200), (2,)),
    "the first device with enough left is taken": ("First", gpu_pod(milli=200), (0,)),
}


@pytest.mark.parametrize(("selection", "pod", "expected"), CHOSEN.values(), ids=CHOSEN)
def test_selected_devices(selection: str, pod: Pod, expected: tuple[int, ...]) -> None:
    there = [gpu_pod("a", milli=500, node="n", devices="0"), gpu_pod("b", milli=700, node="n", devices="1")]
    rig = Rig(gpu_node("n", gpus=4), *there)
    plugin, cycle = GpuShare(args=GpuShareArgs(device_selection=selection), handle=rig), CycleState()
    assert plugin.reserve(cycle, pod, "n") is None
    assert cycle[ASSUMED].metadata.annotations[GPU_DEVICES] == ",".join(map(str, expected))
    assert plugin.pre_bind_pre_flight(cycle, pod, "n") is None


def test_random_selection_takes_every_device_with_enough_left() -> None:
    rig = Rig(gpu_node("n", gpus=4), gpu_pod("a", milli=900, node="n", devices="1"))
    plugin = GpuShare(args=GpuShareArgs(device_selection="Random"), handle=rig)
    devices = set()
    for number in range(40):
        cycle = CycleState()
        plugin.reserve(cycle, gpu_pod(f"p{number}", milli=200), "n")
        devices.add(cycle[ASSUMED].metadata.annotations[GPU_DEVICES])
    assert devices == {"0", "2", "3"}
