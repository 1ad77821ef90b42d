"""The device selections of GpuShare."""

import pytest
from tests.support.gpus import gpu_node, gpu_pod

from moorage.contrib.gpu.gpu_share import (
    GpuShare,
)
from moorage.kube.api.gpu_sharing import GPU_DEVICES
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.contrib_args import GpuShareArgs
from moorage.scheduler.framework.cycle import ASSUMED, CycleState
from moorage.testing.rig import Rig

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
