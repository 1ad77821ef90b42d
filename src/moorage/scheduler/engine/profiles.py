"""Everything that one configuration determines: the profiles with their plugins and extenders.

A reload replaces it as a unit. Pods and the cached cluster state are not part of it.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Final

import structlog
from msgspec.structs import fields, replace

from moorage.common.errors import PluginError
from moorage.common.observers import Observer
from moorage.kube.api.meta import KubeObject
from moorage.kube.features import FeatureGates
from moorage.scheduler.config.expansion import expand_plugins
from moorage.scheduler.config.plugin_facts import IN_TREE_PLUGINS
from moorage.scheduler.config.types import PluginEntry, Plugins, PluginSet, SchedulerConfiguration
from moorage.scheduler.engine.binding.binding_phases import BindingPhases
from moorage.scheduler.engine.cycle.filter import Rotation
from moorage.scheduler.engine.cycle.profile_runner import ProfileRunner
from moorage.scheduler.engine.event_handlers import events_of_listed
from moorage.scheduler.engine.extender import Extender
from moorage.scheduler.engine.handle import EngineHandle, ProfileHandles
from moorage.scheduler.engine.observing import ObserverHooks
from moorage.scheduler.engine.profile import Profile, find_extension_points
from moorage.scheduler.engine.services import Services
from moorage.scheduler.framework.cycle import StateKey
from moorage.scheduler.framework.deadlines import DeadlineExceeded, call_with_timeout
from moorage.scheduler.framework.events import EVERY_EVENT, with_groups
from moorage.scheduler.framework.faults import PLUGIN_FAULTS, FaultRecord, described, invalid_result, pass_on_interrupt
from moorage.scheduler.framework.group_plugins import GroupSourcePlugin
from moorage.scheduler.framework.logs import VERBOSITY
from moorage.scheduler.framework.plugin import Plugin
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.queue.backoff import Backoff
from moorage.scheduler.queue.gates import ProfileQueueing, Queueing
from moorage.scheduler.queue.hints import EXTENDER

START_SECONDS: Final = 60.0
CLOSE_SECONDS: Final = 5.0
PLUGINS_LEVEL: Final = 2
"""Log level from which the plugins of each profile are logged."""
SETTLED: Final = (
    *("NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "VolumeRestrictions", "NodeVolumeLimits"),
    *("VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity", "DynamicResources"),
    "NodeDeclaredFeatures",
)
"""Plugins that do not apply to a pod that is already on its node."""

log = structlog.get_logger(__name__)


class Profiles:
    """The profiles of a configuration: their scheduling and binding phases, and the lifecycle of their plugins."""

    def __init__(
        self,
        config: SchedulerConfiguration,
        registry: Registry,
        services: Services,
        *,
        extenders: Sequence[Extender] = (),
        observers: Sequence[Observer] = (),
        cross_check: bool | float = False,
    ) -> None:
        self.config = config
        profile_runners: list[ProfileRunner] = []

        def build(
            config: SchedulerConfiguration,
            observers: Sequence[Observer] = (),
            main_runners: Mapping[str, ProfileRunner] = MappingProxyType({}),
        ) -> dict[str, ProfileRunner]:
            rotation, runners = Rotation(), {}
            for profile in config.profiles:
                name, percentage = profile.scheduler_name or "", config.find_percentage(profile)
                placements = config.find_placement_percentage(profile)
                profile = replace(profile, percentage_of_placements_to_score=placements)  # noqa: PLW2901
                hooks = ObserverHooks(observers, name)
                main = main_runners[name].profile.plugins if name in main_runners else {}
                # Plugins of third parties may have state, so each is built and started once.
                shared = {name: plugin for name, plugin in main.items() if name not in IN_TREE_PLUGINS}
                runner = ProfileRunner(
                    profile, registry, services, rotation, percentage, cross_check, extenders, hooks, shared
                )
                runners[name] = runner
                profile_runners.append(runner)
            return runners

        try:
            self.runners = build(config, observers)
            self.resizes = build(resizing(config, services.features), main_runners=self.runners)
            """The runners for running pods with a deferred resize."""
            self.bindings = {
                name: BindingPhases(runner.profile, runner.extenders, ObserverHooks(observers, name))
                for name, runner in self.runners.items()
            }
            self.queueing = _build_queueing(config, self.runners, has_groups=services.cache.groups is not None)
        except BaseException:
            # The plugins built before the failure may have started background work, and nothing else closes them.
            for runner in profile_runners:
                runner.handles.cancel()
            raise
        if VERBOSITY.of(__name__) >= PLUGINS_LEVEL:
            for name, runner in self.runners.items():
                message = "the scheduler starts to work with those plugins"
                log.info(message, v=PLUGINS_LEVEL, profile=name, Plugins=runner.profile.names_by_point)
        self.handles: list[EngineHandle] = [
            handle for runner in profile_runners for handle in runner.handles.made.values()
        ]
        self.lifecycle = PluginLifecycle((runner.profile, runner.handles) for runner in profile_runners)

    @property
    def group_sources(self) -> dict[str, tuple[GroupSourcePlugin, ...]]:
        """The plugins that describe groups, by profile."""
        return {name: runner.profile.group_sources for name, runner in self.runners.items()}

    def first_exception(self) -> BaseException | None:
        """Return the first fault of a plugin as an exception, in any profile. Expected failures do not count."""
        return next((faults.first for faults in self._fault_records() if faults.first is not None), None)

    def faults(self) -> list[str]:
        """Return the faults of all plugins: exceptions, invalid results and timeouts, each once for each place."""
        return [*dict.fromkeys(problem for faults in self._fault_records() for problem in faults.problems)]

    def _fault_records(self) -> Iterator[FaultRecord]:
        runners = (*self.runners.values(), *self.resizes.values())
        return (plugin._faults for runner in runners for plugin in runner.profile.plugins.values())

    def listed(self) -> set[type[KubeObject]]:
        """Return the kinds that the plugins list."""
        return set(chain.from_iterable(handle.listed for handle in self.handles))

    def shared(self) -> set[StateKey[object]]:
        """Return the keys of the state that the plugins share."""
        return set(chain.from_iterable(handle.shares for handle in self.handles))

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


def _build_queueing(
    config: SchedulerConfiguration, runners: Mapping[str, ProfileRunner], *, has_groups: bool
) -> Queueing:
    profiles: dict[str, ProfileQueueing] = {}
    for name, runner in runners.items():
        events_by_plugin = {plugin: events_of_listed(handle.listed) for plugin, handle in runner.handles.made.items()}
        registrations = runner.profile.registrations(events_by_plugin)
        if runner.extenders:
            registrations[EXTENDER] = EVERY_EVENT
        faults = {plugin.name: plugin._faults for plugin in runner.profile.plugins.values()}
        profiles[name] = ProfileQueueing(runner.profile.pre_enqueue, with_groups(registrations, has_groups), faults)
    sort = next(iter(runners.values())).profile.queue_sort[0]
    return Queueing(sort, profiles, Backoff(config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds))


def resizing(config: SchedulerConfiguration, features: FeatureGates) -> SchedulerConfiguration:
    """Return the configuration for deferred resizes: without profiles, unless preemption may free resources.

    A running pod with a deferred resize is queued so that preemption can free resources. An attempt checks only
    resources, on the pod's node: everything else was decided when the pod was placed. The attempt never reaches
    binding, since the cache has the pod already. A pod that fits is retried until the kubelet has carried out the
    resize.
    """
    is_on = features.enabled("InPlacePodVerticalScalingSchedulerPreemption")
    off = tuple(PluginEntry(name) for name in SETTLED)
    profiles = []
    for profile in config.profiles if is_on else ():
        sets = {field.name: getattr(profile.plugins, field.name) for field in fields(Plugins)}
        reduced = {
            name: PluginSet(tuple(entry for entry in value.enabled if entry.name not in SETTLED), value.disabled + off)
            for name, value in sets.items()
            if isinstance(value, PluginSet)
        }
        profiles.append(replace(profile, plugins=replace(profile.plugins, **reduced)))
    return replace(config, profiles=tuple(profiles))


class PluginLifecycle:
    """Starts the plugins of all profiles in the order of construction, and closes them in reverse order."""

    def __init__(self, profiles: Iterable[tuple[Profile, ProfileHandles]]) -> None:
        self._members = [
            (plugin, handles.made[name])
            for profile, handles in profiles
            for name, plugin in profile.plugins.items()
            if name in handles.made
        ]
        self._started: list[Plugin] = []
        self._previous: list[PluginLifecycle] = []
        self.has_begun = False
        """Whether ``start`` was called."""
        self.is_closed = False

    async def start(self) -> None:
        """Start every plugin once. Raise PluginError if one fails."""
        if self.has_begun:
            return
        self.has_begun = True
        for plugin, _ in self._members:
            # Before the await: a plugin that fails in start must be closed too.
            self._started.append(plugin)
            if type(plugin).start is Plugin.start:
                continue
            location = f"starting plugin {plugin.name!r}"
            try:
                await call_with_timeout(START_SECONDS, plugin.start)
            except DeadlineExceeded as error:
                problem = invalid_result(plugin, ("start",), str(error))
                advice = "start long work with handle.in_background"
                raise PluginError(plugin.name, f"{location}: {problem}; {advice}") from error
            except PLUGIN_FAULTS as error:  # plugin code may raise anything
                pass_on_interrupt(error)
                raise PluginError(plugin.name, f"{location}: {described(error, f'{plugin.name}.start')}") from error

    def follow(self, previous: "PluginLifecycle") -> None:
        """Replace other plugins, which still bind pods. Close them with these plugins at the latest."""
        self._previous = [previous, *(lifecycle for lifecycle in previous._previous if not lifecycle.is_closed)]
        previous._previous = []

    async def close(self) -> None:
        """Close all started plugins and cancel their background work. Never raises, may take seconds."""
        for lifecycle in self._previous:
            await lifecycle.close()
        self._previous = []
        while self._started:
            plugin = self._started.pop()
            if type(plugin).close is Plugin.close:
                continue
            try:
                await call_with_timeout(CLOSE_SECONDS, plugin.close)
            except DeadlineExceeded as error:
                problem = invalid_result(plugin, ("close",), str(error))
                log.warning("plugin takes too long to close", plugin=plugin.name, error=problem)
            except PLUGIN_FAULTS as error:  # the other plugins must still be closed
                pass_on_interrupt(error)
                plugin._faults.note(plugin.name, error, described(error, f"{plugin.name}.close"))
        for _, handle in self._members:
            await handle.close()
        self.is_closed = True
