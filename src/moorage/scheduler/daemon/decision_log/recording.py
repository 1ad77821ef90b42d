"""Observes attempts and turns each decision into a line, with the best nodes that were not chosen."""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np

from moorage.common.caches import LRU
from moorage.common.clock import Clock
from moorage.kube.api.meta import format_micro_time
from moorage.kube.api.requests import CPU
from moorage.scheduler.daemon.decision_log.writing import BUFFER, DISK, LineWriter, LogLimits, RotatedFile
from moorage.scheduler.decisions.attempts import refused
from moorage.scheduler.decisions.decision import NodeEntry, Nomination, PluginScore, Result
from moorage.scheduler.decisions.decision_log import LoggedDecision, RejectedNodes
from moorage.scheduler.engine.cached_results.combined_result import INFEASIBLE_TOTAL
from moorage.scheduler.engine.cycle.profile_runner import PostFiltered, ProfileRunner
from moorage.scheduler.engine.cycle.score import ScoreNotes
from moorage.scheduler.engine.cycle.search_result import (
    ExtendedNodes,
    NoNode,
    OneNode,
    SearchResult,
    SeveralNodes,
    Totals,
)
from moorage.scheduler.engine.observing import AttemptObserver, TotalsObserver
from moorage.scheduler.engine.outcomes import Diagnosis, Dropped, Failed, Outcome, Placed, Tried, Unschedulable
from moorage.scheduler.framework.metering import NumberCell
from moorage.scheduler.queue.entities import QueuedPodInfo

RUNNERS_UP: Final = 3
MAX_GROUPS: Final = 8
EXAMPLES: Final = 3
MAX_BINDINGS: Final = 1024
"""More than the number of concurrent bindings."""


class BestRows:
    """The rows with the highest totals of the last choice of a profile, and the parts of their totals."""

    def __init__(self) -> None:
        self._notes = ScoreNotes()
        self._uid = ""
        self._best: dict[int, int] = {}

    def update(self, result: SeveralNodes, totals: Totals, notes: ScoreNotes) -> None:
        """Remember the best rows, before tie-breaking."""
        self._notes = notes
        # Finding the maximum a few times is ten times faster than a partial sort.
        remaining, rows_of = totals.column.copy(), totals.rows
        self._uid, self._best = result.pod.metadata.uid, {}
        for _ in range(min(RUNNERS_UP + 1, len(remaining))):
            position = int(remaining.argmax())
            total = int(remaining[position])
            if total < 0:
                break
            self._best[position if rows_of is None else int(rows_of[position])] = total
            remaining[position] = INFEASIBLE_TOTAL

    def entries(self, runner: ProfileRunner, uid: str, chosen: str) -> dict[str, NodeEntry]:
        """Describe the chosen node and its runners-up, if the last choice was this pod's."""
        info = runner.cache.node(chosen)
        if self._uid != uid or info is None or not self._best:
            return {}
        best = self._best
        if info.row not in best:
            # It is one of many equals, or extenders changed the scores.
            scores = self._scores(info.row)
            total = sum(score.weighted for score in scores.values()) if scores else max(best.values())
            best = {info.row: total, **dict(list(best.items())[:RUNNERS_UP])}
        entries = {}
        for row in sorted(best, key=lambda row: (row != info.row, -best[row])):
            scores = self._scores(row)
            is_whole = sum(score.weighted for score in scores.values()) == best[row]
            entries[runner.cache.nodes[row].name] = NodeEntry(total=best[row], scores=scores if is_whole else None)
        return entries

    def _scores(self, row: int) -> dict[str, PluginScore]:
        notes, scores = self._notes, {}
        for share in notes.shares:
            normalized = share.column if isinstance(share.column, int) else int(share.column[row])
            scores[share.plugin.name] = PluginScore(int(share.part.raw[row]), normalized, share.weight * normalized)
        if notes.uncached:
            position = row if notes.rows is None else int(np.flatnonzero(notes.rows == row)[0])
            for item in notes.uncached:
                normalized = int(item.normalized[position])
                scores[item.plugin] = PluginScore(int(item.raw[position]), normalized, item.weight * normalized)
        return scores


