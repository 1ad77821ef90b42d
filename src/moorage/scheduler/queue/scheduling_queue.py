"""The scheduling queue: a state machine without threads, timers or I/O.

    add ──> active ──pop──> in flight ──done──> (placed, or gone)
              ↑ ↑               │ add_unschedulable
              │ │               ↓
              │ └──flush── backoff        (an error, or a helpful event during or soon after the attempt)
              │ ↑               │
              │ └─pop (idle)────┘         (gate SchedulerPopFromBackoffQ; never after an error)
              └──event── unschedulable    (no event has helped yet; flushed after five minutes)
                   └──── gated            (a PreEnqueue plugin rejects the pod; called repeatedly at its events)

A pod is in exactly one of these queues. Pods are stored by namespace and name, so that a recreated pod replaces the
former one. In-flight pods and nominations are stored by UID. The queueing hints of the plugins that rejected a pod
decide which events requeue it. The order is deterministic: that of the QueueSort plugin, then that of insertion.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

import structlog

from moorage.common.clock import Clock
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.events import (
    ASSIGNED_POD_DELETE,
    CONFIGURATION_CHANGED,
    FORCE_ACTIVATE,
    UNSCHEDULABLE_TIMEOUT,
    Action,
    ClusterEvent,
    HintIndex,
    Resource,
)
from moorage.scheduler.framework.handle import Lister
from moorage.scheduler.framework.plugin import QueueSortPlugin
from moorage.scheduler.queue.backoff import WINDOW, Backoff, BackoffQueue, Ticker
from moorage.scheduler.queue.changes import pod_changes
from moorage.scheduler.queue.entities import QueuedEntity, QueuedPodGroupInfo, QueuedPodInfo
from moorage.scheduler.queue.gates import Gates, ProfileQueueing, Queueing
from moorage.scheduler.queue.groups import ATTEMPT_FAILED, GroupQueue, is_member
from moorage.scheduler.queue.heap import KeyedHeap
from moorage.scheduler.queue.hints import Hints, Interest, RequeueStrategy
from moorage.scheduler.queue.in_flight_events import InFlightEvents
from moorage.scheduler.queue.nominator import PodNominator
from moorage.scheduler.queue.observer import (
    ACTIVE,
    BACKOFF,
    GATED,
    IN_FLIGHT,
    INCOMPLETE,
    PENDING,
    POD_POPPED,
    UNSCHEDULABLE,
    QueueObserver,
)
from moorage.scheduler.queue.sort_guard import SortGuard
from moorage.scheduler.queue.unschedulable import UnschedulablePods
from moorage.scheduler.state.pod_groups import PodGroups

UNSCHEDULABLE_FLUSH_PERIOD: Final = 30.0
DEFAULT_MAX_UNSCHEDULABLE: Final = 300.0

POD_ADDED: Final = ClusterEvent(Resource.UNSCHEDULED_POD, Action.ADD).label
BACKOFF_COMPLETE: Final = "BackoffComplete"
POPPED_EARLY: Final = "PopFromBackoffQ"
ATTEMPT_SUSPENDED: Final = "AttemptSuspended"

log = structlog.get_logger(__name__)

PreCheck = Callable[[Pod], bool]


class QueueSizes(NamedTuple):
    """The number of pods in each queue."""

    active: int
    backoff: int
    unschedulable: int
    gated: int
    in_flight: int
    incomplete: int = 0
    pending: int = 0


class SchedulingQueue:
    """The pending pods and groups. It has one caller at a time: the loop, between cycles.

    The queue has no timer: the caller runs :meth:`flush` at the time that :meth:`next_wakeup` returns.
    """

    def __init__(  # noqa: PLR0913 - keywords only, named once, where the scheduler is built
        self,
        *,
        clock: Clock,
        sort: QueueSortPlugin,
        profiles: Mapping[str, ProfileQueueing],
        backoff: Backoff | None = None,
        max_unschedulable: float = DEFAULT_MAX_UNSCHEDULABLE,
        pop_from_backoff: bool = True,
        pods: Lister[Pod] | None = None,
        nominator: PodNominator | None = None,
        groups: PodGroups | None = None,
        observer: QueueObserver | None = None,
        failures: QueueObserver | None = None,
    ) -> None:
        self._clock = clock
        self._observer = observer
        self._failures = failures or observer
        self._pop_from_backoff = pop_from_backoff
        self._unschedulable = UnschedulablePods(self._find_indexes)
        self._in_flight = InFlightEvents()
        self._must_sort = False
        self._configure(sort, profiles, backoff or Backoff())
        self._max_unschedulable = max_unschedulable
        self.groups = None if groups is None else GroupQueue(groups, self, clock)
        """The pending members of groups, or ``None`` without groups (gate GenericWorkload)."""
        self.nominator = PodNominator(self.queued_pod, pods) if nominator is None else nominator
        now = clock.now()
        self._backoff_ticker = Ticker((math.floor(now) if pop_from_backoff else now) + WINDOW, WINDOW)
        self._unschedulable_ticker = Ticker(now, UNSCHEDULABLE_FLUSH_PERIOD)

    def _configure(self, sort: QueueSortPlugin, profiles: Mapping[str, ProfileQueueing], backoff: Backoff) -> None:
        """Use these plugins, with empty active and backoff queues."""
        guard = SortGuard(sort, self._failures)
        self._gates = Gates(profiles, self._observer, self._failures)
        self._hints = Hints(profiles, self._observer)
        self._sort_key = guard.key
        self._active = KeyedHeap(guard.guarded)
        self._backoff = BackoffQueue(guard, backoff, aligned=self._pop_from_backoff)
        self._entries: tuple[dict[str, list[Any]], ...]
        self._entries = (self._active.entries, *self._backoff.entries, self._unschedulable.entries)

    def _find_indexes(self, profile: str, plugin: str) -> Iterable[HintIndex]:
        return self._hints.find_indexes(profile, plugin)  # those of the present configuration

    def reconfigure(self, queueing: Queueing) -> None:
        """Replace the plugins, and re-sort and re-admit all pending pods.

        Rejected pods are retried after their backoff, because the plugin that rejected them may have been removed.
        """
        label, now = CONFIGURATION_CHANGED.label, self._clock.now()
        if self._in_flight:
            self._record(CONFIGURATION_CHANGED, label, None, None)
        active, backing_off, rejected = self._active, self._backoff, list(self._unschedulable)
        self._configure(queueing.sort, queueing.profiles, queueing.backoff)
        # In the previous order, which pods with equal keys keep.
        for info in active.drain():
            if self._gates.admit(info):
                self._active.put(info, self._sort_key(info))
            else:
                self.gate(info, label)
        for info in backing_off.drain():
            # Without SchedulerPopFromBackoffQ pods are admitted when their backoff ends.
            if self._pop_from_backoff and not self._gates.admit(info):
                self.gate(info, label)
            else:
                self._backoff.put(info)
        for info in rejected:
            self._unschedulable.remove(info.key)
            self.requeue(info, RequeueStrategy.AFTER_BACKOFF, label, now)

    def add(self, pod: Pod) -> None:
        """Add a new pod to the active queue, unless a PreEnqueue plugin rejects it."""
        now = self._clock.now()
        info = QueuedPodInfo(pod, now)
        # Before the gates: a gated pod keeps its nomination.
        if pod.status.nominated_node_name or pod.metadata.uid in self.nominator:
            self.nominator.add(pod)
        self._drop(info.key)
        if self.groups is not None and is_member(pod):
            self.groups.add(info, POD_ADDED)
        else:
            self.move_to_active(info, POD_ADDED, now)

    def pop(self) -> QueuedEntity | None:
        """Remove and return the first pod or group, or ``None``. Its pods are in flight until :meth:`done`.

        If the active queue is empty, a rejected pod is popped from the backoff queue before its backoff ends.
        """
        if self._must_sort:
            self._must_sort = False
            self._active.resort(self._sort_key)
            self._backoff.resort()
        while True:
            info = self._active.pop()
            if info is None:
                info = self._backoff.pop_early() if self._pop_from_backoff else None
                if info is None:
                    return None
                self.notify_moved(info, ACTIVE, POPPED_EARLY)
            info.attempts += 1
            if info.is_group:
                if self._pop_members(info):
                    return info
                continue
            uid = info.pod.metadata.uid
            self.nominator.note_presence(uid)
            # The pod was re-added during its attempt: that attempt continues, and this entry is dropped.
            if uid in self._in_flight.pods:
                continue
            self._in_flight.start(uid)
            if self._observer is not None:
                self._observer.on_in_flight(POD_POPPED, +1)
                self._observer.on_pop(info.pod, info.attempts)
            if info.unschedulable_plugins or info.pending_plugins:
                self.count_rejectors(info, -1)
            return info

    def _pop_members(self, group: QueuedPodGroupInfo) -> bool:
        """Record all members of a popped group as in flight. Return False if the group is empty."""
        assert self.groups is not None
        self.groups.popped(group)
        for info in group.members:
            info.attempts += 1
            if info.unschedulable_plugins or info.pending_plugins:
                self.count_rejectors(info, -1)
            if info.uid in self._in_flight.pods:
                log.error("member of a popped group is already in flight", pod=info.key, group=group.key)
                group.remove(info.key)
                continue
            self._in_flight.start(info.uid)
            if self._observer is not None:
                self._observer.on_in_flight(POD_POPPED, +1)
                self._observer.on_pop(info.pod, info.attempts)
        return group.size > 0

    def done(self, uid: str) -> None:
        """Record that an attempt ended, or that later events cannot matter for it."""
        dropped = self._in_flight.done(uid)
        if dropped is None or self._observer is None:
            return
        for event in dropped:
            self._observer.on_in_flight(event.label, -1)
        self._observer.on_in_flight(POD_POPPED, -1)

    def add_unschedulable(self, info: QueuedPodInfo, pod: Pod) -> bool:
        """Add the latest version of a pod after a failed attempt, and end the attempt.

        The caller has called ``info.rejected_by``. A pod without rejectors failed with an error and is retried after
        its backoff. A rejected pod becomes unschedulable, unless a helpful event arrived during the attempt.
        Return False, and change nothing, if the queue already contains a pod with this name.
        """
        key = pod.key
        if self._find(key) is not None:
            self.done(pod.uid)
            return False
        is_grouped = self.groups is not None and is_member(pod)
        now = self._clock.now()
        info.pod, info.key = pod, key
        self.nominator.note_presence(pod.uid)
        if info.unschedulable_plugins or info.pending_plugins:
            info.unschedulable_count += 1
            info.consecutive_errors = 0
        else:
            info.consecutive_errors += 1
        info.timestamp = now
        info.backoff_expiration = None
        info.was_flushed = False
        info.flush_timestamp = None
        self.count_rejectors(info, +1)
        if is_grouped:
            assert self.groups is not None
            # The events during the attempt are ignored: the group is requeued as a unit by GroupQueue.finish.
            self.done(pod.uid)
            self.groups.add(info, POD_ADDED)
            return True
        strategy = self._hints.choose_missed_strategy(info, self._in_flight.list_events(pod.uid))
        self.requeue(info, strategy, ATTEMPT_FAILED, now)
        self.done(pod.uid)
        return True

    def suspend(self, info: QueuedPodInfo) -> None:
        """End an attempt that continues later: immediately if no other pod is active, else after the next flush.

        No event was applied since the pod was popped, so its entry is current.
        """
        self.done(info.uid)
        if self._find(info.key) is None:
            info.attempts -= 1
            self.count_rejectors(info, +1)
            if len(self._active):
                self.move_to_backoff(info, ATTEMPT_SUSPENDED)
            else:
                self.move_to_active(info, ATTEMPT_SUSPENDED, self._clock.now())

    def update(self, old: Pod, new: Pod) -> None:
        """Update a pending pod, which the change may make schedulable. Add it if it is not in the queue."""
        events = pod_changes(old, new, is_target=True)
        if new.uid in self._in_flight:
            for event in events:
                self._record(event, event.label, old, new)
            return
        key, groups = old.key, self.groups if is_member(new) else None
        info = self._find(key) if groups is None else groups.find(key)
        if info is None:
            self.add(new)
            return
        self.nominator.update(old, new)
        if groups is not None:
            groups.update(info, old, new, events)
        elif key in self._active:
            info = info.with_pod(new)
            self._active.put(info, self._sort_key(info))
        elif key in self._backoff:
            self._backoff.put(info.with_pod(new))
        else:
            info.pod = new
            self._unschedulable.put(info)
            self.requeue_for_events(events, info, old, new)

    def requeue_for_events(self, events: Iterable[ClusterEvent], info: QueuedEntity, old: Pod, new: Pod) -> None:
        """Requeue an unschedulable entity at the first of these events that may make it schedulable."""
        now = self._clock.now()
        for event in events:
            strategy = self._hints.choose_strategy(info, event, old, new)
            # Without SchedulerPopFromBackoffQ upstream continues here and may add the pod to two queues. We do not.
            if strategy is not RequeueStrategy.SKIP and self.requeue(info, strategy, event.label, now):
                return

    def delete(self, pod: Pod) -> None:
        """Remove a pod that was deleted or bound."""
        if pod.metadata.uid in self.nominator:
            self.nominator.remove(pod)
        self._drop(pod.key)

    def end_nomination(self, pod: Pod, placed_on: str = "") -> None:
        """Remove a pod's nomination. Other pods may use the nominated node if the pod was placed elsewhere.

        Upstream requeues them only if the nomination is in the pod's status, otherwise they wait for the flush.
        """
        if pod.metadata.uid not in self.nominator:
            return
        nominated = self.nominator.node_of(pod)
        self.nominator.remove(pod)
        if nominated != placed_on:
            freed = pod.on_node(nominated)
            self.move_all_to_active_or_backoff(
                ASSIGNED_POD_DELETE, freed, None, lambda candidate: candidate.priority <= pod.priority
            )

    def move_all_to_active_or_backoff(
        self, event: ClusterEvent, old: Any = None, new: Any = None, pre_check: PreCheck | None = None
    ) -> None:
        """Requeue preselected pods that an event may make schedulable, and record the event for in-flight pods."""
        # Called for every bound pod: without pending pods this must cost nothing.
        if not self._unschedulable.entries and not self._in_flight.pods:
            return
        interest = self._hints.find_interest(event)
        if not interest:
            return
        if interest.is_wildcard:
            candidates = list(self._unschedulable)
        else:
            candidates = self._unschedulable.rejected_by(interest, old, new)
            has_groups = self.groups is not None and self.groups.has_entities
            for gate in interest.registered:
                # Plugins return keys of pods, but with groups the gated entity may be a group.
                reconsidered = partial(self._gates.reconsidered, *gate) if not has_groups else lambda: None
                candidates += self._unschedulable.find_gated(gate, reconsidered)
            if interest.registered_for_group and self.groups is not None:
                candidates += self.groups.find_gated(interest.registered_for_group, new if new is not None else old)
        if pre_check is not None:
            candidates = [info for info in candidates if pre_check(info.pod)]
        if candidates or self._in_flight:
            self._move(candidates, event, interest, old, new)

    def activate(self, pods: Iterable[Pod]) -> None:
        """Move pods, or the groups of members, to the active queue, without backoff; retry in-flight pods that fail."""
        now = self._clock.now()
        for pod in pods:
            key = pod.key
            if self.groups is not None and is_member(pod):
                key = self.groups.find_entity_key(pod) or key
            if (info := self._unschedulable.get(key)) is not None:
                self.move_to_active(info, FORCE_ACTIVATE.label, now)
            elif (info := self._backoff.remove(key)) is not None:
                self.move_to_active(info, FORCE_ACTIVATE.label, now, from_backoff=True)
            elif pod.uid in self._in_flight and not (self.groups is not None and is_member(pod)):
                self._record(FORCE_ACTIVATE, FORCE_ACTIVATE.label, None, pod)

    def wake_rejected(self, profile: str, plugin: str) -> None:
        """Requeue the pods that a plugin rejected or gates, after their backoff; also those now in flight."""
        self.move_all_to_active_or_backoff(self._hints.event_of_plugin(profile, plugin))

    def resort(self) -> None:
        """Recompute all sort keys before the next pop. Earlier requests are combined."""
        self._must_sort = True

    def flush(self, now: float) -> None:
        """Release pods after their backoff (every second) and pods unschedulable for too long (every 30 s).

        May be called at any time: the time of the last tick counts, so that a late call releases the same pods.
        """
        if now < self._backoff_ticker.next and now < self._unschedulable_ticker.next:
            return
        if (tick := self._backoff_ticker.take(now)) is not None:
            for info in self._backoff.release(tick):
                self.move_to_active(info, BACKOFF_COMPLETE, now, from_backoff=True)
        if (tick := self._unschedulable_ticker.take(now)) is None:
            return
        overdue = self._unschedulable.find_older(self._max_unschedulable, tick)
        for info in overdue:
            info.was_flushed = True
            for member in info.members if info.is_group else ():
                member.was_flushed = True
            info.flush_timestamp = tick
        if overdue:
            self._move(overdue, UNSCHEDULABLE_TIMEOUT, self._hints.find_interest(UNSCHEDULABLE_TIMEOUT), None, None)

    def next_wakeup(self) -> float | None:
        """Return the first time at which :meth:`flush` may release a pod, or ``None``."""
        times: list[float] = []
        if (expiry := self._backoff.next_expiry()) is not None:
            times.append(self._backoff_ticker.next_tick(expiry))
        if (oldest := self._unschedulable.oldest()) is not None:
            times.append(self._unschedulable_ticker.next_tick(oldest + self._max_unschedulable))
        return min(times, default=None)

    def _drop(self, key: str) -> None:
        for entries in self._entries:
            if key in entries:
                break
        else:
            if self.groups is not None:
                self.groups.remove(key)
            return  # the usual case: a bound pod was popped before
        if (info := self.remove_entity(key)) is not None:
            self.count_rejectors(info, -1)

    def _move(self, infos: list[QueuedEntity], event: ClusterEvent, interest: Interest, old: Any, new: Any) -> None:
        now = self._clock.now()
        for info in infos:
            # A gated pod cannot be admitted unless its gating plugin does.
            gate = "" if interest.is_wildcard else info.gating_plugin
            if gate and (gate not in interest.plugins or self._gates.is_still_closed(info)):
                self._unschedulable.still_gated(info.key)
                continue
            strategy = self._hints.choose_strategy(info, event, old, new)
            if strategy is not RequeueStrategy.SKIP:
                self._unschedulable.remove(info.key)
                self.requeue(info, strategy, interest.label, now)
        if self._in_flight:
            self._record(event, interest.label, old, new)

    def _record(self, event: ClusterEvent, label: str, old: Any, new: Any) -> None:
        self._in_flight.record(event, label, old, new)
        if self._observer is not None:
            self._observer.on_in_flight(label, +1)

    # ── moves between the queues ───────────────────────────────────────────────────────────────────────────────

    def move_to_active(self, info: QueuedEntity, label: str, now: float, *, from_backoff: bool = False) -> bool:
        """Add an entity to the active queue, unless a PreEnqueue plugin rejects it. Return whether it was added."""
        # With SchedulerPopFromBackoffQ the plugins admitted the pod when it entered the backoff queue.
        was_admitted = from_backoff and self._pop_from_backoff
        if not was_admitted and not self._gates.admit(info):
            self.gate(info, label)
            return False
        if info.initial_attempt_timestamp is None:
            info.initial_attempt_timestamp = now
        if info.is_group:
            for member in info.members:
                if member.initial_attempt_timestamp is None:
                    member.initial_attempt_timestamp = now
        if info.key in self._unschedulable.entries:
            self._unschedulable.remove(info.key)
        self._active.put(info, self._sort_key(info))
        self.notify_moved(info, ACTIVE, label)
        return True

    def notify_moved(self, info: QueuedEntity, queue: str, label: str) -> None:
        """Notify the observer that an entity entered a queue."""
        if self._observer is not None:
            if info.is_group:
                self._observer.on_group_move([member.pod for member in info.members], queue, label, info.type_label)
            else:
                self._observer.on_move(info.pod, queue, label)

    def remove_entity(self, key: str) -> QueuedEntity | None:
        """Remove and return the entity with this key."""
        return self._active.remove(key) or self._backoff.remove(key) or self._unschedulable.remove(key)

    def put_back(self, info: QueuedEntity, queue: str | None, label: str, now: float) -> None:
        """Add a changed entity to the queue from which it was removed. An unschedulable one is not re-admitted."""
        if queue == UNSCHEDULABLE:
            self._unschedulable.put(info)
        elif queue == BACKOFF:
            self.requeue(info, RequeueStrategy.AFTER_BACKOFF, label, now)
        else:
            self.move_to_active(info, label, now)

    def admit_member(self, group: QueuedPodGroupInfo, member: QueuedPodInfo, label: str, now: float) -> None:
        """Admit a new member of a group in the active or backoff queue; gate the group if the member is rejected."""
        if not self._gates.admit(member):
            self._gates.gate_group(group, member)
            self.remove_entity(group.key)
            self.gate(group, label)
            return
        if member.initial_attempt_timestamp is None:
            member.initial_attempt_timestamp = now
        if self._observer is not None:
            self._observer.on_group_move([member.pod], self.find_queue(group.key) or ACTIVE, label, group.type_label)

    def requeue(self, info: QueuedEntity, strategy: RequeueStrategy, label: str, now: float) -> bool:
        """Add an entity to the queue that the strategy selects. Return whether it can be popped from there."""
        if strategy is RequeueStrategy.SKIP:
            self.move_to_unschedulable(info, label)
            return False
        if strategy is RequeueStrategy.AFTER_BACKOFF and self._backoff.is_backing_off(info, now):
            return self.move_to_backoff(info, label)
        return self.move_to_active(info, label, now)

    def move_to_backoff(self, info: QueuedEntity, label: str) -> bool:
        """Add an entity to the backoff queue, unless a PreEnqueue plugin rejects it. Return whether it was added."""
        if self._pop_from_backoff and not self._gates.admit(info):
            self.gate(info, label)
            return False
        self._unschedulable.remove(info.key)
        self._backoff.put(info)
        self.notify_moved(info, BACKOFF, label)
        return True

    def gate(self, info: QueuedEntity, label: str) -> None:
        """Add an entity that a PreEnqueue plugin rejects to the unschedulable pods."""
        # Otherwise an attempt resets this, but a gated pod has none.
        info.was_flushed = False
        self.move_to_unschedulable(info, label)

    def move_to_unschedulable(self, info: QueuedEntity, label: str) -> None:
        """Add an entity to the unschedulable pods, where it waits for an event."""
        is_new = info.key not in self._unschedulable
        self._unschedulable.put(info)
        if is_new:
            self.notify_moved(info, UNSCHEDULABLE, label)

    def count_rejectors(self, info: QueuedEntity, delta: int) -> None:
        """Notify the observer that a rejected pod entered (+1) or left (-1) the queue."""
        if self._observer is not None:
            for plugin in info.rejectors:
                self._observer.on_rejection(plugin, info.scheduler_name, delta)

    # ── inspection ─────────────────────────────────────────────────────────────────────────────────────────────

    def __len__(self) -> int:
        """Return the number of pending pods, without those in flight."""
        entities = len(self._active) + len(self._backoff) + len(self._unschedulable)
        return entities if self.groups is None else entities + self.groups.surplus

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """Iterate over the pending pods, including members of groups."""
        for info in self.entries():
            yield from info.members
        if self.groups is not None:
            yield from self.groups.members_without_entity()

    def entries(self) -> Iterator[QueuedEntity]:
        """Iterate over the pods and groups."""
        return chain(self._active, self._backoff, self._unschedulable)

    def pods_in_backoff(self) -> Iterator[QueuedPodInfo]:
        """Yield the pods that back off, including members of groups."""
        for entity in self._backoff:
            yield from entity.members

    def sizes(self) -> QueueSizes:
        """Return the number of pods in each queue. Members of groups count individually."""
        return QueueSizes(
            active=sum(info.size for info in self._active),
            backoff=sum(info.size for info in self._backoff),
            unschedulable=sum(info.size for info in self._unschedulable if not info.is_gated),
            gated=sum(info.size for info in self._unschedulable if info.is_gated),
            in_flight=len(self._in_flight),
            incomplete=0 if self.groups is None else len(self.groups.incomplete),
            pending=0 if self.groups is None else len(self.groups.pending),
        )

    def entity_counts(self) -> dict[tuple[str, str], int]:
        """Return the number of entities by queue and type: ``pod``, ``podgroup`` or ``compositepodgroup``."""
        counts: Counter[tuple[str, str]] = Counter()
        for queue, infos in ((ACTIVE, self._active), (BACKOFF, self._backoff), (UNSCHEDULABLE, self._unschedulable)):
            for info in infos:
                counts[GATED if info.is_gated else queue, info.type_label if info.is_group else "pod"] += 1
        return dict(counts)

    def in_flight(self) -> tuple[str, ...]:
        """Return the UIDs of the in-flight pods, in the order in which they were popped."""
        return tuple(self._in_flight)

    def where(self, pod: Pod) -> str | None:
        """Return the queue of a pod, or of its group: active, backoff, unschedulable, gated or in-flight.

        A member is ``incomplete`` while its group does not exist, and ``pending`` during an attempt of its group.
        """
        key = pod.key
        if self.groups is not None and (group := self.groups.where(key)) is not None:
            if group in (INCOMPLETE, PENDING):
                return group
            key = group
        if (info := self._unschedulable.get(key)) is not None:
            return GATED if info.is_gated else UNSCHEDULABLE
        return self.find_queue(key) or (IN_FLIGHT if pod.uid in self._in_flight else None)

    def serves(self, profile: str) -> bool:
        """Return whether there is a profile of this name."""
        return self._hints.has(profile)

    def find(self, pod: Pod) -> QueuedPodInfo | None:
        """Return the pending pod with this namespace and name."""
        return self._find(pod.key)

    def queued_pod(self, key: str) -> Pod | None:
        """Return the pending pod with this key."""
        info = self._find(key)
        return None if info is None else info.pod

    def find_queue(self, key: str) -> str | None:
        """Return the queue of an entity: active, backoff or unschedulable."""
        if key in self._active:
            return ACTIVE
        if key in self._backoff:
            return BACKOFF
        return UNSCHEDULABLE if key in self._unschedulable else None

    def check_invariants(self) -> None:
        """Verify that every pod is in exactly one queue and that all indexes agree. Raise AssertionError otherwise."""
        keys: set[str] = set()
        if self.groups is not None:
            self.groups.check_invariants()
        for info in self:
            assert info.key not in keys, f"{info.key} is in two queues"
            keys.add(info.key)
            assert info.uid not in self._in_flight, f"{info.key} is pending and in flight"
        # Without SchedulerPopFromBackoffQ pods are admitted only when they leave the backoff queue.
        for entity in chain(self._active, self._backoff if self._pop_from_backoff else ()):
            assert not entity.is_gated, f"{entity.key} is gated but may be popped"
        for part in (self._active, self._backoff, self._unschedulable, self._in_flight, self.nominator):
            part.check_invariants()

    def _find(self, key: str) -> QueuedPodInfo | None:
        info = self._active.get(key) or self._backoff.get(key) or self._unschedulable.get(key)
        if info is not None and not info.is_group:
            return info
        return None if self.groups is None else self.groups.find(key)
