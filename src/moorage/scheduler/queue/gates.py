"""The PreEnqueue plugins of all profiles, which admit pods to the active queue."""

from collections.abc import Collection, Mapping, Sequence, Set
from typing import Final

from moorage.scheduler.framework.faults import PLUGIN_FAULTS, pass_on_interrupt, shown
from moorage.scheduler.framework.plugin import PreEnqueuePlugin
from moorage.scheduler.framework.status import Code, Status
from moorage.scheduler.queue.entities import NO_PLUGINS, QueuedEntity, QueuedPodGroupInfo, QueuedPodInfo
from moorage.scheduler.queue.observer import QueueObserver, report_failure

_REJECTIONS: Final = frozenset((Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE))


class Gates:
    """Calls the PreEnqueue plugins. A plugin that raises gates the pod and is reported.

    Groups gated by ``group_plugins`` can only be admitted after events of their own tree.
    """

    def __init__(
        self,
        plugins: Mapping[str, Sequence[PreEnqueuePlugin]],
        observer: QueueObserver | None,
        group_plugins: Set[str] = NO_PLUGINS,
    ) -> None:
        self._plugins = {profile: tuple(of_profile) for profile, of_profile in plugins.items()}
        self._by_name = {(profile, plugin.name): plugin for profile, own in plugins.items() for plugin in own}
        self._observer = observer
        self._group_plugins = group_plugins

    def admit(self, entity: QueuedEntity) -> bool:
        """Call the plugins in order, the one that gated the pod before first, and record the first rejection.

        A group is admitted if all of its members are.
        """
        if entity.is_group:
            return self._admit_group(entity)
        pod = entity.pod
        plugins = self._plugins.get(pod.scheduler_name, ())
        if entity.gating_plugin:
            plugins = tuple(sorted(plugins, key=lambda plugin: plugin.name != entity.gating_plugin))
        for plugin in plugins:
            try:
                status = plugin.pre_enqueue(pod)
                if status is not None:
                    status = checked(status)
            except PLUGIN_FAULTS as problem:
                pass_on_interrupt(problem)
                report_failure(self._observer, plugin.name, pod, problem)
                self._gate(entity, plugin.name)
                return False
            if status is not None and status.code is not Code.SUCCESS:
                if status.code is Code.ERROR:
                    report_failure(self._observer, plugin.name, pod, status.message)
                self._gate(entity, plugin.name)
                return False
        entity.gating_plugin = ""
        return True

    def _admit_group(self, group: QueuedPodGroupInfo) -> bool:
        # The members that were gated before are checked first.
        for member in sorted(group.members, key=lambda member: not member.is_gated):
            if not self.admit(member):
                self.gate_group(group, member)
                return False
        group.gating_plugin = ""
        return True

    def reconsidered(self, profile: str, name: str) -> Collection[str] | None:
        """Return the keys of the pods that a plugin may admit now; None if it may admit any pod."""
        plugin = self._by_name.get((profile, name))
        if plugin is None:
            return None
        try:
            return plugin.reconsidered()
        except PLUGIN_FAULTS as problem:
            pass_on_interrupt(problem)
            return None

    def is_still_closed(self, entity: QueuedEntity) -> bool:
        """Call only the plugin that gated a pod; return False for groups and failures, so that admit decides."""
        plugin = self._by_name.get((entity.pod.scheduler_name, entity.gating_plugin))
        if plugin is None or entity.is_group:
            return False
        try:
            status = plugin.pre_enqueue(entity.pod)
        except PLUGIN_FAULTS as problem:
            pass_on_interrupt(problem)
            return False
        return isinstance(status, Status) and status.code in _REJECTIONS

    def gate_group(self, group: QueuedPodGroupInfo, member: QueuedPodInfo) -> None:
        """Gate a group because one of its members is gated."""
        group.pod, group.gating_plugin = member.pod, member.gating_plugin
        group.needs_own_event = member.gating_plugin in self._group_plugins

    def _gate(self, entity: QueuedPodInfo, plugin: str) -> None:
        if self._observer is not None and plugin not in entity.rejectors:
            self._observer.rejected(plugin, entity.scheduler_name, +1)
        entity.unschedulable_plugins |= {plugin}
        entity.gating_plugin = plugin


def checked(result: object) -> Status:
    """Return the result of ``pre_enqueue`` if it is a Status; raise TypeError otherwise."""
    if isinstance(result, Status):
        return result
    raise TypeError(f"it returned {shown(result)}: return None, or a Status with the reason")
