"""GpuShare: allocates parts of GPUs or whole GPUs to pods."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

import numpy as np
from msgspec.structs import replace

from moorage.contrib.gpu.claimed_devices import ClaimedDevices
from moorage.contrib.gpu.columns import GpuTable
from moorage.contrib.gpu.devices import NodeGpus, UnreadableDemand, fits, read_demand, read_gpus, readable_demand
from moorage.contrib.gpu.shapes import LearnedShapes, Typical, device_selection, shared_books
from moorage.kube.api.gpu_sharing import GPU_COUNT, GPU_DEVICES, GPU_MILLI, GPU_MODEL, WHOLE_GPU
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.contrib_args import FGDArgs, GpuShareArgs
from moorage.scheduler.framework.columns import Categorical
from moorage.scheduler.framework.cycle import ASSUMED, CycleState, StateKey
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration, QueueingHint, Resource
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.metering import GaugeReading, GaugeSource
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import (
    DependsOn,
    FilterPlugin,
    PreBindPlugin,
    PreFilterAnswer,
    PreFilterPlugin,
    ReservePlugin,
)
from moorage.scheduler.framework.status import FloatArray, Status, Verdict

NO_GPU: Final = Status.unresolvable("node(s) had no GPUs to share")
OTHER_MODEL: Final = Status.unresolvable("node(s) had GPUs of another model")
TOO_FEW: Final = Status.unresolvable("node(s) had too few GPUs")
NONE_FREE: Final = Status.unschedulable("node(s) had too few free GPUs")
NO_SHARE_FREE: Final = Status.unschedulable("node(s) had no GPU with enough left to share")

GIVEN: Final = StateKey[str]("the devices that the pod is given")

FRAGMENTATION: Final = "moorage_fragmentation_ratio"
LARGEST_JOB: Final = "moorage_largest_job_gpus"
ALL_SHAPES: Final = "typical"
ALL_POOLS: Final = "all"
MAX_SHAPES: Final = 20
"""Number of popular shapes with their own gauges."""


class GpuShare(PreFilterPlugin, FilterPlugin, ReservePlugin, PreBindPlugin, GaugeSource):
    """Accept nodes with enough GPUs of an accepted model that have enough free capacity.

    The selected devices are written to the pod's annotations before it is bound, so that they survive a restart. Pods
    without GPUs pass.
    """

    Args = GpuShareArgs
    depends_on = DependsOn.PODS
    _idle_when_skipped = True

    def __init__(self, *, args: GpuShareArgs | None = None, handle: Handle) -> None:
        args = args or GpuShareArgs()
        self._handle = handle
        self._books = shared_books(handle)
        self._choose = device_selection(args.device_selection, args.seed, self._books)
        self._pool_label = args.pool_label
        self._claimed = ClaimedDevices(handle, args.dra_driver) if args.dra_driver else None
        self._learned = LearnedShapes(handle, FGDArgs(), self._claimed)

    def sign(self, pod: Pod) -> Hashable:
        return read_demand(pod)

    def events_to_register(self) -> Sequence[EventRegistration]:
        node_change = Action.ADD | Action.UPDATE_NODE_ALLOCATABLE | Action.UPDATE_NODE_LABEL
        return (
            EventRegistration(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), after_pod_deletion),
            EventRegistration(ClusterEvent(Resource.NODE, node_change), after_node_change),
            EventRegistration(ClusterEvent(Resource.TARGET_POD, Action.UPDATE), after_own_change),
        )

    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
        demand = read_demand(pod)
        if isinstance(demand, UnreadableDemand):
            return Status.unresolvable(demand.problem)
        return Status.skip() if demand is None else None

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        demand = readable_demand(pod)
        if demand is None:
            return None
        gpus = self._books.columns.of(node)
        if not gpus.free:
            return NO_GPU
        if not demand.accepts(gpus.model):
            return OTHER_MODEL
        if len(gpus.free) < demand.count:
            return TOO_FEW
        if not fits(gpus.free, demand):
            return NO_SHARE_FREE if demand.is_share else NONE_FREE
        return None

    def filter_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Verdict:
        demand = readable_demand(pod)
        if demand is None:
            return Verdict.accept(len(nodes))
        table = self._books.columns.through(nodes)
        candidates = table.count > 0
        rejections = [(~candidates, NO_GPU)]
        if demand.models:
            will_do = table.models.is_in(demand.models)
            rejections.append((candidates & ~will_do, OTHER_MODEL))
            candidates &= will_do
        rejections.append((candidates & (table.count < demand.count), TOO_FEW))
        candidates &= table.count >= demand.count
        enough = (table.free >= demand.milli).sum(axis=1) >= demand.count
        rejections.append((candidates & ~enough, NO_SHARE_FREE if demand.is_share else NONE_FREE))
        return Verdict(len(nodes), tuple((where, status) for where, status in rejections if np.any(where)))

    def reserve(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        demand, info = readable_demand(pod), self._handle.nodes.find(node_name)
        if demand is None or info is None:
            return None
        node_copy = info.copy()
        if pod.uid in node_copy.pods:
            node_copy.remove_pod(pod)
        devices = self._choose(pod, demand, read_gpus(node_copy))
        if not devices:
            return NO_SHARE_FREE if demand.is_share else NONE_FREE
        cycle[GIVEN] = device_list = ",".join(map(str, devices))
        cycle[ASSUMED] = _with_devices(cycle.get(ASSUMED) or pod, device_list)
        return None

    def unreserve(self, cycle: CycleState, pod: Pod, node_name: str) -> None:
        """Do nothing: the devices are free when the pod leaves its node."""

    def pre_bind_pre_flight(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None if GIVEN in cycle else Status.skip()

    async def pre_bind(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        await self._handle.cluster.patch(pod, {"metadata": {"annotations": {GPU_DEVICES: cycle[GIVEN]}}})
        return None

    def gauges(self) -> Iterable[GaugeReading]:
        """Return the fragmentation of each pool, and the largest job that can start now."""
        shapes = self._books.shapes or self._learned
        shapes.refresh()
        nodes = self._handle.nodes
        table = self._books.columns.through(nodes)
        if self._claimed is not None:
            table = with_claimed(table, nodes, self._claimed)
        return gauges(table, nodes.label(self._pool_label), shapes.typical)


def _with_devices(pod: Pod, device_list: str) -> Pod:
    annotations = {**pod.metadata.annotations, GPU_DEVICES: device_list}
    annotated = replace(pod, metadata=replace(pod.metadata, annotations=annotations))
    # The derived values follow from the spec and are not recomputed.
    annotated.__dict__.update(pod.__dict__)
    return annotated


def after_pod_deletion(pod: Pod, old: Pod, new: Pod | None) -> QueueingHint:
    """Queue when a pod with a part of a GPU was deleted."""
    return QueueingHint.QUEUE if old.node_name and readable_demand(old) is not None else QueueingHint.SKIP


def after_node_change(pod: Pod, old: Node | None, new: Node) -> QueueingHint:
    """Queue when a node was added or its GPUs changed, and the pod fits the empty node."""
    demand = readable_demand(pod)
    count = new.allocatable.get(GPU_COUNT, 0)
    if demand is None or count < demand.count or not demand.accepts(new.labels.get(GPU_MODEL)):
        return QueueingHint.SKIP
    if old is None or old.allocatable.get(GPU_COUNT, 0) < count:
        return QueueingHint.QUEUE
    is_other_model = old.labels.get(GPU_MODEL) != new.labels.get(GPU_MODEL)
    return QueueingHint.QUEUE if is_other_model else QueueingHint.SKIP


def after_own_change(pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
    """Queue if the GPU request of the pod changed."""
    if old is None or new is None:
        return QueueingHint.SKIP
    before, after = old.metadata.annotations, new.metadata.annotations
    is_changed = any(before.get(key) != after.get(key) for key in (GPU_COUNT, GPU_MILLI, GPU_MODEL))
    return QueueingHint.QUEUE if is_changed else QueueingHint.SKIP


def with_claimed(table: GpuTable, nodes: NodeTable, claimed: ClaimedDevices) -> GpuTable:
    """Return the GPUs of all nodes; nodes that declare no GPUs get the devices that a driver publishes."""
    gpus = []
    for row, info in enumerate(nodes):
        free = tuple(table.free[row, : table.count[row]].tolist()) or claimed.find_free_shares(info.name)
        gpus.append(NodeGpus(free, table.models[row], int(table.cpu_free[row])))
    return GpuTable.of(gpus)


def gauges(table: GpuTable, pools: Categorical[str | None], typical: Typical) -> Iterator[GaugeReading]:
    """Return the gauges of every pool of nodes with GPUs."""
    useless: dict[str, FloatArray] = {ALL_SHAPES: typical.fragmentation(table) / max(typical.weight, 1)}
    for shape in islice(typical.counts, MAX_SHAPES):
        useless[str(shape)] = Typical({shape: 1}).fragmentation(table).astype(np.float64)
    whole_gpus = (table.free == WHOLE_GPU).sum(axis=1)
    for pool in (ALL_POOLS, *pools.values):
        selected = table.count > 0
        if pool is not ALL_POOLS:
            selected &= pools.is_in((pool,))
        capacity = int(table.count[selected].sum()) * WHOLE_GPU
        if not capacity:
            continue
        name = pool or ""
        for shape_name, amounts in useless.items():
            yield FRAGMENTATION, (name, shape_name), float(amounts[selected].sum()) / capacity
        yield LARGEST_JOB, (name,), float(whole_gpus[selected].max())
