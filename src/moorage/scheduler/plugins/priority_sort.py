"""PrioritySort: sort the queue by priority, then by waiting time."""

from moorage.scheduler.framework.plugin import QueuedPod, QueueSortPlugin


class PrioritySort(QueueSortPlugin):
    """Sort by priority, then by the time a pod was queued. Equal times are not ordered further."""

    def sort_key(self, queued: QueuedPod) -> tuple[int, float]:
        return -queued.priority, queued.timestamp
