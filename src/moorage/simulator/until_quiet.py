"""A cluster run in virtual time: what became of each pod that was waiting."""

from msgspec.structs import replace

from moorage.api.pod import Pod
from moorage.assembly.policy import Policy
from moorage.clock import VirtualClock
from moorage.simulator.attempts import AttemptLog, ShowProgress
from moorage.simulator.decisions import Decision, Result
from moorage.simulator.loading import ClusterInput
from moorage.simulator.loop import run_virtual
from moorage.simulator.simulation import Simulation
from moorage.simulator.world import Pace, World


def run_until_quiet(
    cluster: ClusterInput,
    policy: Policy,
    *,
    with_nodes: bool = True,
    cross_check: bool = False,
    pace: Pace | None = None,
    progress: ShowProgress | None = None,
) -> list[Decision]:
    """Let the scheduler work until nothing more would change; one decision a pod, its last, in order of trying."""
    clock = VirtualClock(cluster.now)
    attempts = AttemptLog(with_nodes=with_nodes)

    async def work() -> list[Decision]:
        world = World(clock, pace=pace, features=policy.features)
        simulation = Simulation.of(world, policy, cross_check=cross_check, observer=attempts)
        simulation.load((*cluster.objects, *cluster.custom_objects()))
        if progress is not None:
            total = len(cluster.pending)
            simulation.on_step = lambda: progress(len(world.bindings), total)
        await simulation.run_until_quiet()
        simulation.close()
        return _outcomes(simulation, cluster, attempts)

    return run_virtual(work(), clock)


def _outcomes(simulation: Simulation, cluster: ClusterInput, attempts: AttemptLog) -> list[Decision]:
    """Put the last attempts together with what happened in the end."""
    world, queue = simulation.world, simulation.scheduler.queue
    given = {pod.key: pod for pod in cluster.objects if isinstance(pod, Pod)}
    decisions = []
    for key, decision in attempts.decisions.items():
        pod = given[key]
        now = world.store.get(Pod, pod.name, pod.namespace)
        nominated = "" if now is None or now.node_name else queue.nominator.node_of(now)
        decisions.append(
            replace(decision, post_filter=None, evicted=pod.uid in world.evicted, nominated_node=nominated)
        )
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
