"""Everything that one configuration determines: the profiles with their plugins and extenders.

A reload replaces it as a whole. Pods and the cached cluster state are not part of it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import chain

from moorage.kube.api.meta import KubeObject
from moorage.scheduler.config.expansion import expand_plugins
from moorage.scheduler.config.types import SchedulerConfiguration
from moorage.scheduler.engine.binding.binding_phases import BindingPhases
from moorage.scheduler.engine.cycle.filter import Rotation
from moorage.scheduler.engine.cycle.profile_runner import ProfileRunner
from moorage.scheduler.engine.event_handlers import events_of_listed
from moorage.scheduler.engine.extender import Extender
from moorage.scheduler.engine.handle import EngineHandle
from moorage.scheduler.engine.observing import AttemptObserver, make_hooks
from moorage.scheduler.engine.plugin_lifecycle import PluginLifecycle
from moorage.scheduler.engine.profile import find_extension_points
from moorage.scheduler.engine.resizes import resizing
from moorage.scheduler.engine.services import Services
from moorage.scheduler.framework.cycle import StateKey
from moorage.scheduler.framework.events import EVERY_EVENT, with_groups
from moorage.scheduler.framework.group_plugins import GroupSourcePlugin
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.queue.backoff import Backoff
from moorage.scheduler.queue.hints import EXTENDER, ProfileQueueing, Queueing


class Profiles:
    """The profiles of one configuration: their scheduling and binding phases, and the lifecycle of their plugins."""

    def __init__(
        self,
        config: SchedulerConfiguration,
        registry: Registry,
        services: Services,
        *,
        extenders: Sequence[Extender] = (),
        observer: AttemptObserver | None = None,
        cross_check: bool | float = False,
    ) -> None:
        self.config = config
        built: list[ProfileRunner] = []

        def build(config: SchedulerConfiguration, observer: AttemptObserver | None = None) -> dict[str, ProfileRunner]:
            rotation, runners = Rotation(), {}
            for profile in config.profiles:
                name, percentage = profile.scheduler_name or "", config.percentage_for(profile)
                hooks = make_hooks(observer, name)
                runner = ProfileRunner(profile, registry, services, rotation, percentage, cross_check, extenders, hooks)
                runners[name] = runner
                built.append(runner)
            return runners

        try:
            self.runners = build(config, observer)
            self.resizes = build(resizing(config, services.features))
            """The runners for running pods whose resize was deferred."""
            self.bindings = {name: _build_binding(name, runner, observer) for name, runner in self.runners.items()}
            self.queueing = _build_queueing(config, self.runners, has_groups=services.cache.groups is not None)
        except BaseException:
            # The plugins built before the failure may have started background work, and nothing else closes them.
            for runner in built:
                runner.handles.cancel()
            raise
        self._handles: list[EngineHandle] = [handle for runner in built for handle in runner.handles.made.values()]
        self.lifecycle = PluginLifecycle((runner.profile, runner.handles) for runner in built)

    @property
    def group_sources(self) -> dict[str, tuple[GroupSourcePlugin, ...]]:
        """The plugins that describe groups, by profile."""
        return {name: runner.profile.group_sources for name, runner in self.runners.items()}

    def listed(self) -> set[type[KubeObject]]:
        """Return the kinds that the plugins list."""
        return set(chain.from_iterable(handle.listed for handle in self._handles))

    def shared(self) -> set[StateKey[object]]:
        """Return the keys of the state that the plugins share."""
        return set(chain.from_iterable(handle.shares for handle in self._handles))

    async def bindings_ended(self) -> None:
        """Wait until the binding of the last pod that these profiles placed ends."""
        for phases in self.bindings.values():
            if phases.under_way:
                phases.all_ended = asyncio.get_running_loop().create_future()
                await phases.all_ended


def describes_groups(config: SchedulerConfiguration, registry: Registry) -> bool:
    """Return whether a plugin of some profile describes groups, without building plugins."""
    return any(
        name in registry and issubclass(registry[name], GroupSourcePlugin)
        for profile in config.profiles
        for name in expand_plugins(profile, lambda name: find_extension_points(registry, name)).names
    )


def _build_binding(name: str, runner: ProfileRunner, observer: AttemptObserver | None) -> BindingPhases:
    return BindingPhases(runner.profile, runner.extenders, make_hooks(observer, name))


def _build_queueing(
    config: SchedulerConfiguration, runners: Mapping[str, ProfileRunner], *, has_groups: bool
) -> Queueing:
    profiles: dict[str, ProfileQueueing] = {}
    for name, runner in runners.items():
        events_by_plugin = {plugin: events_of_listed(handle.listed) for plugin, handle in runner.handles.made.items()}
        registrations = runner.profile.registrations(events_by_plugin)
        if runner.extenders:
            registrations[EXTENDER] = EVERY_EVENT
        profiles[name] = ProfileQueueing(runner.profile.pre_enqueue, with_groups(registrations, has_groups))
    sort = next(iter(runners.values())).profile.queue_sort[0]
    return Queueing(sort, profiles, Backoff(config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds))
