"""The scheduler: takes the next pod, places it in a frozen world, and hands it to the binder."""

from collections.abc import Iterable, Mapping

import structlog

from moorage.api.pod import Pod
from moorage.clock import Clock
from moorage.config.types import SchedulerConfiguration
from moorage.engine.binding import Binder, Binding
from moorage.engine.extenders import Extender, in_order
from moorage.engine.failures import FailureHandler
from moorage.engine.feasibility import Found, Rotation
from moorage.engine.handlers import EventHandlers
from moorage.engine.observing import AttemptObserver, SilentObserver
from moorage.engine.outcome import Dropped, Failed, Outcome, Parked, Placed
from moorage.engine.placement import NO_NODES, Placement, one_node_diagnosis
from moorage.engine.services import Background, Services
from moorage.engine.undo import Undo
from moorage.errors import MoorageError
from moorage.features import FeatureGates
from moorage.framework.events import EVERY_EVENT
from moorage.framework.handle import Cluster
from moorage.framework.metering import SILENT_METER, Meter
from moorage.framework.recording import EventNote
from moorage.framework.registry import Registry
from moorage.framework.status import Status
from moorage.queue.backoff import Backoff
from moorage.queue.entry import QueuedPodInfo
from moorage.queue.hints import EXTENDER, ProfileQueueing
from moorage.queue.nominations import Nominations
from moorage.queue.observing import SILENT, QueueObserver
from moorage.queue.scheduling_queue import DEFAULT_MAX_UNSCHEDULABLE, SchedulingQueue
from moorage.state.cache import Cache
from moorage.state.objects import Objects

MOST_BINDINGS = 256
"""While so many bindings wait for the API server, no further pod is tried."""

log = structlog.get_logger(__name__)


