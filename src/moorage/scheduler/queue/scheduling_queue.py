"""Who is next: the scheduling queue, a state machine without threads, timers or I/O.

    add ──> active ──pop──> in flight ──done──> (placed, or gone)
              ↑ ↑               │ add_unschedulable
              │ │               ↓
              │ └──flush── backoff        (an error, or an event that helps came during or soon after the attempt)
              │ ↑               │
              │ └─pop (idle)────┘         (gate SchedulerPopFromBackoffQ; never after an error)
              └──event── unschedulable    (no event has helped yet; flushed after five minutes)
                   └──── gated            (a pre-enqueue plugin objects: asked again at its events)

A pod is in exactly one of these places. Pods are filed by namespace and name, so that one created again replaces its
namesake; pods in flight and nominations go by uid. Who wakes whom is decided by the queueing hints of the plugins that
rejected a pod. All order is deterministic: the queue-sort plugin's, then first come, first served.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Final

import structlog

from moorage.common.clock import Clock
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.events import (
    CONFIGURATION_CHANGED,
    FORCE_ACTIVATE,
    UNSCHEDULABLE_TIMEOUT,
    Action,
    ClusterEvent,
    Resource,
)
from moorage.scheduler.framework.handle import Lister
from moorage.scheduler.framework.plugin import QueueSortPlugin
from moorage.scheduler.queue.backoff import WINDOW, Backoff, Ticker
from moorage.scheduler.queue.changes import pod_changes
from moorage.scheduler.queue.entries import QueuedPodInfo
from moorage.scheduler.queue.groups import GroupQueue, QueuedGroup, is_member
from moorage.scheduler.queue.hints import Hints, Interest, ProfileQueueing, Queueing, RequeueStrategy, build_gates
from moorage.scheduler.queue.nominations import Nominations
from moorage.scheduler.queue.observing import ACTIVE, POD_POPPED, QueueObserver
from moorage.scheduler.queue.places import Places
from moorage.scheduler.state.pod_groups import PodGroups

UNSCHEDULABLE_FLUSH_PERIOD: Final = 30.0
DEFAULT_MAX_UNSCHEDULABLE: Final = 300.0

POD_ADDED: Final = ClusterEvent(Resource.UNSCHEDULED_POD, Action.ADD).label
NOMINATION_ENDED: Final = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
ATTEMPT_FAILED: Final = "ScheduleAttemptFailure"
BACKOFF_COMPLETE: Final = "BackoffComplete"
POPPED_EARLY: Final = "PopFromBackoffQ"

log = structlog.get_logger(__name__)

PreCheck = Callable[[Pod], bool]


class SchedulingQueue(Places):
    """The pods that wait for a node, alone or as groups. One caller at a time: the loop, between cycles.

    Nothing happens by itself: whoever runs the queue calls :meth:`flush` when :meth:`next_wakeup` has come.
    """

    def __init__(  # noqa: PLR0913 - keywords only, named once, where the scheduler is put together
        self,
        *,
        clock: Clock,
        sort: QueueSortPlugin,
        profiles: Mapping[str, ProfileQueueing],
        backoff: Backoff | None = None,
        max_unschedulable: float = DEFAULT_MAX_UNSCHEDULABLE,
        pop_from_backoff: bool = True,
        pods: Lister[Pod] | None = None,
        nominator: Nominations | None = None,
        groups: PodGroups | None = None,
        observer: QueueObserver | None = None,
    ) -> None:
        gates = build_gates(profiles, observer)
        super().__init__(
            clock=clock,
            sort=sort,
            gates=gates,
            backoff=backoff,
            pop_from_backoff=pop_from_backoff,
            observer=observer,
        )
        self._max_unschedulable = max_unschedulable
        self._hints = Hints(profiles, observer)
        self.groups = None if groups is None else GroupQueue(groups, self, clock)
        self.nominator = Nominations(self.queued_pod, pods) if nominator is None else nominator
        now = clock.now()
        self._backoff_ticker = Ticker((math.floor(now) if pop_from_backoff else now) + WINDOW, WINDOW)
        self._parked_ticker = Ticker(now, UNSCHEDULABLE_FLUSH_PERIOD)

    def reconfigure(self, queueing: Queueing) -> None:
        """Replace the plugins, and sort and admit all pending pods again.

        Rejected pods are retried after their backoff, because the plugin that rejected them may be gone.
        """
        label, now = CONFIGURATION_CHANGED.label, self._clock.now()
        self._hints = Hints(queueing.profiles, self._observer)
        if self._in_flight:
            self._record(CONFIGURATION_CHANGED, label, None, None)
        active, backing_off, rejected = self._active, self._backoff, list(self._parked)
        self._sort_by(queueing.sort, build_gates(queueing.profiles, self._observer), queueing.backoff)
        # In the former order, so that pods with equal keys keep it.
        for info in active.drain():
            if self._gates.admit(info):
                self._active.put(info, self._sort_key(info))
            else:
                self.hold_back(info, label)
        for info in backing_off.drain():
            # Without SchedulerPopFromBackoffQ pods are admitted when their backoff ends.
            if self._pop_from_backoff and not self._gates.admit(info):
                self.hold_back(info, label)
            else:
                self._backoff.put(info)
        for info in rejected:
            self._parked.remove(info.key)
            self.requeue(info, RequeueStrategy.AFTER_BACKOFF, label, now)

    def serves(self, profile: str) -> bool:
        """Tell whether pods of a scheduler name belong here."""
        return self._hints.has(profile)

    def find(self, pod: Pod) -> QueuedPodInfo | None:
        """Return the waiting pod of this namespace and name."""
        return self._find(pod.key)

    def add(self, pod: Pod) -> None:
        """Take in a new pod; it goes to the active pods unless a pre-enqueue plugin objects."""
        now = self._clock.now()
        info = QueuedPodInfo(pod, now)
        # Before any gate: a gated pod keeps its nomination.
        if pod.status.nominated_node_name or pod.metadata.uid in self.nominator:
            self.nominator.add(pod)
        self._drop(info.key)
        if self.groups is not None and is_member(pod):
            self.groups.add(info, POD_ADDED)
        else:
            self.make_active(info, POD_ADDED, now)

    def pop(self) -> QueuedPodInfo | None:
        """Take the pod that is to be tried next, or ``None``; it is in flight until :meth:`done`.

        When no pod is active, one that was rejected is tried before its penalty is over.
        """
        while True:
            info = self._active.pop()
            if info is None:
                info = self._pop_early()
                if info is None:
                    return None
            info.attempts += 1
            if info.is_group:
                if self._pop_members(info):
                    return info
                continue
            uid = info.pod.metadata.uid
            self.nominator.note_presence(uid)
            # Somebody added a pod again while it was being tried: that attempt goes on, this entry is dropped.
            if uid in self._in_flight.pods:
                continue
            self._in_flight.start(uid)
            if self._observer is not None:
                self._observer.in_flight(POD_POPPED, +1)
                self._observer.popped(info.pod, info.attempts)
            if info.unschedulable_plugins or info.pending_plugins:
                self.count_rejectors(info, -1)
            return info

    def _pop_members(self, group: QueuedPodInfo) -> bool:
        """Note that a group is being tried with all of its members; return False if none is left to try."""
        assert self.groups is not None
        assert isinstance(group, QueuedGroup)
        self.groups.popped(group)
        for info in group.members:
            info.attempts += 1
            if info.unschedulable_plugins or info.pending_plugins:
                self.count_rejectors(info, -1)
            if info.uid in self._in_flight.pods:
                log.error("pod of a group is being tried already", pod=info.key, group=group.key)
                group.remove(info.key)
                continue
            self._in_flight.start(info.uid)
            if self._observer is not None:
                self._observer.in_flight(POD_POPPED, +1)
                self._observer.popped(info.pod, info.attempts)
        return group.size > 0

    def done(self, uid: str) -> None:
        """Note that an attempt is over, or so far that events during it do not matter any more."""
        dropped = self._in_flight.done(uid)
        if dropped is None or self._observer is None:
            return
        for happening in dropped:
            self._observer.in_flight(happening.label, -1)
        self._observer.in_flight(POD_POPPED, -1)

    def add_unschedulable(self, info: QueuedPodInfo, pod: Pod) -> bool:
        """Take a pod back after a failed attempt, in its latest version; the attempt is done.

        ``info.rejected_by`` must have been called: a pod that nobody rejected failed by an error and is tried
        again after its penalty; one that was rejected waits for an event that helps, unless one came meanwhile.
        Return False, and leave the queue alone, if a pod of this name is already waiting.
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
            # What happened during the attempt is not asked about: the group as a whole decides what becomes of it.
            self.done(pod.uid)
            self.groups.add(info, POD_ADDED)
            return True
        strategy = self._hints.strategy_after(info, self._in_flight.events_since(pod.uid))
        self.requeue(info, strategy, ATTEMPT_FAILED, now)
        self.done(pod.uid)
        return True

    def update(self, old: Pod, new: Pod) -> None:
        """Follow a change of a waiting pod, which may be just what it needed; an unknown pod is a new one."""
        events = pod_changes(old, new, is_target=True)
        if new.uid in self._in_flight:
            for event in events:
                self._record(event, event.label, old, new)
            return
        key = old.key
        if self.groups is not None and is_member(new):
            if not self.groups.update(old, new, events, self._hints):
                self.add(new)
                return
            self.nominator.update(old, new)
            return
        if (info := self._active.get(key)) is not None:
            info = info.with_pod(new)
            self._active.put(info, self._sort_key(info))
            self.nominator.update(old, new)
            return
        if (info := self._backoff.get(key)) is not None:
            self._backoff.put(info.with_pod(new))
            self.nominator.update(old, new)
            return
        parked = self._parked.get(key)
        if parked is None:
            self.add(new)
        else:
            self._update_parked(parked, old, new, events)

    def delete(self, pod: Pod) -> None:
        """Forget a pod that is gone or was placed by somebody else."""
        if pod.metadata.uid in self.nominator:
            self.nominator.remove(pod)
        self._drop(pod.key)

    def end_nomination(self, pod: Pod, placed_on: str = "") -> None:
        """Take a pod's nomination back; unless it was placed just there, others may have the room that was left for it.

        Upstream wakes them only if the nomination is in the pod's status: the others wait until they are flushed.
        """
        if pod.metadata.uid not in self.nominator:
            return
        nominated = self.nominator.node_of(pod)
        self.nominator.remove(pod)
        if nominated != placed_on:
            freed = pod.on_node(nominated)
            self.move_all(NOMINATION_ENDED, freed, None, lambda other: other.priority <= pod.priority)

    def move_all(
        self, event: ClusterEvent, old: Any = None, new: Any = None, pre_check: PreCheck | None = None
    ) -> None:
        """Wake the pods that an event may have helped, and remember it for the pods in flight.

        ``pre_check`` narrows down which pods are looked at.
        """
        # Every pod that is bound comes by here, so nobody waiting must cost nothing.
        if not self._parked.entries and not self._in_flight.pods:
            return
        interest = self._hints.interest_in(event)
        if not interest:
            return
        if interest.is_wildcard:
            found = list(self._parked)
        else:
            found = self._parked.rejected_by(interest.places)
            for gate in interest.places:
                found += self._parked.gated_by(gate, partial(self._reconsidered, *gate))
            if interest.group_places and self.groups is not None:
                found += self.groups.gated_by(interest.group_places, new if new is not None else old)
        if pre_check is not None:
            found = [info for info in found if pre_check(info.pod)]
        if found or self._in_flight:
            self._move(found, event, interest, old, new)

    def activate(self, pods: Iterable[Pod]) -> None:
        """Have pods tried again at once, whatever their penalty; one in flight comes back as if an event had helped.

        Naming any member of a group is naming all of it that waits.
        """
        now = self._clock.now()
        for pod in pods:
            key = pod.key
            if self.groups is not None and is_member(pod):
                key = self.groups.entry_of(pod) or key
            if (info := self._parked.get(key)) is not None:
                self.make_active(info, FORCE_ACTIVATE.label, now)
            elif (info := self._backoff.remove(key)) is not None:
                self.make_active(info, FORCE_ACTIVATE.label, now, from_backoff=True)
            elif pod.uid in self._in_flight and not (self.groups is not None and is_member(pod)):
                self._record(FORCE_ACTIVATE, FORCE_ACTIVATE.label, None, pod)

    def flush(self, now: float) -> None:
        """Release pods whose penalty is over (every second) and wake those parked for too long (every 30 s).

        May be called at any time: pods are looked at as of the last tick, so that a late call releases no more than a
        punctual one.
        """
        if now < self._backoff_ticker.next and now < self._parked_ticker.next:
            return
        if (tick := self._backoff_ticker.take(now)) is not None:
            for info in self._backoff.release(tick):
                self.make_active(info, BACKOFF_COMPLETE, now, from_backoff=True)
        if (tick := self._parked_ticker.take(now)) is not None:
            self._flush_parked(tick)

    def next_wakeup(self) -> float | None:
        """Return the first moment at which :meth:`flush` may release a pod, or ``None`` when nobody waits for it."""
        moments: list[float] = []
        if (expiry := self._backoff.next_expiry()) is not None:
            moments.append(self._backoff_ticker.first_after(expiry))
        if (oldest := self._parked.oldest()) is not None:
            moments.append(self._parked_ticker.first_after(oldest + self._max_unschedulable))
        return min(moments, default=None)

    def _drop(self, key: str) -> None:
        for entries in self._entries:
            if key in entries:
                break
        else:
            if self.groups is not None:
                self.groups.remove(key)
            return  # as nearly always: a pod that was bound has been popped before
        info = self._active.remove(key) or self._backoff.remove(key) or self._parked.remove(key)
        if info is not None:
            self.count_rejectors(info, -1)

    def _pop_early(self) -> QueuedPodInfo | None:
        if not self._pop_from_backoff:
            return None
        info = self._backoff.pop_early()
        if info is not None:
            self.notify_moved(info, ACTIVE, POPPED_EARLY)
        return info

    def _update_parked(self, info: QueuedPodInfo, old: Pod, new: Pod, events: list[ClusterEvent]) -> None:
        info.pod = new
        self._parked.put(info)
        self.nominator.update(old, new)
        now = self._clock.now()
        for event in events:
            strategy = self._hints.strategy_for(info, event, old, new)
            # Upstream goes on here without SchedulerPopFromBackoffQ and may file the pod in two places; we do not.
            if strategy is not RequeueStrategy.SKIP and self.requeue(info, strategy, event.label, now):
                return

    def _move(self, infos: list[QueuedPodInfo], event: ClusterEvent, interest: Interest, old: Any, new: Any) -> None:
        now = self._clock.now()
        for info in infos:
            # A gated pod could not enter anyhow unless the plugin that holds it back changed its mind.
            gate = "" if interest.is_wildcard else info.gating_plugin
            if gate and (gate not in interest.plugins or self._gates.is_still_closed(info)):
                self._parked.still_gated(info.key)
                continue
            strategy = self._hints.strategy_for(info, event, old, new)
            if strategy is not RequeueStrategy.SKIP:
                self._parked.remove(info.key)
                self.requeue(info, strategy, interest.label, now)
        if self._in_flight:
            self._record(event, interest.label, old, new)

    def _reconsidered(self, profile: str, plugin: str) -> Collection[str] | None:
        # Groups are gated for the sake of their members, whose keys are others.
        return None if self.groups is not None else self._gates.reconsidered(profile, plugin)

    def _flush_parked(self, now: float) -> None:
        overdue = self._parked.waiting_longer_than(self._max_unschedulable, now)
        for info in overdue:
            info.was_flushed = True
            for member in info.members if info.is_group else ():
                member.was_flushed = True
            info.flush_timestamp = now
        if overdue:
            self._move(overdue, UNSCHEDULABLE_TIMEOUT, self._hints.interest_in(UNSCHEDULABLE_TIMEOUT), None, None)

    def _record(self, event: ClusterEvent, label: str, old: Any, new: Any) -> None:
        self._in_flight.record(event, label, old, new)
        if self._observer is not None:
            self._observer.in_flight(label, +1)

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

    def notify_moved(self, info: QueuedPodInfo, queue: str, label: str) -> None:
        """Say where an entry has gone."""
        if self._observer is not None:
            if info.is_group:
                self._observer.group_moved([member.pod for member in info.members], queue, label)
            else:
                self._observer.moved(info.pod, queue, label)
