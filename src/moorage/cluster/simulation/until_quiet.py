"""A cluster run in virtual time: what became of each pod that was waiting, or was made while it ran."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from moorage.cluster.files.custom import added_kinds, custom_object, definition_of, kind_name, placed
from moorage.cluster.files.loading import ClusterInput
from moorage.cluster.files.workloads import controllers_for, selector_uids
from moorage.cluster.simulation.history import PodHistory, RunHistory, Utilisation
from moorage.cluster.simulation.recording import RunRecorder
from moorage.cluster.simulation.simulation import MAX_SECONDS, Simulation
from moorage.cluster.simulation.world import Pace, World
from moorage.cluster.virtual_time import run_virtual
from moorage.common.clock import VirtualClock
from moorage.kube.api.pod import Pod
from moorage.scheduler.decisions.attempts import AttemptLog, ShowProgress, not_tried
from moorage.scheduler.decisions.decision import Decision, Result
from moorage.scheduler.wiring.policy import Policy


class Run(Struct, frozen=True):
    """How a simulation went: decisions in order of trying, pods in order of creation."""

    decisions: list[Decision]
    timeline: list[PodHistory]
    utilisation: list[Utilisation]
    seconds: float
    """How much virtual time passed."""
    is_quiet: bool
    """Whether it ended because nothing more would have changed."""
    refusals: Mapping[str, str] = {}
    """What controllers were not allowed to do, by what it was for."""

    def more(self) -> dict[str, Any]:
        """Return what is printed beside the decisions."""
        return {
            "simulated": {"seconds": self.seconds, "quiet": self.is_quiet},
            "timeline": self.timeline,
            "utilisation": self.utilisation,
        }


def run_until_quiet(  # noqa: PLR0913 - keywords only, each a choice of who simulates
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
    """Let the scheduler work until nothing more would change, or ``until`` so many seconds have passed.

    A ``recorder`` keeps every step, and decides itself whether what was found out about each node is kept.
    """
    clock = VirtualClock(cluster.now)
    attempts = AttemptLog(with_nodes=with_nodes) if recorder is None else recorder.attempts
    moves = None if recorder is None else recorder.moves

    async def work() -> Run:
        world = World(
            clock,
            pace=pace,
            features=policy.features,
            controllers=controllers_for(cluster.objects, clock),
            hidden=selector_uids(cluster.objects),
        )
        history = RunHistory(world.api.store, clock.now, group_by=group_by)
        world.on_eviction = history.note_eviction
        attempts.on_failure = history.note_failure
        if recorder is not None:
            recorder.begin(world.api.store, clock.now)
        simulation = Simulation.of(world, policy, cross_check=cross_check, observer=attempts, queue_observer=moves)
        load(simulation, cluster)
        if progress is not None:
            simulation.on_step = lambda: progress(
                len(world.bindings), max(cluster.expected_pods, len(world.bindings)), clock.now() - cluster.now
            )
        await simulation.scheduler.life.start()
        is_quiet = await simulation.run_until_quiet(most_seconds=MAX_SECONDS if until is None else until)
        await simulation.scheduler.life.close()
        simulation.close()
        if until is not None or not is_quiet:
            history.end_at(MAX_SECONDS if until is None else until)
        decisions = _outcomes(simulation, cluster, attempts)
        timeline, utilisation = history.timeline(world.evictors), history.utilisation()
        return Run(decisions, timeline, utilisation, history.seconds, is_quiet, world.refusals)

    return run_virtual(work(), clock)


def load(simulation: Simulation, cluster: ClusterInput) -> None:
    """Bring a described cluster into a simulation; kinds that plugins list are served, defined or not.

    InputError if a custom resource does not fit the struct that a plugin has for it.
    """
    kinds = added_kinds()
    defined = {str(definition["metadata"]["name"]) for definition in cluster.definitions}
    missing = [definition_of(kind) for kind in kinds.values() if kind.full_name not in defined]
    custom = []
    for content in cluster.custom:
        if (kind := kinds.get(kind_name(content))) is not None:
            custom_object(kind, content)  # InputError, before anything begins
            custom.append(placed(kind, content))
    simulation.load(cluster.objects, (*cluster.definitions, *missing, *cluster.shaping, *custom))


def _outcomes(simulation: Simulation, cluster: ClusterInput, attempts: AttemptLog) -> list[Decision]:
    """Put the last attempts together with what happened in the end."""
    world, queue = simulation.world, simulation.scheduler.queue
    pods = {pod.uid: pod for pod in world.store.list(Pod)}
    decisions = []
    for uid, decision in attempts.decisions.items():
        now = pods.get(uid)
        nominated = "" if now is None or now.node_name else queue.nominator.node_of(now)
        decisions.append(
            replace(
                _in_the_end(decision, now, attempts.failed_bindings.get(uid)),
                post_filter=None,
                evicted=uid in world.evicted,
                nominated_node=nominated,
            )
        )
    decisions += [
        Decision(pod=pod.key, profile=pod.scheduler_name, result=Result.SCHEDULED, node=pod.node_name, evicted=True)
        for pod in cluster.running
        if pod.uid in world.evicted
    ]
    untried = (queued.pod for queued in queue if queued.uid not in attempts.decisions)
    return [*decisions, *(decision for pod in untried for decision in not_tried(queue, pod))]


def _in_the_end(decision: Decision, pod: Pod | None, failed: Decision | None) -> Decision:
    """Return a decision that was on its way to its node when time was up as what it is: not carried out.

    If the binding had failed before, it would have failed again.
    """
    if decision.result is not Result.SCHEDULED or pod is None or pod.node_name:
        return decision
    if failed is not None:
        return failed
    message = f"the binding to {decision.node} was still under way when the simulation ended"
    return replace(decision, result=Result.UNSCHEDULABLE, node="", tied=(), message=message)
