"""The backoff queue: pods wait after a failed attempt, longer with every failure."""

import math
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from moorage.scheduler.queue.entities import QueuedEntity
from moorage.scheduler.queue.heap import KeyedHeap
from moorage.scheduler.queue.sort_guard import SortGuard

WINDOW: Final = 1.0
"""Pods are released together if their backoffs end within the same second, in the order of the QueueSort plugin."""

_NANO: Final = 10**9
_NO_BACKOFF: Final = -math.inf


class Backoff(Struct, frozen=True):
    """The backoff in seconds: ``initial``, doubled with every failure, up to ``maximum``. A maximum of 0 disables it.

    >>> [Backoff().duration(failures) for failures in range(1, 7)]
    [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    """

    initial: float = 1.0
    maximum: float = 10.0

    def duration(self, failures: int, size: int = 1) -> float:
        """Return the backoff after consecutive failures. The maximum increases with the size of a group."""
        if failures == 0:
            return 0.0
        initial, maximum = round(self.initial * _NANO), round(self.maximum * _NANO)
        if size > 1:
            maximum = int(maximum * math.sqrt(size))
        shift = failures - 1
        # Shift the maximum instead of the initial value, as upstream does: doubling overflows in Go.
        return (maximum if initial > maximum >> shift else initial << shift) / _NANO


class BackoffQueue:
    """Two heaps: rejected pods, and pods after an error.

    With ``aligned`` (gate SchedulerPopFromBackoffQ) backoffs end on whole seconds, and rejected pods may be popped
    early if no other pod is ready. Pods after an error always wait.
    """

    def __init__(self, sort: SortGuard, backoff: Backoff, *, aligned: bool) -> None:
        self._sort_key = sort.key
        self._backoff = backoff
        self._aligned = aligned
        # Only the second part of a key is the plugin's: backoffs end in order even if the plugin fails.
        self._rejected = KeyedHeap(lambda key, info: (key[0], *(sort.guarded(part, info) for part in key[1:])))
        self._failed = KeyedHeap()
        self.entries = (self._rejected.entries, self._failed.entries)

    def __len__(self) -> int:
        return len(self._rejected) + len(self._failed)

    def __contains__(self, key: str) -> bool:
        return key in self._rejected or key in self._failed

    def __iter__(self) -> Iterator[QueuedEntity]:
        yield from self._rejected
        yield from self._failed

    def expiry(self, info: QueuedEntity) -> float:
        """Return when a pod's backoff ends. It is computed once for each failed attempt."""
        failures = info.consecutive_errors or info.unschedulable_count
        if failures == 0 or self._backoff.maximum == 0:
            return _NO_BACKOFF
        if info.backoff_expiration is None:
            info.backoff_expiration = self._window(info.timestamp + self._backoff.duration(failures, info.size))
        return info.backoff_expiration

    def is_backing_off(self, info: QueuedEntity, now: float) -> bool:
        """Return whether the backoff has not ended; an entity still backs off in the second in which it ends."""
        return self.expiry(info) >= self._window(now)

    def get(self, key: str) -> QueuedEntity | None:
        """Return the entity with this key."""
        return self._rejected.get(key) or self._failed.get(key)

    def put(self, info: QueuedEntity) -> None:
        """Add an entity; without rejectors it failed with an error."""
        if not (info.unschedulable_plugins or info.pending_plugins):
            self._failed.put(info, self.expiry(info))
        else:
            self._rejected.put(info, self._key(info))

    def _key(self, info: QueuedEntity) -> tuple[Any, ...]:
        return (self.expiry(info), self._sort_key(info)) if self._aligned else (self.expiry(info),)

    def resort(self) -> None:
        """Re-sort, because the QueueSort plugin has other keys."""
        self._rejected.resort(self._key)

    def remove(self, key: str) -> QueuedEntity | None:
        """Remove and return the entity with this key."""
        return self._rejected.remove(key) or self._failed.remove(key)

    def pop_early(self) -> QueuedEntity | None:
        """Remove and return the rejected pod with the earliest end of backoff, before that time."""
        return self._rejected.pop()

    def drain(self) -> Iterator[QueuedEntity]:
        """Remove all entities: the rejected ones in order, then the failed ones."""
        yield from self._rejected.drain()
        yield from self._failed.drain()

    def release(self, now: float) -> Iterator[QueuedEntity]:
        """Remove all entities after their backoff."""
        window = self._window(now)
        while (head := self._rejected.first_key()) is not None and head[0] < window:
            if (info := self._rejected.pop()) is not None:
                yield info
        while (expiry := self._failed.first_key()) is not None and expiry < window:
            if (info := self._failed.pop()) is not None:
                yield info

    def next_expiry(self) -> float | None:
        """Return when the first backoff ends."""
        head, failed_key = self._rejected.first_key(), self._failed.first_key()
        if head is None:
            return None if failed_key is None else float(failed_key)
        return float(head[0]) if failed_key is None else float(min(head[0], failed_key))

    def check_invariants(self) -> None:
        """Verify both heaps, and that no pod is in both."""
        self._rejected.check_invariants()
        self._failed.check_invariants()
        for info in self._rejected:
            assert info.key not in self._failed, f"{info.key} backs off twice"
            assert info.rejectors, f"{info.key} failed with an error but is among the rejected"
        for info in self._failed:
            assert not info.rejectors, f"{info.key} was rejected but is among the failed"

    def _window(self, time: float) -> float:
        return math.floor(time) if self._aligned else time


class Ticker:
    """A periodic timer without a thread: the ticks are first, first + period, first + 2·period, …."""

    def __init__(self, first: float, period: float) -> None:
        self.next = first
        """The first tick that was not taken."""
        self._period = period

    def next_tick(self, time: float) -> float:
        """Return the first tick after a time."""
        if self.next > time:
            return self.next
        return self.next + (math.floor((time - self.next) / self._period) + 1) * self._period

    def take(self, now: float) -> float | None:
        """Take and return the last tick that is due. Missed earlier ones are skipped."""
        if now < self.next:
            return None
        self.next = self.next_tick(now)
        return self.next - self._period
