"""The arguments of the plugins for GPUs that can be shared."""

from collections.abc import Iterator
from typing import Any, Final

from moorage.common.errors import ConfigError
from moorage.kube.api.gpu_sharing import GPU_MODEL, WHOLE_GPU
from moorage.kube.api.struct import KubeStruct
from moorage.scheduler.config.problems import invalid, required, unsupported
from moorage.scheduler.config.types import Int64

BY_POLICY: Final = "Policy"
TIGHTEST: Final = "Tightest"
LOOSEST: Final = "Loosest"
FIRST: Final = "First"
RANDOM: Final = "Random"
_SELECTIONS: Final = (BY_POLICY, TIGHTEST, LOOSEST, FIRST, RANDOM)


class GpuShareArgs(KubeStruct, frozen=True):
    """The choice of devices for a share, the random seed, and the node label that groups metrics by pool.

    ``draDriver`` names a driver of dynamic resource allocation whose devices the metrics include.

    ``Policy`` leaves the choice to the score plugin of the profile: the best device under FGD, any under GpuRandom, and
    the tightest under all others.
    """

    device_selection: str = BY_POLICY
    seed: Int64 = 0
    pool_label: str = GPU_MODEL
    dra_driver: str = ""


class TypicalShape(KubeStruct, frozen=True):
    """The requests of a typical pod, and its relative frequency."""

    cpu_milli: Int64 = 0
    gpus: Int64 = 0
    gpu_milli: Int64 = 0
    gpu_models: tuple[str, ...] = ()
    pods: Int64 = 1


class FGDArgs(KubeStruct, frozen=True):
    """The typical pods; by default the shapes that cover this percentage of the pods in the cluster."""

    typical_shapes: tuple[TypicalShape, ...] = ()
    coverage_percent: Int64 = 95
    relearn_seconds: Int64 = 300


class GpuRandomArgs(KubeStruct, frozen=True):
    """The random seed: the same seed, pod and nodes give the same node."""

    seed: Int64 = 0


def gpu_args_problems(args: Any, where: str) -> Iterator[ConfigError]:
    """Yield the problems in the arguments of these plugins; other types are ignored."""
    match args:
        case GpuShareArgs():
            if args.device_selection not in _SELECTIONS:
                yield unsupported(f"{where}.deviceSelection", args.device_selection, _SELECTIONS)
            if not args.pool_label:
                yield required(f"{where}.poolLabel", "the name of a label of nodes")
        case FGDArgs():
            yield from _fgd(args, where)


def _fgd(args: FGDArgs, where: str) -> Iterator[ConfigError]:
    if not 1 <= args.coverage_percent <= 100:
        yield invalid(f"{where}.coveragePercent", args.coverage_percent, "not in valid range [1, 100]")
    if args.relearn_seconds < 1:
        yield invalid(f"{where}.relearnSeconds", args.relearn_seconds, "must be at least 1")
    for index, shape in enumerate(args.typical_shapes):
        field_path = f"{where}.typicalShapes[{index}]"
        if shape.gpus < 0:
            yield invalid(f"{field_path}.gpus", shape.gpus, "must not be negative")
        if shape.gpus > 0 and not 1 <= shape.gpu_milli <= WHOLE_GPU:
            text = f"a shape with GPUs takes 1 to {WHOLE_GPU} thousandths of each"
            yield invalid(f"{field_path}.gpuMilli", shape.gpu_milli, text)
        if shape.cpu_milli < 0:
            yield invalid(f"{field_path}.cpuMilli", shape.cpu_milli, "must not be negative")
        if shape.pods < 1:
            yield invalid(f"{field_path}.pods", shape.pods, "must be at least 1")