class Scheduler:
    """Profiles, queue and cache, and the cycle that brings them together."""

    def __init__(  # noqa: PLR0913 - keywords only, named once, where the scheduler is put together
        self,
        config: SchedulerConfiguration,
        registry: Registry,
        *,
        cluster: Cluster,
        background: Background,
        clock: Clock,
        features: FeatureGates,
        cross_check: bool | float = False,
        observer: AttemptObserver | None = None,
        extenders: Iterable[Extender] = (),
        queue_observer: QueueObserver = SILENT,
        max_unschedulable: float = DEFAULT_MAX_UNSCHEDULABLE,
        meter: Meter = SILENT_METER,
    ) -> None:
        self.observer: AttemptObserver = observer or SilentObserver()
        self.cache = Cache()
        self.objects = Objects()
        self.services = Services(
            cache=self.cache,
            objects=self.objects,
            clock=clock,
            features=features,
            cluster=cluster,
            nominator=Nominations(lambda _key: None),
            background=background,
            activate=self._activate,
            extenders=in_order(extenders),
            meter=meter,
        )
        self.placements = self._build_placements(config, registry, cross_check)
        self.queue = self._build_queue(config, features, queue_observer, max_unschedulable)
        self.services.nominator = self.queue.nominator
        self.failures = FailureHandler(self.services, self.queue)
        self.binder = Binder(self.services, self.queue, self.failures.handle, self.observer)
        self.services.cancel_pre_bind = self.binder.cancel_pre_bind
        self.handlers = EventHandlers(
            cache=self.cache,
            objects=self.objects,
            queue=self.queue,
            profiles=self.placements.keys(),
            waiting=self.services.waiting,
        )

    def _build_placements(
        self, config: SchedulerConfiguration, registry: Registry, cross_check: bool | float
    ) -> dict[str, Placement]:
        rotation = Rotation()
        placements = {
            profile.scheduler_name or "": Placement(
                profile, registry, self.services, rotation, config.percentage_for(profile), cross_check
            )
            for profile in config.profiles
        }
        for name, placement in placements.items():
            placement.time_with(self.observer.stopwatch(name))
        return placements

    def _activate(self, pods: Mapping[str, Pod]) -> None:
        self.queue.activate(pods.values())
        self.services.wake()

    def _build_queue(
        self,
        config: SchedulerConfiguration,
        features: FeatureGates,
        observer: QueueObserver,
        max_unschedulable: float,
    ) -> SchedulingQueue:
        profiles = [placement.profile for placement in self.placements.values()]
        of_extenders = {EXTENDER: EVERY_EVENT} if self.services.extenders else {}
        return SchedulingQueue(
            clock=self.services.clock,
            sort=profiles[0].queue_sort[0],
            profiles={
                profile.name: ProfileQueueing(
                    pre_enqueue=profile.pre_enqueue, registrations=profile.registrations() | of_extenders
                )
                for profile in profiles
            },
            backoff=Backoff(config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds),
            pop_from_backoff=features.enabled("SchedulerPopFromBackoffQ"),
            pods=self.objects[Pod],
            max_unschedulable=max_unschedulable,
            observer=observer,
        )

    async def schedule_next(self) -> Outcome | None:
        """Try the next pod of the queue; ``None`` if there is none, or too many bindings are under way."""
        if self.binder.in_flight >= MOST_BINDINGS:
            return None
        queued = self.queue.pop()
        return None if queued is None else await self.try_pod(queued)

    async def try_pod(self, queued: QueuedPodInfo) -> Outcome:
        """Try one pod that was popped, and take it back if that fails."""
        pod = queued.pod
        if pod.is_terminating or self.cache.is_assumed(pod):
            return self._drop(queued)
        try:
            outcome: Placed | Parked | Failed = await self.schedule_one(queued)
        except MoorageError as error:
            outcome = Failed(str(error))
        self.observer.ended(queued, outcome)
        if not isinstance(outcome, Placed):
            self.failures.handle(queued, outcome)
        return outcome

    async def schedule_one(self, queued: QueuedPodInfo) -> Placed | Parked | Failed:
        """Find a node for one pod and hand it to the binder.

        One at a time, in a frozen world, so every pod sees the effects of the ones before it.
        """
        pod, placement = queued.pod, self.placements[queued.pod.scheduler_name]
        if not self.cache.columns.infos:
            return Failed(NO_NODES, is_rejection=True)

        found = placement.find(pod) if not self.services.extenders else await self._find_extended(placement, pod)
        self.observer.found(queued, placement, found)
        if found.count == 0:
            with self.services.freeze:
                rescue = await placement.rescue(found)
            self.observer.rescued(queued, rescue)
            found.diagnosis.post_filter_message = rescue.message
            return Parked(found.diagnosis, rescue.nominated_node)
        if self.services.extenders:
            node_name = await self._choose_extended(placement, found)
        else:
            node_name = placement.choose(found).node.name

        assumed = pod.on_node(node_name)
        self.cache.assume(assumed)
        self.queue.end_nomination(pod, placed_on=node_name)
        # Unreserve is part of it before anything is reserved: a plugin that fails half-way must still be undone.
        undo = Undo((self.cache.forget, assumed), (placement.unreserve, found.cycle, assumed, node_name))
        binding = Binding(queued, assumed, found.cycle, placement, undo, node_name)
        try:
            refusal = self._reserve_and_permit(binding)
        except BaseException:
            undo.unwind()
            raise
        if refusal is not None:
            undo.unwind()
            return Parked(one_node_diagnosis(node_name, refusal), "")
        # From here the binder owns the undo stack, and unwinds it if the bind fails.
        self.binder.start(binding)
        return Placed(node_name)

    def _reserve_and_permit(self, binding: Binding) -> Status | None:
        placement, cycle, pod = binding.placement, binding.cycle, binding.pod
        refusal = placement.reserve(cycle, pod, binding.node_name)
        if refusal is not None:
            return refusal
        answer = placement.permit(cycle, pod, binding.node_name)
        if answer is not None:
            if isinstance(answer, Status):
                return answer
            binding.held = self.services.waiting.hold(pod, answer)
        if cycle.pods_to_activate:
            self.services.activate(cycle.pods_to_activate)
            cycle.pods_to_activate = {}
        return None

    async def _find_extended(self, placement: Placement, pod: Pod) -> Found:
        with self.services.freeze:
            return await placement.find_extended(pod)

    async def _choose_extended(self, placement: Placement, found: Found) -> str:
        with self.services.freeze:
            return (await placement.choose_extended(found)).node.name

    def _drop(self, queued: QueuedPodInfo) -> Outcome:
        """Let go of a pod that is being deleted, or was placed already."""
        pod = queued.pod
        message = f"skip schedule deleting pod: {pod.key}"
        if pod.is_terminating:
            note = EventNote(pod, "FailedScheduling", "Scheduling", message, pod.scheduler_name, True)
            self.services.cluster.record(note)
        self.queue.done(pod.uid)
        return Dropped()
