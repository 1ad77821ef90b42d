"""Presets: generated traces, and clusters for them, from marginals of requests, arrival rates and durations."""

from collections.abc import Iterator
from random import Random
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from moorage.common.errors import InputError, did_you_mean
from moorage.kube.api.gpu_sharing import WHOLE_GPU
from moorage.lab import openb
from moorage.lab.cluster import LabCluster, NodePool, Watts, build_cluster
from moorage.lab.trace import Trace, TracePod
from moorage.lab.trial import make_random

DAY: Final = 86_400.0
ZONES: Final = ("zone-a", "zone-b", "zone-c")
Shape = tuple[float, int, int, int, int]
"""Frequency, milli-CPU, MiB, GPUs, thousandths of each GPU."""


class PodKind(Struct, frozen=True):
    """Pods of the same kind of workload: their shapes and durations."""

    name: str
    share: float
    """Share of all pods."""
    shapes: tuple[Shape, ...]
    median_seconds: float
    """Median duration."""
    sigma: float = 1.0
    """Standard deviation of the logarithm of the durations."""
    priority: int = 0
    failing: float = 0.0
    """Share of pods that fail once before they succeed."""
    replicas: int = 1
    """Number of pods that arrive together, with one label."""


class Preset(Struct, frozen=True):
    """A workload mix, its arrival rate, and the pools of its cluster. Openb has nodes of many sizes instead."""

    kinds: tuple[PodKind, ...]
    pods_per_hour: float
    pools: tuple[NodePool, ...] = ()
    pods: int = 2000


WEB: Final = PodKind(
    "web",
    1.0,
    ((0.45, 250, 512, 0, 0), (0.3, 500, 1024, 0, 0), (0.2, 1000, 2048, 0, 0), (0.05, 2000, 8192, 0, 0)),
    median_seconds=8 * 3600.0,
    sigma=0.8,
    priority=100,
    replicas=4,
)
BATCH: Final = PodKind(
    "batch",
    1.0,
    ((0.5, 1000, 2048, 0, 0), (0.3, 2000, 4096, 0, 0), (0.15, 4000, 16384, 0, 0), (0.05, 8000, 32768, 0, 0)),
    median_seconds=900.0,
    sigma=1.2,
    failing=0.05,
)
TRAINING: Final = PodKind(
    "training",
    1.0,
    (
        *((0.45, 8000, 65536, 1, WHOLE_GPU), (0.2, 16000, 131072, 2, WHOLE_GPU)),
        *((0.2, 32000, 262144, 4, WHOLE_GPU), (0.15, 64000, 524288, 8, WHOLE_GPU)),
    ),
    median_seconds=4 * 3600.0,
    sigma=1.4,
    priority=50,
    failing=0.1,
)
NOTEBOOK: Final = PodKind(
    "notebook",
    1.0,
    ((0.4, 4000, 16384, 1, 250), (0.4, 4000, 16384, 1, 500), (0.2, 8000, 32768, 1, WHOLE_GPU)),
    median_seconds=2 * 3600.0,
    sigma=0.7,
    priority=100,
)
OPENB_SHAPES: Final[dict[str, tuple[Shape, ...]]] = {
    "whole": tuple((often, cpu, memory, 1, WHOLE_GPU) for cpu, memory, often in openb.WHOLE),
    "share": tuple((often, cpu, memory, 1, milli) for cpu, memory, milli, often in openb.SHARED),
    "cpu": tuple((often, cpu, memory, 0, 0) for cpu, memory, often in openb.WITHOUT),
    "several": tuple((often, cpu, memory, gpus, WHOLE_GPU) for cpu, memory, gpus, often in openb.SEVERAL),
}
OPENB_KINDS: Final = tuple(
    PodKind(name, share, OPENB_SHAPES[name], days * DAY, sigma=1.6)
    for name, share, days in (
        ("whole", 0.48, 1.5),
        ("share", 0.378, 1.5),
        ("cpu", 0.133, 1.0),
        ("several", 0.0092, 3.0),
    )
)
GENERAL: Final = NodePool("general", 0, "32", "128Gi", zones=ZONES, price=1.4, watts=Watts(110.0, 420.0))
GPU_NODES: Final = NodePool(
    "gpu", 0, "96", "1024Gi", gpus=8, gpu_model="A100", zones=ZONES, price=22.0, watts=Watts(900.0, 4800.0)
)
MIXED: Final = (
    replace(WEB, share=0.5),
    replace(BATCH, share=0.43),
    replace(TRAINING, share=0.03),
    replace(NOTEBOOK, share=0.04),
)

