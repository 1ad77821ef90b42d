"""The scheduler: pops the next pod, finds a node for it, and hands it over to the binder."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import structlog

from moorage.common.clock import Clock
from moorage.common.errors import MoorageError
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import CompositePodGroup, PodGroup
from moorage.kube.client.event_note import EventNote
from moorage.kube.features import FeatureGates
from moorage.scheduler.config.types import SchedulerConfiguration
from moorage.scheduler.engine.binding.binding_phases import PendingBinding, Undo
from moorage.scheduler.engine.cycle.post_filter import NOT_RUN
from moorage.scheduler.engine.cycle.profile_runner import ProfileRunner
from moorage.scheduler.engine.cycle.search_result import (
    Choice,
    ExtendedNodes,
    NoNode,
    OneNode,
    SearchResult,
    SeveralNodes,
)
from moorage.scheduler.engine.effects import CLUSTER_EFFECTS, Effects
from moorage.scheduler.engine.event_handlers import EventHandlers
from moorage.scheduler.engine.extender import Extender, in_order
from moorage.scheduler.engine.group_sources import GroupSources
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.engine.outcomes import (
    NO_NODES,
    Diagnosis,
    Dropped,
    Failed,
    Outcome,
    Placed,
    Tried,
    Unschedulable,
)
from moorage.scheduler.engine.plugin_lifecycle import PluginLifecycle
from moorage.scheduler.engine.profiles import Profiles, describes_groups
from moorage.scheduler.engine.services import Background, Services
from moorage.scheduler.engine.ties import Ties
from moorage.scheduler.framework.cycle import ASSUMED, CycleState
from moorage.scheduler.framework.faults import described
from moorage.scheduler.framework.handle import ClusterApi
from moorage.scheduler.framework.metering import SILENT_METER, PluginMeter
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.framework.status import Status
from moorage.scheduler.queue.entities import QueuedPodGroupInfo, QueuedPodInfo
from moorage.scheduler.queue.nominator import PodNominator
from moorage.scheduler.queue.observer import QueueObserver
from moorage.scheduler.queue.scheduling_queue import DEFAULT_MAX_UNSCHEDULABLE, SchedulingQueue
from moorage.scheduler.state.cache import Cache
from moorage.scheduler.state.objects import Objects
from moorage.scheduler.state.pod_groups import PodGroups

if TYPE_CHECKING:
    from moorage.scheduler.engine.groups.group_cycle import GroupCycle

MAX_BINDINGS = 256
"""The limit of concurrent bindings: beyond it, no further pod is tried."""

log = structlog.get_logger(__name__)


class Scheduler:
    """Runs scheduling cycles on its profiles, queue and cache."""

    unexpected: Exception | None = None
    """The first exception of an attempt that no plugin caused: tests fail with it."""

    def __init__(  # noqa: PLR0913 - keywords only, called once, where the scheduler is assembled
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
        ties: Ties | None = None,
        effects: Effects = CLUSTER_EFFECTS,
    ) -> None:
        self.observer = observer
        self._cross_check = cross_check
        self.cache, self.objects = Cache(), Objects()
        self.nominator = PodNominator(self._queued_pod, self.objects[Pod])
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
            meter=meter,
            ties=ties,
        )
        self.profiles = self.build_profiles(config, registry, extenders)
        self._living = [self.profiles]
        self.queue = self._build_queue(features, queue_observer, max_unschedulable)
        self.failures = effects.make_failures(self.services, self.queue)
        self.groups = self._build_groups()
        self.binder = effects.make_binder(self.services, self.queue, self.failures.handle, self.observer)
        self.services.cancel_pre_bind = self.binder.cancel_pre_bind
        self.handlers = EventHandlers(
            cache=self.cache,
            objects=self.objects,
            queue=self.queue,
            waiting=self.services.waiting,
            features=features,
        )
        self._serve(self.profiles)

    def _build_groups(self) -> "GroupCycle | None":
        if self.cache.groups is None:
            return None
        from moorage.scheduler.engine.groups.group_cycle import GroupCycle

        return GroupCycle(self, self.cache.groups)

    def build_profiles(
        self, config: SchedulerConfiguration, registry: Registry, extenders: Iterable[Extender] = ()
    ) -> Profiles:
        """Build the profiles of another configuration; the current ones stay in use, and plugins are not started."""
        return Profiles(
            config,
            registry,
            self.services,
            extenders=in_order(extenders),
            observer=self.observer,
            cross_check=self._cross_check,
        )

    def change_profiles(self, profiles: Profiles) -> Profiles:
        """Replace the profiles between two cycles; return the former ones, which still bind the pods they placed.

        All pending pods are sorted and admitted again by the new plugins, and rejected pods are retried, because the
        plugin that rejected them may be gone. This takes about 12 microseconds per pending pod.
        """
        former, self.profiles = self.profiles, profiles
        self._living = [*self.living(), profiles]
        profiles.lifecycle.follow(former.lifecycle)
        self.queue.reconfigure(profiles.queueing)
        self._serve(profiles)
        return former

    def _serve(self, profiles: Profiles) -> None:
        self.runners, self._resizes, self._bindings = profiles.runners, profiles.resizes, profiles.bindings
        sources = self._group_sources(profiles)
        if self.groups is not None:
            self.groups.serve(profiles.runners.values(), sources)
        self.handlers.serve(profiles.runners.keys(), sources)

    def living(self) -> list[Profiles]:
        """Return the former profiles that still bind pods, and the current ones."""
        return [profiles for profiles in self._living if not profiles.lifecycle.is_closed]

    @property
    def lifecycle(self) -> PluginLifecycle:
        """The lifecycle of the plugins in use, and of former plugins that still bind pods."""
        return self.profiles.lifecycle

    def _group_sources(self, profiles: Profiles) -> GroupSources | None:
        sources = profiles.group_sources
        if self.cache.groups is None or not any(sources.values()):
            return None
        with_objects = self.services.features.enabled("GenericWorkload")
        return GroupSources(sources, self.cache.groups, self.queue, with_objects=with_objects)

    def _follow_groups(self, features: FeatureGates, are_described: bool) -> PodGroups | None:
        """List and watch pod groups, and composite pod groups, if the features are enabled."""
        if not features.enabled("GenericWorkload"):
            return PodGroups() if are_described else None
        with_composites = features.enabled("CompositePodGroup")
        for kind in (PodGroup, CompositePodGroup) if with_composites else (PodGroup,):
            self.objects[kind]
        return PodGroups(with_composites=with_composites)

    def _queued_pod(self, key: str) -> Pod | None:
        return self.queue.queued_pod(key)

    def _activate(self, pods: Mapping[str, Pod]) -> None:
        self.queue.activate(pods.values())
        self.services.wake()

    def _build_queue(
        self, features: FeatureGates, observer: QueueObserver | None, max_unschedulable: float
    ) -> SchedulingQueue:
        queueing = self.profiles.queueing
        return SchedulingQueue(
            clock=self.services.clock,
            sort=queueing.sort,
            profiles=queueing.profiles,
            backoff=queueing.backoff,
            pop_from_backoff=features.enabled("SchedulerPopFromBackoffQ"),
            nominator=self.nominator,
            groups=self.cache.groups,
            max_unschedulable=max_unschedulable,
            observer=observer,
        )

    async def schedule_next(self) -> Outcome | None:
        """Try the next pod of the queue; ``None`` if it is empty, or too many bindings are in flight."""
        if self.binder.in_flight >= MAX_BINDINGS:
            return None
        queued = self.queue.pop()
        if queued is None:
            return None
        if isinstance(queued, QueuedPodGroupInfo):
            assert self.groups is not None
            await self.groups.try_group(queued)
            return Tried()
        return await self.try_pod(queued)

    async def try_pod(self, queued: QueuedPodInfo, *, preempts: bool = True) -> Outcome:
        """Try one popped pod; requeue it if the attempt fails. Post-filters run only if ``preempts`` is set."""
        pod = queued.pod
        if pod.is_terminating or self.cache.is_assumed(pod):
            return self._drop(queued)
        if self.observer is not None:
            self.observer.trying(queued)
        try:
            outcome: Placed | Unschedulable | Failed = await self.schedule_one(queued, preempts=preempts)
        except MoorageError as error:
            outcome = Failed(str(error))
        except Exception as error:
            # Only this attempt fails, not the process: the next leader would meet the same pod.
            log.exception("attempt failed unexpectedly", pod=queued.key)
            self.unexpected = self.unexpected or error
            outcome = Failed(f"internal error: {described(error)}")
        if self.observer is not None:
            self.observer.ended(queued, outcome)
        if not isinstance(outcome, Placed):
            self.failures.handle(queued, outcome)
        return outcome

    async def schedule_one(self, queued: QueuedPodInfo, *, preempts: bool = True) -> Placed | Unschedulable | Failed:
        """Find a node for one pod and hand it to the binder.

        Cycles run one at a time, and no event is applied during a cycle. Each pod sees the effects of previous ones.
        """
        pod = queued.pod
        is_resize = self._resizes and pod.has_deferred_resize
        runner = (self._resizes if is_resize else self.runners)[pod.scheduler_name]
        if not self.cache.columns.infos:
            return Failed(NO_NODES, is_rejection=True)

        result = runner.find(pod) if not runner.extenders else await self._find_extended(runner, pod)
        if self.observer is not None:
            self.observer.found(queued, runner, result)
        if isinstance(result, NoNode):
            return await self._post_filter(queued, runner, result, preempts=preempts)
        if runner.extenders:
            choice = await self._choose_extended(runner, result)
            if self.observer is not None:
                self.observer.chosen(queued, choice)
            state = (result.result if isinstance(result, ExtendedNodes) else result).cycle
        else:
            assert not isinstance(result, ExtendedNodes)
            choice, state = runner.choose(result), result.cycle
        rejection = self.commit(queued, runner, state, choice.node.name)
        return Placed(choice.node.name, choice.tied) if rejection is None else rejection

    def commit(
        self, queued: QueuedPodInfo, runner: ProfileRunner, state: CycleState, node_name: str
    ) -> Unschedulable | None:
        """Assume, reserve and permit a pod on its node, and start its binding; or revert, and return the rejection."""
        pod = queued.pod
        assumed = pod.on_node(node_name)
        self.cache.assume(assumed)
        self.queue.end_nomination(pod, placed_on=node_name)
        # Unreserve is on the stack before reserve runs: a plugin that fails half-way must be undone, too.
        undo = Undo((self.cache.forget, assumed), (runner.unreserve, state, assumed, node_name))
        binding = PendingBinding(queued, assumed, state, self._bindings[pod.scheduler_name], undo, node_name)
        try:
            refusal = self._reserve_and_permit(runner, binding)
        except BaseException:
            undo.unwind()
            raise
        if refusal is not None:
            undo.unwind()
            return Unschedulable(Diagnosis.on_node(node_name, refusal), "")
        if (recounted := state.get(ASSUMED)) is not None:
            self.cache.recount(recounted)
        # From here the binder owns the undo stack, and unwinds it if the bind fails.
        self.binder.start(binding)
        return None

    async def _post_filter(
        self, queued: QueuedPodInfo, runner: ProfileRunner, no_node: NoNode, *, preempts: bool
    ) -> Unschedulable:
        result = NOT_RUN
        if preempts:
            with self.services.freeze:
                result = await runner.post_filter(no_node)
        if self.observer is not None:
            self.observer.post_filtered(queued, result)
        no_node.diagnosis.post_filter_message = result.message
        return Unschedulable(no_node.diagnosis, result.nominated_node)

    def _reserve_and_permit(self, runner: ProfileRunner, binding: PendingBinding) -> Status | None:
        pod, state, node_name = binding.pod, binding.cycle, binding.node_name
        refusal = runner.reserve(state, pod, node_name)
        if refusal is not None:
            return refusal
        permit = runner.permit(state, pod, node_name)
        if isinstance(permit, Status):
            return permit
        if permit is not None:
            binding.permit = self.services.waiting.hold(pod, permit)
        if state.pods_to_activate:
            self.services.activate(state.pods_to_activate)
            state.pods_to_activate = {}
        return None

    async def _find_extended(self, runner: ProfileRunner, pod: Pod) -> SearchResult | ExtendedNodes:
        with self.services.freeze:
            return await runner.find_extended(pod)

    async def _choose_extended(self, runner: ProfileRunner, result: OneNode | SeveralNodes | ExtendedNodes) -> Choice:
        with self.services.freeze:
            return await runner.choose_extended(result)

    def _drop(self, queued: QueuedPodInfo) -> Outcome:
        """Drop a pod that is being deleted, or is already placed."""
        self.let_go(queued)
        return Dropped()

    def let_go(self, queued: QueuedPodInfo) -> None:
        """End the attempt of a pod without a try, with an event if the pod is being deleted."""
        pod = queued.pod
        message = f"skip schedule deleting pod: {pod.key}"
        if pod.is_terminating:
            note = EventNote(pod, "FailedScheduling", "Scheduling", message, pod.scheduler_name, True)
            self.services.cluster.record(note)
        self.queue.done(pod.uid)
