"""Observes attempts and turns each decision into a line, with the best nodes that were not chosen."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter
from typing import Any, Final

import msgspec
import numpy as np
import structlog

from moorage.common.caches import LRU
from moorage.common.clock import Clock
from moorage.common.errors import InputError
from moorage.common.user_files import not_writable
from moorage.kube.api.meta import format_micro_time
from moorage.kube.api.requests import CPU
from moorage.scheduler.decisions.attempts import encode_refusal
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

MIN_SIZE: Final = 64 << 10
MAX_FILES: Final = 1000
MAX_WAITING: Final = 4096
BATCH: Final = 256
BUFFER: Final = "buffer"
DISK: Final = "disk"
CLOSE_SECONDS: Final = 2.0
"""Time limit for the last lines at shutdown."""
_TAIL: Final = 1 << 20

log = structlog.get_logger(__name__)


class LogLimits(msgspec.Struct, frozen=True):
    """The size at which a file is rotated, and the number of rotated files to keep."""

    size: int = 100 << 20
    files: int = 5


class RotatedFile:
    """A file to which entire lines are added. At its limit it becomes FILE.1, and the oldest one is removed."""

    def __init__(self, path: Path, limits: LogLimits) -> None:
        self.path, self._limits = path, limits
        self._descriptor = -1
        self._size = 0

    def open(self) -> None:
        """Open the file, and cut off half a line that a kill left at its end; OSError if that cannot be done."""
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        size = os.fstat(self._descriptor).st_size
        tail = os.pread(self._descriptor, _TAIL, max(0, size - _TAIL))
        partial_bytes = len(tail) - (tail.rfind(b"\n") + 1)
        self._size = size - partial_bytes
        if partial_bytes:
            os.ftruncate(self._descriptor, self._size)

    def write(self, lines: bytes) -> None:
        """Add lines, all or none; OSError if the disk does not take them."""
        if self._descriptor < 0:
            self.open()
        if self._size and self._size + len(lines) > self._limits.size:
            self.close()
            for number in range(self._limits.files, 0, -1):
                older = self._find_numbered(number - 1) if number > 1 else self.path
                if older.exists():
                    older.replace(self._find_numbered(number))
            if not self._limits.files:
                self.path.unlink(missing_ok=True)
            self.open()
        offset = 0
        try:
            while offset < len(lines):
                offset += os.pwrite(self._descriptor, lines[offset:], self._size + offset)
        except OSError:
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(lines)

    def _find_numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class LineWriter:
    """Encodes and writes lines in a thread. ``count_dropped`` is called with the cause of a lost line."""

    def __init__(
        self, file: RotatedFile, count_dropped: Callable[[str, int], None], flag: str = "--decision-log"
    ) -> None:
        self._file, self._count_dropped, self._flag = file, count_dropped, flag
        self._waiting: SimpleQueue[Any] = SimpleQueue()
        self._is_failing = False
        self._thread = threading.Thread(target=self._run, name=flag.removeprefix("--"), daemon=True)

    def start(self) -> None:
        """Open the file and start. Raise InputError if the file is not writable."""
        try:
            self._file.open()
        except OSError as error:
            raise not_writable(self._file.path, error, where=self._flag) from error
        self._thread.start()

    def put(self, line: msgspec.Struct) -> None:
        """Queue a line, or drop it if the queue is full."""
        if self._waiting.qsize() >= MAX_WAITING:
            self._count_dropped(BUFFER, 1)
        else:
            self._waiting.put(line)

    def close(self) -> None:
        """Write the queued lines, with a timeout."""
        if self._thread.ident is not None:
            self._waiting.put(None)
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        encode = msgspec.json.Encoder().encode
        is_open = True
        while is_open:
            batch = [self._waiting.get()]
            while len(batch) < BATCH and not self._waiting.empty():
                batch.append(self._waiting.get())
            if None in batch:
                is_open = False
                batch = [line for line in batch if line is not None]
            lines = b"".join(encode(line) + b"\n" for line in batch)
            if lines:
                self._write(lines, len(batch))
        self._file.close()

    def _write(self, lines: bytes, count: int) -> None:
        try:
            self._file.write(lines)
        except OSError as error:
            self._count_dropped(DISK, count)
            if not self._is_failing:
                log.warning(
                    "lines of the decision log are dropped",
                    file=str(self._file.path),
                    error=error.strerror or str(error),
                )
            self._is_failing = True
        else:
            self._is_failing = False


def check_limits(size: int, files: int) -> LogLimits:
    """Check the limits from flags. Raise InputError that names the limit out of bounds."""
    if size < MIN_SIZE:
        hint = "write a size such as 100Mi"
        raise InputError("--decision-log-max-size", f"{size} bytes is too small", hint=hint)
    if not 0 <= files <= MAX_FILES:
        raise InputError("--decision-log-max-files", f"{files} must be between 0 and {MAX_FILES}")
    return LogLimits(size, files)


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
        column, rows_of = totals.column.copy(), totals.rows
        self._uid, self._best = result.pod.metadata.uid, {}
        for _ in range(min(RUNNERS_UP + 1, len(column))):
            position = int(column.argmax())
            total = int(column[position])
            if total < 0:
                break
            self._best[position if rows_of is None else int(rows_of[position])] = total
            column[position] = INFEASIBLE_TOTAL

    def entries(self, runner: ProfileRunner, uid: str, node: str) -> dict[str, NodeEntry]:
        """Describe the chosen node and its runners-up, if the last choice was this pod's."""
        info = runner.cache.node(node)
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
    """Turns attempts into lines. ``put`` takes them and does not block."""

    def __init__(self, put: Callable[[LoggedDecision], None], clock: Clock) -> None:
        self._write_line, self._clock = put, clock
        self._began = 0.0
        self._search: tuple[str, ProfileRunner, SearchResult] | None = None
        self._nomination: Nomination | None = None
        self._best = BestRows()
        self._placed: LRU[str, LoggedDecision] = LRU("decision log bindings", MAX_BINDINGS)

    def on_totals(self, result: SeveralNodes, totals: Totals, notes: ScoreNotes) -> None:
        """Remember the best rows."""
        self._best.update(result, totals, notes)

    def on_attempt(self, queued: QueuedPodInfo) -> None:
        """Note when an attempt begins."""
        self._began = perf_counter()
        self._search = self._nomination = None

    def on_search(self, queued: QueuedPodInfo, runner: ProfileRunner, result: SearchResult | ExtendedNodes) -> None:
        """Remember the result of the search."""
        self._search = queued.uid, runner, result.result if isinstance(result, ExtendedNodes) else result

    def on_final_search(self, queued: QueuedPodInfo, result: SearchResult | ExtendedNodes | None) -> None:
        """Remember the search of a group's member that counts. Its duration is unknown."""
        search = result.result if isinstance(result, ExtendedNodes) else result
        cycle = None if self._search is None else self._search[1]
        self._search = None if search is None or cycle is None else (queued.uid, cycle, search)
        self._began = 0.0

    def on_post_filter(self, queued: QueuedPodInfo, result: PostFiltered) -> None:
        """Remember the victims that preemption would evict."""
        if result.nominated_node:
            victims = tuple(sorted(victim.key for victim in result.victims))
            self._nomination = Nomination(result.nominated_node, victims)

    def on_attempt_end(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        """Write the decision."""
        if isinstance(outcome, Dropped | Tried):
            return
        took = perf_counter() - self._began if self._began else 0.0
        search, nomination = self._search, self._nomination
        self._search = self._nomination = None
        fields: dict[str, Any] = {"took": round(took, 6)}
        if search is not None and search[0] == queued.uid:
            fields |= self._describe_search(queued.uid, search[1], search[2], outcome)
        if isinstance(outcome, Placed):
            fields |= {"result": Result.SCHEDULED, "node": outcome.node_name, "tied": outcome.tied}
        else:
            fields |= {**encode_refusal(outcome), "post_filter": nomination}
        line = self._line(queued, fields)
        if isinstance(outcome, Placed):
            self._placed.put(queued.uid, line)
        self._write_line(line)

    def _describe_search(
        self, uid: str, runner: ProfileRunner, result: SearchResult, outcome: Outcome
    ) -> dict[str, Any]:
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

    def on_binding_failure(self, queued: QueuedPodInfo, outcome: Unschedulable | Failed) -> None:
        """Write the failure of a binding cycle."""
        placed = self._placed.find(queued.uid)
        node = "" if placed is None else placed.node
        self._placed.discard(queued.uid)
        self._write_line(self._line(queued, {**encode_refusal(outcome), "failed_on": node}))

    def on_bound(self, queued: QueuedPodInfo, node_name: str) -> None:
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
    """Put the rejected nodes into groups, the largest first. The record has pre-filter results elsewhere."""
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
        """Open the file. Raise InputError if it cannot be opened."""
        self._file.start()

    def close(self) -> None:
        """Write the last lines."""
        self._file.close()
