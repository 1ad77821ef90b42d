"""One trial in virtual time: pods and nodes are added and removed, and the real scheduler places pending pods."""

import asyncio
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final

import structlog

from moorage.cluster import InstantApi, OfflineScheduler
from moorage.common.clock import VirtualClock
from moorage.common.errors import PluginError
from moorage.common.virtual_time import VirtualLoop
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.lab.ledger import UsageLedger
from moorage.lab.pods import PodMaker
from moorage.lab.scaling import Autoscaler
from moorage.lab.script import chance_of, outages_of, pods_of
from moorage.lab.trace import TracePod
from moorage.lab.trial import Trial
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.engine.outcomes import Failed, Outcome, Unschedulable
from moorage.scheduler.engine.ties import DrawnTies, Ties, TiesByName
from moorage.scheduler.queue.entities import QueuedPodInfo
from moorage.scheduler.wiring.assembly import Observers, Tuning
from moorage.scheduler.wiring.policy import Policy

NEVER: Final = 10.0 * 365 * 86_400
"""Disable the queue's periodic flush: virtual time loses no events, so queueing hints wake all rejected pods."""
ROUNDING: Final = 1e-5
"""So far off the loop's clock may be, which counts from 1970."""
ARRIVAL, DEPARTURE, NODE_DOWN, NODE_UP, NODE_EMPTY = range(5)

log = structlog.get_logger(__name__)


class PodLife:
    """The lifecycle of one pod of the trace, under all names of its runs."""

    __slots__ = ("evictions", "fails", "line", "pod", "times", "waited")

    def __init__(self, line: TracePod) -> None:
        self.line = line
        self.pod: Pod | None = None
        self.times = 0
        """Number of runs lost by failures and evictions."""
        self.fails = line.fails
        self.evictions = 0
        self.waited: float | None = None

    @property
    def node(self) -> str:
        """The current node; empty while the pod is pending."""
        return self.pod.node_name if self.pod is not None else ""


class TrialWatch:
    """Observes a trial; the base class of measures."""

    def time_passes(self, seconds: float) -> None:
        """Called before time passes: nothing changes until that moment of the trial."""

    def arrived(self, life: PodLife) -> None:
        """Called when a pod of the trace arrives for the first time, before its first attempt."""

    def decided(self) -> None:
        """Called when all pods that can be tried at this moment have been tried."""


