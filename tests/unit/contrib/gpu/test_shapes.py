"""Typical shapes, and the idle GPU capacity that is of no use to them."""

import pytest
from tests.unit.contrib.gpu.gpu_builders import SHAPES

from moorage.contrib.gpu.columns import GpuTable
from moorage.contrib.gpu.devices import NodeGpus
from moorage.contrib.gpu.shapes import GpuShape, Typical


def test_typical_shapes_are_the_popular_ones_until_they_cover_enough() -> None:
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
