"""Who wakes whom: did an event cure what plugins rejected a pod for? The hints that they registered say so."""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from itertools import chain
from time import perf_counter
from typing import Any, Final

from msgspec import Struct, field

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.events import ClusterEvent, EventRegistration, HintFunction, QueueingHint
from moorage.scheduler.framework.faults import PLUGIN_FAULTS, pass_on_interrupt
from moorage.scheduler.framework.plugin import (
    PreEnqueuePlugin,
    QueueSortPlugin,
)
from moorage.scheduler.queue.backoff import Backoff
from moorage.scheduler.queue.entries import Gates, QueuedPodInfo
from moorage.scheduler.queue.inflight import Happening
from moorage.scheduler.queue.observing import QueueObserver, report_failure

EXTENDER: Final = "Extender"
"""The name under which rejections by extenders are kept: a plugin that is registered for every event."""


class ProfileQueueing(Struct, frozen=True):
    """What the queue needs of a profile: who may hold pods back, and which events each plugin registered for."""

    pre_enqueue: Sequence[PreEnqueuePlugin] = ()
    registrations: Mapping[str, Sequence[EventRegistration]] = field(default_factory=dict)

    @property
    def group_plugins(self) -> frozenset[str]:
        """The plugins that hope for nothing but events of a pod's own group."""
        return frozenset(
            plugin
            for plugin, registered in self.registrations.items()
            if registered and all(registration.same_group for registration in registered)
        )


class Queueing(Struct, frozen=True):
    """What the queue needs of a configuration: what sorts it, its profiles by name, and how long pods back off."""

    sort: QueueSortPlugin
    profiles: Mapping[str, ProfileQueueing]
    backoff: Backoff


def build_gates(profiles: Mapping[str, ProfileQueueing], observer: QueueObserver | None) -> Gates:
    """Collect the pre-enqueue plugins of all profiles."""
    group_plugins = frozenset(chain.from_iterable(profile.group_plugins for profile in profiles.values()))
    return Gates({name: profile.pre_enqueue for name, profile in profiles.items()}, observer, group_plugins)


class RequeueStrategy(Enum):
    """What to do with a pod after an event."""

    SKIP = "stay"
    AFTER_BACKOFF = "after backoff"
    IMMEDIATELY = "at once"


class Interest(Struct, frozen=True):
    """Who registered for an event: for each profile its plugins with their hints, in order of registration."""

    label: str
    is_wildcard: bool
    hints: Mapping[str, tuple[tuple[str, HintFunction | None], ...]]
    places: tuple[tuple[str, str], ...]
    plugins: frozenset[str]
    group_places: tuple[tuple[str, str], ...] = ()
    """Those of the places whose plugins wake members of the event's own group only."""

    def __bool__(self) -> bool:
        return self.is_wildcard or bool(self.places)