class DecisionLog(AttemptObserver, TotalsObserver):
    """Turns attempts into lines; ``put`` takes them and does not block."""

    def __init__(self, put: Callable[[LoggedDecision], None], clock: Clock) -> None:
        self._put, self._clock = put, clock
        self._began = 0.0
        self._found: tuple[str, ProfileRunner, SearchResult] | None = None
        self._nomination: Nomination | None = None
        self._best = BestRows()
        self._placed: LRU[str, LoggedDecision] = LRU("decision log bindings", MAX_BINDINGS)

    def totalled(self, result: SeveralNodes, totals: Totals, notes: ScoreNotes) -> None:
        """Remember the best rows."""
        self._best.update(result, totals, notes)

    def trying(self, queued: QueuedPodInfo) -> None:
        """Note when an attempt begins."""
        self._began = perf_counter()
        self._found = self._nomination = None

    def found(self, queued: QueuedPodInfo, runner: ProfileRunner, result: SearchResult | ExtendedNodes) -> None:
        """Remember the result of the search."""
        self._found = queued.uid, runner, result.result if isinstance(result, ExtendedNodes) else result

    def settled(self, queued: QueuedPodInfo, result: SearchResult | ExtendedNodes | None) -> None:
        """Remember the search of a group's member that counts; its duration is unknown."""
        search = result.result if isinstance(result, ExtendedNodes) else result
        cycle = None if self._found is None else self._found[1]
        self._found = None if search is None or cycle is None else (queued.uid, cycle, search)
        self._began = 0.0

    def post_filtered(self, queued: QueuedPodInfo, result: PostFiltered) -> None:
        """Remember the victims that preemption would evict."""
        if result.nominated_node:
            victims = tuple(sorted(victim.key for victim in result.victims))
            self._nomination = Nomination(result.nominated_node, victims)

    def ended(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        """Write the decision."""
        if isinstance(outcome, Dropped | Tried):
            return
        took = perf_counter() - self._began if self._began else 0.0
        search, nomination = self._found, self._nomination
        self._found = self._nomination = None
        fields: dict[str, Any] = {"took": round(took, 6)}
        if search is not None and search[0] == queued.uid:
            fields |= self._searched(queued.uid, search[1], search[2], outcome)
        if isinstance(outcome, Placed):
            fields |= {"result": Result.SCHEDULED, "node": outcome.node_name, "tied": outcome.tied}
        else:
            fields |= {**refused(outcome), "post_filter": nomination}
        line = self._line(queued, fields)
        if isinstance(outcome, Placed):
            self._placed.put(queued.uid, line)
        self._put(line)

    def _searched(self, uid: str, runner: ProfileRunner, result: SearchResult, outcome: Outcome) -> dict[str, Any]:
        diagnosis = result.diagnosis
        feasible = 0 if isinstance(result, NoNode) else 1 if isinstance(result, OneNode) else result.count
        fields: dict[str, Any] = {"node_count": diagnosis.node_count, "feasible": feasible}
        if isinstance(result, NoNode):
            fields["rejected"] = rejected_nodes(diagnosis)
        elif isinstance(outcome, Placed):
            is_only = isinstance(result, OneNode)
            node_name = outcome.node_name
            fields["nodes"] = {node_name: NodeEntry()} if is_only else self._best.entries(runner, uid, node_name)
        return fields

    def binding_failed(self, queued: QueuedPodInfo, outcome: Unschedulable | Failed) -> None:
        """Write the failure of a binding cycle."""
        placed = self._placed.find(queued.uid)
        node = "" if placed is None else placed.node
        self._placed.discard(queued.uid)
        self._put(self._line(queued, {**refused(outcome), "failed_on": node}))

    def bound(self, queued: QueuedPodInfo, node_name: str) -> None:
        """Forget a pod that has its node."""
        self._placed.discard(queued.uid)

    def _line(self, queued: QueuedPodInfo, fields: dict[str, Any]) -> LoggedDecision:
        pod = queued.pod
        return LoggedDecision(
            time=format_micro_time(self._clock.wall()),
            pod=queued.key,
            uid=pod.metadata.uid,
            profile=pod.scheduler_name,
            attempts=queued.attempts,
            priority=pod.priority,
            created=pod.metadata.creation_timestamp or "",
            requests={
                name: f"{amount}m" if name == CPU else str(amount) for name, amount in pod.requests_on_node.items()
            },
            **fields,
        )


def rejected_nodes(diagnosis: Diagnosis) -> tuple[RejectedNodes, ...]:
    """Put the rejected nodes into groups, the largest first; the record has pre-filter results elsewhere."""
    if diagnosis.pre_filter is not None:
        return ()
    groups = diagnosis.statuses.grouped(diagnosis.node_count, EXAMPLES)
    return tuple(
        RejectedNodes(group.count, group.status.plugin, group.status.code.label, group.status.reasons, group.examples)
        for group in groups[:MAX_GROUPS]
    )


DROPPED: Final = "moorage_decision_log_dropped_total"


class OpenDecisionLog:
    """The observer that makes lines, and the file that they go to."""

    def __init__(self, path: str, limits: LogLimits, clock: Clock, counters: Callable[..., NumberCell]) -> None:
        # Different threads count the two reasons, so each has its own cell.
        dropped = {reason: counters(DROPPED, reason) for reason in (BUFFER, DISK)}
        self._file = LineWriter(RotatedFile(Path(path), limits), lambda reason, count: dropped[reason].inc(count))
        self.observer = DecisionLog(self._file.put, clock)

    def start(self) -> None:
        """Open the file; raise InputError if it cannot be opened."""
        self._file.start()

    def close(self) -> None:
        """Write the last lines."""
        self._file.close()
