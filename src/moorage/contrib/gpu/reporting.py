"""Metrics of GPU fragmentation: idle and unusable capacity, and the largest job that fits now."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

import numpy as np

from moorage.contrib.gpu.claimed_devices import ClaimedDevices
from moorage.contrib.gpu.columns import GpuTable
from moorage.contrib.gpu.devices import NodeGpus
from moorage.contrib.gpu.shapes import Typical
from moorage.kube.api.gpu_sharing import WHOLE_GPU
from moorage.scheduler.framework.columns import Categorical
from moorage.scheduler.framework.metering import GaugeReading
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import FloatArray

FRAGMENTATION: Final = "moorage_fragmentation_ratio"
LARGEST_JOB: Final = "moorage_largest_job_gpus"
ALL_SHAPES: Final = "typical"
ALL_POOLS: Final = "all"
MAX_SHAPES: Final = 20
"""Number of popular shapes with their own gauges."""


def with_claimed(table: GpuTable, nodes: NodeTable, claimed: ClaimedDevices) -> GpuTable:
    """Return the GPUs of all nodes with the devices that a driver publishes, where a node itself names none."""
    gpus = []
    for row, info in enumerate(nodes):
        free = tuple(table.free[row, : table.count[row]].tolist()) or claimed.free_on(info.name)
        gpus.append(NodeGpus(free, table.models[row], int(table.cpu_free[row])))
    return GpuTable.of(gpus)


def gauges(table: GpuTable, pools: Categorical[str | None], typical: Typical) -> Iterator[GaugeReading]:
    """Read the gauges of every pool of nodes with GPUs."""
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


def cluster_fragmentation(table: GpuTable, typical: Typical) -> float:
    """Return how much of all GPUs is idle and of no use to typical pods, as a share."""
    capacity = int(table.count.sum()) * WHOLE_GPU * max(typical.weight, 1)
    return float(typical.fragmentation(table).sum()) / capacity if capacity else 0.0
