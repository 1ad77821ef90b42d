"""A dry run: the scheduler tries every pending pod once, in queue order, and writes nothing.

A pod that fits is assumed instead of being bound. A nomination that the run itself makes is only reported. Pods that a
Permit plugin delays do wait.
"""

import asyncio
from dataclasses import replace as with_fields
from typing import Final

from msgspec.structs import replace

from moorage.cluster.files.loading import ClusterInput
from moorage.cluster.files.workload_controllers import select_controllers
from moorage.cluster.files.workloads import selector_uids
from moorage.cluster.offline import DiscardingApi, OfflineScheduler, search_all_nodes
from moorage.cluster.simulation.simulated_cluster import SimulatedCluster
from moorage.common.clock import VirtualClock
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.kinds import BY_NAME
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.features import FeatureGates
from moorage.scheduler.decisions.attempts import AttemptLog, GroupDecision, ShowProgress, group_decision, not_tried
from moorage.scheduler.decisions.decision import Decision
from moorage.scheduler.engine.binding.binding_phases import PendingBinding
from moorage.scheduler.engine.effects import Effects, OnFailure
from moorage.scheduler.engine.failures import FailureHandler
from moorage.scheduler.engine.group_results import GroupAttempt
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.engine.outcomes import Diagnosis, Failed, Outcome, Unschedulable
from moorage.scheduler.engine.services import Services
from moorage.scheduler.engine.waiting import PermitWait
from moorage.scheduler.queue.entities import QueuedPodInfo
from moorage.scheduler.queue.scheduling_queue import SchedulingQueue
from moorage.scheduler.wiring.assembly import Tuning
from moorage.scheduler.wiring.policy import Policy

SETTLED_SECONDS: Final = 3
"""Controllers have created all pods when no pod was added for this many virtual seconds."""


class DryRun:
    """One pass over the pending pods of a cluster."""

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
        self._policy = search_all_nodes(policy) if search_all else policy
        self._tuning = Tuning(cross_check=cross_check, effects=DRY_RUN_EFFECTS)
        self._log = FirstAttempts(with_nodes=with_nodes)
        self._clock = VirtualClock(cluster.now)
        self.faults: list[str] = []
        """Exceptions, invalid results and timeouts of plugins, each once for each place in their code."""

    def run(self, progress: ShowProgress | None = None) -> list[Decision]:
        """Try every pending pod of a known profile once. Gated pods are last in the result."""
        return run_virtual(self._run(progress), self._clock)

    async def _run(self, progress: ShowProgress | None) -> list[Decision]:
        cluster, decisions = self._cluster, self._log.decisions
        offline = OfflineScheduler(
            self._policy, DiscardingApi(), self._clock, observers=(self._log,), tuning=self._tuning
        )
        offline.load((*cluster.objects, *cluster.custom_objects()), arrival_interval=1.0)
        scheduler = offline.scheduler
        binder = scheduler.binder
        assert isinstance(binder, AssumingBinder)
        await offline.start()
        total = scheduler.queue.sizes().active
        # Not until the queue returns nothing: it would return pods repeatedly, before their backoff is over.
        while scheduler.queue.sizes().active:
            await scheduler.schedule_next()
            await binder.run_permitted()
            if progress is not None:
                progress(len(decisions), total, 0.0)
        await binder.wait_for_permits()
        await offline.close()
        self.faults = scheduler.profiles.faults()
        untried = (pod for pod in cluster.pending if pod.uid not in decisions)
        return [*decisions.values(), *(decision for pod in untried for decision in not_tried(scheduler.queue, pod))]

    @property
    def groups(self) -> list[GroupDecision]:
        """The decisions on pod groups, one per attempt."""
        return self._log.groups


