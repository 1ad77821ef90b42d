"""Queueing hints: they decide whether an event may make a rejected pod schedulable."""

from collections.abc import Iterable, Mapping
from enum import Enum
from time import perf_counter
from typing import Any, Final

from msgspec import Struct

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.events import Action, ClusterEvent, HintFunction, HintIndex, QueueingHint
from moorage.scheduler.framework.faults import (
    PLUGIN_FAULTS,
    FaultRecord,
    definition,
    described,
    pass_on_interrupt,
    shown,
)
from moorage.scheduler.queue.entities import QueuedEntity, QueuedPodInfo
from moorage.scheduler.queue.gates import ProfileQueueing
from moorage.scheduler.queue.in_flight_events import InFlightEvent
from moorage.scheduler.queue.observer import QueueObserver

EXTENDER: Final = "Extender"
"""The rejector of pods that extenders reject: it is registered for every event."""
LEGAL: Final = "return QueueingHint.QUEUE or QueueingHint.SKIP; queue_if(condition) returns one of them"
PLUGIN_CHANGED: Final = "PluginChanged"
"""The label of the event after which a plugin has its rejected pods retried."""


class RequeueStrategy(Enum):
    """The queue to which an event moves a pod."""

    SKIP = "stay"
    AFTER_BACKOFF = "after backoff"
    IMMEDIATELY = "at once"


class Interest(Struct, frozen=True):
    """The plugins registered for an event, with their hints, by profile and in order of registration."""

    label: str
    is_wildcard: bool
    hints: Mapping[str, tuple[tuple[str, HintFunction | None], ...]]
    registered: tuple[tuple[str, str], ...]
    """The names of all profiles and plugins that are registered."""
    plugins: frozenset[str]
    indexes: Mapping[tuple[str, str], tuple[HintIndex, ...]] = {}
    """The indexes of the registrations of a plugin, if all of them have one."""
    registered_for_group: tuple[tuple[str, str], ...] = ()
    """Those registered only for members of the event's own group."""

    def __bool__(self) -> bool:
        return self.is_wildcard or bool(self.registered)


