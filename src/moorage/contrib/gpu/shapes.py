"""Typical shapes of pods, and fragmentation: the idle GPU capacity of a node that they cannot use."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Final

import numpy as np
from msgspec import Struct

from moorage.common.caches import LRU
from moorage.contrib.gpu.claimed_devices import ClaimedDevices
from moorage.contrib.gpu.columns import GpuColumns, GpuTable
from moorage.contrib.gpu.devices import GpuDemand, NodeGpus, first_fitting, loosest, readable_demand, tightest
from moorage.kube.api.gpu_sharing import WHOLE_GPU
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.contrib_args import BY_POLICY, FIRST, LOOSEST, RANDOM, TIGHTEST, FGDArgs, TypicalShape
from moorage.scheduler.framework.cycle import StateKey
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.status import IntArray

COVERAGE: Final = 95
MAX_KNOWN: Final = 1 << 16
"""Maximum number of cached fragmentation values."""


class GpuShape(Struct, frozen=True, order=True):
    """The requests of pods of the same shape. Without GPUs, ``count`` and ``milli`` are 0."""

    cpu: int
    count: int = 0
    milli: int = 0
    models: tuple[str, ...] = ()

    def __str__(self) -> str:
        gpus = f"{self.count}x{self.milli}" if self.count else "none"
        return f"cpu={self.cpu}m,gpu={gpus}" + (f",model={'|'.join(self.models)}" if self.models else "")


def read_shape(pod: Pod, claimed: ClaimedDevices | None = None) -> GpuShape:
    """Return the shape of a pod, including its claims if they count."""
    demand = readable_demand(pod)
    if demand is None and claimed is not None:
        demand = claimed.claimed_demand(pod)
    cpu = pod.requests.get("cpu", 0)
    return GpuShape(cpu) if demand is None else GpuShape(cpu, demand.count, demand.milli, demand.models)


class _ShapeColumns(Struct, frozen=True):
    """Shapes that request the same share of each GPU, as columns. ``models`` has the requests that require models."""

    counts: IntArray
    cpus: IntArray
    pods: IntArray
    models: Sequence[tuple[int, tuple[str, ...]]]

    @classmethod
    def of(cls, shapes: Sequence[tuple[GpuShape, int]]) -> "_ShapeColumns":
        return cls(
            np.array([shape.count for shape, _ in shapes], dtype=np.int64),
            np.array([shape.cpu for shape, _ in shapes], dtype=np.int64),
            np.array([pods for _, pods in shapes], dtype=np.int64),
            [(column, shape.models) for column, (shape, _) in enumerate(shapes) if shape.models],
        )


class Typical:
    """The typical shapes, each with its number of pods.

    Fragmentation is an integer, so that both forms of a plugin compute the same number: thousandths of a GPU multiplied
    by ``weight``, the number of pods with a typical shape.
    """

    def __init__(self, counts: Mapping[GpuShape, int]) -> None:
        self.counts = dict(counts)
        self.weight = sum(counts.values())
        self._without_gpus = sum(pods for shape, pods in counts.items() if not shape.count)
        self._by_milli: dict[int, list[tuple[GpuShape, int]]] = {}
        for shape, pods in counts.items():
            if shape.count:
                self._by_milli.setdefault(shape.milli, []).append((shape, pods))
        self._columns = {milli: _ShapeColumns.of(shapes) for milli, shapes in self._by_milli.items()}
        self._cached_ids: LRU[tuple[tuple[int, ...], int, str | None], int] = LRU(
            "GPU fragmentation", MAX_KNOWN, self._compute
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
        """Return the unusable idle capacity of each node, multiplied by ``weight``."""
        idle = table.idle
        useless: IntArray = idle * self.weight
        for milli, shapes in self._columns.items():
            fitting = table.free >= milli
            # One row per node, one column per shape: a NumPy call per shape would cost more than its numbers.
            runs = (fitting.sum(axis=1)[:, None] >= shapes.counts) & (table.cpu_free[:, None] >= shapes.cpus)
            for column, models in shapes.models:
                runs[:, column] &= table.models.is_in(models)
            useless -= (table.free * fitting).sum(axis=1) * (runs @ shapes.pods)
        return useless

    def useless_share(self, table: GpuTable) -> float:
        """Return the share of all GPU capacity that is idle and that typical pods cannot use."""
        capacity = int(table.count.sum()) * WHOLE_GPU * max(self.weight, 1)
        return float(self.fragmentation(table).sum()) / capacity if capacity else 0.0

    def node_fragmentation(self, node: NodeGpus) -> int:
        """Return the unusable idle capacity of a node, multiplied by ``weight``."""
        # The order of the devices does not matter: sorting lets more nodes share a cached value.
        return self._cached_ids.lookup((tuple(sorted(node.free)), node.cpu_free, node.model))

    def _compute(self, state: tuple[tuple[int, ...], int, str | None]) -> int:
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
    """Typical shapes from the configuration."""

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
        """Grows whenever the typical shapes or their shares change."""

    def refresh(self) -> None:
        """Recount the pods if a recount is due."""
        if self._pods.version == self._version:
            return
        if self._clock.now() < self._due and self._pods.version < 2 * self._version:
            return
        self._version = self._pods.version
        self._due = self._clock.now() + self._args.relearn_seconds
        shapes = (read_shape(pod, self._claimed) for pod in self._pods.list() if not pod.is_finished)
        typical = Typical.covering(shapes, self._args.coverage_percent)
        if typical.counts != self.typical.counts:
            self.typical = typical
            self.epoch += 1


ShapeSource = FixedShapes | LearnedShapes


ChooseDevices = Callable[[Pod, GpuDemand, NodeGpus], tuple[int, ...]]
"""Returns the devices of a node for a pod, or empty if there are too few."""


class GpuBooks:
    """The shared state of the GPU plugins of a profile."""

    def __init__(self, columns: GpuColumns) -> None:
        self.columns = columns
        self.choose: ChooseDevices | None = None
        """Set by a score plugin that selects devices."""
        self.shapes: ShapeSource | None = None
        """Set by a plugin that defines the typical shapes."""


_COLUMNS: Final = StateKey[GpuColumns]("the GPUs of every node")
_BOOKS: Final = StateKey[dict[str, GpuBooks]]("shared state of the GPU plugins of each profile")


def shared_books(handle: Handle) -> GpuBooks:
    """Return the shared state of the GPU plugins of the handle's profile."""
    columns = handle.shared(_COLUMNS, lambda: GpuColumns(handle.nodes))
    by_profile: dict[str, GpuBooks] = handle.shared(_BOOKS, dict)
    return by_profile.setdefault(handle.profile, GpuBooks(columns))


