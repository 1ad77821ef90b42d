"""FGD (fragmentation gradient descent): prefer nodes where a pod leaves the least unusable GPU capacity."""

import math
from collections.abc import Hashable
from typing import Final

import numpy as np

from moorage.common.caches import LRU
from moorage.contrib.gpu.columns import GpuTable
from moorage.contrib.gpu.demand import GpuDemand
from moorage.contrib.gpu.devices import NodeGpus, first_fitting
from moorage.contrib.gpu.gpu_policies import GpuPolicy
from moorage.contrib.gpu.shapes import FixedShapes, LearnedShapes, ShapeSource, Typical
from moorage.kube.api.gpu_sharing import WHOLE_GPU
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.contrib_args import FGDArgs
from moorage.scheduler.framework.columns import Categorical
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.status import MAX_NODE_SCORE, MIN_NODE_SCORE, IntArray

MAX_GRADES: Final = 1 << 16


class FGD(GpuPolicy):
    """Score the reduction of a node's fragmentation by the pod; 50 means no difference.

    A share is tried on every device with enough free capacity. The device with the highest score is selected, the first
    of equal ones.
    """

    Args = FGDArgs

    def __init__(self, *, args: FGDArgs | None = None, handle: Handle) -> None:
        super().__init__(handle=handle)
        args = args or FGDArgs()
        fixed = args.typical_shapes
        self._shapes: ShapeSource = FixedShapes(fixed) if fixed else LearnedShapes(handle, args)
        self._books.shapes = self._shapes
        self._books.choose = self.devices_for
        self._grades: LRU[int, int] = LRU("FGD scores", MAX_GRADES, self._grade)
        self._graded_epoch = 0

    def epoch(self) -> Hashable:
        self._shapes.refresh()
        return self._shapes.epoch

    @property
    def typical(self) -> Typical:
        """The current typical shapes."""
        self._shapes.refresh()
        if self._graded_epoch != self._shapes.epoch:
            self._graded_epoch = self._shapes.epoch
            self._grades.clear()
        return self._shapes.typical

    def _grade(self, gain: int) -> int:
        """Return the score of a reduced fragmentation, in the unit of :class:`Typical`."""
        weight = max(self._shapes.typical.weight, 1)
        return int(MAX_NODE_SCORE * (1.0 / (1.0 + math.exp(-(gain / weight / WHOLE_GPU)))))

    def score_node(self, cpu: int, demand: GpuDemand | None, node: NodeGpus) -> int:
        return self._best(cpu, demand, node)[0]

    def devices_for(self, pod: Pod, demand: GpuDemand, node: NodeGpus) -> tuple[int, ...]:
        """Return the devices for which a node was scored."""
        return self._best(pod.requests.get("cpu", 0), demand, node)[1]

    def _best(self, cpu: int, demand: GpuDemand | None, node: NodeGpus) -> tuple[int, tuple[int, ...]]:
        typical = self.typical
        before, cpu_left = typical.node_fragmentation(node), node.cpu_free - cpu
        if demand is None or not demand.is_share:
            devices = () if demand is None else first_fitting(node.free, demand)
            if demand is not None and not devices:
                return MIN_NODE_SCORE, ()
            after = _without(node, devices, demand.milli if demand else 0, cpu_left)
            return self._grades.lookup(before - typical.node_fragmentation(after)), devices
        best = -1
        chosen: tuple[int, ...] = ()
        tried_amounts: set[int] = set()
        for device, free in enumerate(node.free):
            if free >= demand.milli and free not in tried_amounts:
                tried_amounts.add(free)
                after = _without(node, (device,), demand.milli, cpu_left)
                score = self._grades.lookup(before - typical.node_fragmentation(after))
                if score > best:
                    best, chosen = score, (device,)
        return max(best, MIN_NODE_SCORE), chosen

    def score_table(self, cpu: int, demand: GpuDemand | None, table: GpuTable) -> IntArray:
        typical = self.typical
        rows, devices = _ways(demand, table.free)
        free = table.free[rows]
        if demand is not None:
            free[devices] -= demand.milli
        models = Categorical(table.models.codes[rows], table.models.values)
        after = GpuTable(free, table.count[rows], table.classes[rows], table.cpu_free[rows] - cpu, models)
        gains = typical.fragmentation(table)[rows] - typical.fragmentation(after)
        distinct, inverse = np.unique(gains, return_inverse=True)
        grades = np.array([self._grades.lookup(gain) for gain in distinct.tolist()], dtype=np.int64)
        scores = np.full(len(table), MIN_NODE_SCORE, dtype=np.int64)
        np.maximum.at(scores, rows, grades[inverse])
        return scores


def _without(node: NodeGpus, devices: tuple[int, ...], milli: int, cpu_left: int) -> NodeGpus:
    free = list(node.free)
    for device in devices:
        free[device] -= milli
    return NodeGpus(tuple(free), node.model, cpu_left)


def _ways(demand: GpuDemand | None, free: IntArray) -> tuple[IntArray, tuple[IntArray, IntArray]]:
    """List the possible allocations: the row of each, and the indexes of the devices that are used by it.

    A share may use any device with enough free capacity; whole GPUs are allocated in the order of their numbers.
    """
    nothing = np.zeros(0, dtype=np.int64)
    if demand is None:
        return np.arange(len(free)), (nothing, nothing)
    fitting = free >= demand.milli
    if demand.is_share:
        rows, devices = np.nonzero(fitting)
        return rows, (np.arange(len(rows)), devices)
    rows = np.flatnonzero(fitting.sum(axis=1) >= demand.count)
    selected = fitting[rows] & (fitting[rows].cumsum(axis=1) <= demand.count)
    indexes, devices = np.nonzero(selected)
    return rows, (indexes, devices)
