"""One trial in virtual time: pods and nodes are added and removed, and the real scheduler places pending pods."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import Any, Final, Generic, NamedTuple, TypeVar

from msgspec.structs import replace

from moorage.cluster import InstantApi, OfflineScheduler
from moorage.common.clock import VirtualClock
from moorage.common.errors import PluginError
from moorage.common.virtual_time import VirtualLoop
from moorage.kube.api.node import HOSTNAME_LABEL, Node
from moorage.kube.api.pod import Pod
from moorage.lab.cluster import ScaledPool
from moorage.lab.ledger import UsageLedger
from moorage.lab.trace import PodMaker, TracePod
from moorage.lab.trial import Trial, arrange_outages, arrange_pods, make_random
from moorage.scheduler.engine.effects import ChooseNode, Effects
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.engine.outcomes import Failed, Outcome, Placed, Unschedulable
from moorage.scheduler.engine.ties import RandomTies, Ties, TiesByName
from moorage.scheduler.queue.entities import QueuedPodInfo
from moorage.scheduler.wiring.assembly import Tuning
from moorage.scheduler.wiring.policy import Policy


class RequestedNode(NamedTuple):
    """A node and its startup time."""

    node: Node
    seconds: float


class PoolState:
    """The added and requested nodes of an autoscaled pool."""

    def __init__(self, pool: ScaledPool) -> None:
        self.pool = pool
        self.nodes: dict[str, Node] = {}
        self.starting: dict[str, dict[str, int]] = {}
        """Requested nodes and their remaining capacity for pending pods."""
        self._added = 0

    @property
    def is_full(self) -> bool:
        """Whether the pool has reached its limit."""
        return len(self.nodes) + len(self.starting) >= self.pool.most_added

    def next_node(self) -> Node:
        """Build another node of the pool."""
        name = f"{self.pool.name}-added-{self._added}"
        self._added += 1
        template = self.pool.template
        labels = {**template.labels, HOSTNAME_LABEL: name}
        return replace(template, metadata=replace(template.metadata, name=name, uid=f"node/{name}", labels=labels))


class Autoscaler:
    """Requests nodes for rejected pods: by their requests, first fit, in the order of the pools."""

    def __init__(self, pools: Sequence[ScaledPool]) -> None:
        self._pools = [PoolState(pool) for pool in pools]
        self._pool_of: dict[str, PoolState] = {}
        self._waiting: dict[str, Pod] = {}
        self._served: dict[str, str] = {}
        """The requested node of each pod."""
        self._empty_since: dict[str, float] = {}

    def request_nodes(self, pods: Iterable[Pod]) -> list[RequestedNode]:
        """Return the nodes to request for unschedulable pods that no requested node covers."""
        if not self._pools:
            return []
        self._waiting.update((pod.uid, pod) for pod in pods)
        return [node for pod in self._waiting.values() if (node := self._serve(pod)) is not None]

    def forget_pod(self, uid: str) -> None:
        """Remove a pod that got a node."""
        self._waiting.pop(uid, None)
        self._served.pop(uid, None)

    def _serve(self, pod: Pod) -> RequestedNode | None:
        if pod.uid in self._served:
            return None
        requests = {**pod.requests, "pods": 1}
        for state in self._pools:
            for name, free in state.starting.items():
                if _fits(requests, free):
                    _take(requests, free)
                    self._served[pod.uid] = name
                    return None
            free = dict(state.pool.template.allocatable)
            if not state.is_full and _fits(requests, free):
                _take(requests, free)
                node = state.next_node()
                state.starting[node.name] = free
                self._pool_of[node.name] = state
                self._served[pod.uid] = node.name
                return RequestedNode(node, state.pool.scaling.startup_seconds)
        return None

    def add_node(self, node: Node) -> None:
        """Add a started node; pods that still do not fit request another node at their next rejection."""
        state = self._pool_of.get(node.name)
        if state is not None:
            del state.starting[node.name]
            state.nodes[node.name] = node
            self._served = {uid: name for uid, name in self._served.items() if name != node.name}

    def start_idle(self, name: str, now: float) -> float | None:
        """Record that a node is empty; return the time of its removal, or ``None`` for a permanent node."""
        state = self._pool_of.get(name)
        if state is None:
            return None
        self._empty_since[name] = now
        return now + state.pool.scaling.idle_seconds

    def remove_idle(self, name: str, now: float) -> Node | None:
        """Remove and return a node that has been empty for long enough."""
        state = self._pool_of.get(name)
        if state is None or name not in state.nodes:
            return None
        if now < self._empty_since[name] + state.pool.scaling.idle_seconds:
            return None
        del self._pool_of[name]
        return state.nodes.pop(name)


def _fits(requests: dict[str, int], free: dict[str, int]) -> bool:
    return all(free.get(name, 0) >= amount for name, amount in requests.items())


def _take(requests: dict[str, int], free: dict[str, int]) -> None:
    for name, amount in requests.items():
        free[name] -= amount


NEVER: Final = 10.0 * 365 * 86_400
"""Disable the queue's periodic flush: virtual time loses no events, so queueing hints wake all rejected pods."""
ROUNDING: Final = 1e-5
"""Tolerance for the loop's clock, which counts from 1970."""


