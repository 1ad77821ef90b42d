"""GPU policies: they score a node by its free CPU and devices, and by the request of the pod.

FGD (fragmentation gradient descent) prefers nodes where a pod leaves the least unusable GPU capacity.
"""

import math
from abc import abstractmethod
from collections.abc import Hashable
from typing import Final

import numpy as np

from moorage.common.caches import LRU
from moorage.contrib.community.scaling import spread
from moorage.contrib.gpu.columns import GpuTable, hash_text
from moorage.contrib.gpu.devices import GpuDemand, NodeGpus, first_fitting, readable_demand
from moorage.contrib.gpu.shapes import FixedShapes, LearnedShapes, ShapeSource, Typical, random_selection, shared_books
from moorage.kube.api.gpu_sharing import WHOLE_GPU
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.contrib_args import FGDArgs, GpuRandomArgs
from moorage.scheduler.framework.columns import Categorical
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import DependsOn, ScorePlugin
from moorage.scheduler.framework.status import MAX_NODE_SCORE, MIN_NODE_SCORE, IntArray

LARGEST_CPU: Final = 128_000
"""The CPU of the largest node of the published experiments, in thousandths. Scores are relative to it."""
LARGEST_GPU: Final = 8_000
STEP: Final = MAX_NODE_SCORE // 4
ON_USED_NODE: Final = MAX_NODE_SCORE // 2
ON_EMPTY_NODE: Final = MAX_NODE_SCORE // 3
_ALL_BITS: Final = (1 << 64) - 1
_FACTORS: Final = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
"""Two odd multipliers that spread the bits of a hash."""


class GpuPolicy(ScorePlugin):
    """Scores a node by its free CPU and devices, and by the pod's requests."""

    depends_on = DependsOn.PODS

    def __init__(self, *, handle: Handle) -> None:
        self._books = shared_books(handle)

    @abstractmethod
    def score_node(self, cpu: int, demand: GpuDemand | None, node: NodeGpus) -> int:
        """Score one node for a pod with this CPU and GPU request."""

    @abstractmethod
    def score_table(self, cpu: int, demand: GpuDemand | None, table: GpuTable) -> IntArray:
        """Score many nodes for such a pod."""

    def sign(self, pod: Pod) -> Hashable:
        return pod.requests.get("cpu", 0), readable_demand(pod)

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        gpus = self._books.columns.of(node)
        return self.score_node(pod.requests.get("cpu", 0), readable_demand(pod), gpus)

    def score_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        table = self._books.columns.through(nodes)
        return self.score_table(pod.requests.get("cpu", 0), readable_demand(pod), table)


class GpuBestFit(GpuPolicy):
    """Score the remaining CPU and GPU with the pod, each relative to the largest node: less is better.

    Among the feasible nodes the best has 100 and the worst 0. A share takes the tightest device.
    """

    _normalizes_by_value = True

    def score_node(self, cpu: int, demand: GpuDemand | None, node: NodeGpus) -> int:
        gpu = 0 if demand is None else demand.total
        free_share = (node.cpu_free - cpu) / LARGEST_CPU * 0.5 + (node.idle - gpu) / LARGEST_GPU * 0.5
        return int((1.0 - free_share) * 100)

    def score_table(self, cpu: int, demand: GpuDemand | None, table: GpuTable) -> IntArray:
        gpu = 0 if demand is None else demand.total
        free_share = (table.cpu_free - cpu) / LARGEST_CPU * 0.5 + (table.idle - gpu) / LARGEST_GPU * 0.5
        return ((1.0 - free_share) * 100).astype(np.int64)

    def normalize_scores(self, cycle: CycleState, pod: Pod, nodes: NodeTable, scores: IntArray) -> IntArray:
        return spread(scores, int(scores.min()), int(scores.max())) if len(scores) else scores


