"""One trial in virtual time: pods and nodes are added and removed, and the real scheduler places pending pods."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Generic, TypeVar

from msgspec.structs import replace

from moorage.cluster import NEVER, Agenda, InstantApi, OfflineScheduler
from moorage.common.clock import VirtualClock
from moorage.common.errors import InputError, PluginError
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import PodGroup
from moorage.lab.autoscaling import Autoscaler, RequestedNode
from moorage.lab.cluster import LabCluster
from moorage.lab.ledger import UsageLedger
from moorage.lab.trace import LIMIT_PREFIX, PodMaker, TracePod, make_group
from moorage.lab.trial import Trial, arrange_outages, arrange_pods, make_random
from moorage.scheduler.engine.effects import ChooseNode, Effects
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.engine.outcomes import Failed, Outcome, Placed, Unschedulable
from moorage.scheduler.engine.ties import RandomTies, Ties, TiesInOrder
from moorage.scheduler.queue.entities import QueuedPodInfo
from moorage.scheduler.wiring.assembly import Tuning
from moorage.scheduler.wiring.policy import Policy

LEAST_CHECK: Final = 1.0
"""Minimum number of seconds between two searches for a node to remove."""


def limit_apps(cluster: LabCluster, limits: Mapping[str, int]) -> LabCluster:
    """Add a resource for each limited app to all nodes: a pod of the app takes one unit, under any policy."""
    if not limits:
        return cluster
    units = {LIMIT_PREFIX + app: most for app, most in limits.items()}

    def limit(node: Node) -> Node:
        return replace(node, status=replace(node.status, allocatable={**node.status.allocatable, **units}))

    return replace(
        cluster,
        nodes=tuple(map(limit, cluster.nodes)),
        scaled=tuple(replace(pool, templates=tuple(map(limit, pool.templates))) for pool in cluster.scaled),
    )


class PodLife:
    """The lifecycle of a pod of the trace, under all names of its runs."""

    __slots__ = (
        *(
            "arrived",
            "bound",
            "evictions",
            "fails",
            "finished",
            "gave_up",
            "line",
            "lost",
            "lost_runs",
            "pending_since",
        ),
        *("pod", "reason", "waited", "working"),
    )

    def __init__(self, line: TracePod) -> None:
        self.line = line
        self.pod: Pod | None = None
        self.lost_runs = 0
        """Number of runs lost by failures and evictions."""
        self.fails = line.fails
        self.evictions = 0
        self.arrived = line.arrives
        """The arrival; later than in the trace if the pod waits for other jobs."""
        self.pending_since = 0.0
        """The creation of its current pod."""
        self.waited: float | None = None
        self.bound = self.working = 0.0
        """The last binding, and the start of the work, which is later for members of an incomplete gang."""
        self.finished: float | None = None
        self.gave_up = False
        """Whether the pod has no retries left."""
        self.lost = 0.0
        """Seconds of work that evictions discarded."""
        self.reason = ""

    @property
    def node(self) -> str:
        """The current node; empty while the pod is pending."""
        return self.pod.node_name if self.pod is not None else ""


class TrialWatch:
    """Observes a trial; the base class of measures."""

    follows_ends = False
    """Whether a trial continues after the last decision until all pods with a duration have ended."""

    def __init__(self, play: "Play[Any]") -> None:
        self.play = play

    def time_passes(self, until: float) -> None:
        """Called before time passes: the cluster does not change until this moment of the trial."""

    def arrived(self, life: PodLife) -> None:
        """Called when a pod of the trace arrives for the first time, before its first attempt."""

    def placed(self, pod: Pod) -> None:
        """Called when a node has been chosen for a pod, before the binding."""

    def bound(self, life: PodLife, *, is_first: bool) -> None:
        """Called when a pod of the trace got a node, the first one or another after an eviction or failure."""

    def released(self, life: PodLife) -> None:
        """Called when a pod of the trace has left its node: it finished, failed or was evicted."""

    def done(self, life: PodLife) -> None:
        """Called when a pod has finished, has no retries left, or was dropped."""

    def decided(self) -> None:
        """Called when all pods that can be tried at this moment have been tried."""


W = TypeVar("W", bound=TrialWatch)


class Attempts(AttemptObserver):
    """Records rejected pods and the first error."""

    def __init__(self, watch: TrialWatch) -> None:
        self._watch = watch
        self.count = 0
        self.rejected: dict[str, Pod] = {}
        self.reasons: dict[str, Unschedulable] = {}
        """The last rejection of each pending pod."""
        self.problem = ""
        self.hopeless: set[str] = set()
        """Members of groups that were rejected since the last change of the cluster."""

    def on_attempt_end(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        """Record the outcome of an attempt."""
        self.count += 1
        if queued.pod.spec.scheduling_group is not None:
            self.hopeless.add(queued.uid)
        if isinstance(outcome, Placed):
            self._watch.placed(queued.pod)
        elif isinstance(outcome, Unschedulable):
            self.reasons[queued.uid] = outcome
            if not outcome.nominated_node:
                self.rejected[queued.uid] = queued.pod
        elif isinstance(outcome, Failed):
            self._on_failure(queued, outcome)

    def on_binding_failure(self, queued: QueuedPodInfo, outcome: Unschedulable | Failed) -> None:
        """Record a failed binding."""
        if isinstance(outcome, Failed):
            self._on_failure(queued, outcome)

    def _on_failure(self, queued: QueuedPodInfo, outcome: Failed) -> None:
        if outcome.is_rejection:
            self.rejected[queued.uid] = queued.pod
        else:
            self.problem = self.problem or f"pod {queued.key}: {outcome.message}"


class GangState:
    """The scheduled members of a gang. They keep their resources while they wait for other members."""

    __slots__ = ("bound", "waiting")

    def __init__(self) -> None:
        self.bound = 0
        self.waiting: list[tuple[PodLife, int]] = []
        """Members that do not work yet, each with the number of its run."""


class Play(Generic[W]):
    """One running trial.

    ``choose_node`` replaces the score plugins.
    """

    def __init__(
        self,
        trial: Trial,
        policy: Policy,
        clock: VirtualClock,
        make_watch: "Callable[[Play[Any]], W]",
        choose_node: ChooseNode | None = None,
    ) -> None:
        self.trial, self.conditions = trial, trial.conditions
        self.clock = clock
        self.ledger = UsageLedger()
        self.lives: dict[str, PodLife] = {}
        """All pods of the trace, by the name of their first run."""
        self._by_uid: dict[str, PodLife] = {}
        self._running = self._returning = self._finite = 0
        """Numbers of pods with a node, of evicted pods about to return, and of pods that will end."""
        self.facts = trial.trace.facts
        self.cluster = limit_apps(trial.cluster, self.facts.limits)
        self._arrivals: Iterator[TracePod] = iter(())
        self._has_more = False
        """Whether pods of the trace have not arrived yet."""
        self._dependents: dict[str, list[PodLife]] = {}
        """Pods that wait for the end of a job."""
        self.arrived = 0
        """Number of pods of the trace that have arrived, including pods that wait for a job."""
        self._unfinished = dict(self.facts.jobs)
        """Number of pods that have not finished, for each job that other jobs wait for."""
        self._gangs: dict[str, GangState] = {}
        self._failed_nodes: dict[str, Node] = {}
        self.watch = make_watch(self)
        self.attempts = Attempts(self.watch)
        ties: dict[str, Ties] = {
            "random": RandomTies(make_random(trial.seed, "ties")),
            "name": TiesInOrder(),
            "shuffled": TiesInOrder(lambda name: make_random(trial.seed, f"ties/{name}").random()),
        }
        self.offline = OfflineScheduler(
            policy,
            InstantApi(self._on_bound, self._on_evicted),
            clock,
            observers=(self.attempts,),
            tuning=Tuning(
                max_unschedulable=NEVER,
                ties=ties.get(trial.conditions.ties),
                effects=Effects(choose_node=choose_node),
            ),
        )
        self.scheduler = self.offline.scheduler
        self._maker = PodMaker(has_groups=PodGroup in self.offline.kinds)
        self.agenda = Agenda(self.offline, clock)
        self.scaler = Autoscaler(self.cluster.scaled)
        self._is_batching = self._is_checking = False
        """Whether a batch of pending pods is collected, and whether a consolidation is planned."""

    @property
    def now(self) -> float:
        """Seconds since the trial began."""
        return self.agenda.now

    @property
    def waiting(self) -> int:
        """Number of pending pods, including evicted pods that are about to return."""
        return len(self._by_uid) - self._running + self._returning

    async def run(self) -> None:
        """Run the trial to its end. Raise PluginError if a plugin fails."""
        self._set_up()
        await self.offline.start()
        while True:
            is_settled = await self.offline.settle()
            if self.attempts.problem:
                raise PluginError("", self.attempts.problem)
            if is_settled:
                rejected, self.attempts.rejected = self.attempts.rejected, {}
                if self.conditions.skip_unplaced:
                    for pod in rejected.values():
                        self.drop(pod)
                elif rejected:
                    self._request_nodes(rejected.values())
            self.watch.decided()
            moment = self._next_moment()
            if moment is None:
                break
            await self.agenda.pass_time(moment, self.watch.time_passes)
        if self.conditions.horizon is not None:
            self.watch.time_passes(self.conditions.horizon)
        await self.offline.close()

    def _set_up(self) -> None:
        cluster = self.cluster
        for node in cluster.nodes:
            self.ledger.add_node(node)
            self.scaler.add_node(node)
        running_pods = [obj for obj in cluster.objects if isinstance(obj, Pod) and obj.node_name in self.ledger.nodes]
        for pod in running_pods:
            self.ledger.take(pod)
            self.scaler.take(pod, "", 0.0)
        self.offline.load(
            (*(obj for obj in cluster.objects if not isinstance(obj, Pod)), *cluster.nodes, *running_pods)
        )
        pods = arrange_pods(self.trial)
        last = max((line.arrives for line in pods), default=0.0) if isinstance(pods, list) else self.facts.last_arrival
        self._arrivals = iter(pods)
        self._plan_arrival()
        for outage in arrange_outages(self.trial, last):
            self.agenda.plan(outage.down, partial(self._fail_node, outage.node))
            if outage.up is not None:
                self.agenda.plan(outage.up, partial(self._repair_node, outage.node))

    def _plan_arrival(self) -> None:
        """Plan the next arrival only: a trace may be larger than memory."""
        line = next(self._arrivals, None)
        self._has_more = line is not None
        if line is not None:
            self.agenda.plan(line.arrives, partial(self._arrive, PodLife(line)), is_first=True)

    def find_reason(self, life: PodLife) -> str:
        """Return the last reason why a pod has no node."""
        if life.reason or life.pod is None:
            return life.reason or f"waits for {', '.join(life.line.after)}"
        rejection = self.attempts.reasons.get(life.pod.uid)
        return "" if rejection is None else rejection.message

    def drop(self, pod: Pod) -> None:
        """Remove a pending pod from the trial: it never gets a node."""
        self.attempts.rejected.pop(pod.uid, None)
        stored_pod = self.scheduler.objects[Pod].find(pod.key)
        if stored_pod is not None and not stored_pod.node_name:
            self.offline.apply(stored_pod, None)
            life = self._by_uid.pop(stored_pod.uid, None)
            reason = self.attempts.reasons.pop(stored_pod.uid, None)
            if life is not None:
                life.reason = "" if reason is None else reason.message
                life.gave_up = True
                self.watch.done(life)
                if not self.conditions.pod_rows:
                    del self.lives[life.line.name]

    def _request_nodes(self, rejected: Iterable[Pod] = ()) -> None:
        """Request nodes for pending pods, after the interval in which they are collected."""
        if not self.scaler.add_pending(rejected) or self._is_batching:
            return
        if not self.scaler.batch_seconds:
            self._start_nodes(self.scaler.request_nodes())
            return
        self._is_batching = True
        self.agenda.plan(self.now + self.scaler.batch_seconds, self._request_batch)

    def _request_batch(self) -> None:
        self._is_batching = False
        self._start_nodes(self.scaler.request_nodes())

    def _start_nodes(self, requested_nodes: Iterable[RequestedNode]) -> None:
        for requested in requested_nodes:
            self.agenda.plan(self.now + requested.seconds, partial(self._join, requested.node))

    def _next_moment(self) -> float | None:
        """Return the time of the next event, or ``None`` at the horizon or if no further event is due."""
        horizon = self.conditions.horizon
        is_active = self._has_more or self._dependents or self.waiting or (self._finite and self.watch.follows_ends)
        if not is_active and horizon is None:
            return None
        moment = self.agenda.next_moment(retries=self._can_retries_help())
        return None if moment is None or (horizon is not None and moment > horizon) else moment

    def _can_retries_help(self) -> bool:
        """Return whether the cluster has changed since the last attempts of the pods that back off.

        The queue retries a rejected group after each backoff, as kube-scheduler does. While nothing changes the result
        remains the same: a trace of months would consist of such attempts.
        """
        return any(info.uid not in self.attempts.hopeless for info in self.scheduler.queue.pods_in_backoff())

    def _arrive(self, life: PodLife) -> None:
        self._plan_arrival()
        line = life.line
        if line.name in self.lives:
            problem = f"there are two pods named {line.name!r} at the same time"
            raise InputError(f"trace {self.trial.trace.name}", problem, hint="rename one of them")
        self.lives[line.name] = life
        self.arrived += 1
        for job in line.after:
            if job not in self._unfinished:
                problem = f"pod {line.name} waits for job {job!r}, which is not in the trace"
                raise InputError(f"trace {self.trial.trace.name}", problem, hint="remove it from after")
        self._admit(life)

    def _admit(self, life: PodLife) -> None:
        """Create the pod of an arrival, unless it waits for another job."""
        job = next((job for job in life.line.after if self._unfinished[job]), None)
        if job is not None:
            self._dependents.setdefault(job, []).append(life)
            return
        life.arrived = self.now
        line = life.line
        if line.gang and line.gang not in self._gangs:
            self._gangs[line.gang] = GangState()
            if PodGroup in self.offline.kinds:
                self.offline.apply(None, make_group(line))
        self.watch.arrived(life)
        self._create_pod(life)

    def _return(self, life: PodLife) -> None:
        self._returning -= 1
        self._create_pod(life)

    def _create_pod(self, life: PodLife) -> None:
        life.pod = pod = self._maker.make(life.line, life.lost_runs)
        life.pending_since = self.now
        self._by_uid[pod.uid] = life
        self.offline.apply(None, pod)

    def _on_bound(self, pod: Pod) -> None:
        life = self._by_uid[pod.uid]
        life.pod = pod
        life.bound = life.working = self.now
        is_first = life.waited is None
        if life.waited is None:
            life.waited = self.now - life.arrived
        self.ledger.take(pod)
        if life.line.spec:
            self.attempts.hopeless.clear()  # others may have an affinity to it
        self._running += 1
        self.attempts.rejected.pop(pod.uid, None)
        self.attempts.reasons.pop(pod.uid, None)
        self.scaler.take(pod, life.line.kind, self.now)
        self.watch.bound(life, is_first=is_first)
        if life.line.gang:
            gang = self._gangs[life.line.gang]
            gang.bound += 1
            gang.waiting.append((life, life.lost_runs))
            if gang.bound < life.line.gang_size:
                return
            ready, gang.waiting = gang.waiting, []
        else:
            ready = [(life, life.lost_runs)]
        for member, lost_runs in ready:
            if member.lost_runs == lost_runs:
                member.working = self.now
                self._plan_end(member)

    def _plan_end(self, life: PodLife) -> None:
        if life.line.runs is not None:
            self._finite += 1
            self.agenda.plan(self.now + life.line.runs, partial(self._finish, life, life.lost_runs))

    def _finish(self, life: PodLife, lost_runs: int) -> None:
        self._finite -= 1
        if life.lost_runs != lost_runs or life.pod is None:
            return  # the pod was evicted before
        stored_pod = self.scheduler.objects[Pod].find(life.pod.key)
        self.offline.apply(stored_pod or life.pod, None)
        self._release(life, life.pod)
        if not life.fails:
            life.finished = self.now
            self._record_end(life)
            return
        life.fails -= 1
        life.lost_runs += 1
        if self._may_retry(life):
            self._create_pod(life)

    def _may_retry(self, life: PodLife) -> bool:
        """Return whether a pod that failed or was evicted returns. Record that it gave up otherwise."""
        life.gave_up = life.line.retries is not None and life.lost_runs > life.line.retries
        if life.gave_up:
            self._record_end(life)
        return not life.gave_up

    def _record_end(self, life: PodLife) -> None:
        """Record the end of a pod; admit the pods that wait for its job, unless it gave up."""
        self.watch.done(life)
        if not self.conditions.pod_rows:
            del self.lives[life.line.name]
        job = life.line.job_name
        if job in self._unfinished and not life.gave_up:
            self._unfinished[job] -= 1
            if not self._unfinished[job]:
                for dependent in self._dependents.pop(job, ()):
                    self._admit(dependent)

    def _release(self, life: PodLife, pod: Pod) -> None:
        self.ledger.release(pod.uid)
        self.attempts.hopeless.clear()
        self.scaler.release(pod, self.now)
        self._running -= 1
        self._check_idle(pod.node_name)
        self._plan_consolidation()
        del self._by_uid[pod.uid]
        if life.line.gang:
            self._gangs[life.line.gang].bound -= 1
        self.watch.released(life)

    def _on_evicted(self, pod: Pod) -> None:
        life = self._by_uid.get(pod.uid)
        if life is None:
            self.ledger.release(pod.uid)  # the pod was running when the trial began
            self.attempts.hopeless.clear()
            self.scaler.release(pod, self.now)
            return
        life.lost += self.now - life.working
        self._release(life, pod)
        life.evictions += 1
        life.lost_runs += 1
        if self.conditions.evicted_return and self._may_retry(life):
            self._returning += 1
            self.agenda.plan(self.now, partial(self._return, life))

    def _fail_node(self, name: str) -> None:
        node = self.scheduler.objects[Node].find(name)
        if node is not None:
            self._failed_nodes[name] = node
            self._drain(node)

    def _drain(self, node: Node) -> None:
        """Evict all pods of a node and remove it."""
        for pod in [pod for pod in self.scheduler.objects[Pod].list() if pod.node_name == node.name]:
            self.offline.apply(pod, None)
            self._on_evicted(pod)
        self._remove_node(node)

    def _repair_node(self, name: str) -> None:
        node = self._failed_nodes.pop(name, None)
        if node is not None:
            self._join(node)

    def _join(self, node: Node) -> None:
        self.ledger.add_node(node)
        self.attempts.hopeless.clear()
        self.offline.apply(None, node)
        replaced = self.scheduler.objects[Node].find(self.scaler.add_node(node))
        if replaced is not None:
            self._drain(replaced)
        self._check_idle(node.name)
        self._plan_consolidation()

    def _check_idle(self, name: str) -> None:
        """Plan the removal of an empty node of an autoscaled pool."""
        if not self.ledger.nodes[name].pods and (moment := self.scaler.start_idle(name, self.now)) is not None:
            self.agenda.plan(moment, partial(self._remove_idle, name))

    def _remove_idle(self, name: str) -> None:
        if name in self.ledger.nodes and not self.ledger.nodes[name].pods and self.scaler.is_idle(name, self.now):
            node = self.scheduler.objects[Node].find(name)
            if node is not None:
                self._remove_node(node)
                self._request_nodes()

    def _plan_consolidation(self) -> None:
        """Plan a search for a node to remove; none after the last arrival, when nothing is measured any more."""
        if self.scaler.consolidates and self._has_more and not self._is_checking:
            self._is_checking = True
            self.agenda.plan(self.now + max(self.scaler.check_seconds, LEAST_CHECK), self._consolidate)

    def _consolidate(self) -> None:
        self._is_checking = False
        decision = self.scaler.consolidate(self.now) if self._has_more else None
        if decision is None:
            return
        if decision.replacement is not None:
            self._start_nodes((decision.replacement,))
        elif (node := self.scheduler.objects[Node].find(decision.drained)) is not None:
            self._drain(node)
        self._plan_consolidation()

    def _remove_node(self, node: Node) -> None:
        self.offline.apply(node, None)
        self.attempts.hopeless.clear()
        self.ledger.remove_node(node.name)
        self.scaler.remove_node(node.name)
