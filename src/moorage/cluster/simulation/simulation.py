"""A simulation: a scheduler on a simulated cluster, until nothing changes any more, and the outcome for each pod."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from moorage.cluster.files.custom import added_kinds, custom_object, define_kind, kind_name, with_namespace
from moorage.cluster.files.loading import ClusterInput
from moorage.cluster.files.workload_controllers import select_controllers
from moorage.cluster.files.workloads import selector_uids
from moorage.cluster.offline import RAW_VIEWS, OfflineScheduler
from moorage.cluster.runs.history import Run, RunHistory
from moorage.cluster.runs.recording import RunRecorder
from moorage.cluster.simulation.simulated_cluster import Pace, SimulatedCluster
from moorage.common.clock import VirtualClock
from moorage.common.observers import Observer
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.scheduler.decisions.attempts import AttemptLog, ShowProgress, not_tried
from moorage.scheduler.decisions.decision import Decision, Result
from moorage.scheduler.queue.entities import QueuedPodInfo
from moorage.scheduler.queue.observer import GATED, INCOMPLETE, UNSCHEDULABLE
from moorage.scheduler.wiring.assembly import Tuning, find_watched_kinds
from moorage.scheduler.wiring.policy import Policy

MAX_ERRORS: Final = 8
"""After this many errors in a row, a pod no longer keeps the simulation running."""

MAX_SECONDS: Final = 86_400.0
"""Default limit of virtual time: a CronJob never becomes quiet."""

MIN_LIVELOCK_WRITES: Final = 1000
IDLE_WRITES_PER_OBJECT: Final = 50
"""Controllers that write more than this without progress of a pod or node are livelocked."""

POLL_SECONDS: Final = 0.25
"""Kubelets become idle without an event. Poll them after this virtual time, then less and less often."""
MAX_POLL_SECONDS: Final = 3600.0
BIND_HINT: Final = "return await self.handle.cluster.bind(pod, node_name), or Status.skip() to let the next plugin bind"


def simulate(  # noqa: PLR0913 - keywords only
    cluster: ClusterInput,
    policy: Policy,
    *,
    with_nodes: bool = True,
    cross_check: bool = False,
    pace: Pace | None = None,
    until: float | None = None,
    group_by: str = "",
    progress: ShowProgress | None = None,
    recorder: RunRecorder | None = None,
) -> Run:
    """Simulate a cluster until nothing changes any more, or until ``until`` virtual seconds have passed.

    A ``recorder`` keeps every step, and overrides ``with_nodes``.
    """
    clock = VirtualClock(cluster.now)
    attempts = AttemptLog(with_nodes=with_nodes) if recorder is None else recorder.attempts
    observers = (attempts,) if recorder is None else (attempts, recorder.moves)

    async def run() -> Run:
        simulated = SimulatedCluster(
            clock,
            pace=pace,
            features=policy.features,
            controllers=select_controllers(cluster.objects, clock),
            hidden=selector_uids(cluster.objects),
        )
        history = RunHistory(simulated.api.store, clock.now, group_by=group_by)
        simulated.on_eviction = history.note_eviction
        attempts.on_failure = history.note_failure
        if recorder is not None:
            recorder.begin(simulated.api.store, clock.now)

        def show_progress() -> None:
            if progress is not None:
                binding_count = len(simulated.bindings)
                progress(binding_count, max(cluster.expected_pods, binding_count), clock.now() - cluster.now)

        simulation = Simulation(simulated, policy, cross_check=cross_check, observers=observers)
        load(simulation, cluster)
        await simulation.offline.start()
        max_seconds = MAX_SECONDS if until is None else until
        is_quiet = await simulation.run_until_quiet(max_seconds=max_seconds, on_step=show_progress)
        await simulation.offline.close()
        if not is_quiet:
            history.end_at(clock.now() - cluster.now)
        elif until is not None:
            history.end_at(until)
        decisions = _collect_decisions(simulation, cluster, attempts)
        timeline, utilisation = history.timeline(simulated.evictors), history.utilisation()
        faults = simulation.scheduler.profiles.faults()
        return Run(decisions, timeline, utilisation, history.seconds, is_quiet, simulated.refusals, faults)

    return run_virtual(run(), clock)


class Simulation:
    """An offline scheduler on a simulated cluster."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        policy: Policy,
        *,
        cross_check: bool = False,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.cluster = cluster
        tuning = Tuning(cross_check=cross_check)
        self.offline = OfflineScheduler(policy, cluster, cluster.clock, observers=observers, tuning=tuning)
        self.scheduler = self.offline.scheduler
        self.loop = self.offline.loop

    def load(self, objects: Iterable[KubeObject], data: Iterable[Mapping[str, Any]] = ()) -> None:
        """Store objects unchanged, ``data`` as plain data, report them to the scheduler, and start the cluster."""
        for content in data:
            self.cluster.put_data(content)
        store = self.cluster.store
        for obj in objects:
            store.put(obj)
        kinds = [kind for kind in find_watched_kinds(self.scheduler.objects) if kind not in RAW_VIEWS.values()]
        self.offline.load(obj for kind in kinds for obj in store.list(kind))
        self.offline.deliver_between_cycles()
        self.cluster.start_watching(self.loop)

    async def run_until_quiet(
        self, *, max_seconds: float = MAX_SECONDS, on_step: Callable[[], None] = lambda: None
    ) -> bool:
        """Schedule until nothing changes any more or the time is over. Return whether it is quiet."""
        end, poll = self.cluster.clock.now() + max_seconds, POLL_SECONDS
        while self.cluster.clock.now() < end:
            if await self.loop.step():
                on_step()
                await asyncio.sleep(0)
            elif self.is_quiet or self.is_stuck:
                return True
            elif self.is_livelocked:
                return False
            else:
                on_step()
                await self.loop.sleep(until=min(end, self.cluster.clock.now() + poll))
                poll = POLL_SECONDS if self.loop.has_changes else min(2 * poll, MAX_POLL_SECONDS)
        return False

    @property
    def is_quiet(self) -> bool:
        """Whether nothing changes any more: no pod will be tried, and nothing is in progress."""
        sizes = self.scheduler.queue.sizes()
        if sizes.active or sizes.in_flight or self.loop.has_changes or self.cluster.is_busy:
            return False
        return sizes.backoff == 0 or all(
            queued.rejectors or queued.consecutive_errors >= MAX_ERRORS for queued in self._retried_pods()
        )

    @property
    def is_livelocked(self) -> bool:
        """Whether controllers write on and on, while no pod or node changes."""
        store, writes = self.cluster.api.store, self.cluster.idle_writes
        if writes <= MIN_LIVELOCK_WRITES:
            return False
        return writes > IDLE_WRITES_PER_OBJECT * sum(len(store.list(name)) for name in store.resources())

    @property
    def is_stuck(self) -> bool:
        """Whether all remaining attempts have failed so often in a row that they will fail forever."""
        failures, sizes = self.cluster.failures, self.scheduler.queue.sizes()
        if not failures or max(failures.values()) < MAX_ERRORS or self.cluster.is_changing_by_itself or sizes.active:
            return False
        delayed = [wait.pod.uid for wait in self.scheduler.services.waiting.all()]
        if sizes.in_flight > len(delayed) or len(self.cluster.background) > len(delayed):
            return False
        retried = [queued.uid for queued in self._retried_pods() if not queued.rejectors]
        return all(failures[uid] >= MAX_ERRORS for uid in (*delayed, *retried))

    def _retried_pods(self) -> Iterator[QueuedPodInfo]:
        queue = self.scheduler.queue
        return (queued for queued in queue if queue.where(queued.pod) not in (UNSCHEDULABLE, GATED, INCOMPLETE))


