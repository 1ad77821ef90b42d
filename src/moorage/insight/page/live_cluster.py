"""The cluster of a running scheduler: its cache and queue, read periodically on its event loop, and its decisions."""

import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from moorage.common.caches import LRU
from moorage.common.clock import Clock
from moorage.common.errors import InputError, did_you_mean
from moorage.insight.page.api_types import (
    About,
    DecisionLine,
    NodeLayout,
    PageState,
    TimeLines,
    WaitingPodLine,
)
from moorage.insight.page.node_columns import compute_layout, compute_load
from moorage.insight.page.page_source import MAX_STEPS, PageSource, page_state
from moorage.insight.page.pending_groups import Suggestion, foreign_line, list_events, pod_fields
from moorage.insight.page.suggestions import SuggestionSearch
from moorage.kube.api.meta import parse_time
from moorage.kube.api.pod import Pod
from moorage.scheduler.decisions.decision import Result
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.engine.outcomes import Failed, Outcome, Placed, Unschedulable
from moorage.scheduler.engine.profile import Profile
from moorage.scheduler.engine.scheduler import Scheduler
from moorage.scheduler.queue.entities import QueuedPodInfo

if TYPE_CHECKING:
    from moorage.cluster import FailedAttempt

MAX_DECISIONS: Final = 1000
MAX_FAILURES: Final = 200_000
MAX_SECONDS: Final = 600


@dataclass(slots=True)
class SecondOfWork:
    """The attempts of one second."""

    second: int
    placed: int = 0
    failed: int = 0
    latency: float = 0.0


class PageObserver(AttemptObserver):
    """Records the data of the page."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.recent: deque[DecisionLine] = deque(maxlen=MAX_DECISIONS)
        self.failures: LRU[str, FailedAttempt] = LRU("page failures", MAX_FAILURES)
        self.seconds: deque[SecondOfWork] = deque(maxlen=MAX_SECONDS)
        self.count = 0
        self.bound_count = 0

    def on_attempt_end(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        """Record an attempt."""
        if isinstance(outcome, Placed):
            self._note(queued, Result.SCHEDULED, node=outcome.node_name)
        elif isinstance(outcome, Unschedulable | Failed):
            self._on_failure(queued, outcome)

    def on_bound(self, queued: QueuedPodInfo, node_name: str) -> None:
        """Count a bound pod."""
        self.bound_count += 1
        second = self._summarize_second()
        second.placed += 1
        if queued.initial_attempt_timestamp is not None:
            second.latency += max(0.0, self._clock.now() - queued.initial_attempt_timestamp)
        self.failures.discard(queued.uid)

    def on_binding_failure(self, queued: QueuedPodInfo, outcome: Unschedulable | Failed) -> None:
        """Record a failed binding of a pod."""
        self._on_failure(queued, outcome)

    def attempts(self, pod: str) -> Sequence[DecisionLine]:
        """Return the recorded attempts of a pod."""
        return [line for line in self.recent if line.pod == pod]

    def _on_failure(self, queued: QueuedPodInfo, outcome: Unschedulable | Failed) -> None:
        from moorage.cluster import why_not  # most clusters start without a failure

        self.failures.put(queued.uid, why_not(outcome))
        self._summarize_second().failed += 1
        is_error = isinstance(outcome, Failed) and not outcome.is_rejection
        self._note(queued, Result.ERROR if is_error else Result.UNSCHEDULABLE, text=outcome.message)

    def _note(self, queued: QueuedPodInfo, result: Result, *, node: str = "", text: str = "") -> None:
        line = DecisionLine(
            number=self.count,
            time=self._clock.now(),
            pod=queued.key,
            result=result,
            node=node,
            text=text,
            attempt=queued.attempts,
        )
        self.recent.append(line)
        self.count += 1

    def _summarize_second(self) -> SecondOfWork:
        now = int(self._clock.now())
        if not self.seconds or self.seconds[-1].second != now:
            self.seconds.append(SecondOfWork(now))
        return self.seconds[-1]


PAUSE_SECONDS: Final = 1.0
BUSY_SHARE: Final = 20.0
"""A state is cached for this multiple of the time to read it: the page costs at most a twentieth of the loop."""
HELP_SECONDS: Final = 60.0
"""Seconds after which suggestions are recomputed."""

Ask = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Sends a question to a process with a copy of the cluster."""


