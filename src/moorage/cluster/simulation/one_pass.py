"""One pass: every pending pod is tried once by the real scheduler, in queue order, and nothing is carried out.

What is different from a scheduler at work is all here: writes are accepted and forgotten, a pod that fits stays assumed
instead of being bound, and a nomination that the pass itself makes is reported only. Pods that wait on permit do wait.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from moorage.cluster.files.loading import ClusterInput
from moorage.cluster.virtual_time import AwaitedExtender, run_virtual
from moorage.common.clock import VirtualClock
from moorage.kube.api.kinds import Kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.client.informer import OnChanges
from moorage.scheduler.config.types import SchedulerConfiguration
from moorage.scheduler.decisions.attempts import AttemptLog, ShowProgress, not_tried
from moorage.scheduler.decisions.decision import Decision
from moorage.scheduler.decisions.group_decisions import GroupDecision, group_decision
from moorage.scheduler.engine.binding.binder import Binder, PendingBinding, TaskBackground
from moorage.scheduler.engine.effects import Effects, OnFailure
from moorage.scheduler.engine.failures import FailureHandler
from moorage.scheduler.engine.group_results import GroupAttempt
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.engine.outcomes import Diagnosis, Failed, Outcome, Parked
from moorage.scheduler.engine.services import Services
from moorage.scheduler.engine.waiting import PermitWait
from moorage.scheduler.framework.handle import ClusterApi
from moorage.scheduler.queue.entries import QueuedPodInfo
from moorage.scheduler.queue.scheduling_queue import SchedulingQueue
from moorage.scheduler.state.objects import Objects
from moorage.scheduler.wiring.parts import Keeps, Observers, Parts, Tuning, assemble, kinds_of
from moorage.scheduler.wiring.policy import Policy

K = TypeVar("K", bound=KubeObject)


class DryRunApi:
    """An API that accepts every write and keeps none."""

    @property
    def cluster(self) -> ClusterApi:
        """Where the scheduler writes to."""
        return self

    def follow(self, objects: Objects, on_changes: OnChanges, keeps: Keeps) -> None:
        """Notify nobody: nothing changes."""

    def relist(self, kind: Kind, key: str) -> None:
        """Leave an object that could not be applied out: it would be listed as it is."""

    def close(self) -> None:
        """There is nothing to close."""

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Accept a binding."""

    async def get(self, thing: K) -> K:
        """Return the object as it is known: nobody changes it."""
        return thing

    async def create(self, thing: K) -> K:
        """Accept a new object."""
        return thing

    async def update(self, thing: K, *, subresource: str = "") -> K:
        """Accept a changed object."""
        return thing

    async def patch(self, thing: K, patch: Mapping[str, Any], *, subresource: str = "") -> K:
        """Accept a patch."""
        return thing

    async def patch_status(self, thing: K, patch: Mapping[str, Any]) -> K:
        """Accept a status."""
        return thing

    async def delete(self, thing: KubeObject) -> None:
        """Accept a deletion."""

    def record(self, event: object) -> None:
        """Accept an event."""


class NoBackground(TaskBackground):
    """Drops work: evictions and status patches are not carried out, and no time passes."""

    def start(self, work: Coroutine[Any, Any, object], *, name: str) -> None:
        """Drop the work."""
        work.close()

    def spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Drop the work."""
        work.close()

    def call_later(self, seconds: float, action: Callable[[], None]) -> None:
        """Drop the action."""


class AssumedForGood(Binder):
    """Leaves a pod assumed on its node, and what it needs reserved: nothing is written.

    A pod that a plugin holds back waits: the plugin may let it go because of a pod that comes later in the pass.
    """

    def __init__(
        self, services: Services, queue: SchedulingQueue, on_failure: OnFailure, observer: AttemptObserver | None
    ) -> None:
        super().__init__(services, queue, on_failure, observer)
        self._waits: list[asyncio.Task[None]] = []

    def start(self, binding: PendingBinding) -> None:
        """End the attempt; a pod that has to wait on permit goes on waiting."""
        self._queue.done(binding.pod.uid)
        if binding.permit is not None:
            self._waits.append(asyncio.get_running_loop().create_task(self._wait(binding, binding.permit)))

    async def _wait(self, binding: PendingBinding, permit: PermitWait) -> None:
        refusal = await permit.decision()
        self._services.waiting.release(binding.pod.uid)
        if refusal is None:
            return
        binding.undo.unwind()
        if self._observer is not None:
            self._observer.binding_failed(binding.queued, Parked(Diagnosis.on_node(binding.node_name, refusal), ""))

    async def let_waiting_react(self) -> None:
        """Have pods go on that a plugin has decided about; no time passes."""
        if self._waits:
            await asyncio.sleep(0)

    async def settle(self) -> None:
        """Let time pass until nobody waits on permit any more: whoever was not let go in the pass is refused."""
        await asyncio.gather(*self._waits)


class FirstAttempts(AttemptLog):
    """Keeps the first attempt of every pod: a plugin may have had one tried again.

    The rest of a group that was placed in part is tried again at once, and of its members the last attempt is kept.
    """

    def __init__(self, *, with_nodes: bool) -> None:
        super().__init__(with_nodes=with_nodes)
        self.groups: list[GroupDecision] = []

    def ended(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        """Note how an attempt ended, if it was the pod's first."""
        first = None if self._of_group else self.decisions.get(queued.uid)
        super().ended(queued, outcome)
        if queued.uid in self.decisions:
            self.decisions[queued.uid] = first or replace(self.decisions[queued.uid], attempts=0)

    def group_ended(self, attempt: GroupAttempt) -> None:
        """Note every attempt of a group."""
        super().group_ended(attempt)
        self.groups.append(group_decision(attempt))


