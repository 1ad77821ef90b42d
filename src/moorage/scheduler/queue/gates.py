"""The plugins of the queue by profile, and the PreEnqueue plugins among them, which admit pods to the active queue."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.events import EventRegistration
from moorage.scheduler.framework.faults import (
    PLUGIN_FAULTS,
    FaultRecord,
    described_call,
    invalid_result,
    pass_on_interrupt,
    shown,
)
from moorage.scheduler.framework.plugin import PreEnqueuePlugin, QueueSortPlugin
from moorage.scheduler.framework.status import Code, Status
from moorage.scheduler.queue.backoff import Backoff
from moorage.scheduler.queue.entities import QueuedEntity, QueuedPodGroupInfo, QueuedPodInfo
from moorage.scheduler.queue.observer import QueueObserver

_REJECTIONS: Final = frozenset((Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE))


class ProfileQueueing(Struct, frozen=True):
    """The settings of the queue for one profile: its PreEnqueue plugins, and the registered events of all plugins."""

    pre_enqueue: Sequence[PreEnqueuePlugin] = ()
    registrations: Mapping[str, Sequence[EventRegistration]] = field(default_factory=dict)
    faults: Mapping[str, FaultRecord] = field(default_factory=dict)
    """Records faults of hints, by plugin."""


class Queueing(Struct, frozen=True):
    """The settings of the queue: the QueueSort plugin, the profiles by name, and the backoff."""

    sort: QueueSortPlugin
    profiles: Mapping[str, ProfileQueueing]
    backoff: Backoff


class Gates:
    """Calls the PreEnqueue plugins. A plugin that raises gates the pod and is reported."""

    def __init__(
        self,
        profiles: Mapping[str, ProfileQueueing],
        observer: QueueObserver | None,
        failures: QueueObserver | None = None,
    ) -> None:
        self._plugins = {name: tuple(profile.pre_enqueue) for name, profile in profiles.items()}
        self._by_name = {(profile, plugin.name): plugin for profile, own in self._plugins.items() for plugin in own}
        self._observer = observer
        self._failures = failures or observer
        # Groups gated by these plugins can only be admitted after events of the group's tree.
        self._group_plugins = {
            plugin
            for profile in profiles.values()
            for plugin, registrations in profile.registrations.items()
            if registrations and all(registration.same_group for registration in registrations)
        }

    def admit(self, entity: QueuedEntity) -> bool:
        """Call the plugins in order, the previously gating one first, and record the first rejection."""
        if entity.is_group:
            # The members that were gated before are checked first.
            for member in sorted(entity.members, key=lambda member: not member.is_gated):
                if not self.admit(member):
                    self.gate_group(entity, member)
                    return False
            entity.gating_plugin = ""
            return True
        pod = entity.pod
        plugins = self._plugins.get(pod.scheduler_name, ())
        if entity.gating_plugin:
            plugins = tuple(sorted(plugins, key=lambda plugin: plugin.name != entity.gating_plugin))
        for plugin in plugins:
            if (status := call_pre_enqueue(plugin, pod)) is not None:
                if status.code is Code.ERROR and self._failures is not None:
                    self._failures.on_plugin_failure(plugin.name, pod, status.message)
                self._gate(entity, plugin.name)
                return False
        entity.gating_plugin = ""
        return True

    def reconsidered(self, profile: str, name: str) -> Collection[str] | None:
        """Return the keys of the pods that a plugin may admit now; None if it may admit any pod."""
        plugin = self._by_name.get((profile, name))
        if plugin is None:
            return None
        try:
            keys = plugin.reconsidered()
            return None if keys is None else frozenset(keys)
        except PLUGIN_FAULTS as error:
            pass_on_interrupt(error)
            plugin._faults.note(name, error, described_call(plugin, ("reconsidered",), error))
            return None

    def is_still_closed(self, entity: QueuedEntity) -> bool:
        """Call only the plugin that gated a pod. Return False for groups and failures, so that admit decides."""
        plugin = self._by_name.get((entity.pod.scheduler_name, entity.gating_plugin))
        if plugin is None or entity.is_group:
            return False
        status = call_pre_enqueue(plugin, entity.pod)
        return status is not None and status.code in _REJECTIONS

    def gate_group(self, group: QueuedPodGroupInfo, member: QueuedPodInfo) -> None:
        """Gate a group because one of its members is gated."""
        group.pod, group.gating_plugin = member.pod, member.gating_plugin
        group.needs_own_event = member.gating_plugin in self._group_plugins

    def _gate(self, entity: QueuedPodInfo, plugin: str) -> None:
        if self._observer is not None and plugin not in entity.rejectors:
            self._observer.on_rejection(plugin, entity.scheduler_name, +1)
        entity.unschedulable_plugins |= {plugin}
        entity.gating_plugin = plugin


def call_pre_enqueue(plugin: PreEnqueuePlugin, pod: Pod) -> Status | None:
    """Call a PreEnqueue plugin. Exceptions and invalid results are recorded and become an error status."""
    try:
        status: object = plugin.pre_enqueue(pod)
    except PLUGIN_FAULTS as error:
        pass_on_interrupt(error)
        problem = described_call(plugin, ("pre_enqueue",), error)
        plugin._faults.note(plugin.name, error, problem)
        return Status.error(problem)
    if isinstance(status, Status) and status.code is Code.ERROR:
        plugin._faults.note_error("pre_enqueue", f"{plugin.name}.pre_enqueue: {status.message}")
        return status
    if isinstance(status, Status) and status.is_rejection:
        return status
    if status is None or (isinstance(status, Status) and status.code is Code.SUCCESS):
        return None
    value = f"Status({status.code.label})" if isinstance(status, Status) else shown(status)
    problem = f"returned {value}: return None, or Status.unschedulable('why')"
    problem = invalid_result(plugin, ("pre_enqueue",), problem)
    plugin._faults.note_invalid(plugin.name, "pre_enqueue", problem)
    return Status.error(problem)
