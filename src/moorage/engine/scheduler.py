"""The scheduler: takes the next pod, places it in a frozen world, and hands it to the binder."""

from collections.abc import Callable, Iterable, Mapping

import structlog

from moorage.api.pod import Pod
from moorage.api.pod_groups import CompositePodGroup, PodGroup
from moorage.clock import Clock
from moorage.config.expansion import expand_plugins
from moorage.config.types import SchedulerConfiguration
from moorage.engine.binding.binder import Binder, BindingPhases, PendingBinding, Undo
from moorage.engine.cycle.filter import Rotation
from moorage.engine.cycle.found import ExtendedNodes, Found, NoNode, OneNode, SeveralNodes
from moorage.engine.cycle.profile_cycle import ProfileCycle
from moorage.engine.cycle.score import Choice
from moorage.engine.event_handlers import EventHandlers, events_of_listed
from moorage.engine.extender import Extender, in_order
from moorage.engine.failures import FailureHandler
from moorage.engine.group_sources import GroupSources
from moorage.engine.groups.cycle import GroupCycle
from moorage.engine.life import PluginLife
from moorage.engine.observing import AttemptObserver
from moorage.engine.outcomes import NO_NODES, Diagnosis, Dropped, Failed, Outcome, Parked, Placed, Tried
from moorage.engine.phase_timing import time_phases
from moorage.engine.profile import points_of
from moorage.engine.resizes import resizing
from moorage.engine.services import Background, Services
from moorage.errors import MoorageError
from moorage.features import FeatureGates
from moorage.framework.cycle import ASSUMED, CycleState
from moorage.framework.events import EVERY_EVENT, EventRegistration, with_groups
from moorage.framework.faults import described
from moorage.framework.group_plugins import GroupSourcePlugin
from moorage.framework.handle import ClusterApi
from moorage.framework.metering import SILENT_METER, PluginMeter
from moorage.framework.recording import EventNote
from moorage.framework.registry import Registry
from moorage.framework.status import Status
from moorage.queue.backoff import Backoff
from moorage.queue.entries import QueuedPodInfo
from moorage.queue.groups import QueuedGroup
from moorage.queue.hints import EXTENDER, ProfileQueueing
from moorage.queue.nominations import Nominations
from moorage.queue.observing import QueueObserver
from moorage.queue.scheduling_queue import DEFAULT_MAX_UNSCHEDULABLE, SchedulingQueue
from moorage.state.cache import Cache
from moorage.state.objects import Objects
from moorage.state.pod_groups import PodGroups

MAX_BINDINGS = 256
"""While so many bindings wait for the API server, no further pod is tried."""

log = structlog.get_logger(__name__)


