"""FGD: devices of shares, and typical shapes of the cluster."""

from tests.support.gpus import gpu_node, gpu_pod
from tests.unit.contrib.gpu.gpu_builders import SMALL, fgd

from moorage.contrib.gpu.fgd import FGD
from moorage.contrib.gpu.gpu_share import GpuShare
from moorage.contrib.gpu.shapes import GpuShape
from moorage.kube.api.gpu_sharing import GPU_DEVICES
from moorage.scheduler.config.contrib_args import FGDArgs, TypicalShape
from moorage.scheduler.framework.cycle import ASSUMED, CycleState
from moorage.testing.rig import Rig


def test_fgd_selects_the_device_of_its_score() -> None:
    rig = Rig(*SMALL)
    share, policy, cycle = GpuShare(handle=rig), fgd(rig), CycleState()
    assert policy.score(cycle, gpu_pod("p", milli=300, cpu=1000), rig.nodes[0]) == 57
    share.reserve(cycle, gpu_pod("p", milli=300, cpu=1000), "n")
    assert cycle[ASSUMED].metadata.annotations[GPU_DEVICES] == "1"


def test_fgd_prefers_the_device_that_leaves_less_unusable_capacity() -> None:
    shapes = (TypicalShape(gpus=1, gpu_milli=500, pods=1),)
    there = [gpu_pod("a", milli=300, node="n", devices="0"), gpu_pod("b", milli=200, node="n", devices="1")]
    rig = Rig(gpu_node("n", gpus=2), *there)  # 700 and 800 are free
    share, cycle = GpuShare(handle=rig), CycleState()
    FGD(args=FGDArgs(typical_shapes=shapes), handle=rig)
    share.reserve(cycle, gpu_pod("p", milli=300), "n")
    assert cycle[ASSUMED].metadata.annotations[GPU_DEVICES] == "1", "500 are left of device 1"


def test_fgd_learns_shapes_from_the_pods_in_the_cluster() -> None:
    rig = Rig(gpu_node("n", gpus=2))
    plugin = FGD(handle=rig)
    before = plugin.epoch()
    rig.add(*(gpu_pod(f"p{number}", milli=500, cpu=1000) for number in range(3)))
    assert plugin.epoch() != before
    assert plugin.typical.counts == {GpuShape(1000, 1, 500): 3}
    learned = plugin.epoch()
    rig.add(gpu_pod("late", milli=300))
    assert plugin.epoch() == learned, "shapes are not recounted for each pod"
    rig.clock.advance_to(rig.clock.now() + 301)
    assert plugin.epoch() != learned