def device_selection(selection: str, seed: int, books: GpuBooks) -> ChooseDevices:
    """Return the device selection of GpuShare's configuration or of the profile's policy.

    Selections differ for shares only. Whole GPUs are taken from free devices in the order of their numbers.
    """

    def by_policy(pod: Pod, demand: GpuDemand, node: NodeGpus) -> tuple[int, ...]:
        # Resolved late: the policy may be constructed after GpuShare.
        return tightest(node.free, demand) if books.choose is None else books.choose(pod, demand, node)

    selections: dict[str, ChooseDevices] = {
        BY_POLICY: by_policy,
        TIGHTEST: lambda _pod, demand, node: tightest(node.free, demand),
        LOOSEST: lambda _pod, demand, node: loosest(node.free, demand),
        FIRST: lambda _pod, demand, node: first_fitting(node.free, demand),
        RANDOM: random_selection(seed),
    }
    return selections[selection]


def random_selection(seed: int) -> ChooseDevices:
    """Return a selection of any device with enough free capacity, determined by the seed and the pod."""

    def choose(pod: Pod, demand: GpuDemand, node: NodeGpus) -> tuple[int, ...]:
        fitting = [device for device, free in enumerate(node.free) if free >= demand.milli]
        if not fitting or not demand.is_share:
            return first_fitting(node.free, demand)
        return (Random(f"{seed} {pod.key}").choice(fitting),)

    return choose
