"""Free capacity of the devices of a node."""

import pytest
from tests.support.gpus import gpu_node, gpu_pod

from moorage.contrib.gpu.devices import read_gpus
from moorage.kube.api.pod import Pod
from moorage.testing.rig import Rig

GIVEN: dict[str, tuple[list[Pod], tuple[int, ...]]] = {
    "the annotated device": ([gpu_pod("a", milli=300, node="n", devices="2")], (1000, 1000, 700)),
    "whole devices": ([gpu_pod("a", gpus=2, node="n", devices="0,2")], (0, 1000, 0)),
    "a device that the node does not have": ([gpu_pod("a", milli=300, node="n", devices="9")], (700, 1000, 1000)),
    "fewer devices than requested": ([gpu_pod("a", gpus=2, node="n", devices="2")], (0, 0, 1000)),
    "the same device twice": ([gpu_pod("a", gpus=2, node="n", devices="1,1")], (0, 0, 1000)),
    "an overcommitted device": (
        [gpu_pod("a", milli=700, node="n", devices="1"), gpu_pod("b", milli=700, node="n", devices="1")],
        (1000, 0, 1000),
    ),
    "overcommitted devices": ([gpu_pod(str(number), gpus=2, node="n") for number in range(3)], (0, 0, 0)),
    "pods with annotated devices are counted first": (
        [gpu_pod("a", milli=300, node="n"), gpu_pod("b", milli=600, node="n", devices="1")],
        (1000, 100, 1000),
    ),
}


@pytest.mark.parametrize(("there", "free"), GIVEN.values(), ids=GIVEN)
def test_free_gpu_capacity(there: list[Pod], free: tuple[int, ...]) -> None:
    rig = Rig(gpu_node("n", gpus=3), *there)
    assert read_gpus(rig.nodes[0]).free == free
