"""The places in which pods and groups wait: active, backing off, or parked; and the ways between them."""

from moorage.framework.plugin import QueueSortPlugin
from moorage.queue.backoff import Backoff, BackoffQueue
from moorage.queue.entries import Gates, KeyedHeap, QueuedPodInfo, SortGuard
from moorage.queue.hints import RequeueStrategy
from moorage.queue.observing import ACTIVE, BACKOFF, UNSCHEDULABLE, QueueObserver
from moorage.queue.parked import ParkedPods


class Places:
    """Where entries wait. An entry is a pod, or a group with all of its pods that wait."""

    def __init__(
        self,
        *,
        sort: QueueSortPlugin,
        gates: Gates,
        backoff: Backoff | None,
        pop_from_backoff: bool,
        observer: QueueObserver | None,
    ) -> None:
        guard = SortGuard(sort, observer)
        self._observer = observer
        self._pop_from_backoff = pop_from_backoff
        self._gates = gates
        self._sort_key = guard.key
        self._active = KeyedHeap(guard.guarded)
        self._backoff = BackoffQueue(guard, backoff or Backoff(), aligned=pop_from_backoff)
        self._parked = ParkedPods()
        self._entries = (self._active.entries, *self._backoff.entries, self._parked.entries)

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

    def make_active(self, info: QueuedPodInfo, label: str, now: float, *, from_backoff: bool = False) -> bool:
        """Let an entry be popped, unless a pre-enqueue plugin objects; return whether it can."""
        # With SchedulerPopFromBackoffQ the gates were asked when the pod entered the backoff queue.
        was_admitted = from_backoff and self._pop_from_backoff
        if not was_admitted and not self._gates.admit(info):
            self.hold_back(info, label)
            return False
        if info.initial_attempt_timestamp is None:
            info.initial_attempt_timestamp = now
        if info.is_group:
            for member in info.members:
                if member.initial_attempt_timestamp is None:
                    member.initial_attempt_timestamp = now
        if info.key in self._parked.entries:
            self._parked.remove(info.key)
        self._active.put(info, self._sort_key(info))
        self.notify_moved(info, ACTIVE, label)
        return True

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

    def notify_moved(self, info: QueuedPodInfo, queue: str, label: str) -> None:
        """Say where an entry has gone."""
        if self._observer is not None:
            if info.is_group:
                self._observer.group_moved([member.pod for member in info.members], queue, label)
            else:
                self._observer.moved(info.pod, queue, label)

    def count_rejectors(self, info: QueuedPodInfo, delta: int) -> None:
        """Say that a pod waits whom some plugins rejected, or does so no more."""
        if self._observer is not None:
            for plugin in info.rejectors:
                self._observer.rejected(plugin, info.scheduler_name, delta)