class Hints:
    """The registrations of all profiles, looked up by event."""

    def __init__(self, profiles: Mapping[str, ProfileQueueing], observer: QueueObserver | None) -> None:
        self._profiles = profiles
        self._observer = observer
        self._interests: dict[ClusterEvent, Interest] = {}

    def has(self, profile: str) -> bool:
        """Return whether there is a profile of this name."""
        return profile in self._profiles

    def find_interest(self, event: ClusterEvent) -> Interest:
        """Return the plugins registered for an event. The result is cached."""
        interest = self._interests.get(event)
        if interest is not None:
            return interest
        hints = {
            name: tuple(
                (plugin, registration.hint)
                for plugin, registrations in profile.registrations.items()
                for registration in registrations
                if registration.event.covers(event)
            )
            for name, profile in self._profiles.items()
        }
        registered = dict.fromkeys((name, plugin) for name, of_profile in hints.items() for plugin, _ in of_profile)
        plugins = frozenset(plugin for _, plugin in registered)
        for_group = {
            (name, plugin): None
            for name, profile in self._profiles.items()
            for plugin, registrations in profile.registrations.items()
            for registration in registrations
            if registration.event.covers(event) and registration.same_group
        }
        covering = {
            (name, plugin): [item.index for item in registrations if item.event.covers(event)]
            for name, profile in self._profiles.items()
            for plugin, registrations in profile.registrations.items()
        }
        indexes = {name: tuple(filter(None, group)) for name, group in covering.items() if group and None not in group}
        interest = Interest(
            event.label, event.is_wildcard, hints, tuple(registered), plugins, indexes, tuple(for_group)
        )
        self._interests[event] = interest
        return interest

    def find_indexes(self, profile: str, plugin: str) -> Iterable[HintIndex]:
        """Return all indexes of a plugin, each once."""
        if profile not in self._profiles:
            return ()
        registrations = self._profiles[profile].registrations.get(plugin, ())
        return dict.fromkeys(item.index for item in registrations if item.index is not None)

    def event_of_plugin(self, profile: str, plugin: str) -> ClusterEvent:
        """Return the event for the pods of a profile that one plugin rejected, regardless of its registered events."""
        event = ClusterEvent(f"{profile}/{plugin}", Action.ALL, PLUGIN_CHANGED)
        name = (profile, plugin)
        hints = {profile: ((plugin, None),)}
        self._interests[event] = Interest(event.label, False, hints, (name,), frozenset((plugin,)))
        return event

    def choose_strategy(self, info: QueuedEntity, event: ClusterEvent, old: Any, new: Any) -> RequeueStrategy:
        """Return the strategy for a pod after an event, from the hints of the plugins that rejected it.

        The strategy of a group is the strongest of all its members. A member without rejectors is retried.
        """
        if info.is_group:
            best = RequeueStrategy.SKIP
            members = info.members
            if any(not (member.unschedulable_plugins or member.pending_plugins) for member in members):
                best, members = RequeueStrategy.AFTER_BACKOFF, [m for m in members if m.pending_plugins]
            for member in members:
                strategy = self.choose_strategy(member, event, old, new)
                if strategy is RequeueStrategy.IMMEDIATELY:
                    return strategy
                if strategy is RequeueStrategy.AFTER_BACKOFF:
                    best = strategy
            return best
        pending = info.pending_plugins
        rejectors = info.unschedulable_plugins | pending
        if not rejectors:
            return RequeueStrategy.AFTER_BACKOFF
        interest = self.find_interest(event)
        if interest.is_wildcard:
            # A wildcard event concerns all pods, unless it is about one of them.
            is_concerned = new is None or (isinstance(new, Pod) and new.uid == info.pod.uid)
            return RequeueStrategy.AFTER_BACKOFF if is_concerned else RequeueStrategy.SKIP
        hints = interest.hints.get(info.scheduler_name)
        if hints is None:
            # There is no such profile, and no hint against a retry.
            return RequeueStrategy.AFTER_BACKOFF
        strategy = RequeueStrategy.SKIP
        for plugin, hint in hints:
            if plugin not in rejectors:
                continue
            if hint is not None and not self._is_queue_hint(plugin, hint, interest.label, (info, old, new)):
                continue
            if plugin in pending:
                return RequeueStrategy.IMMEDIATELY
            strategy = RequeueStrategy.AFTER_BACKOFF
            if not pending:
                break
        return strategy

    def choose_missed_strategy(self, info: QueuedEntity, events: Iterable[InFlightEvent] | None) -> RequeueStrategy:
        """Return the strategy for a pod after a failed attempt: the strongest for all events during the attempt.

        ``None`` means that the events are unknown, because ``done`` was called before the attempt failed.
        """
        if events is None or not info.rejectors:
            return RequeueStrategy.AFTER_BACKOFF
        best = RequeueStrategy.SKIP
        for _, event, _, old, new in events:
            strategy = self.choose_strategy(info, event, old, new)
            if strategy is RequeueStrategy.IMMEDIATELY:
                return strategy
            if strategy is RequeueStrategy.AFTER_BACKOFF:
                best = strategy
                if not info.pending_plugins:
                    break
        return best

    def _is_queue_hint(self, plugin: str, hint: HintFunction, event: str, args: tuple[QueuedPodInfo, Any, Any]) -> bool:
        info, old, new = args
        began = perf_counter()
        try:
            result = hint(info.pod, old, new)
        except PLUGIN_FAULTS as error:
            pass_on_interrupt(error)
            # Like upstream, treat a failed hint as Queue. Otherwise the pod could be stuck.
            problem = described(error, _name(plugin, hint))
            self._faults(info, plugin).note(plugin, error, problem)
            outcome = "Error"
        else:
            outcome = result.value if isinstance(result, QueueingHint) else "Error"
            if outcome == "Error":
                where = f" ({location})" if (location := definition(hint)) else ""
                problem = f"{_name(plugin, hint)}{where} returned {shown(result)}: {LEGAL}"
                self._faults(info, plugin).note_invalid(plugin, _name(plugin, hint), problem)
        if self._observer is not None:
            self._observer.on_hint(plugin, event, outcome, perf_counter() - began)
        return outcome != QueueingHint.SKIP.value

    def _faults(self, info: QueuedPodInfo, plugin: str) -> FaultRecord:
        return self._profiles[info.scheduler_name].faults.get(plugin) or FaultRecord()


def _name(plugin: str, hint: HintFunction) -> str:
    return f"{plugin}.{getattr(hint, '__name__', 'events_to_register')}"
