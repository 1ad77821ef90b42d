"""GPU fragmentation on /metrics: per pool and shape, and the largest job that fits now."""

from tests.support.gpus import gpu_node, gpu_pod

from moorage.contrib.gpu.fgd import FGD
from moorage.contrib.gpu.gpu_share import GpuShare
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.gpu_args import FGDArgs, GpuShareArgs, TypicalShape
from moorage.testing import make_node
from moorage.testing.rig import Rig

SHAPES = (TypicalShape(gpus=1, gpu_milli=500, pods=3), TypicalShape(cpu_milli=1000, pods=1))
SHARE, WITHOUT = "cpu=0m,gpu=1x500", "cpu=1000m,gpu=none"


def readings(*there: Node | Pod, label: str = "") -> dict[tuple[str, ...], float]:
    """Read the gauges of a cluster, by name and labels."""
    rig = Rig(*there)
    FGD(args=FGDArgs(typical_shapes=SHAPES), handle=rig)
    args = GpuShareArgs(pool_label=label) if label else GpuShareArgs()
    return {(name, *labels): value for name, labels, value in GpuShare(args=args, handle=rig).gauges()}


def test_pools_are_grouped_by_gpu_model() -> None:
    full = gpu_pod("a", milli=700, node="b", devices="0")
    values = readings(gpu_node("a", gpus=4, model="T4"), gpu_node("b", gpus=1, model="G2"), full, make_node("c"))
    ratio = "moorage_fragmentation_ratio"
    assert values == {
        ("moorage_largest_job_gpus", "all"): 4.0,
        ("moorage_largest_job_gpus", "T4"): 4.0,
        ("moorage_largest_job_gpus", "G2"): 0.0,
        (ratio, "T4", SHARE): 0.0,
        (ratio, "T4", WITHOUT): 1.0,
        (ratio, "T4", "typical"): 0.25,
        (ratio, "G2", SHARE): 0.3,
        (ratio, "G2", WITHOUT): 0.3,
        (ratio, "G2", "typical"): 0.3,
        (ratio, "all", SHARE): 0.06,
        (ratio, "all", WITHOUT): 0.86,
        (ratio, "all", "typical"): 0.26,
    }


def test_pools_can_be_grouped_by_another_label() -> None:
    values = readings(gpu_node("a", gpus=2), label="kubernetes.io/hostname")
    assert values["moorage_largest_job_gpus", "a"] == 2.0


def test_a_cluster_without_gpus_shows_nothing() -> None:
    assert readings(make_node("a")) == {}