class GpuDotProd(GpuPolicy):
    """Score 1 - (free · requested) / 2, both relative to the largest node. A share takes the tightest device."""

    def score_node(self, cpu: int, demand: GpuDemand | None, node: NodeGpus) -> int:
        gpu = 0 if demand is None else demand.total
        product = node.cpu_free / LARGEST_CPU * (cpu / LARGEST_CPU) + node.idle / LARGEST_GPU * (gpu / LARGEST_GPU)
        # Nodes may be larger than the largest of the experiments.
        return int(MAX_NODE_SCORE * min(max(1.0 - product / 2, 0.0), 1.0))

    def score_table(self, cpu: int, demand: GpuDemand | None, table: GpuTable) -> IntArray:
        gpu = 0 if demand is None else demand.total
        by_cpu = table.cpu_free / LARGEST_CPU * (cpu / LARGEST_CPU)
        product = by_cpu + table.idle / LARGEST_GPU * (gpu / LARGEST_GPU)
        scores = MAX_NODE_SCORE * np.clip(1.0 - product / 2, 0.0, 1.0)
        return np.clip(scores.astype(np.int64), MIN_NODE_SCORE, MAX_NODE_SCORE)


class GpuPacking(GpuPolicy):
    """Score 100 to 50 where devices in use are sufficient (fuller is better), 50 to 33 where free devices of used nodes
    are needed (fewer is better), and 33 to 0 on nodes with only free devices (fewer is better).

    The tightest devices count, which a share gets. Pods without GPUs score 0 everywhere.
    """

    def score_node(self, cpu: int, demand: GpuDemand | None, node: NodeGpus) -> int:
        fitting = [] if demand is None else sorted(free for free in node.free if free >= demand.milli)
        if demand is None or len(fitting) < demand.count:
            return MIN_NODE_SCORE
        if all(free == WHOLE_GPU for free in node.free):
            return max(ON_EMPTY_NODE - len(node.free), MIN_NODE_SCORE)
        selected = fitting[: demand.count]
        if newly_used := selected.count(WHOLE_GPU):
            return max(ON_USED_NODE - newly_used, ON_EMPTY_NODE)
        percent_free = sum(free * 100 // WHOLE_GPU for free in selected)
        return max(MAX_NODE_SCORE - percent_free // 10, ON_USED_NODE)

    def score_table(self, cpu: int, demand: GpuDemand | None, table: GpuTable) -> IntArray:
        scores = np.full(len(table), MIN_NODE_SCORE, dtype=np.int64)
        if demand is None or table.free.shape[1] < demand.count:
            return scores
        free = table.free
        # Infeasible placements sort after all feasible ones.
        selected = np.sort(np.where(free >= demand.milli, free, 2 * WHOLE_GPU), axis=1)[:, : demand.count]
        newly_used = (selected == WHOLE_GPU).sum(axis=1)
        percent_free = (selected * 100 // WHOLE_GPU).sum(axis=1)
        in_use = np.maximum(MAX_NODE_SCORE - percent_free // 10, ON_USED_NODE)
        on_used = np.where(newly_used > 0, np.maximum(ON_USED_NODE - newly_used, ON_EMPTY_NODE), in_use)
        is_empty = (free == WHOLE_GPU).sum(axis=1) == table.count
        on_empty = np.maximum(ON_EMPTY_NODE - table.count, MIN_NODE_SCORE)
        fits = selected[:, -1] <= WHOLE_GPU
        return np.where(fits, np.where(is_empty, on_empty, on_used), MIN_NODE_SCORE)


class GpuClustering(GpuPolicy):
    """Score 100 to 75 where all pods with GPUs have the pod's class, 75 to 50 where some do, 50 to 25 on nodes without
    GPU pods, and 25 to 0 on other nodes. Within each range, fewer idle GPUs relative to the largest node are better.

    Pods without GPUs score 0 everywhere and are not counted. A share takes the tightest device.
    """

    def score_node(self, cpu: int, demand: GpuDemand | None, node: NodeGpus) -> int:
        if demand is None:
            return MIN_NODE_SCORE
        if node.classes & demand.class_bit:
            base = 3 * STEP if node.classes == demand.class_bit else 2 * STEP
        else:
            base = MIN_NODE_SCORE if node.classes else STEP
        # Nodes may have more than eight GPUs.
        return base + STEP * max(LARGEST_GPU - node.idle, 0) // LARGEST_GPU

    def score_table(self, cpu: int, demand: GpuDemand | None, table: GpuTable) -> IntArray:
        if demand is None:
            return np.full(len(table), MIN_NODE_SCORE, dtype=np.int64)
        own, classes = demand.class_bit, table.classes
        with_own = np.where(classes == own, 3 * STEP, 2 * STEP)
        without = np.where(classes == 0, STEP, MIN_NODE_SCORE)
        base = np.where(classes & own, with_own, without)
        fuller: IntArray = STEP * np.maximum(LARGEST_GPU - table.idle, 0) // LARGEST_GPU
        return base + fuller


class GpuRandom(ScorePlugin):
    """Score 100 on one feasible node and 0 on all other nodes, pseudo-randomly by seed, pod and node.

    The result does not depend on the order of nodes and is reproducible. A share takes a random device with enough
    free capacity.
    """

    Args = GpuRandomArgs
    depends_on = DependsOn.CLUSTER

    def __init__(self, *, args: GpuRandomArgs | None = None, handle: Handle) -> None:
        self._seed = (args or GpuRandomArgs()).seed
        self._books = shared_books(handle)
        self._books.choose = random_selection(self._seed)

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        lot = hash_text(node.name) ^ self._salt(pod)
        for factor in _FACTORS:
            lot = ((lot ^ (lot >> 31)) * factor) & _ALL_BITS
        return (lot ^ (lot >> 31)) >> 1

    def score_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        lots = self._books.columns.salts(nodes) ^ np.uint64(self._salt(pod))
        for factor in _FACTORS:
            # Overflow drops the bits beyond 64.
            lots = (lots ^ (lots >> np.uint64(31))) * np.uint64(factor)
        return ((lots ^ (lots >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)

    def _salt(self, pod: Pod) -> int:
        return hash_text(f"{self._seed} {pod.key}")

    def normalize_scores(self, cycle: CycleState, pod: Pod, nodes: NodeTable, scores: IntArray) -> IntArray:
        normalized = np.full(len(scores), MIN_NODE_SCORE, dtype=np.int64)
        if len(scores):
            normalized[int(scores.argmax())] = MAX_NODE_SCORE
        return normalized


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
        self._books.choose = self.select_devices
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

    def select_devices(self, pod: Pod, demand: GpuDemand, node: NodeGpus) -> tuple[int, ...]:
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
        best_devices: tuple[int, ...] = ()
        tried_amounts: set[int] = set()
        for device, free in enumerate(node.free):
            if free >= demand.milli and free not in tried_amounts:
                tried_amounts.add(free)
                after = _without(node, (device,), demand.milli, cpu_left)
                score = self._grades.lookup(before - typical.node_fragmentation(after))
                if score > best:
                    best, best_devices = score, (device,)
        return max(best, MIN_NODE_SCORE), best_devices

    def score_table(self, cpu: int, demand: GpuDemand | None, table: GpuTable) -> IntArray:
        typical = self.typical
        rows, devices = _list_allocations(demand, table.free)
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


def _list_allocations(demand: GpuDemand | None, free: IntArray) -> tuple[IntArray, tuple[IntArray, IntArray]]:
    """List the possible allocations: the row of each, and the indexes of the devices that are used by it.

    A share may use any device with enough free capacity. Whole GPUs are allocated in the order of their numbers.
    """
    no_rows = np.zeros(0, dtype=np.int64)
    if demand is None:
        return np.arange(len(free)), (no_rows, no_rows)
    fitting = free >= demand.milli
    if demand.is_share:
        rows, devices = np.nonzero(fitting)
        return rows, (np.arange(len(rows)), devices)
    rows = np.flatnonzero(fitting.sum(axis=1) >= demand.count)
    selected = fitting[rows] & (fitting[rows].cumsum(axis=1) <= demand.count)
    indexes, devices = np.nonzero(selected)
    return rows, (indexes, devices)
