"""The scheduler: pops the next pod, finds a node for it, and hands it over to the binder."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import structlog

from moorage.common.clock import Clock
from moorage.common.errors import AttemptSuspended, MoorageError
from moorage.common.observers import Observer, select
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import CompositePodGroup, PodGroup
from moorage.kube.api.records import EventNote
from moorage.kube.features import FeatureGates
from moorage.scheduler.config.types import SchedulerConfiguration
from moorage.scheduler.engine.binding.binder import MAX_BINDINGS
from moorage.scheduler.engine.binding.binding_phases import PendingBinding, Undo
from moorage.scheduler.engine.cycle.filter import QUEUED_POD
from moorage.scheduler.engine.cycle.profile_runner import NOT_RUN, ProfileRunner
from moorage.scheduler.engine.cycle.search_result import (
    ExtendedNodes,
    NoNode,
    SearchResult,
    SeveralNodes,
)
from moorage.scheduler.engine.effects import CLUSTER_EFFECTS, Effects
from moorage.scheduler.engine.event_handlers import EventHandlers
from moorage.scheduler.engine.extender import Extender, in_order
from moorage.scheduler.engine.extension_points import usable_holds
from moorage.scheduler.engine.failures import QueueFailureReporter
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
from moorage.scheduler.engine.profiles import PluginLifecycle, Profiles, describes_groups
from moorage.scheduler.engine.services import Services
from moorage.scheduler.engine.task_pool import TaskBackground
from moorage.scheduler.engine.ties import Ties
from moorage.scheduler.framework.cycle import ASSUMED, CycleState
from moorage.scheduler.framework.events import ASSIGNED_POD_DELETE
from moorage.scheduler.framework.faults import described
from moorage.scheduler.framework.handle import ClusterApi
from moorage.scheduler.framework.metering import SILENT_METER, PluginMeter
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.framework.status import Status
from moorage.scheduler.queue.entities import QueuedPodGroupInfo, QueuedPodInfo
from moorage.scheduler.queue.nominator import PodNominator
from moorage.scheduler.queue.observer import QueueObserver
from moorage.scheduler.queue.scheduling_queue import DEFAULT_MAX_UNSCHEDULABLE, SchedulingQueue
from moorage.scheduler.state.cache import Cache, CacheObserver
from moorage.scheduler.state.holds import Holds
from moorage.scheduler.state.objects import Objects
from moorage.scheduler.state.pod_groups import PodGroups

if TYPE_CHECKING:
    from moorage.scheduler.engine.groups.group_cycle import GroupCycle

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
        background: TaskBackground,
        clock: Clock,
        features: FeatureGates,
        cross_check: bool | float = False,
        observers: Sequence[Observer] = (),
        extenders: Iterable[Extender] = (),
        max_unschedulable: float = DEFAULT_MAX_UNSCHEDULABLE,
        ties: Ties | None = None,
        effects: Effects = CLUSTER_EFFECTS,
    ) -> None:
        self._observers = observers
        self.observer = select(observers, AttemptObserver)
        self._cross_check = cross_check
        self.cache, self.objects = Cache(select(observers, CacheObserver)), Objects()
        self.nominator = PodNominator(lambda key: self.queue.queued_pod(key), self.objects[Pod])  # noqa: PLW0108 - the queue follows
        if features.enabled("GenericWorkload"):
            with_composites = features.enabled("CompositePodGroup")
            for kind in (PodGroup, CompositePodGroup) if with_composites else (PodGroup,):
                self.objects[kind]  # lists and watches it
            self.cache.groups = PodGroups(with_composites=with_composites)
        elif describes_groups(config, registry):
            self.cache.groups = PodGroups()
        self.services = Services(
            cache=self.cache,
            objects=self.objects,
            clock=clock,
            features=features,
            cluster=cluster,
            nominator=self.nominator,
            background=background,
            activate=self._activate,
            holds=Holds(self.cache, self._on_release),
            wake_rejected=self._wake_rejected,
            meter=next((observer for observer in observers if isinstance(observer, PluginMeter)), SILENT_METER),
            ties=ties,
        )
        self.profiles = self.build_profiles(config, registry, extenders)
        self._living = [self.profiles]
        queueing = self.profiles.queueing
        self.queue = SchedulingQueue(
            clock=clock,
            sort=queueing.sort,
            profiles=queueing.profiles,
            backoff=queueing.backoff,
            pop_from_backoff=features.enabled("SchedulerPopFromBackoffQ"),
            nominator=self.nominator,
            groups=self.cache.groups,
            max_unschedulable=max_unschedulable,
            observer=select(observers, QueueObserver),
            # Only for failures, which are rare: moves of pods must cost nothing if nothing observes them.
            failures=select((*observers, QueueFailureReporter(self.services)), QueueObserver),
        )
        self.services.resort_queue = self.queue.resort
        self.failures = effects.make_failures(self.services, self.queue)
        self._choose_node = effects.choose_node
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
        """Build the profiles of another configuration. The current ones remain in use, and plugins are not started."""
        return Profiles(
            config,
            registry,
            self.services,
            extenders=in_order(extenders),
            observers=self._observers,
            cross_check=self._cross_check,
        )

    def change_profiles(self, profiles: Profiles) -> Profiles:
        """Replace the profiles between two cycles. Return the previous ones, which still bind the pods they placed.

        All pending pods are re-sorted and re-admitted by the new plugins, and rejected pods are retried, because the
        plugin that rejected them may have been removed. This takes about 12 microseconds per pending pod.
        """
        previous, self.profiles = self.profiles, profiles
        self._living = [*self.living(), profiles]
        profiles.lifecycle.follow(previous.lifecycle)
        self.queue.reconfigure(profiles.queueing)
        self._serve(profiles)
        return previous

    def _serve(self, profiles: Profiles) -> None:
        self.runners, self._resizes, self._bindings = profiles.runners, profiles.resizes, profiles.bindings
        sources = None
        if self.cache.groups is not None and any(profiles.group_sources.values()):
            with_objects = self.services.features.enabled("GenericWorkload")
            sources = GroupSources(profiles.group_sources, self.cache.groups, self.queue, with_objects=with_objects)
        if self.groups is not None:
            self.groups.serve(profiles.runners.values(), sources)
        self.handlers.serve(profiles.runners.keys(), sources)

    def living(self) -> list[Profiles]:
        """Return the previous profiles that still bind pods, and the current ones."""
        return [profiles for profiles in self._living if not profiles.lifecycle.is_closed]

    @property
    def lifecycle(self) -> PluginLifecycle:
        """The lifecycle of the plugins in use, and of previous plugins that still bind pods."""
        return self.profiles.lifecycle

    def _activate(self, pods: Mapping[str, Pod]) -> None:
        self.queue.activate(pods.values())
        self.services.wake()

    def _wake_rejected(self, profile: str, plugin: str) -> None:
        self.queue.wake_rejected(profile, plugin)
        self.services.wake()

    def _on_release(self, placeholder: Pod) -> None:
        self.queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, placeholder, None)
        self.services.wake()

    async def schedule_next(self) -> Outcome | None:
        """Try the next pod of the queue. Return ``None`` if it is empty, or too many bindings are in flight."""
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
            self.let_go(queued)
            return Dropped()
        if self.observer is not None:
            self.observer.on_attempt(queued)
        try:
            outcome: Placed | Unschedulable | Failed | Dropped
            if self.services.holds:
                with self.lift_holds(pod):
                    outcome = await self.schedule_one(queued, preempts=preempts)
            else:
                outcome = await self.schedule_one(queued, preempts=preempts)
        except AttemptSuspended:
            outcome = Dropped()
        except MoorageError as error:
            outcome = Failed(str(error))
        except Exception as error:
            # Only this attempt fails, not the process: the next leader would meet the same pod.
            log.exception("attempt failed unexpectedly", pod=queued.key)
            self.unexpected = self.unexpected or error
            outcome = Failed(f"internal error: {described(error)}")
        if self.observer is not None:
            self.observer.on_attempt_end(queued, outcome)
        if isinstance(outcome, Dropped):
            self.queue.suspend(queued)
        elif not isinstance(outcome, Placed):
            self.failures.handle(queued, outcome)
        return outcome

    def lift_holds(self, pod: Pod) -> AbstractContextManager[None]:
        """Have the cluster be without the holds that a pod may use inside a ``with`` block."""
        holds = self.services.holds
        return holds.lifted(usable_holds(self.runners[pod.scheduler_name].profile, pod) if holds else ())

    async def schedule_one(self, queued: QueuedPodInfo, *, preempts: bool = True) -> Placed | Unschedulable | Failed:
        """Find a node for one pod and hand it to the binder.

        Cycles run one at a time, and no event is applied during a cycle. Each cycle includes previous effects.
        """
        pod = queued.pod
        is_resize = self._resizes and pod.has_deferred_resize
        runner = (self._resizes if is_resize else self.runners)[pod.scheduler_name]
        if not self.cache.columns.infos:
            return Failed(NO_NODES, is_rejection=True)

        result: SearchResult | ExtendedNodes
        if not runner.extenders:
            result = runner.find(pod, QUEUED_POD)
        else:
            with self.services.freeze:
                result = await runner.find_extended(pod, QUEUED_POD)
        if self.observer is not None:
            self.observer.on_search(queued, runner, result)
        if isinstance(result, NoNode):
            return await self._post_filter(queued, runner, result, preempts=preempts)
        if runner.extenders:
            with self.services.freeze:
                choice = await runner.choose_extended(result)
            if self.observer is not None:
                self.observer.on_choice(queued, choice)
            state = (result.result if isinstance(result, ExtendedNodes) else result).cycle
        elif self._choose_node is not None and isinstance(result, SeveralNodes):
            with self.services.freeze:
                external = await self._choose_node(result)
            if isinstance(external, Failed):
                return external
            choice, state = external, result.cycle
        else:
            assert not isinstance(result, ExtendedNodes)
            choice, state = runner.choose(result), result.cycle
        rejection = self.commit(queued, runner, state, choice.node.name)
        return Placed(choice.node.name, choice.tied) if rejection is None else rejection

    def commit(
        self, queued: QueuedPodInfo, runner: ProfileRunner, state: CycleState, node_name: str
    ) -> Unschedulable | None:
        """Assume, reserve and permit a pod on its node, and start its binding, or revert, and return the rejection."""
        pod = queued.pod
        assumed = pod.on_node(node_name)
        self.cache.assume(assumed)
        self.queue.end_nomination(pod, placed_on=node_name)
        # Unreserve is on the stack before reserve runs: a plugin that fails half-way must also be undone.
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
            self.observer.on_post_filter(queued, result)
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

    def let_go(self, queued: QueuedPodInfo) -> None:
        """End the attempt of a pod without a try, with an event if the pod is being deleted."""
        pod = queued.pod
        message = f"skip schedule deleting pod: {pod.key}"
        if pod.is_terminating:
            note = EventNote(pod, "FailedScheduling", "Scheduling", message, pod.scheduler_name, True)
            self.services.cluster.record(note)
        self.queue.done(pod.uid)
