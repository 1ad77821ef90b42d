"""A cluster at one time, from a snapshot or from files. Each pending pod is tried once, as the next pod."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from moorage.cluster import why_not
from moorage.common.background import start_task
from moorage.common.errors import MoorageError
from moorage.insight.explain.groups import list_active_pods
from moorage.insight.page.api_types import About, NodeLayout, NodeLoad, PageState, WaitingPodLine
from moorage.insight.page.node_columns import compute_layout, compute_load
from moorage.insight.page.page_source import PageSource, page_state
from moorage.insight.page.pending_groups import Suggestion, foreign_line, list_events, pod_fields
from moorage.insight.page.session_thread import SessionThread
from moorage.insight.page.suggestions import SuggestionSearch
from moorage.insight.whatif.session import Session
from moorage.insight.whatif.sources import LoadedCluster
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.cycle.search_result import ExtendedNodes, NoNode
from moorage.scheduler.engine.outcomes import Unschedulable
from moorage.scheduler.queue.observer import ACTIVE, GATED, UNSCHEDULABLE
from moorage.scheduler.wiring.policy import Policy

BATCH_SECONDS: Final = 0.2
"""Duration in seconds of a batch of attempts. Questions are evaluated between batches."""
FIRST_BATCH: Final = 20
MAX_BATCH: Final = 500


class StaticCluster(PageSource):
    """A cluster at one time, with the result of an attempt for each pending pod."""

    def __init__(self, cluster: LoadedCluster, policy: Policy, title: str) -> None:
        self._title, self._note = title, cluster.note
        self.thread = SessionThread(lambda _key: cluster.session(policy))
        self.suggestions = SuggestionSearch(self._find_suggestions)
        self._version = 1
        self._waiting: list[Pod] = []
        self._lines: dict[str, WaitingPodLine] = {}
        self._tried_count = 0
        self._placed: list[Pod] = []
        self._members: dict[str, int] = {}
        self._layout: NodeLayout
        self._load: NodeLoad
        self._events: dict[str, list[str]] = {}
        self._weights: dict[str, dict[str, int]] = {}
        self._trying: asyncio.Task[None] | None = None

    @property
    def version(self) -> int:
        """A number that grows when there is new data."""
        return self._version + self.suggestions.version

    async def start(self) -> None:
        """Read the cluster and start to try pending pods. Raise InputError if it cannot be read."""
        await self.thread.run(self._read)
        self._trying = start_task(self._try_all(), "trying pending pods")

    async def stop(self) -> None:
        """Release all resources."""
        if self._trying is not None:
            self._trying.cancel()
            with suppress(asyncio.CancelledError):
                await self._trying
        await self.suggestions.stop()
        await self.thread.close()

    def _read(self) -> None:
        session = self.thread.session(None)
        cache = session.scheduler.cache
        self._layout = compute_layout([info.node for info in cache.nodes], 1)
        self._load = compute_load(cache.nodes)
        profiles = [runner.profile for runner in session.scheduler.runners.values()]
        self._events = list_events(profiles)
        self._weights = {profile.name: dict(profile.weights) for profile in profiles}
        pods = list_active_pods(session)
        self._placed = [pod for pod in pods if pod.node_name]
        self._members = Counter(pod.group_key for pod in self._placed if pod.group_key)
        self._waiting = [pod for pod in pods if not pod.node_name]
        self._lines = {pod.key: WaitingPodLine(place=ACTIVE, since=0.0, **pod_fields(pod)) for pod in self._waiting}

    async def _try_all(self) -> None:
        loop, batch = asyncio.get_running_loop(), FIRST_BATCH
        while self._tried_count < len(self._waiting):
            began = loop.time()
            pods = self._waiting[self._tried_count : self._tried_count + batch]
            for line in await self.thread.run(partial(self._try_some, pods)):
                self._lines[line.pod] = line
            self._tried_count += len(pods)
            self._version += 1
            took = max(loop.time() - began, 0.001)
            batch = min(max(1, int(batch * BATCH_SECONDS / took)), MAX_BATCH)
        self.suggestions.search_groups(self.state(0, 0.0).groups)

    def _try_some(self, pods: Sequence[Pod]) -> list[WaitingPodLine]:
        session = self.thread.session(None)
        return [_try_pod(session, pod) for pod in pods]

    def about(self) -> About:
        """Describe the source."""
        return About(kind="still", title=self._title, runs=[self._title], note=self._note, weights=self._weights)

    def layout(self, run: int) -> NodeLayout:
        """Describe the nodes."""
        return self._layout

    def state(self, run: int, at: float) -> PageState:
        """Describe the cluster."""
        lines = self.waiting(run, at)
        untried = len(self._waiting) - self._tried_count
        return page_state(
            lines,
            self.suggestions.found,
            version=self.version,
            layout=1,
            time=0.0,
            load=self._load,
            placed=len(self._placed),
            bound=0,
            events=self._events,
            members=self._members,
            note=f"{untried} of {len(lines)} pending pods have not been tried yet" if untried else "",
        )

    def waiting(self, run: int, at: float) -> Sequence[WaitingPodLine]:
        """List the pending pods."""
        return list(self._lines.values())

    def placed(self, run: int, at: float) -> Sequence[Pod]:
        """List the pods on nodes."""
        return self._placed

    def helps(self, run: int, at: float) -> Mapping[str, Suggestion]:
        """Return the computed suggestions by group."""
        return self.suggestions.found

    async def ask(self, question: str, arguments: Mapping[str, Any], run: int, at: float) -> Any:
        """Return the result of a question on the cluster."""
        return await self.thread.ask(None, question, arguments)

    async def _find_suggestions(self, pods: Sequence[str]) -> Mapping[str, Sequence[str]]:
        suggestions: Mapping[str, Sequence[str]] = await self.thread.ask(None, "helps", {"pods": list(pods)})
        return suggestions


def _try_pod(session: Session, pod: Pod) -> WaitingPodLine:
    """Try one pod as the next pod."""
    if pod.scheduler_name not in session.scheduler.runners:
        return foreign_line(pod)
    common = {"since": 0.0, **pod_fields(pod)}
    try:
        attempt = session.try_pod(pod, preempts=False)
    except MoorageError as error:
        return WaitingPodLine(place=UNSCHEDULABLE, reasons=(str(error),), message=str(error), **common)
    if attempt.gates:
        plugins = tuple(sorted({status.plugin for status in attempt.gates}))
        message = "; ".join(status.message for status in attempt.gates)
        return WaitingPodLine(place=GATED, plugins=plugins, message=message, **common)
    if attempt.node:
        fits = ("fits now, if it were scheduled next",)
        return WaitingPodLine(place=ACTIVE, reasons=fits, would_go_to=attempt.node, **common)
    result = attempt.found.result if isinstance(attempt.found, ExtendedNodes) else attempt.found
    message = attempt.decision.message
    if not isinstance(result, NoNode):
        return WaitingPodLine(place=UNSCHEDULABLE, reasons=(message,), message=message, **common)
    reason = why_not(Unschedulable(result.diagnosis))
    return WaitingPodLine(
        place=UNSCHEDULABLE, attempts=1, reasons=reason.reasons, plugins=reason.plugins, message=message, **common
    )
