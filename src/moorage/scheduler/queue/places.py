"""The places in which pods and groups wait: active, backing off, or parked; and the ways between them."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from moorage.common.clock import Clock
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.plugin import QueueSortPlugin
from moorage.scheduler.queue.backoff import Backoff, BackoffQueue
from moorage.scheduler.queue.entries import Gates, KeyedHeap, QueuedPodInfo, SortGuard
from moorage.scheduler.queue.hints import RequeueStrategy
from moorage.scheduler.queue.inflight import InFlight
from moorage.scheduler.queue.nominations import Nominations
from moorage.scheduler.queue.observing import (
    ACTIVE,
    BACKOFF,
    GATED,
    IN_FLIGHT,
    INCOMPLETE,
    PENDING,
    UNSCHEDULABLE,
    QueueObserver,
)
from moorage.scheduler.queue.parked import ParkedPods
from moorage.scheduler.queue.sizes import QueueSizes, entity_counts, pod_counts

if TYPE_CHECKING:
    from moorage.scheduler.queue.groups import GroupQueue


class Places(ABC):
    """Where entries wait. An entry is a pod, or a group with all of its pods that wait."""

    nominator: Nominations

    def __init__(
        self,
        *,
        clock: Clock,
        sort: QueueSortPlugin,
        gates: Gates,
        backoff: Backoff | None,
        pop_from_backoff: bool,
        observer: QueueObserver | None,
    ) -> None:
        self._clock = clock
        self._observer = observer
        self._pop_from_backoff = pop_from_backoff
        self._parked = ParkedPods()
        self._in_flight = InFlight()
        self._sort_by(sort, gates, backoff or Backoff())
        self.groups: GroupQueue | None = None
        """Pods that wait as members of groups; ``None`` unless there are groups (gate GenericWorkload)."""

    def _sort_by(self, sort: QueueSortPlugin, gates: Gates, backoff: Backoff) -> None:
        """Begin with nothing that can be popped."""
        guard = SortGuard(sort, self._observer)
        self._gates = gates
        self._sort_key = guard.key
        self._active = KeyedHeap(guard.guarded)
        self._backoff = BackoffQueue(guard, backoff, aligned=self._pop_from_backoff)
        self._entries: tuple[dict[str, list[Any]], ...]
        self._entries = (self._active.entries, *self._backoff.entries, self._parked.entries)

    def __len__(self) -> int:
        """Count the pods that wait, those in flight not included."""
        waiting = len(self._active) + len(self._backoff) + len(self._parked)
        return waiting if self.groups is None else waiting + self.groups.surplus

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """Go through the pods that wait, members of groups included."""
        for info in self.entries():
            yield from info.members if info.is_group else (info,)
        if self.groups is not None:
            yield from self.groups.aside()

    def entries(self) -> Iterator[QueuedPodInfo]:
        """Go through what waits: pods, and groups as a whole."""
        return chain(self._active, self._backoff, self._parked)

    def sizes(self) -> QueueSizes:
        """Count the pods by place."""
        aside = (0, 0) if self.groups is None else (len(self.groups.incomplete), len(self.groups.pending))
        return QueueSizes(*pod_counts(self._active, self._backoff, self._parked), len(self._in_flight), *aside)

    def entity_counts(self) -> dict[tuple[str, str], int]:
        """Count what waits by place and by type, ``pod`` or ``podgroup``."""
        return entity_counts({ACTIVE: self._active, BACKOFF: self._backoff, UNSCHEDULABLE: self._parked})

    def in_flight(self) -> tuple[str, ...]:
        """Return the uids of the pods that are being tried, in the order in which they were popped."""
        return tuple(self._in_flight)

    def where(self, pod: Pod) -> str | None:
        """Name the place a pod is in: active, backoff, unschedulable, gated or in-flight; of members, of their group.

        A member may also be ``incomplete``, while its group is not known, or ``pending``, while its group is tried.
        """
        key = pod.key
        if self.groups is not None and (held := self.groups.where(key)) is not None:
            if held in (INCOMPLETE, PENDING):
                return held
            key = held
        if key in self._active:
            return ACTIVE
        if key in self._backoff:
            return BACKOFF
        if (parked := self._parked.get(key)) is not None:
            return GATED if parked.is_gated else UNSCHEDULABLE
        return IN_FLIGHT if pod.uid in self._in_flight else None

    @abstractmethod
    def make_active(self, info: QueuedPodInfo, label: str, now: float, *, from_backoff: bool = False) -> bool:
        """Let an entry be popped, unless a pre-enqueue plugin objects; return whether it can."""

    @abstractmethod
    def notify_moved(self, info: QueuedPodInfo, queue: str, label: str) -> None:
        """Say where an entry has gone."""

    def queued_pod(self, key: str) -> Pod | None:
        """Return the waiting pod of a name, with its namespace."""
        info = self._find(key)
        return None if info is None else info.pod

    def entry(self, key: str) -> QueuedPodInfo | None:
        """Return the entry of this key, wherever it waits."""
        return self._active.get(key) or self._backoff.get(key) or self._parked.get(key)

    def place_of(self, key: str) -> str | None:
        """Name the place an entry is in: active, backoff or unschedulable."""
        if key in self._active:
            return ACTIVE
        if key in self._backoff:
            return BACKOFF
        return UNSCHEDULABLE if key in self._parked else None

    def take_out(self, key: str) -> QueuedPodInfo | None:
        """Take an entry out of its place."""
        return self._active.remove(key) or self._backoff.remove(key) or self._parked.remove(key)

    def put_back(self, info: QueuedPodInfo, place: str | None, label: str, now: float) -> None:
        """Put an entry that was changed back to where it was taken from; a parked one is not asked about again."""
        if place == UNSCHEDULABLE:
            self._parked.put(info)
        elif place == BACKOFF:
            self.requeue(info, RequeueStrategy.AFTER_BACKOFF, label, now)
        else:
            self.make_active(info, label, now)

    def admit_newcomer(self, info: QueuedPodInfo, newcomer: QueuedPodInfo, label: str, now: float) -> None:
        """Ask about a pod that has joined a group which can be popped; if it may not enter, the group is held back."""
        if not self._gates.admit(newcomer):
            self._gates.close_for(info, newcomer)
            self.take_out(info.key)
            self.hold_back(info, label)
            return
        if newcomer.initial_attempt_timestamp is None:
            newcomer.initial_attempt_timestamp = now
        if self._observer is not None:
            self._observer.group_moved([newcomer.pod], self.place_of(info.key) or ACTIVE, label)

    def requeue(self, info: QueuedPodInfo, strategy: RequeueStrategy, label: str, now: float) -> bool:
        """Put a pod where a strategy says; return whether it can be popped from there."""
        if strategy is RequeueStrategy.SKIP:
            self.park(info, label)
            return False
        if strategy is RequeueStrategy.AFTER_BACKOFF and self._backoff.is_backing_off(info, now):
            return self.back_off(info, label)
        return self.make_active(info, label, now)

    def back_off(self, info: QueuedPodInfo, label: str) -> bool:
        """Have an entry wait out its penalty, unless a pre-enqueue plugin objects; return whether it does."""
        if self._pop_from_backoff and not self._gates.admit(info):
            self.hold_back(info, label)
            return False
        self._parked.remove(info.key)
        self._backoff.put(info)
        self.notify_moved(info, BACKOFF, label)
        return True

    def hold_back(self, info: QueuedPodInfo, label: str) -> None:
        """Park an entry that a pre-enqueue plugin objects to."""
        # It gets no attempt that would clear the mark of the flush.
        info.was_flushed = False
        self.park(info, label)

    def park(self, info: QueuedPodInfo, label: str) -> None:
        """Have an entry wait for an event that helps."""
        is_new = info.key not in self._parked
        self._parked.put(info)
        if is_new:
            self.notify_moved(info, UNSCHEDULABLE, label)

    def count_rejectors(self, info: QueuedPodInfo, delta: int) -> None:
        """Say that a pod waits whom some plugins rejected, or does so no more."""
        if self._observer is not None:
            for plugin in info.rejectors:
                self._observer.rejected(plugin, info.scheduler_name, delta)

    def check_invariants(self) -> None:
        """Verify that every pod is in exactly one place and all books agree; raise AssertionError if not."""
        seen: set[str] = set()
        if self.groups is not None:
            self.groups.check_invariants()
        for info in self:
            assert info.key not in seen, f"{info.key} waits in two places"
            seen.add(info.key)
            assert info.uid not in self._in_flight, f"{info.key} waits and is in flight"
        # Without SchedulerPopFromBackoffQ the gates are asked on the way out of the backoff queue only.
        for info in chain(self._active, self._backoff if self._pop_from_backoff else ()):
            assert not info.is_gated, f"{info.key} is gated but may be popped"
        for part in (self._active, self._backoff, self._parked, self._in_flight, self.nominator):
            part.check_invariants()

    def _find(self, key: str) -> QueuedPodInfo | None:
        info = self._active.get(key) or self._backoff.get(key) or self._parked.get(key)
        return info if info is not None or self.groups is None else self.groups.find(key)
