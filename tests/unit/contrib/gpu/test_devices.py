"""Free capacity of the devices of a node."""

from collections.abc import Mapping

import pytest
from tests.support.gpus import gpu_node, gpu_pod

from moorage.contrib.gpu.devices import GpuDemand, UnreadableDemand, read_demand, read_gpus
from moorage.kube.api.gpu_sharing import GPU_COUNT, GPU_MILLI, GPU_MODEL
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


ASKED: dict[str, tuple[Mapping[str, str], object]] = {
    "a pod without annotations requests nothing": ({}, None),
    "zero devices request nothing": ({GPU_COUNT: "0", GPU_MILLI: "0"}, None),
    "devices are complete by default": ({GPU_COUNT: "2"}, GpuDemand(2, 1000)),
    "a share is a part of one device": ({GPU_MILLI: "460"}, GpuDemand(1, 460)),
    "several models may be accepted": ({GPU_COUNT: "1", GPU_MODEL: "T4|G2"}, GpuDemand(1, 1000, ("G2", "T4"))),
    "an amount must be a number": (
        {GPU_COUNT: "1", GPU_MILLI: "lots"},
        UnreadableDemand(f'annotation {GPU_MILLI} is "lots": write thousandths of each device from 1 to 1000'),
    ),
    "a share exceeds a device": (
        {GPU_MILLI: "1001"},
        UnreadableDemand(f'annotation {GPU_MILLI} is "1001": write thousandths of each device from 1 to 1000'),
    ),
    "a share of zero is invalid": (
        {GPU_COUNT: "1", GPU_MILLI: "0"},
        UnreadableDemand(f'annotation {GPU_MILLI} is "0": write thousandths of each device from 1 to 1000'),
    ),
    "a negative number of devices is invalid": (
        {GPU_COUNT: "-1"},
        UnreadableDemand(f'annotation {GPU_COUNT} is "-1": write a number of devices from 0 to 62'),
    ),
    "a separator alone names no model": (
        {GPU_COUNT: "1", GPU_MODEL: "|"},
        UnreadableDemand(f'annotation {GPU_MODEL} is "|": write names of models joined by |, such as A100|H100'),
    ),
}


@pytest.mark.parametrize(("annotations", "expected"), ASKED.values(), ids=ASKED)
def test_demand(annotations: Mapping[str, str], expected: object) -> None:
    assert read_demand(gpu_pod(gpus=0, more=annotations)) == expected
