"""A heap of queued entities with access by key."""

from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any, Final

from moorage.scheduler.framework.faults import PLUGIN_FAULTS
from moorage.scheduler.queue.entities import QueuedEntity

_SLACK: Final = 64


class KeyedHeap:
    """Entities in the order of a sort key; entities with equal keys in the order of insertion.

    Nearly all entities are added in sorted order: they form a run, which needs no sorting, and the heap has the
    other entries. ``remove`` only deletes the dictionary entry. The run or heap entry is skipped by ``pop``, or dropped
    once more than half of all entries are stale. If keys cannot be compared, ``guard`` replaces them with comparable
    keys, and no entity is lost.
    """

    def __init__(self, guard: Callable[[Any, QueuedEntity], Any] | None = None) -> None:
        self._guard = guard
        self._is_guarded = False
        # [sort key, sequence number, entity]: a list, so that the entity can be replaced if its key did not change.
        self._run: deque[list[Any]] = deque()
        self._heap: list[list[Any]] = []
        self.entries: dict[str, list[Any]] = {}
        """All entries by key; a plain dict, because every bound pod is looked up here."""
        self._sequence = 0

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, key: str) -> bool:
        return key in self.entries

    def __iter__(self) -> Iterator[QueuedEntity]:
        return (entry[2] for entry in self.entries.values())

    def get(self, key: str) -> QueuedEntity | None:
        """Return the entity with this key."""
        entry = self.entries.get(key)
        return None if entry is None else entry[2]

    def put(self, entity: QueuedEntity, sort_key: Any) -> None:
        """Add an entity, or replace that with the same key, which keeps its position unless its sort key changed."""
        if self._is_guarded and self._guard is not None:
            sort_key = self._guard(sort_key, entity)
        try:
            self._put(entity, sort_key)
        except PLUGIN_FAULTS:
            if self._guard is None or self._is_guarded:
                raise
            self._guard_all()
            self._put(entity, self._guard(sort_key, entity))

    def _put(self, entity: QueuedEntity, sort_key: Any) -> None:
        previous = self.entries.get(entity.key)
        if previous is not None and previous[0] == sort_key:
            previous[2] = entity
            return
        self._sequence += 1
        entry = [sort_key, self._sequence, entity]
        self.entries[entity.key] = entry
        if self._run and entry < self._run[-1]:
            heappush(self._heap, entry)
        else:
            self._run.append(entry)
        if previous is not None:
            self._compact()

    def remove(self, key: str) -> QueuedEntity | None:
        """Remove and return the entity with this key."""
        entry = self.entries.pop(key, None)
        if entry is None:
            return None
        try:
            self._compact()
        except PLUGIN_FAULTS:
            if self._guard is None or self._is_guarded:
                raise
            self._guard_all()
        entity: QueuedEntity = entry[2]
        return entity

    def pop(self) -> QueuedEntity | None:
        """Remove and return the first entity."""
        run, heap, entries = self._run, self._heap, self.entries
        if not entries:
            return None
        try:
            while run or heap:
                entry = run.popleft() if run and not (heap and heap[0] < run[0]) else heappop(heap)
                entity: QueuedEntity = entry[2]
                if entries.get(entity.key) is entry:
                    del entries[entity.key]
                    return entity
        except PLUGIN_FAULTS:
            if self._guard is None or self._is_guarded:
                raise
            self._guard_all()
            return self.pop()
        return None

    def drain(self) -> Iterator[QueuedEntity]:
        """Remove all entities in order."""
        while (entity := self.pop()) is not None:
            yield entity

    def resort(self, sort_key: Callable[[QueuedEntity], Any]) -> None:
        """Replace all sort keys, and re-sort. Entities with equal keys are in the order of insertion."""
        for entry in self.entries.values():
            key = sort_key(entry[2])
            entry[0] = self._guard(key, entry[2]) if self._is_guarded and self._guard is not None else key
        try:
            self._sort()
        except PLUGIN_FAULTS:
            if self._guard is None or self._is_guarded:
                raise
            self._guard_all()

    def _guard_all(self) -> None:
        assert self._guard is not None
        self._is_guarded = True
        for entry in self.entries.values():
            entry[0] = self._guard(entry[0], entry[2])
        # Rebuilt from the dictionary: the failed comparison may have left the heap incomplete.
        self._sort()

    def first_key(self) -> Any:
        """Return the sort key of the first entity, or ``None`` if the heap is empty."""
        run, heap, entries = self._run, self._heap, self.entries
        if not entries:
            return None
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
        """Verify that every entity is stored under its key and can be popped."""
        run = list(self._run)
        reachable = {id(entry) for entry in (*run, *self._heap)}
        assert all(not later < earlier for earlier, later in pairwise(run)), "the run is out of order"
        for key, entry in self.entries.items():
            assert entry[2].key == key, f"{entry[2].key} is stored under {key}"
            assert id(entry) in reachable, f"{key} can no longer be popped"