class FirstAttempts(AttemptLog):
    """Keeps the first attempt of every pod: a plugin may activate a pod repeatedly.

    The rest of a partly placed group is retried immediately. Of its members, the last attempt is kept.
    """

    def __init__(self, *, with_nodes: bool) -> None:
        super().__init__(with_nodes=with_nodes)
        self.groups: list[GroupDecision] = []

    def on_attempt_end(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        """Keep the result of the first attempt."""
        first = None if self._of_group else self.decisions.get(queued.uid)
        super().on_attempt_end(queued, outcome)
        if queued.uid in self.decisions:
            self.decisions[queued.uid] = first or replace(self.decisions[queued.uid], attempts=0)

    def on_group_end(self, attempt: GroupAttempt) -> None:
        """Keep every attempt of a group."""
        super().on_group_end(attempt)
        self.groups.append(group_decision(attempt))


class AssumingBinder:
    """Leaves a placed pod assumed on its node, with its reservations, and writes nothing.

    A pod that a Permit plugin delays waits: a later pod of the run may release it.
    """

    in_flight = 0

    def __init__(
        self, services: Services, queue: SchedulingQueue, _on_failure: OnFailure, observer: AttemptObserver | None
    ) -> None:
        self._services, self._queue, self._observer = services, queue, observer
        self._waits: list[asyncio.Task[None]] = []

    def start(self, binding: PendingBinding) -> None:
        """End the attempt, or wait for the Permit plugins."""
        self._queue.done(binding.pod.uid)
        if binding.permit is not None:
            self._waits.append(asyncio.get_running_loop().create_task(self._wait(binding, binding.permit)))

    def cancel_pre_bind(self, uid: str, reason: str) -> bool:
        """Return False: no pod is in PreBind."""
        return False

    async def _wait(self, binding: PendingBinding, permit: PermitWait) -> None:
        refusal = await permit.decision()
        self._services.waiting.release(binding.pod.uid)
        if refusal is None:
            return
        binding.undo.unwind()
        if self._observer is not None:
            self._observer.on_binding_failure(
                binding.queued, Unschedulable(Diagnosis.on_node(binding.node_name, refusal), "")
            )

    async def run_permitted(self) -> None:
        """Run the pods after the decisions of Permit plugins. No time passes."""
        if self._waits:
            await asyncio.sleep(0)

    async def wait_for_permits(self) -> None:
        """Let time pass until no pod waits on Permit: pods that were not released time out."""
        await asyncio.gather(*self._waits)


class KeptNominations(FailureHandler):
    """Keeps the nomination in a pod's status, and no other."""

    def handle(self, queued: QueuedPodInfo, outcome: Unschedulable | Failed) -> None:
        """Requeue the pod with the nomination in its status."""
        super().handle(queued, outcome)
        self._queue.nominator.add(queued.pod)


DRY_RUN_EFFECTS: Final = Effects(KeptNominations, AssumingBinder)


def add_workload_pods(cluster: ClusterInput, features: FeatureGates) -> ClusterInput:
    """Add the pods that controllers create for the workloads of a cluster. No pod is scheduled or run."""
    if not cluster.workloads:
        return cluster
    clock = VirtualClock(cluster.now)

    async def run_controllers() -> ClusterInput:
        simulated = SimulatedCluster(
            clock,
            features=features,
            controllers=select_controllers(cluster.objects, clock),
            hidden=selector_uids(cluster.objects),
            has_kubelets=False,
        )
        built_in = {obj.uid for obj in _list_all(simulated)}
        for content in cluster.shaping:
            simulated.put_data(content)
        for obj in cluster.objects:
            simulated.store.put(obj)
        simulated.start_controllers()
        pod_count, quiet_seconds = 0, 0
        while quiet_seconds < SETTLED_SECONDS:
            await asyncio.sleep(1.0)
            current = sum(1 for _ in simulated.store.list(Pod))
            pod_count, quiet_seconds = current, quiet_seconds + 1 if current == pod_count else 0
        stored_objects = {obj.uid: obj for obj in _list_all(simulated) if obj.uid not in built_in}
        in_input_order = [stored_objects.pop(obj.uid) for obj in cluster.objects if obj.uid in stored_objects]
        return with_fields(cluster, objects=(*in_input_order, *stored_objects.values()), refusals=simulated.refusals)

    return run_virtual(run_controllers(), clock)


def _list_all(cluster: SimulatedCluster) -> list[KubeObject]:
    return [obj for kind in BY_NAME.values() for obj in cluster.store.list(kind.type)]
