"""Replays of simulations, forwards and backwards: of one, or of two configurations side by side."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

import msgspec

from moorage.cluster import RecordedDecision, Replay, WaitingRecord
from moorage.insight.page.api_types import (
    About,
    DecisionLine,
    NodeLayout,
    NodeLoad,
    PageState,
    TimeLines,
    WaitingPodLine,
)
from moorage.insight.page.node_columns import compute_layout
from moorage.insight.page.page_source import MAX_STEPS, PageSource, page_state
from moorage.insight.page.pending_groups import Suggestion, foreign_line, list_events, pod_fields
from moorage.insight.page.session_thread import SessionThread
from moorage.insight.page.suggestions import SuggestionSearch
from moorage.insight.whatif.questions import OutcomeDifference
from moorage.insight.whatif.session import Session
from moorage.insight.whatif.sources import LoadedCluster
from moorage.kube.api.kinds import BY_TYPE
from moorage.kube.api.pod import Pod
from moorage.kube.manifests import Document, to_documents
from moorage.scheduler.queue.observer import GATED
from moorage.scheduler.wiring.policy import Policy

MAX_DECISIONS: Final = 200
"""Maximum number of attempts in one reply."""
WAITS: Final = "waits"


class ReplayedRun:
    """A recorded simulation and its policy."""

    def __init__(self, name: str, policy: Policy, replay: Replay) -> None:
        self.name, self.policy, self.replay = name, policy, replay
        # Sessions are opened on another thread, which must not move the position of this replay.
        self.for_sessions = replay.apart()
        self.layout = compute_layout(replay.nodes, 1)
        self.moments = [decision.moment for decision in replay.decisions]
        self.events: dict[str, list[str]] = {}
        self.weights: dict[str, dict[str, int]] = {}


class ReplayedCluster(PageSource):
    """Recorded simulations of a cluster. Questions apply to the cluster at a point in time."""

    def __init__(self, cluster: LoadedCluster, runs: Sequence[ReplayedRun], title: str) -> None:
        self._cluster, self._runs, self._title = cluster, runs, title
        self.thread = SessionThread(self._open)
        self._suggestions: dict[Hashable, SuggestionSearch] = {}
        self._lines: dict[int, TimeLines] = {}

    @property
    def version(self) -> int:
        """A number that grows when there is new data."""
        return 1 + sum(search.version for search in self._suggestions.values())

    async def start(self) -> None:
        """Read the registered events and weights of every policy."""
        await self.thread.run(self._read_profiles)

    def _read_profiles(self) -> None:
        for number, run in enumerate(self._runs):
            session = self.thread.session((number, 0.0))
            profiles = [runner.profile for runner in session.scheduler.runners.values()]
            run.events = list_events(profiles)
            run.weights = {profile.name: dict(profile.weights) for profile in profiles}

    async def stop(self) -> None:
        """Release all resources."""
        for search in self._suggestions.values():
            await search.stop()
        await self.thread.close()

    def _open(self, key: tuple[int, float]) -> Session:
        """Open a session on the cluster at a point in time. At 0 it is the original cluster."""
        number, at = key
        run = self._runs[number]
        if at <= 0.0:
            return self._cluster.session(run.policy)
        documents_without_pods = [document for document in self._cluster.documents if document.kind != "Pod"]
        pods = to_documents(map(_encode_pod, run.for_sessions.replay_pods(at)), source="the simulation")
        documents: list[Document] = [*documents_without_pods, *pods]
        return Session(documents, run.policy, honors_nominations=False)

    def about(self) -> About:
        """Describe the source."""
        return About(
            kind="played",
            title=self._title,
            runs=[run.name for run in self._runs],
            seconds=max(run.replay.seconds for run in self._runs),
            note=self._cluster.note,
            weights=self._runs[0].weights,
        )

    def layout(self, run: int) -> NodeLayout:
        """Describe the nodes."""
        return self._runs[run].layout

    def state(self, run: int, at: float) -> PageState:
        """Return the state at a point in time, and start the search for suggestions."""
        played = self._runs[run]
        at = min(at, played.replay.seconds)
        moment = played.replay.at(at)
        lines = self.waiting(run, at)
        search = self._find_suggestions(run, at)
        state = page_state(
            lines,
            search.found,
            version=self.version,
            layout=1,
            time=at,
            load=NodeLoad(
                requested={name: column.tolist() for name, column in moment.requested.items()},
                pods=moment.pods.tolist(),
            ),
            placed=len(moment.placed),
            bound=moment.bound,
            events=played.events,
            members=Counter(group for key in moment.placed if (group := played.replay.pods[key].group_key)),
        )
        if self._can_suggest(run, at):
            search.search_groups(state.groups)
        return state

    def waiting(self, run: int, at: float) -> Sequence[WaitingPodLine]:
        """List the pending pods."""
        replay = self._runs[run].replay
        profiles = self._runs[run].weights
        waiting = ((replay.pods[key], record) for key, record in replay.at(at).waiting.items())
        return [
            _line(pod, record) if pod.scheduler_name in profiles else foreign_line(pod, record.since)
            for pod, record in waiting
        ]

    def placed(self, run: int, at: float) -> Sequence[Pod]:
        """List the pods on nodes."""
        return [pod for pod in self._runs[run].replay.replay_pods(at) if pod.node_name]

    def helps(self, run: int, at: float) -> Mapping[str, Suggestion]:
        """Return the computed suggestions by group."""
        return self._find_suggestions(run, at).found

    def _can_suggest(self, run: int, at: float) -> bool:
        """Return whether to search for suggestions: at the end of a run, if the cluster is known."""
        return at >= self._runs[run].replay.seconds and bool(self._cluster.documents)

    def _find_suggestions(self, run: int, at: float) -> SuggestionSearch:
        """Return the search for suggestions at a time, or an empty one if suggestions are not computed there."""

        async def no_suggestions(_pods: Sequence[str]) -> Mapping[str, Sequence[str]]:
            return {}

        if not self._can_suggest(run, at):
            return SuggestionSearch(no_suggestions)
        end = self._runs[run].replay.seconds
        if run not in self._suggestions:

            async def ask(pods: Sequence[str]) -> Mapping[str, Sequence[str]]:
                answer: Mapping[str, Sequence[str]] = await self.thread.ask((run, end), "helps", {"pods": list(pods)})
                return answer

            self._suggestions[run] = SuggestionSearch(ask)
        return self._suggestions[run]

    def decisions(self, run: int, at: float, since: int) -> Sequence[DecisionLine]:
        """List the attempts up to a time."""
        played = self._runs[run]
        end = bisect_right(played.moments, at)
        first = max(since, end - MAX_DECISIONS)
        return [_decision(number, played.replay.decisions[number]) for number in range(first, end)]

    def attempts(self, run: int, at: float, pod: str) -> Sequence[DecisionLine]:
        """List the attempts of a pod up to a time; only the last ones if there are many."""
        attempts = [
            _decision(number, decision)
            for number, decision in enumerate(self._runs[run].replay.decisions)
            if decision.pod == pod and decision.moment <= at
        ]
        return attempts[-MAX_DECISIONS:]

    def lines(self, run: int, at: float) -> TimeLines:
        """Return the values of the charts over the entire run."""
        if run not in self._lines:
            self._lines[run] = _time_lines(self._runs[run].replay)
        return self._lines[run]

    def differences(self, at: float) -> Sequence[OutcomeDifference]:
        """List the pods with different results in the first two runs: a node, ``waits``, or an empty text if absent."""
        if len(self._runs) < 2:
            return ()
        moments = (run.replay.at(at) for run in self._runs[:2])
        before, after = ({**moment.placed, **dict.fromkeys(moment.waiting, WAITS)} for moment in moments)
        return [
            OutcomeDifference(pod, before.get(pod, ""), after.get(pod, ""))
            for pod in dict.fromkeys((*before, *after))
            if before.get(pod) != after.get(pod)
        ]

    async def ask(self, question: str, arguments: Mapping[str, Any], run: int, at: float) -> Any:
        """Return the result of a question on the cluster at a point in time."""
        return await self.thread.ask((run, min(at, self._runs[run].replay.seconds)), question, arguments)


def _encode_pod(pod: Pod) -> dict[str, Any]:
    kind = BY_TYPE[Pod]
    data = msgspec.json.decode(msgspec.json.encode(pod))
    data.pop("status", None)
    return {"apiVersion": kind.api_version, "kind": kind.name, **data}


def _line(pod: Pod, record: WaitingRecord) -> WaitingPodLine:
    failure = record.failure
    is_gated = bool(pod.spec.scheduling_gates)
    return WaitingPodLine(
        place=GATED if is_gated else record.place,
        since=record.since,
        attempts=record.attempts,
        reasons=() if failure is None or is_gated else failure.reasons,
        plugins=("SchedulingGates",) if is_gated else () if failure is None else failure.plugins,
        message="" if failure is None else failure.message,
        event=record.event,
        **pod_fields(pod),
    )


def _decision(number: int, decision: RecordedDecision) -> DecisionLine:
    return DecisionLine(
        number=number,
        time=decision.moment,
        pod=decision.pod,
        result=decision.result,
        node=decision.node,
        text=decision.message,
        attempt=decision.attempt,
    )


def _time_lines(replay: Replay) -> TimeLines:
    """Divide a run into equal steps, and count attempts and pending pods in each."""
    step = max(replay.seconds / MAX_STEPS, 0.001)
    count = max(1, min(MAX_STEPS, int(replay.seconds / step) + 1))
    placed, failure_counts, latency = [0] * count, [0] * count, [0.0] * count
    pending_since = {step_.pod: step_.moment for step_ in reversed(replay.steps) if step_.what.name == "WAITS"}
    for decision in replay.decisions:
        index = min(int(decision.moment / step), count - 1)
        if decision.node:
            placed[index] += 1
            latency[index] += decision.moment - pending_since.get(decision.pod, decision.moment)
        else:
            failure_counts[index] += 1
    pending_counts = [len(replay.at((index + 1) * step).waiting) for index in range(count)]
    means = [round(total / max(1, number), 6) for total, number in zip(latency, placed, strict=True)]
    return TimeLines(start=0.0, step=step, placed=placed, failed=failure_counts, waiting=pending_counts, latency=means)
