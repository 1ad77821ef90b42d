"""What one configuration makes of a scheduler: profiles with their plugins and extenders, made and replaced as a whole.

Pods and what is known of the cluster are not part of it: they stay when a configuration follows another.
"""

import asyncio
from collections.abc import Generator, Iterator, Sequence
from itertools import chain

from moorage.kube.api.meta import KubeObject
from moorage.scheduler.config.expansion import expand_plugins
from moorage.scheduler.config.types import SchedulerConfiguration
from moorage.scheduler.engine.binding.binder import BindingPhases
from moorage.scheduler.engine.cycle.filter import Rotation
from moorage.scheduler.engine.cycle.profile_cycle import ProfileCycle
from moorage.scheduler.engine.event_handlers import events_of_listed
from moorage.scheduler.engine.extender import Extender
from moorage.scheduler.engine.handle import EngineHandle
from moorage.scheduler.engine.life import PluginLife
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.engine.phase_timing import time_phases
from moorage.scheduler.engine.profile import points_of
from moorage.scheduler.engine.resizes import resizing
from moorage.scheduler.engine.services import Services
from moorage.scheduler.framework.cycle import StateKey
from moorage.scheduler.framework.events import EVERY_EVENT, EventRegistration, with_groups
from moorage.scheduler.framework.group_plugins import GroupSourcePlugin
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.queue.backoff import Backoff
from moorage.scheduler.queue.hints import EXTENDER, ProfileQueueing, Queueing


class Profiles:
    """The profiles of one configuration at work: their cycles, their bindings, and the life of their plugins.

    Complete once :meth:`build` is through.
    """

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
        self._services = services
        self._registry = registry
        self._extenders = extenders
        self._observer = observer
        self._cross_check = cross_check
        self._built: list[ProfileCycle] = []
        self.config = config

    def build(self) -> Generator[None, None, None]:
        """Build everything in small steps, between which pods may be tried by others: at most a plugin at each."""
        try:
            yield from self._build(self.config)
        except BaseException:
            # Plugins that could be built may have begun something, and nobody is going to close them.
            for cycle in self._built:
                cycle.handles.cancel()
            raise

    def _build(self, config: SchedulerConfiguration) -> Iterator[None]:
        self.cycles: dict[str, ProfileCycle] = {}
        yield from self._build_cycles(config, self.cycles)
        self.resizes: dict[str, ProfileCycle] = {}
        """How running pods are tried whose resize was put off."""
        yield from self._build_cycles(resizing(config, self._services.features), self.resizes)
        self.bindings: dict[str, BindingPhases] = {}
        for name, cycle in self.cycles.items():
            self.bindings[name] = self._build_binding(name, cycle, self._observer)
            yield
        self._handles: list[EngineHandle] = [handle for cycle in self._built for handle in cycle.handles.made.values()]
        self.life = PluginLife((cycle.profile, cycle.handles) for cycle in self._built)
        asked: dict[str, ProfileQueueing] = {}
        for name, cycle in self.cycles.items():
            asked[name] = self._asked_by_queue(cycle)
            yield
        sort = next(iter(self.cycles.values())).profile.queue_sort[0]
        backoff = Backoff(config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds)
        self.queueing = Queueing(sort, asked, backoff)

    def _build_cycles(self, config: SchedulerConfiguration, cycles: dict[str, ProfileCycle]) -> Iterator[None]:
        rotation = Rotation()
        for profile in config.profiles:
            cycle = ProfileCycle(
                profile,
                self._registry,
                self._services,
                rotation,
                config.percentage_for(profile),
                self._cross_check,
                self._extenders,
            )
            yield from cycle.build()
            cycles[profile.scheduler_name or ""] = cycle
            self._built.append(cycle)

    def _build_binding(self, name: str, cycle: ProfileCycle, observer: AttemptObserver | None) -> BindingPhases:
        phases = BindingPhases(cycle.profile, self._extenders)
        stopwatch = None if observer is None else observer.stopwatch(name)
        if stopwatch is not None:
            time_phases(cycle, phases, stopwatch)
        return phases

    def _asked_by_queue(self, cycle: ProfileCycle) -> ProfileQueueing:
        of_extenders = {EXTENDER: EVERY_EVENT} if self._extenders else {}
        has_groups = self._services.cache.groups is not None
        return ProfileQueueing(cycle.profile.pre_enqueue, with_groups(_registrations(cycle) | of_extenders, has_groups))

    @property
    def group_sources(self) -> dict[str, tuple[GroupSourcePlugin, ...]]:
        """The plugins that describe groups, by profile."""
        return {name: cycle.profile.group_sources for name, cycle in self.cycles.items()}

    def listed(self) -> set[type[KubeObject]]:
        """Return the kinds that the plugins list."""
        return set(chain.from_iterable(handle.listed for handle in self._handles))

    def shared(self) -> set[StateKey[object]]:
        """Return under which keys the plugins share something."""
        return set(chain.from_iterable(handle.shares for handle in self._handles))

    async def bindings_ended(self) -> None:
        """Wait until the last pod that these profiles placed is bound, or has been taken back."""
        for phases in self.bindings.values():
            if phases.under_way:
                phases.all_ended = asyncio.get_running_loop().create_future()
                await phases.all_ended


def describes_groups(config: SchedulerConfiguration, registry: Registry) -> bool:
    """Tell whether some profile has a plugin that describes groups, before any plugin is built."""
    return any(
        name in registry and issubclass(registry[name], GroupSourcePlugin)
        for profile in config.profiles
        for name in expand_plugins(profile, lambda name: points_of(registry, name)).names
    )


def _registrations(cycle: ProfileCycle) -> dict[str, tuple[EventRegistration, ...]]:
    handles = cycle.handles.made
    return cycle.profile.registrations(lambda plugin: events_of_listed(handles[plugin].listed))
