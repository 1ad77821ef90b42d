"""PrioritySort: the most important pod first, and among equals the one that has waited longest."""

from moorage.scheduler.framework.plugin import QueueSortPlugin
from moorage.scheduler.framework.queued import QueuedPod


class PrioritySort(QueueSortPlugin):
    """Order the queue by priority, then by the time a pod was queued; equal times have no further order."""

    def sort_key(self, queued: QueuedPod) -> tuple[int, float]:
        return -queued.priority, queued.timestamp
