"""Running a cluster in virtual time and telling what became of each pod that was waiting."""

from collections.abc import Callable

from msgspec.structs import replace

from moorage.api.pod import Pod
from moorage.clock import VirtualClock
from moorage.config.types import SchedulerConfiguration
from moorage.engine.cycle.found import ExtendedNodes, Found
from moorage.engine.cycle.profile_cycle import ProfileCycle
from moorage.engine.observing import AttemptObserver
from moorage.engine.outcomes import Dropped, Failed, Outcome, Parked, Placed
from moorage.features import FeatureGates
from moorage.framework.registry import Registry
from moorage.queue.entries import QueuedPodInfo
from moorage.simulator.decisions import Decision, NodeEntry, Result
from moorage.simulator.details import node_entries, rejection
from moorage.simulator.loading import ClusterInput
from moorage.simulator.loop import run_virtual
from moorage.simulator.simulation import Simulation
from moorage.simulator.world import Pace, World

Progress = Callable[[int, int], None]


class LastAttempts(AttemptObserver):
    """Keeps the last attempt of every pod, with what was found out about each node if that is wanted."""

    def __init__(self, *, with_nodes: bool) -> None:
        self._with_nodes = with_nodes
        self._entries: dict[str, NodeEntry] = {}
        self.decisions: dict[str, Decision] = {}

    def found(self, queued: QueuedPodInfo, cycle: ProfileCycle, found: Found | ExtendedNodes) -> None:
        """Describe the nodes while the world is as the attempt saw it."""
        self._entries = node_entries(cycle, found) if self._with_nodes else {}

    def ended(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        """Note how the attempt ended."""
        pod = queued.pod
        base = Decision(pod=pod.key, profile=pod.scheduler_name, result=Result.ERROR, attempts=queued.attempts)
        match outcome:
            case Placed():
                decision = replace(base, result=Result.SCHEDULED, node=outcome.node_name, nodes=self._entries)
            case Parked():
                decision = replace(base, **_parked(outcome), nodes=self._entries)
            case Failed():
                result = Result.UNSCHEDULABLE if outcome.is_rejection else Result.ERROR
                decision = replace(base, result=result, message=outcome.message)
            case Dropped():
                return
        self.decisions[pod.key] = decision
        self._entries = {}


def _parked(outcome: Parked) -> dict[str, object]:
    diagnosis = outcome.diagnosis
    return {
        "result": Result.UNSCHEDULABLE,
        "message": outcome.message,
        "unschedulable_plugins": tuple(sorted(diagnosis.unschedulable_plugins)),
        "pre_filter": None if diagnosis.pre_filter is None else rejection(diagnosis.pre_filter),
    }


def run_until_quiet(  # noqa: PLR0913 - what a simulation is made of, by name
    cluster: ClusterInput,
    config: SchedulerConfiguration,
    registry: Registry,
    *,
    features: FeatureGates,
    with_nodes: bool = True,
    cross_check: bool = False,
    pace: Pace | None = None,
    progress: Progress | None = None,
) -> list[Decision]:
    """Let the scheduler work until nothing more would change; one decision a pod, its last, in order of trying."""
    clock = VirtualClock(cluster.now)
    attempts = LastAttempts(with_nodes=with_nodes)

    async def work() -> list[Decision]:
        world = World(clock, pace=pace)
        simulation = Simulation(world, config, registry, features=features, cross_check=cross_check, observer=attempts)
        simulation.load(cluster.objects)
        if progress is not None:
            total = len(cluster.pending)
            simulation.on_step = lambda: progress(len(world.bindings), total)
        await simulation.run_until_quiet()
        return _outcomes(simulation, cluster, attempts)

    return run_virtual(work(), clock)


def _outcomes(simulation: Simulation, cluster: ClusterInput, attempts: LastAttempts) -> list[Decision]:
    """Put the last attempts together with what happened in the end."""
    world, queue = simulation.world, simulation.scheduler.queue
    given = {pod.key: pod for pod in cluster.objects if isinstance(pod, Pod)}
    decisions = []
    for key, decision in attempts.decisions.items():
        pod = given[key]
        now = world.store.get(Pod, pod.name, pod.namespace)
        nominated = "" if now is None or now.node_name else queue.nominator.node_of(now)
        decisions.append(replace(decision, evicted=pod.uid in world.evicted, nominated_node=nominated))
    decisions += [
        Decision(pod=pod.key, profile=pod.scheduler_name, result=Result.SCHEDULED, node=pod.node_name, evicted=True)
        for pod in cluster.running
        if pod.uid in world.evicted
    ]
    gated = (queued for queued in queue if queued.is_gated and queued.key not in attempts.decisions)
    decisions += [
        Decision(
            pod=queued.key,
            profile=queued.scheduler_name,
            result=Result.GATED,
            unschedulable_plugins=(queued.gating_plugin,),
        )
        for queued in gated
    ]
    return decisions
