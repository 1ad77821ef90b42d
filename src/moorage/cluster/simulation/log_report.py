"""The attempts of one pod in a decision log, for people."""

from collections.abc import Iterator, Sequence
from typing import Final

from moorage.cluster.simulation.report import explanation
from moorage.scheduler.decisions.decision import NodeEntry, Result
from moorage.scheduler.decisions.decision_log import LoggedDecision

MAX_LINES: Final = 40
"""So many attempts are printed in full, the last ones."""


def history_lines(pod: str, attempts: Sequence[LoggedDecision]) -> Iterator[str]:
    """Tell the attempts of a pod, each with its near misses."""
    yield f"{pod}: {len(attempts)} {'decision' if len(attempts) == 1 else 'decisions'} in the log"
    if len(attempts) > MAX_LINES:
        yield f"  … {len(attempts) - MAX_LINES} earlier ones; -o json has all"
    for line in attempts[-MAX_LINES:]:
        yield f"{line.time}  attempt {line.attempts}, {line.took * 1000:.1f} ms: {_ending(line)}"
        yield from (f"    {text}" for text in _details(line))


def _ending(line: LoggedDecision) -> str:
    if line.result is Result.SCHEDULED:
        looked = f", {line.feasible} of {line.node_count} nodes would do" if line.node_count else ""
        return f"scheduled on {line.node}{looked}"
    after = f" after {line.failed_on} was chosen" if line.failed_on else ""
    return f"{line.result}{after}"


def _details(line: LoggedDecision) -> Iterator[str]:
    if line.result is Result.SCHEDULED:
        yield from _near_misses(line)
        return
    if line.pre_filter is not None:
        yield f"{line.pre_filter.plugin} rejected the pod: {'; '.join(line.pre_filter.reasons)}"
    elif not line.rejected:
        yield line.message
    for group in line.rejected:
        nodes = ", ".join(group.nodes) + (", …" if group.count > len(group.nodes) else "")
        who = f"{group.plugin}: " if group.plugin else ""
        yield f"{group.count} × {who}{'; '.join(group.reasons)}{f' ({nodes})' if group.nodes else ''}"
    if line.post_filter is not None:
        yield explanation(line).split("\n")[-1]


def _near_misses(line: LoggedDecision) -> Iterator[str]:
    chosen = line.nodes.get(line.node)
    if chosen is None or chosen.total is None:
        if chosen is not None:
            yield "the only node that would do, so nothing was scored"
        return
    yield f"{line.node}  {chosen.total}  {_scores(chosen)}"
    for name, entry in line.nodes.items():
        if name != line.node and entry.total is not None:
            behind = chosen.total - entry.total
            yield f"{name}  {entry.total}  {_compared(chosen, entry) if behind else 'equal'}"


def _scores(entry: NodeEntry) -> str:
    return ", ".join(f"{plugin} {score.weighted}" for plugin, score in (entry.scores or {}).items())


def _compared(chosen: NodeEntry, other: NodeEntry) -> str:
    """Name the plugins that made the difference, the largest first."""
    ours, theirs = chosen.scores or {}, other.scores or {}
    gaps = {name: theirs[name].weighted - ours[name].weighted for name in ours if name in theirs}
    named = sorted((name for name in gaps if gaps[name]), key=lambda name: -abs(gaps[name]))
    return ", ".join(f"{name} {gaps[name]:+d}" for name in named)