class Scheduler:
    """Profiles, queue and cache, and the cycle that brings them together."""

    unexpected: Exception | None = None
    """The first exception of an attempt that is nobody's but ours: tests fail with it."""

    def __init__(  # noqa: PLR0913 - keywords only, named once, where the scheduler is put together
        self,
        config: SchedulerConfiguration,
        registry: Registry,
        *,
        cluster: ClusterApi,
        background: Background,
        clock: Clock,
        features: FeatureGates,
        cross_check: bool | float = False,
        observer: AttemptObserver | None = None,
        extenders: Iterable[Extender] = (),
        queue_observer: QueueObserver | None = None,
        max_unschedulable: float = DEFAULT_MAX_UNSCHEDULABLE,
        meter: PluginMeter = SILENT_METER,
    ) -> None:
        self.observer = observer
        self.cache, self.objects = Cache(), Objects()
        self.nominator = Nominations(self._queued_pod, self.objects[Pod])
        self.cache.groups = self._follow_groups(features, describes_groups(config, registry))
        self.services = Services(
            cache=self.cache,
            objects=self.objects,
            clock=clock,
            features=features,
            cluster=cluster,
            nominator=self.nominator,
            background=background,
            activate=self._activate,
            extenders=in_order(extenders),
            meter=meter,
        )
        self.cycles = self._build_cycles(config, registry, cross_check)
        self._resizes = self._build_cycles(resizing(config, features), registry, cross_check)
        self.life = self._life_of_plugins()
        self._bindings = {name: self._build_binding(name, cycle) for name, cycle in self.cycles.items()}
        self.queue = self._build_queue(config, features, queue_observer, max_unschedulable)
        self.failures = FailureHandler(self.services, self.queue)
        sources = self._group_sources(features)
        self.groups = None if self.cache.groups is None else GroupCycle(self, self.cache.groups, sources)
        self.binder = Binder(self.services, self.queue, self.failures.handle, self.observer)
        self.services.cancel_pre_bind = self.binder.cancel_pre_bind
        self.handlers = self._build_handlers(features, sources)

    def carry_out_by(self, failures: FailureHandler, make_binder: "Callable[[Scheduler], Binder]") -> None:
        """Have others take back what failed and bind the rest: for those who only want to know what would happen."""
        self.failures = failures
        self.binder = make_binder(self)
        self.services.cancel_pre_bind = self.binder.cancel_pre_bind

    def _life_of_plugins(self) -> PluginLife:
        built = (*self.cycles.values(), *self._resizes.values())
        return PluginLife((cycle.profile, cycle.handles) for cycle in built)

    def _build_handlers(self, features: FeatureGates, sources: GroupSources | None) -> EventHandlers:
        return EventHandlers(
            cache=self.cache,
            objects=self.objects,
            queue=self.queue,
            profiles=self.cycles.keys(),
            waiting=self.services.waiting,
            features=features,
            sources=sources,
        )

    def _group_sources(self, features: FeatureGates) -> GroupSources | None:
        sources = {name: cycle.profile.group_sources for name, cycle in self.cycles.items()}
        if self.cache.groups is None or not any(sources.values()):
            return None
        with_objects = features.enabled("GenericWorkload")
        return GroupSources(sources, self.cache.groups, self.queue, with_objects=with_objects)

    def _follow_groups(self, features: FeatureGates, are_described: bool) -> PodGroups | None:
        """Have groups of pods listed and watched, and those of groups, if there are such."""
        if not features.enabled("GenericWorkload"):
            return PodGroups() if are_described else None
        with_composites = features.enabled("CompositePodGroup")
        for kind in (PodGroup, CompositePodGroup) if with_composites else (PodGroup,):
            self.objects[kind]
        return PodGroups(with_composites=with_composites)

    def _build_cycles(
        self, config: SchedulerConfiguration, registry: Registry, cross_check: bool | float
    ) -> dict[str, ProfileCycle]:
        rotation = Rotation()
        return {
            profile.scheduler_name or "": ProfileCycle(
                profile, registry, self.services, rotation, config.percentage_for(profile), cross_check
            )
            for profile in config.profiles
        }

    def _build_binding(self, name: str, cycle: ProfileCycle) -> BindingPhases:
        phases = BindingPhases(cycle.profile, self.services.extenders)
        stopwatch = None if self.observer is None else self.observer.stopwatch(name)
        if stopwatch is not None:
            time_phases(cycle, phases, stopwatch)
        return phases

    def _queued_pod(self, key: str) -> Pod | None:
        return self.queue.queued_pod(key)

    def _activate(self, pods: Mapping[str, Pod]) -> None:
        self.queue.activate(pods.values())
        self.services.wake()

    def _build_queue(
        self,
        config: SchedulerConfiguration,
        features: FeatureGates,
        observer: QueueObserver | None,
        max_unschedulable: float,
    ) -> SchedulingQueue:
        of_extenders = {EXTENDER: EVERY_EVENT} if self.services.extenders else {}
        return SchedulingQueue(
            clock=self.services.clock,
            sort=next(iter(self.cycles.values())).profile.queue_sort[0],
            profiles={
                name: ProfileQueueing(
                    cycle.profile.pre_enqueue,
                    with_groups(_registrations(cycle) | of_extenders, self.cache.groups is not None),
                )
                for name, cycle in self.cycles.items()
            },
            backoff=Backoff(config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds),
            pop_from_backoff=features.enabled("SchedulerPopFromBackoffQ"),
            nominator=self.nominator,
            groups=self.cache.groups,
            max_unschedulable=max_unschedulable,
            observer=observer,
        )

    async def schedule_next(self) -> Outcome | None:
        """Try the next pod of the queue; ``None`` if there is none, or too many bindings are under way."""
        if self.binder.in_flight >= MAX_BINDINGS:
            return None
        queued = self.queue.pop()
        if queued is None:
            return None
        if isinstance(queued, QueuedGroup):
            assert self.groups is not None
            await self.groups.try_group(queued)
            return Tried()
        return await self.try_pod(queued)

    async def try_pod(self, queued: QueuedPodInfo) -> Outcome:
        """Try one pod that was popped, and take it back if that fails."""
        pod = queued.pod
        if pod.is_terminating or self.cache.is_assumed(pod):
            return self._drop(queued)
        try:
            outcome: Placed | Parked | Failed = await self.schedule_one(queued)
        except MoorageError as error:
            outcome = Failed(str(error))
        except Exception as error:
            # Nobody expects it, but it costs this pod's attempt only: the next leader would meet the same pod.
            log.exception("attempt failed unexpectedly", pod=queued.key)
            self.unexpected = self.unexpected or error
            outcome = Failed(f"internal error: {described(error)}")
        if self.observer is not None:
            self.observer.ended(queued, outcome)
        if not isinstance(outcome, Placed):
            self.failures.handle(queued, outcome)
        return outcome

    async def schedule_one(self, queued: QueuedPodInfo) -> Placed | Parked | Failed:
        """Find a node for one pod and hand it to the binder.

        One at a time, in a frozen world, so every pod sees the effects of the ones before it.
        """
        pod = queued.pod
        is_resize = self._resizes and pod.has_deferred_resize
        cycle = (self._resizes if is_resize else self.cycles)[pod.scheduler_name]
        if not self.cache.columns.infos:
            return Failed(NO_NODES, is_rejection=True)

        found = cycle.find(pod) if not self.services.extenders else await self._find_extended(cycle, pod)
        if self.observer is not None:
            self.observer.found(queued, cycle, found)
        if isinstance(found, NoNode):
            return await self._park(queued, cycle, found)
        if self.services.extenders:
            choice = await self._choose_extended(cycle, found)
            if self.observer is not None:
                self.observer.chosen(queued, choice)
            state = (found.found if isinstance(found, ExtendedNodes) else found).cycle
        else:
            assert not isinstance(found, ExtendedNodes)
            choice, state = cycle.choose(found), found.cycle
        refused = self.commit(queued, cycle, state, choice.node.name)
        return Placed(choice.node.name, choice.tied) if refused is None else refused

    def commit(self, queued: QueuedPodInfo, cycle: ProfileCycle, state: CycleState, node_name: str) -> Parked | None:
        """Give a pod the node that was chosen for it, and start its binding; or take it back and say who refused."""
        pod = queued.pod
        assumed = pod.on_node(node_name)
        self.cache.assume(assumed)
        self.queue.end_nomination(pod, placed_on=node_name)
        # Unreserve is part of it before anything is reserved: a plugin that fails half-way must still be undone.
        undo = Undo((self.cache.forget, assumed), (cycle.unreserve, state, assumed, node_name))
        binding = PendingBinding(queued, assumed, state, self._bindings[pod.scheduler_name], undo, node_name)
        try:
            refusal = self._reserve_and_permit(cycle, binding)
        except BaseException:
            undo.unwind()
            raise
        if refusal is not None:
            undo.unwind()
            return Parked(Diagnosis.on_node(node_name, refusal), "")
        if (recounted := state.get(ASSUMED)) is not None:
            self.cache.recount(recounted)
        # From here the binder owns the undo stack, and unwinds it if the bind fails.
        self.binder.start(binding)
        return None

    async def _park(self, queued: QueuedPodInfo, cycle: ProfileCycle, found: NoNode) -> Parked:
        with self.services.freeze:
            result = await cycle.post_filter(found)
        if self.observer is not None:
            self.observer.post_filtered(queued, result)
        found.diagnosis.post_filter_message = result.message
        return Parked(found.diagnosis, result.nominated_node)

    def _reserve_and_permit(self, cycle: ProfileCycle, binding: PendingBinding) -> Status | None:
        pod, state, node_name = binding.pod, binding.cycle, binding.node_name
        refusal = cycle.reserve(state, pod, node_name)
        if refusal is not None:
            return refusal
        answer = cycle.permit(state, pod, node_name)
        if isinstance(answer, Status):
            return answer
        if answer is not None:
            binding.permit = self.services.waiting.hold(pod, answer)
        if state.pods_to_activate:
            self.services.activate(state.pods_to_activate)
            state.pods_to_activate = {}
        return None

    async def _find_extended(self, cycle: ProfileCycle, pod: Pod) -> Found | ExtendedNodes:
        with self.services.freeze:
            return await cycle.find_extended(pod)

    async def _choose_extended(self, cycle: ProfileCycle, found: OneNode | SeveralNodes | ExtendedNodes) -> Choice:
        with self.services.freeze:
            return await cycle.choose_extended(found)

    def _drop(self, queued: QueuedPodInfo) -> Outcome:
        """Let go of a pod that is being deleted, or was placed already."""
        self.let_go(queued)
        return Dropped()

    def let_go(self, queued: QueuedPodInfo) -> None:
        """Note that there is nothing to try for a pod, and say so if that is because it is being deleted."""
        pod = queued.pod
        message = f"skip schedule deleting pod: {pod.key}"
        if pod.is_terminating:
            note = EventNote(pod, "FailedScheduling", "Scheduling", message, pod.scheduler_name, True)
            self.services.cluster.record(note)
        self.queue.done(pod.uid)


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
