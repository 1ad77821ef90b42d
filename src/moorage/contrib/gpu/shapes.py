"""Typical shapes of pods, and how much of the idle GPUs of a node is of no use to them: fragmentation."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from moorage.common.caches import LRU
from moorage.contrib.gpu.claimed_devices import ClaimedDevices
from moorage.contrib.gpu.columns import GpuTable
from moorage.contrib.gpu.demand import readable_demand
from moorage.contrib.gpu.devices import NodeGpus
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.gpu_args import FGDArgs, TypicalShape
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.status import IntArray

COVERAGE: Final = 95
MAX_KNOWN: Final = 1 << 16
"""Maximum number of cached fragmentation values."""


class GpuShape(Struct, frozen=True, order=True):
    """The requests of pods of one shape; without GPUs, ``count`` and ``milli`` are 0."""

    cpu: int
    count: int = 0
    milli: int = 0
    models: tuple[str, ...] = ()

    def __str__(self) -> str:
        gpus = f"{self.count}x{self.milli}" if self.count else "none"
        return f"cpu={self.cpu}m,gpu={gpus}" + (f",model={'|'.join(self.models)}" if self.models else "")


def shape_of(pod: Pod, claimed: ClaimedDevices | None = None) -> GpuShape:
    """Return the shape of a pod, including its claims if they count."""
    demand = readable_demand(pod)
    if demand is None and claimed is not None:
        demand = claimed.demand_of(pod)
    cpu = pod.requests.get("cpu", 0)
    return GpuShape(cpu) if demand is None else GpuShape(cpu, demand.count, demand.milli, demand.models)


class Typical:
    """The typical shapes, each with how many pods have it.

    Numbers stay integers: fragmentation is ``weight`` times as large as in thousandths of a GPU, where ``weight`` is
    how many pods have a typical shape, so that both forms of a plugin come to the very same number.
    """

    def __init__(self, counts: Mapping[GpuShape, int]) -> None:
        self.counts = dict(counts)
        self.weight = sum(counts.values())
        self._without_gpus = sum(pods for shape, pods in counts.items() if not shape.count)
        self._by_milli: dict[int, list[tuple[GpuShape, int]]] = {}
        for shape, pods in counts.items():
            if shape.count:
                self._by_milli.setdefault(shape.milli, []).append((shape, pods))
        self._known: LRU[tuple[tuple[int, ...], int, str | None], int] = LRU(
            "GPU fragmentation", MAX_KNOWN, self._work_out
        )

    @classmethod
    def covering(cls, shapes: Iterable[GpuShape], percent: int = COVERAGE) -> "Typical":
        """Count shapes, and keep the most popular ones until they cover this percentage."""
        counts: dict[GpuShape, int] = {}
        for shape in shapes:
            counts[shape] = counts.get(shape, 0) + 1
        total, covered, popular = sum(counts.values()), 0, {}
        for shape, pods in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])):
            if covered * 100 >= percent * total:
                break
            popular[shape] = pods
            covered += pods
        return cls(popular)

    def fragmentation(self, table: GpuTable) -> IntArray:
        """Return how much of the idle GPUs of each node is of no use, times ``weight``."""
        idle = table.idle
        useless: IntArray = idle * self._without_gpus
        for milli, shapes in self._by_milli.items():
            fitting = table.free >= milli
            enough = fitting.sum(axis=1)
            too_small = idle - (table.free * fitting).sum(axis=1)
            for shape, pods in shapes:
                runs = (enough >= shape.count) & (table.cpu_free >= shape.cpu)
                if shape.models:
                    runs &= table.models.is_in(shape.models)
                useless += pods * np.where(runs, too_small, idle)
        return useless

    def fragmentation_of(self, node: NodeGpus) -> int:
        """Return how much of the idle GPUs of one node is of no use, times ``weight``."""
        # Which device has what left does not matter, so that many nodes are alike.
        return self._known.lookup((tuple(sorted(node.free)), node.cpu_free, node.model))

    def _work_out(self, state: tuple[tuple[int, ...], int, str | None]) -> int:
        free, cpu_free, model = state
        idle = sum(free)
        useless = idle * self._without_gpus
        for milli, shapes in self._by_milli.items():
            enough = sum(device_free >= milli for device_free in free)
            too_small = sum(device_free for device_free in free if device_free < milli)
            for shape, pods in shapes:
                runs = enough >= shape.count and cpu_free >= shape.cpu
                runs = runs and (not shape.models or model in shape.models)
                useless += pods * (too_small if runs else idle)
        return useless


class FixedShapes:
    """Typical shapes that the configuration gives."""

    def __init__(self, shapes: Sequence[TypicalShape]) -> None:
        counts: dict[GpuShape, int] = {}
        for typical_pod in shapes:
            asks = (
                (typical_pod.gpus, typical_pod.gpu_milli, tuple(sorted({*typical_pod.gpu_models})))
                if typical_pod.gpus
                else ()
            )
            shape = GpuShape(typical_pod.cpu_milli, *asks)
            counts[shape] = counts.get(shape, 0) + typical_pod.pods
        self.typical = Typical(counts)
        self.epoch = 0

    def refresh(self) -> None:
        """Do nothing: the shapes are fixed."""


class LearnedShapes:
    """Typical shapes of the pending and running pods in the cluster, recounted periodically.

    The first recounts happen early: whenever the number of changes since the last count equals all changes before it.
    """

    def __init__(self, handle: Handle, args: FGDArgs, claimed: ClaimedDevices | None = None) -> None:
        self._pods = handle.lister(Pod)
        self._claimed = claimed
        self._clock = handle.clock
        self._args = args
        self._version = -1
        self._counted = 0
        self._due = 0.0
        self.typical = Typical({})
        self.epoch = 0
        """Grows whenever other shapes are typical, or other shares of them."""

    def refresh(self) -> None:
        """Count the pods, if it is time to."""
        if self._pods.version == self._version:
            return
        if self._clock.now() < self._due and self._pods.version < 2 * self._version:
            return
        self._version = self._pods.version
        self._due = self._clock.now() + self._args.relearn_seconds
        shapes = (shape_of(pod, self._claimed) for pod in self._pods.list() if not pod.is_finished)
        typical = Typical.covering(shapes, self._args.coverage_percent)
        if typical.counts != self.typical.counts:
            self.typical = typical
            self.epoch += 1


ShapeSource = FixedShapes | LearnedShapes
