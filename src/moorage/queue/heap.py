"""A heap whose entries can be found, replaced and removed by the pod's name."""

from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any, Final

from moorage.framework.faults import PLUGIN_FAULTS
from moorage.queue.entry import QueuedPodInfo

_SLACK: Final = 64


class KeyedHeap:
    """Pods in the order of a sort key, equal ones first come, first served.

    Nearly all pods come in the order in which they go: those make a run, which costs nothing to keep sorted, and the
    heap is for the others. Removing only forgets an entry; it is dropped when it surfaces, or when more than half are.
    If keys turn out not to be comparable, ``guard`` makes comparable ones of them, from then on, and nothing is lost.
    """

    def __init__(self, guard: Callable[[Any, QueuedPodInfo], Any] | None = None) -> None:
        self._guard = guard
        self._is_guarded = False
        # [sort key, sequence number, pod]: a list, so that the pod can be replaced when its key did not change.
        self._run: deque[list[Any]] = deque()
        self._heap: list[list[Any]] = []
        self.entries: dict[str, list[Any]] = {}
        """What is in it, by name; a plain dict, since every pod that is bound is looked for here."""
        self._sequence = 0

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, key: str) -> bool:
        return key in self.entries

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (entry[2] for entry in self.entries.values())

    def get(self, key: str) -> QueuedPodInfo | None:
        """Return the entry of a pod, by its name."""
        entry = self.entries.get(key)
        return None if entry is None else entry[2]

    def put(self, info: QueuedPodInfo, sort_key: Any) -> None:
        """Add a pod, or replace the one of its name, which keeps its place unless its sort key changed."""
        if self._is_guarded and self._guard is not None:
            sort_key = self._guard(sort_key, info)
        try:
            self._put(info, sort_key)
        except PLUGIN_FAULTS:
            if self._guard is None or self._is_guarded:
                raise
            self._guard_all()
            self._put(info, self._guard(sort_key, info))

    def _put(self, info: QueuedPodInfo, sort_key: Any) -> None:
        known = self.entries.get(info.key)
        if known is not None and known[0] == sort_key:
            known[2] = info
            return
        self._sequence += 1
        entry = [sort_key, self._sequence, info]
        self.entries[info.key] = entry
        if self._run and entry < self._run[-1]:
            heappush(self._heap, entry)
        else:
            self._run.append(entry)
        if known is not None:
            self._compact()

    def remove(self, key: str) -> QueuedPodInfo | None:
        """Take a pod out by its name; return it, if it was there."""
        entry = self.entries.pop(key, None)
        if entry is None:
            return None
        try:
            self._compact()
        except PLUGIN_FAULTS:
            if self._guard is None or self._is_guarded:
                raise
            self._guard_all()
        info: QueuedPodInfo = entry[2]
        return info

    def pop(self) -> QueuedPodInfo | None:
        """Take out the first pod."""
        run, heap, entries = self._run, self._heap, self.entries
        try:
            while run or heap:
                entry = run.popleft() if run and not (heap and heap[0] < run[0]) else heappop(heap)
                info: QueuedPodInfo = entry[2]
                if entries.get(info.key) is entry:
                    del entries[info.key]
                    return info
        except PLUGIN_FAULTS:
            if self._guard is None or self._is_guarded:
                raise
            self._guard_all()
            return self.pop()
        return None

    def _guard_all(self) -> None:
        assert self._guard is not None
        self._is_guarded = True
        for entry in self.entries.values():
            entry[0] = self._guard(entry[0], entry[2])
        # What was forgotten is left out, and what a comparison broke off half-way is put in again.
        self._sort()

    def first_key(self) -> Any:
        """Return the sort key of the first pod, or ``None`` when there is none."""
        run, heap, entries = self._run, self._heap, self.entries
        while run and entries.get(run[0][2].key) is not run[0]:
            run.popleft()
        while heap and entries.get(heap[0][2].key) is not heap[0]:
            heappop(heap)
        if run and heap:
            return min(run[0], heap[0])[0]
        return run[0][0] if run else heap[0][0] if heap else None

    def _compact(self) -> None:
        if len(self._run) + len(self._heap) > 2 * len(self.entries) + _SLACK:
            self._sort()

    def _sort(self) -> None:
        self._run = deque(sorted(self.entries.values()))
        self._heap = []

    def check_invariants(self) -> None:
        """Verify that every pod is filed under its name and can be reached through the heap."""
        run = list(self._run)
        reachable = {id(entry) for entry in (*run, *self._heap)}
        assert all(not later < earlier for earlier, later in pairwise(run)), "the run is out of order"
        for key, entry in self.entries.items():
            assert entry[2].key == key, f"{entry[2].key} is filed under {key}"
            assert id(entry) in reachable, f"{key} can no longer be popped"