PRESETS: Final[dict[str, Preset]] = {
    # Services with replicas that run for hours.
    "web": Preset((WEB,), 120.0, (replace(GENERAL, count=26),)),
    # Jobs of minutes to hours. Some fail.
    "batch": Preset((BATCH,), 1600.0, (replace(GENERAL, count=60),), pods=4000),
    # Training on one to eight whole GPUs.
    "training": Preset((TRAINING,), 6.0, (replace(GPU_NODES, count=24),), pods=600),
    # Services, jobs, notebooks and training on one cluster.
    "mixed": Preset(MIXED, 90.0, (replace(GENERAL, count=11), replace(GPU_NODES, count=12))),
    # The public GPU trace of 2023: about half of the pods have a whole GPU, a third share one.
    "openb": Preset(OPENB_KINDS, 2.28, pods=8152),
}


def _find_preset(name: str, location: str) -> Preset:
    if name not in PRESETS:
        hint = did_you_mean(name, PRESETS) or f"write one of {', '.join(PRESETS)}"
        raise InputError(location, f"there is no preset {name!r}", hint=hint)
    return PRESETS[name]


def preset_cluster(name: str, location: str = "preset") -> LabCluster:
    """Return the cluster of a preset. Raise InputError if the name is unknown."""
    pools = _find_preset(name, location).pools
    return build_cluster(name, pools, f"preset {name}") if pools else openb.make_openb_cluster()


def generate(
    preset: str, seed: int, *, pods: int | None = None, pods_per_hour: float | None = None, where: str = "preset"
) -> Trace:
    """Generate a trace. The same seed gives the same trace. Raise InputError if the preset is unknown."""
    settings = _find_preset(preset, where)
    random = make_random(seed, f"trace {preset}")
    count = settings.pods if pods is None else pods
    return Trace(preset, tuple(_generate_pods(settings, random, count, pods_per_hour or settings.pods_per_hour)))


def _generate_pods(preset: Preset, random: Random, pods: int, pods_per_hour: float) -> Iterator[TracePod]:
    count, moment = 0, 0.0
    # A draw of a kind with replicas yields several pods: divide its share, so that it applies to pods.
    weights = [kind.share / kind.replicas for kind in preset.kinds]
    mean = sum(kind.replicas * weight for kind, weight in zip(preset.kinds, weights, strict=True)) / sum(weights)
    while count < pods:
        kind = random.choices(preset.kinds, weights)[0]
        moment += random.expovariate(pods_per_hour / mean / 3600.0)
        _, cpu, memory, gpus, milli = random.choices(kind.shapes, [often for often, *_ in kind.shapes])[0]
        if gpus:
            random.random()  # unused: seeds keep the traces of the published numbers
        labels = {"app": f"{kind.name}-{count}"} if kind.replicas > 1 else {"app": kind.name}
        for _ in range(min(kind.replicas, pods - count)):
            yield TracePod(
                name=f"{kind.name}-{count}",
                arrives=round(moment, 3),
                runs=round(kind.median_seconds * random.lognormvariate(0.0, kind.sigma), 3),
                cpu_milli=cpu,
                memory_mib=memory,
                gpus=gpus,
                gpu_milli=milli,
                kind=kind.name,
                priority=kind.priority,
                fails=1 if random.random() < kind.failing else 0,
                labels=labels,
            )
            count += 1