class PodLife:
    """The lifecycle of one pod of the trace, under all names of its runs."""

    __slots__ = ("evictions", "fails", "line", "lost_runs", "pod", "waited")

    def __init__(self, line: TracePod) -> None:
        self.line = line
        self.pod: Pod | None = None
        self.lost_runs = 0
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

    def __init__(self, play: "Play[Any]") -> None:
        self.play = play

    def time_passes(self, until: float) -> None:
        """Called before time passes: the cluster does not change until this moment of the trial."""

    def arrived(self, life: PodLife) -> None:
        """Called when a pod of the trace arrives for the first time, before its first attempt."""

    def placed(self, pod: Pod) -> None:
        """Called when a node has been chosen for a pod, before the binding."""

    def decided(self) -> None:
        """Called when all pods that can be tried at this moment have been tried."""


W = TypeVar("W", bound=TrialWatch)


class Attempts(AttemptObserver):
    """Records rejected pods and the first error."""

    def __init__(self, watch: TrialWatch) -> None:
        self._watch = watch
        self.count = 0
        self.rejected: dict[str, Pod] = {}
        self.problem = ""

    def ended(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        """Record the outcome of an attempt."""
        self.count += 1
        if isinstance(outcome, Placed):
            self._watch.placed(queued.pod)
        elif isinstance(outcome, Unschedulable):
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


class Play(Generic[W]):
    """One running trial. Events of the same moment happen in the order in which they were planned.

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
        self.now = 0.0
        """Seconds since the trial began; separate from the clock, whose large numbers round them."""
        self._start = clock.now()
        self.ledger = UsageLedger()
        self.lives: dict[str, PodLife] = {}
        """All pods of the trace, by the name of their first run."""
        self._by_uid: dict[str, PodLife] = {}
        self._maker = PodMaker()
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._planned = 0
        self._running = self._returning = 0
        self._expected = 0
        """Number of pods in the trace that have not arrived yet."""
        self._failed_nodes: dict[str, Node] = {}
        self.watch = make_watch(self)
        self.attempts = Attempts(self.watch)
        ties: dict[str, Ties] = {"random": RandomTies(make_random(trial.seed, "ties")), "name": TiesByName()}
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
        self.scaler = Autoscaler(trial.cluster.scaled)

    @property
    def waiting(self) -> int:
        """Number of pending pods, including evicted pods that are about to return."""
        return len(self._by_uid) - self._running + self._returning

    async def run(self) -> None:
        """Run the trial to its end; raise PluginError if a plugin fails."""
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
            # Let time pass until a moment, or until an earlier timer.
            loop = asyncio.get_running_loop()
            if isinstance(loop, VirtualLoop) and loop.has_timers:
                await self.offline.loop.sleep(until=self._start + moment)
                passed = self.clock.now() - self._start
                self.now = moment if passed > moment - ROUNDING else max(self.now, passed)
            else:
                self.clock.advance_to(self._start + moment)
                self.now = moment
            self.watch.time_passes(self.now)
            while self._agenda and self._agenda[0][0] <= self.now:
                _, _, action = heappop(self._agenda)
                action()
        await self.offline.close()

    def _set_up(self) -> None:
        cluster = self.trial.cluster
        for node in cluster.nodes:
            self.ledger.add_node(node)
        running = [obj for obj in cluster.objects if isinstance(obj, Pod) and obj.node_name in self.ledger.nodes]
        for pod in running:
            self.ledger.take(pod)
        self.offline.load((*(obj for obj in cluster.objects if not isinstance(obj, Pod)), *cluster.nodes, *running))
        pods = arrange_pods(self.trial)
        for line in pods:
            self._plan(line.arrives, partial(self._arrive, PodLife(line)))
        self._expected = len(pods)
        last = max((line.arrives for line in pods), default=0.0)
        for outage in arrange_outages(self.trial, last):
            self._plan(outage.down, partial(self._fail_node, outage.node))
            if outage.up is not None:
                self._plan(outage.up, partial(self._repair_node, outage.node))

    def _plan(self, moment: float, action: Callable[[], None]) -> None:
        self._planned += 1
        heappush(self._agenda, (moment, self._planned, action))

    def drop(self, pod: Pod) -> None:
        """Remove a pending pod from the trial: it never gets a node."""
        self.attempts.rejected.pop(pod.uid, None)
        stored = self.scheduler.objects[Pod].find(pod.key)
        if stored is not None and not stored.node_name:
            self.offline.apply(stored, None)
            self._by_uid.pop(stored.uid, None)

    def _request_nodes(self, rejected: Iterable[Pod] = ()) -> None:
        for requested in self.scaler.request_nodes(rejected):
            self._plan(self.now + requested.seconds, partial(self._join, requested.node))

    def _next_moment(self) -> float | None:
        """Return the time of the next event; ``None`` when all pods have arrived and no pod is pending."""
        if not self._expected and not self.waiting:
            return None
        moments = [self._agenda[0][0]] if self._agenda else []
        queue = self.scheduler.queue
        if queue.sizes().backoff and (wakeup := queue.next_wakeup()) is not None:
            moments.append(wakeup - self._start + ROUNDING)
        if not moments and len(self.offline.api.background):
            moments.append(self.now + 1.0)  # a pod waits in Permit, or a plugin waits for a timer
        moment = min(moments, default=None)
        horizon = self.conditions.horizon
        return None if moment is None or (horizon is not None and moment > horizon) else max(moment, self.now)

    def _arrive(self, life: PodLife) -> None:
        self.lives[life.line.name] = life
        self._expected -= 1
        self.watch.arrived(life)
        self._create_pod(life)

    def _return(self, life: PodLife) -> None:
        self._returning -= 1
        self._create_pod(life)

    def _create_pod(self, life: PodLife) -> None:
        life.pod = pod = self._maker.make(life.line, life.lost_runs)
        self._by_uid[pod.uid] = life
        self.offline.apply(None, pod)

    def _on_bound(self, pod: Pod) -> None:
        life = self._by_uid[pod.uid]
        life.pod = pod
        if life.waited is None:
            life.waited = self.now - life.line.arrives
        self.ledger.take(pod)
        self._running += 1
        self.attempts.rejected.pop(pod.uid, None)
        self.scaler.forget_pod(pod.uid)
        if life.line.runs is not None:
            self._plan(self.now + life.line.runs, partial(self._finish, life, life.lost_runs))

    def _finish(self, life: PodLife, lost_runs: int) -> None:
        if life.lost_runs != lost_runs or life.pod is None:
            return  # the pod was evicted before
        stored = self.scheduler.objects[Pod].find(life.pod.key)
        self.offline.apply(stored or life.pod, None)
        self._release(life, life.pod)
        if life.fails:
            life.fails -= 1
            life.lost_runs += 1
            self._create_pod(life)

    def _release(self, life: PodLife, pod: Pod) -> None:
        self.ledger.release(pod.uid)
        self._running -= 1
        self._check_idle(pod.node_name)
        del self._by_uid[pod.uid]

    def _on_evicted(self, pod: Pod) -> None:
        life = self._by_uid.get(pod.uid)
        if life is None:
            self.ledger.release(pod.uid)  # the pod was running when the trial began
            return
        self._release(life, pod)
        life.evictions += 1
        life.lost_runs += 1
        if self.conditions.evicted_return:
            self._returning += 1
            self._plan(self.now, partial(self._return, life))

    def _fail_node(self, name: str) -> None:
        node = self.scheduler.objects[Node].find(name)
        if node is None:
            return
        for pod in [pod for pod in self.scheduler.objects[Pod].list() if pod.node_name == name]:
            self.offline.apply(pod, None)
            self._on_evicted(pod)
        self._failed_nodes[name] = node
        self._remove_node(node)

    def _repair_node(self, name: str) -> None:
        node = self._failed_nodes.pop(name, None)
        if node is not None:
            self._join(node)

    def _join(self, node: Node) -> None:
        self.ledger.add_node(node)
        self.offline.apply(None, node)
        self.scaler.add_node(node)
        self._check_idle(node.name)

    def _check_idle(self, name: str) -> None:
        """Plan the removal of an empty node of an autoscaled pool."""
        if not self.ledger.nodes[name].pods and (moment := self.scaler.start_idle(name, self.now)) is not None:
            self._plan(moment, partial(self._remove_idle, name))

    def _remove_idle(self, name: str) -> None:
        if name in self.ledger.nodes and not self.ledger.nodes[name].pods:
            node = self.scaler.remove_idle(name, self.now)
            if node is not None:
                self._remove_node(node)
                self._request_nodes()

    def _remove_node(self, node: Node) -> None:
        self.offline.apply(node, None)
        self.ledger.remove_node(node.name)
