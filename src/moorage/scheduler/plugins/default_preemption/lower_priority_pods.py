"""Requests of lower-priority pods on each node, as columns: rules out nodes before any node is copied."""

from collections.abc import Iterable
from typing import Final

import numpy as np

from moorage.common.caches import LRU
from moorage.kube.api.pod import Pod
from moorage.kube.api.requests import PODS
from moorage.scheduler.framework.columns import Growing
from moorage.scheduler.framework.handle import PreemptionHandle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import RowArray
from moorage.scheduler.framework.status import BoolArray, IntArray
from moorage.scheduler.state.side_columns import SideColumns

NOBODY: Final = np.iinfo(np.int64).max
ANYTHING: Final = int(np.iinfo(np.int64).min)
MAX_PRIORITIES: Final = 8
"""Number of priorities with cached sums; clusters have few priority classes that preempt."""


class LowerPriorityPods(SideColumns):
    """The lowest priority on each node, and the requests of pods below some priorities."""

    def __init__(self, handle: PreemptionHandle) -> None:
        super().__init__(handle.nodes, {})
        self._lowest = Growing(np.int64)
        self._held: LRU[int, HeldBelow] = LRU("requests by priority", MAX_PRIORITIES)

    def write(self, info: NodeInfo) -> None:
        """Update the columns of a node."""
        self._lowest.reserve(info.row + 1)
        self._lowest.array[info.row] = min((_lowest(pod) for pod in info.pods.values()), default=NOBODY)
        for _, sums in self._held.items():
            sums.write(info)

    def clear(self, row: int) -> None:
        """Do nothing: rows are written before they are read."""

    def rows_of(self, source: str, key: str) -> Iterable[int]:
        """Return no rows: the node table logs changes of pods on nodes."""
        return ()

    def is_below(self, priority: int, rows: RowArray) -> BoolArray:
        """Find the rows with a pod of lower priority; other rows have no victims."""
        self.refresh()
        below: BoolArray = self._lowest.array[rows] < priority
        return below

    def held_below(self, priority: int, rows: RowArray) -> dict[str, IntArray]:
        """Return the requests of lower-priority pods on these rows by resource, with their number as ``pods``."""
        self.refresh()
        sums = self._held.find(priority)
        if sums is None:
            sums = HeldBelow(priority)
            for info in self._nodes:
                sums.write(info)
            self._held.put(priority, sums)
        return {resource: column.view(len(self._nodes))[rows] for resource, column in sums.columns.items()}


class HeldBelow:
    """The sums for one priority, one column per resource."""

    def __init__(self, priority: int) -> None:
        self._priority = priority
        self.columns: dict[str, Growing] = {PODS: Growing(np.int64)}

    def write(self, info: NodeInfo) -> None:
        """Sum up the pods of a node."""
        sums: dict[str, int] = {PODS: 0}
        for pod in info.pods.values():
            if pod.priority < self._priority:
                for resource, amount in pod.requests_on_node.items():
                    sums[resource] = sums.get(resource, 0) + (amount if resource != PODS else 0)
                sums[PODS] += 1
        for resource in sums:
            self.columns.setdefault(resource, Growing(np.int64))
        for resource, column in self.columns.items():
            column.reserve(info.row + 1)
            column.array[info.row] = sums.get(resource, 0)


def _lowest(pod: Pod) -> int:
    """Return the lowest effective priority of a pod; for group members it depends on the group."""
    return pod.priority if pod.spec.scheduling_group is None else ANYTHING