class GivenNominations(FailureHandler):
    """Keeps a nomination that a pod came with, and no other."""

    def handle(self, queued: QueuedPodInfo, outcome: Parked | Failed) -> None:
        """Send the pod back to the queue with the nomination in its status."""
        super().handle(queued, outcome)
        self._queue.nominator.add(queued.pod)


DRY_RUN_EFFECTS: Final = Effects(GivenNominations, AssumedForGood)


class OnePass:
    """A cluster and the scheduler that is to try its pending pods."""

    def __init__(
        self,
        cluster: ClusterInput,
        policy: Policy,
        *,
        search_all: bool = True,
        with_nodes: bool = True,
        cross_check: bool = False,
    ) -> None:
        self._cluster = cluster
        self._policy = Policy(searching_all(policy.config), policy.registry, policy.features) if search_all else policy
        self._tuning = Tuning(cross_check=cross_check, make_extender=AwaitedExtender)
        self._log = FirstAttempts(with_nodes=with_nodes)
        self._clock = VirtualClock(cluster.now)

    def run(self, progress: ShowProgress | None = None) -> list[Decision]:
        """Try every pending pod of a known profile once; gated pods come last."""
        return run_virtual(self._run(progress), self._clock)

    async def _run(self, progress: ShowProgress | None) -> list[Decision]:
        parts = assemble_dry_run(self._policy, self._clock, self._log, self._tuning)
        make_known(self._cluster, parts, self._clock)
        scheduler, decided = parts.scheduler, self._log.decisions
        binder = scheduler.binder
        assert isinstance(binder, AssumedForGood)
        await scheduler.life.start()
        total = scheduler.queue.sizes().active
        # Not until the queue has nothing to give: it would give pods again before their backoff is over.
        while scheduler.queue.sizes().active:
            await scheduler.schedule_next()
            await binder.let_waiting_react()
            if progress is not None:
                progress(len(decided), total, 0.0)
        await binder.settle()
        await scheduler.life.close()
        parts.close()
        waiting = (pod for pod in self._cluster.pending if pod.uid not in decided)
        return [*decided.values(), *(made for pod in waiting for made in not_tried(scheduler.queue, pod))]

    @property
    def groups(self) -> list[GroupDecision]:
        """What was decided on groups, a turn each."""
        return self._log.groups


def assemble_dry_run(
    policy: Policy,
    clock: VirtualClock,
    observer: AttemptObserver,
    tuning: Tuning,
    effects: Effects | None = None,
) -> Parts[DryRunApi]:
    """Build a scheduler that decides and writes nothing."""
    return assemble(
        policy,
        DryRunApi(),
        clock,
        observers=Observers(attempts=observer),
        background=NoBackground(),
        tuning=replace(tuning, effects=effects or DRY_RUN_EFFECTS),
    )


def make_known(cluster: ClusterInput, parts: Parts[DryRunApi], clock: VirtualClock) -> None:
    """Make everything known: a pod finds all it refers to, and pods queue up in order of appearance."""
    apply, watched = parts.scheduler.handlers.apply, kinds_of(parts.scheduler.objects)
    for thing in (*cluster.objects, *cluster.custom_objects()):
        if type(thing) in watched and not isinstance(thing, Node | Pod):
            apply(None, thing)
    for thing in (*cluster.nodes, *cluster.running):
        apply(None, thing)
    for pod in cluster.waiting:
        apply(None, pod)
        clock.advance(1.0)


def searching_all(config: SchedulerConfiguration) -> SchedulerConfiguration:
    """Have every node looked at, whatever the configuration says."""
    profiles = tuple(replace(profile, percentage_of_nodes_to_score=None) for profile in config.profiles)
    return replace(config, percentage_of_nodes_to_score=None, profiles=profiles)
