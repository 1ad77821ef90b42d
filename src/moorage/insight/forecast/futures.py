"""Possible futures of a cluster: the scheduler in virtual time, while running pods end and other pods arrive.

One scheduler simulates all futures, one after another. The changed pods are restored after each future.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import inf
from time import monotonic
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from moorage.cluster import NEVER, Agenda, InstantApi, OfflineScheduler
from moorage.common.clock import VirtualClock
from moorage.common.virtual_time import VirtualRunner
from moorage.insight.forecast.identical_pods import IdenticalPods, PodSignatures
from moorage.kube.api.meta import KubeObject, parse_time
from moorage.kube.api.pod import Pod
from moorage.scheduler.wiring.assembly import Tuning
from moorage.scheduler.wiring.policy import Policy

QUEUE_STEP: Final = 1e-3
"""Seconds between two pending pods at the beginning, which preserves their order in the queue."""
ATTEMPT_STEP: Final = 1e-4
"""Duration of an attempt, in seconds."""
MANY_FAILURES: Final = 5
"""Failed attempts after which the backoff of a pod has its maximum, with the default backoff of 1 to 10 seconds."""
RECENT: Final = 30.0
"""Pending pods that are older, in seconds, are assumed to have failed many times."""
NO_PREEMPTION: Final = "Never"
MAX_EVENTS: Final = 200_000
"""Maximum number of events. A future with more events ends as if the horizon had been reached."""


class LaterPod(NamedTuple):
    """A pod that arrives in the future, and its duration."""

    after: float
    pod: Pod
    seconds: float


class Future(Struct):
    """One possible future: when running pods end, how long other pods run, and which pods arrive."""

    ends: Mapping[str, float]
    """Seconds from now until running pods end, by UID. Other pods do not end."""
    draw_seconds: Callable[[Pod], float | None]
    """Draws the duration of a pod that starts, or ``None`` if it does not end."""
    arrivals: Iterable[LaterPod] = ()
    """Pods that arrive, in order of time; may be infinite."""


class PlayedFuture(Struct):
    """The events of a future until the subject starts."""

    started: float | None
    """Seconds from now until enough pods of the subject were scheduled, or ``None`` if the horizon is first."""
    causes: dict[str, float]
    """Pods that left the nodes of the subject before it started, by key: seconds from now."""
    starts: dict[str, float]
    """Pods that were pending at first and have started, by key: seconds from now."""


class FutureCluster:
    """A scheduler on the current state of a cluster that simulates futures. Must be closed.

    ``later`` are the pods that may arrive.
    """

    def __init__(self, policy: Policy, objects: Sequence[KubeObject], now: float, later: Iterable[Pod] = ()) -> None:
        self._policy = policy
        pods = [obj for obj in objects if isinstance(obj, Pod) and not obj.is_finished]
        self._other_objects = [obj for obj in objects if not isinstance(obj, Pod)]
        self.running = {pod.key: pod for pod in pods if pod.node_name}
        self.pending = [pod for pod in pods if not pod.node_name and not pod.is_terminating]
        self.tried = {pod.uid for pod in self.pending if _is_older(pod, now - RECENT)}
        """UIDs of pending pods that are assumed to have failed many times."""
        self._lowest_priority = min((pod.priority for pod in (*pods, *later)), default=0)
        self._clock = FutureClock(now)
        self.signatures = PodSignatures()
        self._runner = VirtualRunner(self._clock)
        self._api = FutureApi(self)
        self._player: _Player | None = None
        self.touched: set[str] = set()
        """Keys of pods that differ from the current state."""
        self._offline = self._runner.run(self._start())

    async def _start(self) -> OfflineScheduler[InstantApi]:
        offline: OfflineScheduler[InstantApi] = OfflineScheduler(
            self._policy, self._api, self._clock, tuning=Tuning(max_unschedulable=NEVER)
        )
        offline.load((*self._other_objects, *self.running.values()))
        await offline.start()
        return offline

    def close(self) -> None:
        """Close the plugins and the loop."""
        self._runner.run(self._offline.close())
        self._runner.close()

    def play(
        self, future: Future, subject: frozenset[str], needed: int, horizon: float, end: float = inf
    ) -> PlayedFuture:
        """Advance time until ``needed`` pods of the subject (their UIDs) are scheduled, or until the horizon.

        Raise TimeoutError at ``end`` on the monotonic clock.
        """
        return self._runner.run(self._play(future, subject, needed, horizon, end))

    async def _play(
        self, future: Future, subject: frozenset[str], needed: int, horizon: float, end: float
    ) -> PlayedFuture:
        player = self._player = _Player(self._offline, self._clock, self, future, subject, needed)
        result = await player.run(horizon, end)
        self._player = None
        is_settled = await self._offline.settle()  # bindings and evictions of the last moment
        if is_settled and not self._api.is_dirty and not len(self._api.background):
            self._restore()
        else:
            await self._offline.close()
            self.touched.clear()
            background = self._api.background
            self._api = FutureApi(self)
            if not len(background):
                self._api.background = background  # its idle tasks
            self._offline = await self._start()
        return result

    def _restore(self) -> None:
        pod_store = self._offline.scheduler.objects[Pod]
        for key in self.touched:
            current, before = pod_store.find(key), self.running.get(key)
            if current is not None and current is not before:
                self._offline.apply(current, None)
            if before is not None and current is not before:
                self._offline.apply(None, before)
        self.touched.clear()

    def prepare(self, pod: Pod) -> Pod:
        """Return a pending pod without preemption if no pod has a lower priority: each failed attempt is cheaper."""
        if pod.priority > self._lowest_priority or pod.spec.preemption_policy == NO_PREEMPTION:
            return pod
        return replace(pod, spec=replace(pod.spec, preemption_policy=NO_PREEMPTION))

    def on_bound(self, pod: Pod) -> None:
        """Record a binding."""
        self.touched.add(pod.key)
        if self._player is not None:
            self._player.on_bound(pod)

    def on_deleted(self, pod: Pod) -> None:
        """Record a preemption. Plugins store victims by UID. A stale UID would delay later preemptors."""
        self._api.is_dirty = True
        if self._player is not None:
            self._player.on_evicted(pod)


def _is_older(pod: Pod, moment: float) -> bool:
    created = pod.metadata.creation_timestamp
    return created is not None and parse_time(created) < moment


class FutureClock(VirtualClock):
    """A virtual clock that can be set back to queue pods at an earlier time."""

    @contextmanager
    def set_clock(self, moment: float) -> Iterator[None]:
        """Set the clock to an earlier time inside the block, and restore it afterward."""
        now, self._now = self._now, moment
        try:
            yield
        finally:
            self._now = now


class FutureApi(InstantApi):
    """Applies writes immediately, and records the changed objects."""

    def __init__(self, cluster: FutureCluster) -> None:
        super().__init__(cluster.on_bound, cluster.on_deleted)
        self._cluster = cluster
        self.is_dirty = False
        """Whether objects other than pods have changed. Then the scheduler must be rebuilt."""

    def _report(self, before: Any, after: Any) -> None:
        obj = after if before is None else before
        if isinstance(obj, Pod):
            self._cluster.touched.add(obj.key)
        else:
            self.is_dirty = True
        super()._report(before, after)


class _Player:
    """A future that is being simulated."""

    def __init__(
        self,
        offline: OfflineScheduler[InstantApi],
        clock: FutureClock,
        cluster: FutureCluster,
        future: Future,
        subject: frozenset[str],
        needed: int,
    ) -> None:
        self._offline, self._clock, self._cluster, self._future = offline, clock, cluster, future
        self._identical = IdenticalPods(cluster.signatures)
        clock.advance(RECENT)
        self._agenda = Agenda(offline, clock)
        self._subject, self._required_count = subject, needed
        self._waiting = {pod.uid for pod in cluster.pending}
        self._nodes: set[str] = set()
        self._left: dict[str, list[tuple[str, float]]] = {}
        self._starts: dict[str, float] = {}
        self._started: float | None = None
        self._arrivals = iter(future.arrivals)
        self._seconds: dict[str, float] = {}
        self._returned = 0

    async def run(self, horizon: float, end: float) -> PlayedFuture:
        await self._queue_pending()
        for pod in self._cluster.running.values():
            if pod.uid in self._future.ends:
                self._agenda.plan(self._future.ends[pod.uid], partial(self._end, pod))
        self._plan_arrival()
        for _ in range(MAX_EVENTS):
            await self._offline.settle(on_step=self._tick)
            self._hold_identical()
            if self._started is not None:
                break
            moment = self._agenda.next_moment()
            if moment is None or moment > horizon:
                break
            if monotonic() > end:
                raise TimeoutError
            await self._agenda.pass_time(moment)
        causes = {key: at for node in self._nodes for key, at in self._left.get(node, ())}
        return PlayedFuture(self._started, causes, self._starts)

    async def _queue_pending(self) -> None:
        """Queue the pending pods. The last attempt of older pods was long enough ago that their backoff has ended."""
        attempted_uids = self._cluster.tried
        with self._clock.set_clock(self._clock.now() - RECENT):
            for pod in self._cluster.pending:
                if pod.uid in attempted_uids:
                    self._identical.add(pod)
                    if not self._identical.hold(pod.uid):
                        self._queue(pod)
                        self._clock.advance(QUEUE_STEP)
            self._set_backoff(attempted_uids)
            await self._offline.settle(on_step=self._tick)
        for pod in self._cluster.pending:
            if pod.uid not in attempted_uids:
                self._create(pod)
                self._clock.advance(QUEUE_STEP)

    def _plan_arrival(self) -> None:
        later = next(self._arrivals, None)
        if later is not None:
            self._agenda.plan(later.after, partial(self._arrive, later))

    def _arrive(self, later: LaterPod) -> None:
        self._seconds[later.pod.uid] = later.seconds
        self._create(later.pod)
        self._plan_arrival()

    def _tick(self) -> None:
        """Assign different timestamps to failed pods, because the queue sorts them by timestamp at the next attempt."""
        self._clock.advance(ATTEMPT_STEP)

    def _create(self, pod: Pod) -> None:
        self._identical.add(pod)
        self._queue(pod)

    def _queue(self, pod: Pod) -> None:
        self._cluster.touched.add(pod.key)
        self._offline.apply(None, self._cluster.prepare(pod))

    def _hold_identical(self) -> None:
        """Remove pods from the queue if an identical pod failed: their attempts would fail in the same way.

        Younger pods remain: their backoff is shorter, so they can overtake older pods.
        """
        identical = self._identical
        queued = [info for info in self._offline.scheduler.queue if info.unschedulable_count >= MANY_FAILURES]
        for info in sorted(queued, key=lambda info: identical.position(info.uid)):
            if not info.pod.status.nominated_node_name and identical.hold(info.uid):
                self._offline.apply(info.pod, None)

    def _set_backoff(self, uids: Container[str]) -> None:
        """Set the backoff of pods to the backoff after many failures."""
        for info in self._offline.scheduler.queue:
            if info.uid in uids:
                info.unschedulable_count = max(info.unschedulable_count, MANY_FAILURES)

    def _queue_next(self, uid: str) -> None:
        """Queue the next identical pod after a pod was scheduled, at the position of its arrival."""
        following = self._identical.pop_next(uid)
        if following is None:
            return
        earlier: list[float] = []
        later: list[float] = []
        for info in self._offline.scheduler.queue:
            if info.priority == following.pod.priority:
                is_earlier = self._identical.position(info.uid) < following.position
                (earlier if is_earlier else later).append(info.timestamp)
        # Pods that arrived earlier may have failed recently: their timestamps are later than those of untried pods.
        moment = min(later) - ATTEMPT_STEP / 10 if later else max(earlier, default=self._clock.now())
        with self._clock.set_clock(moment):
            self._queue(following.pod)
        self._set_backoff({following.pod.uid})

    def on_bound(self, pod: Pod) -> None:
        self._queue_next(pod.uid)
        now = self._agenda.now
        if pod.uid in self._waiting:
            self._starts.setdefault(pod.key, now)
        if pod.uid in self._subject:
            self._nodes.add(pod.node_name)
            self._required_count -= 1
            if self._required_count <= 0 and self._started is None:
                self._started = now
        seconds = self._seconds.get(pod.uid) or self._future.draw_seconds(pod)
        if seconds is not None:
            self._agenda.plan(now + seconds, partial(self._end, pod))

    def _end(self, pod: Pod) -> None:
        stored_pod = self._offline.scheduler.objects[Pod].find(pod.key)
        if stored_pod is not None and stored_pod.uid == pod.uid and stored_pod.node_name:
            self._cluster.touched.add(pod.key)
            self._offline.apply(stored_pod, None)
            self._left.setdefault(stored_pod.node_name, []).append((pod.key, self._agenda.now))

    def on_evicted(self, pod: Pod) -> None:
        self._left.setdefault(pod.node_name, []).append((pod.key, self._agenda.now))
        if pod.metadata.controller is None:
            return
        self._returned += 1  # the controller creates another pod
        name = f"{pod.name}-returned-{self._returned}"
        metadata = replace(pod.metadata, name=name, uid=f"{pod.uid}/{self._returned}")
        fresh = replace(pod, metadata=metadata, spec=replace(pod.spec, node_name=""))
        self._agenda.plan(self._agenda.now, partial(self._create, fresh))
