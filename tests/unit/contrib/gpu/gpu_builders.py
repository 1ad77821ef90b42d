"""GPU nodes, pods and typical shapes."""

from tests.support.gpus import gpu_node, gpu_pod

from moorage.contrib.gpu.gpu_policies import FGD
from moorage.scheduler.config.contrib_args import FGDArgs, TypicalShape
from moorage.scheduler.framework.handle import Handle

SHAPES = (
    TypicalShape(cpu_milli=4000, gpus=1, gpu_milli=500, pods=3),
    TypicalShape(cpu_milli=1000, gpus=1, gpu_milli=1000, pods=1),
    TypicalShape(cpu_milli=500, pods=1),
    TypicalShape(cpu_milli=16000, gpus=1, gpu_milli=200, pods=1),
)


SMALL = (gpu_node("n", gpus=2, cpu=8), gpu_pod("a", milli=700, node="n", devices="1"))
"""1000 and 300 thousandths are free, and 8 CPUs."""


def fgd(handle: Handle) -> FGD:
    return FGD(args=FGDArgs(typical_shapes=SHAPES), handle=handle)