class Hints:
    """The registrations of all profiles, looked up by event."""

    def __init__(self, profiles: Mapping[str, ProfileQueueing], observer: QueueObserver | None) -> None:
        self._profiles = profiles
        self._observer = observer
        self._interests: dict[ClusterEvent, Interest] = {}

    def has(self, profile: str) -> bool:
        """Tell whether there is such a profile."""
        return profile in self._profiles

    def interest_in(self, event: ClusterEvent) -> Interest:
        """Return who registered for an event; found once, then remembered."""
        interest = self._interests.get(event)
        if interest is None:
            interest = self._interests[event] = self._find_interest(event)
        return interest

    def _find_interest(self, event: ClusterEvent) -> Interest:
        hints = {
            name: tuple(
                (plugin, registration.hint)
                for plugin, registrations in profile.registrations.items()
                for registration in registrations
                if registration.event.covers(event)
            )
            for name, profile in self._profiles.items()
        }
        places = dict.fromkeys((name, plugin) for name, asked in hints.items() for plugin, _ in asked)
        plugins = frozenset(plugin for _, plugin in places)
        of_group = {
            (name, plugin): None
            for name, profile in self._profiles.items()
            for plugin, registrations in profile.registrations.items()
            for registration in registrations
            if registration.event.covers(event) and registration.same_group
        }
        return Interest(event.label, event.is_wildcard, hints, tuple(places), plugins, tuple(of_group))

    def strategy_for(self, info: QueuedPodInfo, event: ClusterEvent, old: Any, new: Any) -> RequeueStrategy:
        """Decide what an event means for a pod, by the hints of the plugins that rejected it.

        For a group the best answer of all its members counts; one that nobody rejected is ready for another try.
        """
        if info.is_group:
            return self._best_strategy(info, event, old, new)
        pending = info.pending_plugins
        rejectors = info.unschedulable_plugins | pending
        if not rejectors:
            return RequeueStrategy.AFTER_BACKOFF
        interest = self.interest_in(event)
        if interest.is_wildcard:
            return RequeueStrategy.AFTER_BACKOFF if _concerns(info, new) else RequeueStrategy.SKIP
        asked = interest.hints.get(info.scheduler_name)
        if asked is None:
            # No such profile: nothing can be said against another try.
            return RequeueStrategy.AFTER_BACKOFF
        strategy = RequeueStrategy.SKIP
        for plugin, hint in asked:
            if plugin not in rejectors or not self._says_queue(plugin, hint, interest.label, (info.pod, old, new)):
                continue
            if plugin in pending:
                return RequeueStrategy.IMMEDIATELY
            strategy = RequeueStrategy.AFTER_BACKOFF
            if not pending:
                break
        return strategy

    def _best_strategy(self, group: QueuedPodInfo, event: ClusterEvent, old: Any, new: Any) -> RequeueStrategy:
        best = RequeueStrategy.SKIP
        members = group.members
        if any(not (member.unschedulable_plugins or member.pending_plugins) for member in members):
            best, members = RequeueStrategy.AFTER_BACKOFF, [m for m in members if m.pending_plugins]
        for member in members:
            strategy = self.strategy_for(member, event, old, new)
            if strategy is RequeueStrategy.IMMEDIATELY:
                return strategy
            if strategy is RequeueStrategy.AFTER_BACKOFF:
                best = strategy
        return best

    def strategy_after(self, info: QueuedPodInfo, happenings: Iterable[Happening] | None) -> RequeueStrategy:
        """Decide what to do with a pod that failed, by what happened during its attempt; the strongest answer counts.

        ``None`` says that it is not known what happened, because the attempt was declared done before it failed.
        """
        if happenings is None or not info.rejectors:
            return RequeueStrategy.AFTER_BACKOFF
        best = RequeueStrategy.SKIP
        for _, event, _, old, new in happenings:
            strategy = self.strategy_for(info, event, old, new)
            if strategy is RequeueStrategy.IMMEDIATELY:
                return strategy
            if strategy is RequeueStrategy.AFTER_BACKOFF:
                best = strategy
                if not info.pending_plugins:
                    break
        return best

    def _says_queue(self, plugin: str, hint: HintFunction | None, event: str, asked: tuple[Pod, Any, Any]) -> bool:
        if hint is None:
            return True
        began = perf_counter()
        try:
            helps = hint(*asked) is QueueingHint.QUEUE
        except PLUGIN_FAULTS as problem:
            pass_on_interrupt(problem)
            # A broken hint must not strand the pod (nor end the scheduler): upstream takes it for a Queue, too.
            report_failure(self._observer, plugin, asked[0], problem)
            helps, outcome = True, "Error"
        else:
            outcome = "Queue" if helps else "QueueSkip"
        if self._observer is not None:
            self._observer.hinted(plugin, event, outcome, perf_counter() - began)
        return helps


def _concerns(info: QueuedPodInfo, new: Any) -> bool:
    """Return whether a wildcard event is for this pod: for all, unless it names one object."""
    return new is None or (isinstance(new, Pod) and new.uid == info.uid)