class LiveCluster(PageSource):
    """The page source of a running scheduler, read-only. ``ask`` sends questions to another process.

    ``moment`` is a monotonic clock for cached states: the scheduler's clock may be a wall clock.
    """

    cpu_share = 1 / BUSY_SHARE

    def __init__(
        self,
        scheduler: Scheduler,
        observer: PageObserver,
        clock: Clock,
        title: str,
        ask: Ask,
        moment: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scheduler, self._observer, self._clock = scheduler, observer, clock
        self._title, self._ask, self._moment = title, ask, moment
        self._registered: tuple[object, dict[str, list[str]]] = (None, {})
        self._suggestions = SuggestionSearch(self._find_suggestions)
        self._searched_at = 0.0
        self._layout: NodeLayout | None = None
        self._state: PageState | None = None
        self._waiting: list[WaitingPodLine] = []
        self._fresh_until = 0.0
        self._version = 0
        self._last_versions: tuple[int, ...] = ()
        self._counts: deque[tuple[int, int]] = deque(maxlen=600)

    @property
    def version(self) -> int:
        """The version of the newest state that can be read.

        A client requests the state once per version. While the previous state is cached, the version must not grow:
        the client would get the old state, and miss the new one.
        """
        if self._state is not None and self._moment() < self._fresh_until:
            return self._state.version
        return self._newest()

    def _newest(self) -> int:
        queue = self._scheduler.queue
        nodes = self._scheduler.cache.nodes
        versions = (nodes.position, nodes.nodes_version, len(queue), self._observer.count, self._suggestions.version)
        if versions != self._last_versions:
            self._last_versions = versions
            self._version += 1
        return self._version

    @property
    def _profiles(self) -> list[Profile]:
        return [runner.profile for runner in self._scheduler.runners.values()]  # others after a change of configuration

    def about(self) -> About:
        """Describe the source."""
        weights = {profile.name: dict(profile.weights) for profile in self._profiles}
        start = self._clock.now()
        return About(
            kind="live", title=self._title, runs=[self._title], clock_start=time.time() - start, weights=weights
        )

    def layout(self, run: int) -> NodeLayout:
        """Return the nodes. Recomputed only after a node has changed."""
        nodes = self._scheduler.cache.nodes
        if self._layout is None or self._layout.version != nodes.nodes_version:
            self._layout = compute_layout([info.node for info in nodes], nodes.nodes_version)
        return self._layout

    def state(self, run: int, at: float) -> PageState:
        """Return the current state, or the cached one."""
        now = self._moment()
        if self._state is None or (now >= self._fresh_until and self._state.version != self._newest()):
            self._state = self._read()
            self._fresh_until = now + max(PAUSE_SECONDS, BUSY_SHARE * (self._moment() - now))
            if now - self._searched_at > HELP_SECONDS:
                self._searched_at = now
                self._suggestions.forget()
            self._suggestions.search_groups(self._state.groups)
        return self._state

    def _read(self) -> PageState:
        queue, nodes = self._scheduler.queue, self._scheduler.cache.nodes
        lines = self._waiting = [*map(self._line, queue), *self._foreign_lines()]
        sizes = queue.sizes()
        self._counts.append((int(self._clock.now()), len(lines)))
        load = compute_load(nodes)
        if self._registered[0] is not self._scheduler.runners:
            self._registered = self._scheduler.runners, list_events(self._profiles)
        return page_state(
            lines,
            self._suggestions.found,
            version=self._newest(),
            layout=nodes.nodes_version,
            time=self._clock.now(),
            load=load,
            placed=sum(load.pods),
            bound=self._observer.bound_count,
            queues={name: count for name, count in sizes._asdict().items() if count},
            events=self._registered[1],
            members=self._members(lines),
        )

    def _line(self, info: QueuedPodInfo) -> WaitingPodLine:
        pod, failure = info.pod, self._observer.failures.find(info.uid)
        is_gated = info.is_gated
        return WaitingPodLine(
            place=self._scheduler.queue.where(pod) or "in-flight",
            since=self._pending_since(pod, info.initial_attempt_timestamp or info.timestamp),
            attempts=info.attempts,
            reasons=() if failure is None or is_gated else failure.reasons,
            plugins=(info.gating_plugin,) if is_gated else tuple(sorted(info.rejectors)),
            message="" if failure is None else failure.message,
            **pod_fields(pod),
        )

    def _foreign_lines(self) -> Iterator[WaitingPodLine]:
        """List the pending pods of other schedulers: a misspelled schedulerName would otherwise hide a pod."""
        runners = self._scheduler.runners
        for pod in self._scheduler.objects[Pod].list():
            if not pod.node_name and pod.scheduler_name not in runners and not pod.is_finished:
                yield foreign_line(pod, self._pending_since(pod, self._clock.now()))

    def _pending_since(self, pod: Pod, fallback: float) -> float:
        """Return the creation of a pod on the scheduler's clock: the pod may be older than this process."""
        try:
            created = parse_time(pod.metadata.creation_timestamp or "")
        except ValueError:
            return fallback
        return min(fallback, self._clock.now() - (time.time() - created))

    def _members(self, lines: Sequence[WaitingPodLine]) -> Mapping[str, int]:
        if not any(line.group for line in lines):
            return {}
        on_nodes = (pod for pod in self._scheduler.objects[Pod].list() if pod.node_name)
        return Counter(group for pod in on_nodes if (group := pod.group_key))

    def waiting(self, run: int, at: float) -> Sequence[WaitingPodLine]:
        """List the pending pods of the last state."""
        self.state(run, at)
        return self._waiting

    def placed(self, run: int, at: float) -> Sequence[Pod]:
        """List the pods on nodes."""
        return [pod for pod in self._scheduler.objects[Pod].list() if pod.node_name and not pod.is_finished]

    def helps(self, run: int, at: float) -> Mapping[str, Suggestion]:
        """Return the computed suggestions by group."""
        return self._suggestions.found

    def decisions(self, run: int, at: float, since: int) -> Sequence[DecisionLine]:
        """List the recorded attempts from a number on."""
        return [line for line in self._observer.recent if line.number >= since]

    def attempts(self, run: int, at: float, pod: str) -> Sequence[DecisionLine]:
        """List the recorded attempts of a pod."""
        return self._observer.attempts(pod)

    def lines(self, run: int, at: float) -> TimeLines:
        """Return the last minutes, second by second."""
        now = int(self._clock.now())
        start = now - MAX_STEPS + 1
        work = {second.second: second for second in self._observer.seconds}
        seconds = [work.get(second) or SecondOfWork(second) for second in range(start, now + 1)]
        pending_lines, counts = [], dict(self._counts)
        first_counted = min(counts, default=now)
        last_count = 0
        for second in range(start, now + 1):
            if second < first_counted:  # not counted then: the pods that are still pending
                last_count = sum(1 for line in self._waiting if line.since <= second + 1)
            last_count = counts.get(second, last_count)
            pending_lines.append(last_count)
        return TimeLines(
            start=float(start),
            step=1.0,
            placed=[second.placed for second in seconds],
            failed=[second.failed for second in seconds],
            waiting=pending_lines,
            latency=[round(second.latency / max(1, second.placed), 6) for second in seconds],
        )

    def answer_now(self, question: str, arguments: Mapping[str, Any]) -> Any | None:
        """Return the pods on a node from the cache, or ``None`` for other questions."""
        if question != "node" or arguments.get("deep") != "no":
            return None
        # A late import: the module loads the explain package.
        from moorage.insight.page.question_handlers import node_facts

        name = str(arguments.get("node", ""))
        info = self._scheduler.cache.node(name)
        if info is None:
            node_names = self._scheduler.cache.nodes.names
            raise InputError(f"Node {name}", "node not found", hint=did_you_mean(name, node_names))
        return node_facts(info)

    async def ask(self, question: str, arguments: Mapping[str, Any], run: int, at: float) -> Any:
        """Send a question to the process with a copy of the cluster."""
        return await self._ask(question, arguments)

    async def _find_suggestions(self, pods: Sequence[str]) -> Mapping[str, Sequence[str]]:
        suggestions: Mapping[str, Sequence[str]] = await self._ask("helps", {"pods": list(pods)})
        return suggestions

    async def start(self) -> None:
        """Do nothing: the scheduler reads the cluster."""

    async def stop(self) -> None:
        """Cancel the search for suggestions."""
        await self._suggestions.stop()
