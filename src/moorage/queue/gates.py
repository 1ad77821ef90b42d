"""Asking pre-enqueue plugins whether a pod may enter the active or backoff queue."""

from collections.abc import Mapping

from moorage.framework.faults import PLUGIN_FAULTS, pass_on_interrupt
from moorage.framework.status import Code, Status
from moorage.queue.entry import QueuedPodInfo
from moorage.queue.hints import ProfileQueueing
from moorage.queue.observing import QueueObserver


class Gates:
    """The pre-enqueue plugins of all profiles."""

    def __init__(self, profiles: Mapping[str, ProfileQueueing], observer: QueueObserver) -> None:
        self._plugins = {name: tuple(profile.pre_enqueue) for name, profile in profiles.items()}
        self._observer = observer

    def admit(self, info: QueuedPodInfo) -> bool:
        """Ask the plugins in order, the one that held the pod back last time first; the first to object is noted."""
        plugins = self._plugins.get(info.pod.scheduler_name, ())
        if info.gating_plugin:
            plugins = tuple(sorted(plugins, key=lambda plugin: plugin.name != info.gating_plugin))
        pod = info.pod
        for plugin in plugins:
            try:
                status = checked(plugin.pre_enqueue(pod))
            except PLUGIN_FAULTS as problem:
                pass_on_interrupt(problem)
                # A plugin that raises holds the pod back like one that objects; the scheduler lives on.
                self._observer.plugin_failed(plugin.name, pod, problem)
                self._close(info, plugin.name)
                return False
            if status is not None and status.code is not Code.SUCCESS:
                if status.code is Code.ERROR:
                    self._observer.plugin_failed(plugin.name, pod, status.message)
                self._close(info, plugin.name)
                return False
        info.gating_plugin = ""
        return True

    def _close(self, info: QueuedPodInfo, plugin: str) -> None:
        if plugin not in info.unschedulable_plugins and plugin not in info.pending_plugins:
            self._observer.rejected(plugin, info.scheduler_name, +1)
        info.unschedulable_plugins |= {plugin}
        info.gating_plugin = plugin


def checked(answer: object) -> Status | None:
    """Refuse what is neither a Status nor ``None``."""
    if answer is None or isinstance(answer, Status):
        return answer
    raise TypeError(f"it answered {answer!r}: return None, or a Status that says what the pod waits for")
