"""Pods that are ready to be tried, in the order of the queue-sort plugin."""

from collections.abc import Iterator

from moorage.queue.entry import QueuedPodInfo
from moorage.queue.heap import KeyedHeap
from moorage.queue.sorting import SortGuard


class ActiveQueue:
    """The pods that wait for nothing but their turn."""

    def __init__(self, sort: SortGuard) -> None:
        self._sort_key = sort.key
        self._heap = KeyedHeap(sort.guarded)
        self.entries = self._heap.entries
        self.get = self._heap.get
        self.remove = self._heap.remove
        self.pop = self._heap.pop
        self.check_invariants = self._heap.check_invariants

    def __len__(self) -> int:
        return len(self._heap)

    def __contains__(self, key: str) -> bool:
        return key in self._heap

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return iter(self._heap)

    def put(self, info: QueuedPodInfo) -> None:
        """Add a pod, or replace the one of its name."""
        self._heap.put(info, self._sort_key(info))
