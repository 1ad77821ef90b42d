"""Pods that wait out a penalty after a failed attempt, the longer the more attempts failed."""

import math
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from moorage.scheduler.queue.entries import KeyedHeap, QueuedPodInfo, SortGuard

WINDOW: Final = 1.0
"""Pods whose penalty ends within the same second are released together, in the order of the queue-sort plugin."""

_NANO: Final = 10**9
_NEVER: Final = -math.inf


class Backoff(Struct, frozen=True):
    """How long a pod waits, in seconds: ``initial`` doubled with every failure, up to ``maximum``; 0 turns it off.

    >>> [Backoff().duration(failures) for failures in range(1, 7)]
    [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    """

    initial: float = 1.0
    maximum: float = 10.0

    def duration(self, failures: int, size: int = 1) -> float:
        """Return the penalty for so many failures in a row; a group of some size has a higher maximum."""
        if failures == 0:
            return 0.0
        initial, maximum = round(self.initial * _NANO), round(self.maximum * _NANO)
        if size > 1:
            maximum = int(maximum * math.sqrt(size))
        shift = failures - 1
        # Compared by shifting the maximum down, as upstream does: doubling would overflow there.
        return (maximum if initial > maximum >> shift else initial << shift) / _NANO


class BackoffQueue:
    """Pods that were rejected, and apart from them pods whose attempt ended in an error.

    With ``aligned`` (gate SchedulerPopFromBackoffQ) penalties end on whole seconds, and pods rejected may be taken
    early when nothing else is to be done. Pods after an error always wait.
    """

    def __init__(self, sort: SortGuard, backoff: Backoff, *, aligned: bool) -> None:
        self._sort_key = sort.key
        self._backoff = backoff
        self._aligned = aligned
        # Only the second part of a key is the plugin's: penalties end in their order whatever it does.
        self._rejected = KeyedHeap(lambda key, info: (key[0], *(sort.guarded(part, info) for part in key[1:])))
        self._failed = KeyedHeap()
        self.entries = (self._rejected.entries, self._failed.entries)

    def __len__(self) -> int:
        return len(self._rejected) + len(self._failed)

    def __contains__(self, key: str) -> bool:
        return key in self._rejected or key in self._failed

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        yield from self._rejected
        yield from self._failed

    def expiry(self, info: QueuedPodInfo) -> float:
        """Return when a pod's penalty ends; it is computed once per failed attempt."""
        failures = info.consecutive_errors or info.unschedulable_count
        if failures == 0 or self._backoff.maximum == 0:
            return _NEVER
        if info.backoff_expiration is None:
            info.backoff_expiration = self._window(info.timestamp + self._backoff.duration(failures, info.size))
        return info.backoff_expiration

    def is_backing_off(self, info: QueuedPodInfo, now: float) -> bool:
        """Return whether a pod must still wait; in the second in which its penalty ends it must."""
        return self.expiry(info) >= self._window(now)

    def get(self, key: str) -> QueuedPodInfo | None:
        """Return the entry of a pod, by its name."""
        return self._rejected.get(key) or self._failed.get(key)

    def put(self, info: QueuedPodInfo) -> None:
        """Add a pod; one that nobody rejected failed by an error."""
        expiry = self.expiry(info)
        if not (info.unschedulable_plugins or info.pending_plugins):
            self._failed.put(info, expiry)
        elif self._aligned:
            self._rejected.put(info, (expiry, self._sort_key(info)))
        else:
            self._rejected.put(info, (expiry,))

    def remove(self, key: str) -> QueuedPodInfo | None:
        """Take a pod out by its name; return it, if it was there."""
        return self._rejected.remove(key) or self._failed.remove(key)

    def pop_early(self) -> QueuedPodInfo | None:
        """Take the pod whose penalty ends first, though it has not ended; never one after an error."""
        return self._rejected.pop()

    def drain(self) -> Iterator[QueuedPodInfo]:
        """Take out all pods: the rejected ones in order, then the failed ones."""
        yield from self._rejected.drain()
        yield from self._failed.drain()

    def release(self, now: float) -> Iterator[QueuedPodInfo]:
        """Take out all pods whose penalty is over."""
        window = self._window(now)
        while (head := self._rejected.first_key()) is not None and head[0] < window:
            yield self._taken(self._rejected)
        while (expiry := self._failed.first_key()) is not None and expiry < window:
            yield self._taken(self._failed)

    def next_expiry(self) -> float | None:
        """Return when the first penalty ends, if anyone waits."""
        head, failed = self._rejected.first_key(), self._failed.first_key()
        if head is None:
            return None if failed is None else float(failed)
        return float(head[0]) if failed is None else float(min(head[0], failed))

    def check_invariants(self) -> None:
        """Verify both heaps, and that no pod is in both."""
        self._rejected.check_invariants()
        self._failed.check_invariants()
        for info in self._rejected:
            assert info.key not in self._failed, f"{info.key} backs off twice"
            assert info.rejectors, f"{info.key} failed by an error but is filed among the rejected"
        for info in self._failed:
            assert not info.rejectors, f"{info.key} was rejected but is filed among the errors"

    def _window(self, moment: float) -> float:
        return math.floor(moment) if self._aligned else moment

    @staticmethod
    def _taken(heap: KeyedHeap) -> QueuedPodInfo:
        info = heap.pop()
        assert info is not None
        return info


class Ticker:
    """The moments first, first + period, first + 2·period, …, and the next one that is due."""

    def __init__(self, first: float, period: float) -> None:
        self.next = first
        """The first tick that was not taken yet."""
        self._period = period

    def first_after(self, moment: float) -> float:
        """Return the first tick to come that lies after a moment."""
        if self.next > moment:
            return self.next
        return self.next + (math.floor((moment - self.next) / self._period) + 1) * self._period

    def take(self, now: float) -> float | None:
        """Return the last tick that has come and was not taken yet; earlier ones that were missed are skipped."""
        if now < self.next:
            return None
        self.next = self.first_after(now)
        return self.next - self._period