class Attempts(AttemptObserver):
    """Records rejected pods and the first error."""

    def __init__(self) -> None:
        self.count = 0
        self.rejected: dict[str, Pod] = {}
        self.problem = ""

    def ended(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        """Record the outcome of an attempt."""
        self.count += 1
        if isinstance(outcome, Unschedulable):
            if not outcome.nominated_node:
                self.rejected[queued.uid] = queued.pod
        elif isinstance(outcome, Failed):
            self._failed(queued, outcome)

    def binding_failed(self, queued: QueuedPodInfo, outcome: Unschedulable | Failed) -> None:
        """Record a failed binding."""
        if isinstance(outcome, Failed):
            self._failed(queued, outcome)

    def _failed(self, queued: QueuedPodInfo, outcome: Failed) -> None:
        if outcome.is_rejection:
            self.rejected[queued.uid] = queued.pod
        else:
            self.problem = self.problem or f"pod {queued.key}: {outcome.message}"


class Play:
    """One running trial. Events of the same moment happen in the order in which they were planned."""

    def __init__(self, trial: Trial, policy: Policy, clock: VirtualClock, watch: TrialWatch) -> None:
        self.trial, self.conditions = trial, trial.conditions
        self.clock, self.watch = clock, watch
        self.now = 0.0
        """Seconds since the trial began; kept apart from the clock, whose large numbers round them."""
        self._start = clock.now()
        self.ledger, self.attempts = UsageLedger(), Attempts()
        self.lives: dict[str, PodLife] = {}
        """All pods of the trace, by the name they arrived with."""
        self._of_uid: dict[str, PodLife] = {}
        self._maker = PodMaker()
        self._agenda: list[tuple[float, int, int, object]] = []
        self._planned = 0
        self._running = self._returning = 0
        self._to_come = 0
        """Number of pods in the trace that have not arrived yet."""
        self._is_down: dict[str, Node] = {}
        self.offline = self._make_scheduler(policy)
        self.scheduler = self.offline.scheduler
        self.scaler = Autoscaler(trial.cluster.scaled)

    def _make_scheduler(self, policy: Policy) -> OfflineScheduler[InstantApi]:
        seed = self.trial.seed
        ways: dict[str, Ties] = {"random": DrawnTies(chance_of(seed, "ties")), "name": TiesByName()}
        ties = ways.get(self.conditions.ties)
        tuning = Tuning(max_unschedulable=NEVER, ties=ties)
        observers = Observers(attempts=self.attempts)
        return OfflineScheduler(
            policy, InstantApi(self._bound, self._evicted), self.clock, observers=observers, tuning=tuning
        )

    @property
    def waiting(self) -> int:
        """Number of pending pods, including evicted pods that are about to return."""
        return len(self._of_uid) - self._running + self._returning

    async def run(self) -> None:
        """Play the trial to its end; PluginError if a plugin fails."""
        self._set_up()
        await self.offline.start()
        while True:
            is_settled = await self.offline.settle()
            if self.attempts.problem:
                raise PluginError("", self.attempts.problem)
            if is_settled:
                self._give_up()
            self.watch.decided()
            moment = self._next_moment()
            if moment is None:
                break
            await self._advance(moment)
            self.watch.time_passes(self.now)
            self._perform()
        await self.offline.close()

    def _set_up(self) -> None:
        cluster = self.trial.cluster
        for node in cluster.nodes:
            self.ledger.add_node(node)
        running = [obj for obj in cluster.objects if isinstance(obj, Pod) and obj.node_name in self.ledger.nodes]
        for pod in running:
            self.ledger.take(pod)
        self.offline.load((*(obj for obj in cluster.objects if not isinstance(obj, Pod)), *cluster.nodes, *running))
        pods = pods_of(self.trial.trace, cluster, self.conditions, self.trial.seed)
        for line in pods:
            self.plan(line.arrives, ARRIVAL, PodLife(line))
        self._to_come = len(pods)
        last = max((line.arrives for line in pods), default=0.0)
        for outage in outages_of(self.trial.trace, cluster, self.conditions, self.trial.seed, last):
            self.plan(outage.down, NODE_DOWN, outage.node)
            if outage.up is not None:
                self.plan(outage.up, NODE_UP, outage.node)

    def plan(self, moment: float, kind: int, subject: object) -> None:
        """Plan an event at a moment of the trial."""
        self._planned += 1
        heappush(self._agenda, (moment, self._planned, kind, subject))

    def _give_up(self) -> None:
        rejected, self.attempts.rejected = self.attempts.rejected, {}
        if self.conditions.skip_unplaced:
            for pod in rejected.values():
                self.drop(pod)
        elif rejected:
            self._ask_for_nodes(rejected.values())

    def drop(self, pod: Pod) -> None:
        """Remove a pending pod from the trial: it never gets a node."""
        stored = self.scheduler.objects[Pod].find(pod.key)
        if stored is not None and not stored.node_name:
            self.offline.apply(stored, None)
            self._of_uid.pop(stored.uid, None)

    def _ask_for_nodes(self, rejected: Iterable[Pod] = ()) -> None:
        for coming in self.scaler.rejected(rejected):
            self.plan(self.now + coming.seconds, NODE_UP, coming.node)

    def _next_moment(self) -> float | None:
        """Return the time of the next event; ``None`` when all pods have arrived and no pod is pending."""
        if not self._to_come and not self.waiting:
            return None
        moments = [self._agenda[0][0]] if self._agenda else []
        queue = self.scheduler.queue
        if queue.sizes().backoff and (wakeup := queue.next_wakeup()) is not None:
            moments.append(wakeup - self._start + ROUNDING)
        if not moments and len(self.offline.api.background):
            moments.append(self.now + 1.0)  # a pod waits on Permit, or a plugin waits for a timer
        moment = min(moments, default=None)
        horizon = self.conditions.horizon
        return None if moment is None or (horizon is not None and moment > horizon) else max(moment, self.now)

    async def _advance(self, moment: float) -> None:
        """Let time pass until a moment, or until an earlier timer."""
        loop = asyncio.get_running_loop()
        if isinstance(loop, VirtualLoop) and loop.has_timers:
            await self.offline.loop.sleep(until=self._start + moment)
            passed = self.clock.now() - self._start
            self.now = moment if passed > moment - ROUNDING else max(self.now, passed)
        else:
            self.clock.advance_to(self._start + moment)
            self.now = moment

    def _perform(self) -> None:
        """Carry out the events that are due."""
        agenda = self._agenda
        while agenda and agenda[0][0] <= self.now:
            _, _, kind, subject = heappop(agenda)
            if kind == ARRIVAL:
                assert isinstance(subject, PodLife)
                self._arrive(subject)
            elif kind == DEPARTURE:
                assert isinstance(subject, tuple)
                self._depart(*subject)
            elif kind == NODE_DOWN:
                self._node_down(str(subject))
            elif kind == NODE_UP:
                assert isinstance(subject, str | Node)
                self._node_up(subject)
            else:
                self._node_idle(str(subject))

    def _arrive(self, life: PodLife, *, is_rerun: bool = False) -> None:
        if life.line.name not in self.lives:
            self.lives[life.line.name] = life
            self._to_come -= 1
            self.watch.arrived(life)
        elif not is_rerun:
            self._returning -= 1
        life.pod = pod = self._maker.make(life.line, life.times)
        self._of_uid[pod.uid] = life
        self.offline.apply(None, pod)

    def _bound(self, pod: Pod) -> None:
        life = self._of_uid[pod.uid]
        life.pod = pod
        if life.waited is None:
            life.waited = self.now - life.line.arrives
        self.ledger.take(pod)
        self._running += 1
        self.attempts.rejected.pop(pod.uid, None)
        self.scaler.no_longer_waiting(pod.uid)
        if life.line.runs is not None:
            self.plan(self.now + life.line.runs, DEPARTURE, (life, life.times))

    def _depart(self, life: PodLife, times: int) -> None:
        if life.times != times or life.pod is None:
            return  # it was evicted before
        self._remove(life)
        if life.fails:
            life.fails -= 1
            life.times += 1
            self._arrive(life, is_rerun=True)

    def _remove(self, life: PodLife) -> None:
        assert life.pod is not None
        stored = self.scheduler.objects[Pod].find(life.pod.key)
        self.offline.apply(stored or life.pod, None)
        self._gone(life)

    def _gone(self, life: PodLife) -> None:
        assert life.pod is not None
        self.ledger.release(life.pod.uid)
        self._running -= 1
        self._look_for_idle(life.pod.node_name)
        del self._of_uid[life.pod.uid]

    def _evicted(self, pod: Pod) -> None:
        life = self._of_uid.get(pod.uid)
        if life is None:
            self.ledger.release(pod.uid)  # it ran already when the trial began
            return
        self._gone(life)
        life.evictions += 1
        life.times += 1
        if self.conditions.evicted_return:
            self._returning += 1
            self.plan(self.now, ARRIVAL, life)

    def _node_down(self, name: str) -> None:
        node = self.scheduler.objects[Node].find(name)
        if node is None:
            return
        for pod in [pod for pod in self.scheduler.objects[Pod].list() if pod.node_name == name]:
            self.offline.apply(pod, None)
            self._evicted(pod)
        self._is_down[name] = node
        self.remove_node(node)

    def _node_up(self, node: str | Node) -> None:
        back = self._is_down.pop(node, None) if isinstance(node, str) else node
        if back is not None:
            self.add_node(back)
            self.scaler.joined(back)
            self._look_for_idle(back.name)

    def _look_for_idle(self, name: str) -> None:
        if not self.ledger.nodes[name].pods and (moment := self.scaler.emptied(name, self.now)) is not None:
            self.plan(moment, NODE_EMPTY, name)

    def _node_idle(self, name: str) -> None:
        if name in self.ledger.nodes and not self.ledger.nodes[name].pods:
            removed = self.scaler.take_idle(name, self.now)
            if removed is not None:
                self.remove_node(removed)
                self._ask_for_nodes()

    def add_node(self, node: Node) -> None:
        """Add a node."""
        self.ledger.add_node(node)
        self.offline.apply(None, node)

    def remove_node(self, node: Node) -> None:
        """Remove an empty node."""
        self.offline.apply(node, None)
        self.ledger.remove_node(node.name)