def load(simulation: Simulation, cluster: ClusterInput) -> None:
    """Load cluster files into a simulation. Kinds that plugins list are served even if no file defines them.

    InputError if a custom resource does not fit the struct of the plugin that reads it.
    """
    kinds = added_kinds()
    defined = {str(definition["metadata"]["name"]) for definition in cluster.definitions}
    undefined_kinds = [define_kind(kind) for kind in kinds.values() if kind.full_name not in defined]
    custom = []
    for content in cluster.custom:
        if (kind := kinds.get(kind_name(content))) is not None:
            custom_object(kind, content)  # InputError before anything starts
            custom.append(with_namespace(kind, content))
    simulation.load(cluster.objects, (*cluster.definitions, *undefined_kinds, *cluster.shaping, *custom))


def _collect_decisions(simulation: Simulation, cluster: ClusterInput, attempts: AttemptLog) -> list[Decision]:
    """Combine the last attempts with the final state of the pods."""
    simulated, queue = simulation.cluster, simulation.scheduler.queue
    pods = {pod.uid: pod for pod in simulated.store.list(Pod)}
    decisions = []
    for uid, decision in attempts.decisions.items():
        pod = pods.get(uid)
        nominated_node = "" if pod is None or pod.node_name else queue.nominator.node_of(pod)
        decisions.append(
            replace(
                _final_decision(decision, pod, attempts),
                post_filter=None,
                evicted=uid in simulated.evicted,
                nominated_node=nominated_node,
            )
        )
    decisions += [
        Decision(pod=pod.key, profile=pod.scheduler_name, result=Result.SCHEDULED, node=pod.node_name, evicted=True)
        for pod in cluster.running
        if pod.uid in simulated.evicted
    ]
    untried = (queued.pod for queued in queue if queued.uid not in attempts.decisions)
    return [*decisions, *(decision for pod in untried for decision in not_tried(queue, pod))]


def _final_decision(decision: Decision, pod: Pod | None, attempts: AttemptLog) -> Decision:
    """Change a decision to unschedulable if its binding was in progress at the end.

    A binding that failed before would fail repeatedly. A pod without a node after a successful binding shows a plugin
    that did not bind it.
    """
    if decision.result is not Result.SCHEDULED or pod is None or pod.node_name:
        return decision
    if (failed_binding := attempts.failed_bindings.get(pod.uid)) is not None:
        return failed_binding
    if pod.uid in attempts.finished_bindings:
        problem = (
            f"a Bind plugin of profile {decision.profile} returned None, but did not bind the pod to {decision.node}"
        )
        result, message = Result.ERROR, f"{problem}: {BIND_HINT}"
    else:
        result = Result.UNSCHEDULABLE
        message = f"the binding to {decision.node} was still in progress when the simulation ended"
    return replace(decision, result=result, node="", tied=(), message=message)
