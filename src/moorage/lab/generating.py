"""Generated traces and clusters: marginals of requests, arrival rates and durations."""

from collections.abc import Iterator
from random import Random
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from moorage.common.errors import InputError, did_you_mean
from moorage.lab import openb
from moorage.lab.script import chance_of
from moorage.lab.trace import Trace, TracePod

DAY: Final = 86_400.0
WHOLE: Final = 1000


class PodKind(Struct, frozen=True):
    """Pods of one kind of work: shapes with how often each comes, and how long they run."""

    name: str
    share: float
    """Which part of all pods are of this kind."""
    shapes: tuple[tuple[float, int, int, int, int], ...]
    """How often, milli-CPU, MiB, GPUs, thousandths of each."""
    median_seconds: float | None = None
    """Median duration; endless by default."""
    sigma: float = 1.0
    """How far running times are apart: the standard deviation of their logarithm."""
    priority: int = 0
    failing: float = 0.0
    """Which part of them fails once before it succeeds."""
    replicas: int = 1
    """Number of pods that arrive together, with one label."""


class Preset(Struct, frozen=True):
    """A workload mix and its arrival rate per hour."""

    about: str
    kinds: tuple[PodKind, ...]
    pods_per_hour: float
    pods: int = 2000
    models: tuple[tuple[str, float], ...] = ()
    """Models of GPUs that some pods insist on, with which part of the pods with GPUs does."""


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
        *((0.45, 8000, 65536, 1, WHOLE), (0.2, 16000, 131072, 2, WHOLE)),
        *((0.2, 32000, 262144, 4, WHOLE), (0.15, 64000, 524288, 8, WHOLE)),
    ),
    median_seconds=4 * 3600.0,
    sigma=1.4,
    priority=50,
    failing=0.1,
)
NOTEBOOK: Final = PodKind(
    "notebook",
    1.0,
    ((0.4, 4000, 16384, 1, 250), (0.4, 4000, 16384, 1, 500), (0.2, 8000, 32768, 1, WHOLE)),
    median_seconds=2 * 3600.0,
    sigma=0.7,
    priority=100,
)


OPENB_KINDS: Final = (
    PodKind(
        "whole",
        0.48,
        tuple((float(often), cpu, memory, 1, WHOLE) for cpu, memory, often in openb.WHOLE),
        median_seconds=1.5 * DAY,
        sigma=1.6,
    ),
    PodKind(
        "share",
        0.378,
        tuple((float(often), cpu, memory, 1, milli) for cpu, memory, milli, often in openb.SHARED),
        median_seconds=1.5 * DAY,
        sigma=1.6,
    ),
    PodKind(
        "cpu",
        0.133,
        tuple((float(often), cpu, memory, 0, 0) for cpu, memory, often in openb.WITHOUT),
        median_seconds=DAY,
        sigma=1.6,
    ),
    PodKind(
        "several",
        0.0092,
        tuple((float(often), cpu, memory, gpus, WHOLE) for cpu, memory, gpus, often in openb.SEVERAL),
        median_seconds=3 * DAY,
        sigma=1.6,
    ),
)

PRESETS: Final[dict[str, Preset]] = {
    "web": Preset("services that come in replicas, and stay for hours", (WEB,), 120.0),
    "batch": Preset("jobs of minutes to hours, some of which fail", (BATCH,), 1600.0, pods=4000),
    "training": Preset("training on one to eight whole GPUs", (TRAINING,), 6.0, pods=600),
    "mixed": Preset(
        "services, jobs, notebooks and training on one cluster",
        (
            replace(WEB, share=0.5),
            replace(BATCH, share=0.43),
            replace(TRAINING, share=0.03),
            replace(NOTEBOOK, share=0.04),
        ),
        90.0,
    ),
    "openb": Preset(
        "the marginals of the public GPU trace of 2023: half of the pods whole GPUs, a third shares",
        OPENB_KINDS,
        2.28,
        pods=8152,
    ),
}


def generate(
    preset: str, seed: int, *, pods: int | None = None, pods_per_hour: float | None = None, where: str = "preset"
) -> Trace:
    """Make up a trace; the same seed gives the same one. InputError if there is no such preset."""
    settings = PRESETS.get(preset)
    if settings is None:
        hint = did_you_mean(preset, PRESETS) or f"write one of {', '.join(PRESETS)}"
        raise InputError(where, f"there is no preset {preset!r}", hint=hint)
    chance = chance_of(seed, f"trace {preset}")
    lines = _lines(settings, chance, settings.pods if pods is None else pods, pods_per_hour or settings.pods_per_hour)
    return Trace(preset, tuple(lines))


def _lines(preset: Preset, chance: Random, pods: int, pods_per_hour: float) -> Iterator[TracePod]:
    count, moment = 0, 0.0
    # Kinds are drawn so that each has its share of the pods, however many of them come together.
    weights = [kind.share / kind.replicas for kind in preset.kinds]
    mean = sum(kind.replicas * weight for kind, weight in zip(preset.kinds, weights, strict=True)) / sum(weights)
    while count < pods:
        kind = chance.choices(preset.kinds, weights)[0]
        moment += chance.expovariate(pods_per_hour / mean / 3600.0)
        shape = chance.choices(kind.shapes, [often for often, *_ in kind.shapes])[0]
        models = _models(preset, chance) if shape[3] else ()
        labels = {"app": f"{kind.name}-{count}"} if kind.replicas > 1 else {"app": kind.name}
        for _ in range(min(kind.replicas, pods - count)):
            yield _pod(kind, shape, moment, labels, models, count, chance)
            count += 1


def _pod(
    kind: PodKind,
    shape: tuple[float, int, int, int, int],
    moment: float,
    labels: dict[str, str],
    models: tuple[str, ...],
    number: int,
    chance: Random,
) -> TracePod:
    _, cpu, memory, gpus, milli = shape
    median = kind.median_seconds
    return TracePod(
        name=f"{kind.name}-{number}",
        arrives=round(moment, 3),
        runs=None if median is None else round(median * chance.lognormvariate(0.0, kind.sigma), 3),
        cpu_milli=cpu,
        memory_mib=memory,
        gpus=gpus,
        gpu_milli=milli,
        gpu_models=models,
        kind=kind.name,
        priority=kind.priority,
        fails=1 if chance.random() < kind.failing else 0,
        labels=labels,
    )


def _models(preset: Preset, chance: Random) -> tuple[str, ...]:
    drawn = chance.random()
    for models, share in preset.models:
        if drawn < share:
            return tuple(models.split("|"))
        drawn -= share
    return ()
