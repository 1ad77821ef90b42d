"""Decisions as text: a table of pods and nodes, a one-line summary, and the logged attempts of a pod."""

from collections import Counter
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from moorage.scheduler.decisions.decision import Decision, NodeEntry, Result
from moorage.scheduler.decisions.decision_log import LoggedDecision

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

EVICTED: Final = "evicted"
GAP: Final = 2
MIN_REASON_WIDTH: Final = 30
"""Minimum width of the reasons, however narrow the terminal is."""
MAX_LOGGED: Final = 40
"""Number of logged attempts that are printed: the last ones."""
STYLES: Final[dict[str, str]] = {
    Result.SCHEDULED: "green",
    Result.UNSCHEDULABLE: "yellow",
    Result.ERROR: "red",
    Result.GATED: "dim",
    Result.INCOMPLETE: "dim",
    EVICTED: "magenta",
}


def print_decisions(decisions: Sequence[Decision], console: "Console") -> None:
    """Print the table, unless there are no decisions."""
    if decisions:
        console.print(decision_table(decisions, console.width), soft_wrap=True)


def decision_table(decisions: Sequence[Decision], width: int) -> "Text":
    """Format decisions as a table in the order of the attempts.

    Not a rich Table: for ten thousand pods it takes longer than scheduling them.
    """
    from rich.text import Text

    cells = ((each.pod, _result(each), each.node or "-", str(each.attempts)) for each in decisions)
    rows = [("Pod", "Result", "Node", "Attempts"), *cells]
    columns = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if not any(decision.attempts for decision in decisions):
        columns[3] = 0
    start = sum(length + GAP for length in columns if length)
    reason_width = max(width - start, MIN_REASON_WIDTH)
    table = Text(f"{_line(rows[0], columns)}Why\n{'─' * max(width, start + 3)}\n", style="bold")
    for decision, row in zip(decisions, rows[1:], strict=True):
        reasons = [part for line in explanation(decision).split("\n") for part in wrap(line, reason_width) or [""]]
        begin = len(table) + columns[0] + GAP
        text = _line(row, columns) + f"\n{' ' * start}".join(reasons)
        table.append(f"{text.rstrip()}\n", style="not bold")
        table.stylize(STYLES[row[1]], begin, begin + len(row[1]))
    return table


def _line(cells: Sequence[str], columns: Sequence[int]) -> str:
    return "".join(cell.ljust(length + GAP) for cell, length in zip(cells, columns, strict=True) if length)


def explanation(decision: Decision) -> str:
    """Explain in words why the pod got its node, or why it got none."""
    match decision.result:
        case Result.SCHEDULED:
            feasible = [entry for entry in decision.nodes.values() if not entry.is_rejected]
            node = decision.nodes.get(decision.node)
            if node is None:
                text = ""
            elif node.total is None:
                text = (
                    f"the only feasible node of {len(decision.nodes)}"
                    if len(decision.nodes) > 1
                    else "the only candidate, such as a node nominated by preemption"
                )
            else:
                ties = sum(entry.total == node.total for entry in feasible) - 1
                tie = f", tied with {ties} {_plural('other', ties)}" if ties else ""
                text = f"score {node.total}, best of {len(feasible)} feasible nodes{tie}"
        case Result.GATED:
            text = f"gated by {', '.join(decision.unschedulable_plugins)}" if decision.unschedulable_plugins else ""
        case Result.INCOMPLETE:
            text = "its pod group, or a parent of that group, does not exist (or groups contain each other)"
        case _:
            text = decision.message
    parts = [text]
    if (nomination := decision.post_filter) is not None:
        evicting = f"could run on {nomination.nominated_node} after evicting {', '.join(nomination.victims)}"
        waiting_text = f"waits for the victims on {nomination.nominated_node} to terminate"
        parts.append(evicting if nomination.victims else waiting_text)
    elif decision.nominated_node and decision.nominated_node != decision.node:
        parts.append(f"nominated to {decision.nominated_node}")
    if decision.evicted:
        parts.append("evicted by preemption")
    return "\n".join(part for part in parts if part)


def summary(decisions: Sequence[Decision]) -> str:
    """Count the results in one line."""
    if not decisions:
        return "no pending pods"
    counts = Counter(_result(decision) for decision in decisions)
    names = {result: _plural(result, counts[result]) if result == Result.ERROR else result for result in STYLES}
    count_texts = ", ".join(f"{counts[result]} {name}" for result, name in names.items() if counts[result])
    return f"{len(decisions)} {_plural('pod', len(decisions))}: {count_texts}"


def _result(decision: Decision) -> str:
    return EVICTED if decision.evicted else decision.result


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"


def history_lines(pod: str, attempts: Sequence[LoggedDecision]) -> Iterator[str]:
    """Yield the lines of a report on the logged attempts of a pod, each with its runners-up."""
    yield f"{pod}: {len(attempts)} {'decision' if len(attempts) == 1 else 'decisions'} in the log"
    if len(attempts) > MAX_LOGGED:
        yield f"  … {len(attempts) - MAX_LOGGED} earlier ones; -o json prints all"
    for line in attempts[-MAX_LOGGED:]:
        if line.result is Result.SCHEDULED:
            feasible = f", {line.feasible} of {line.node_count} nodes were feasible" if line.node_count else ""
            result = f"scheduled on {line.node}{feasible}"
        else:
            result = f"{line.result} after {line.failed_on} was chosen" if line.failed_on else line.result
        yield f"{line.time}  attempt {line.attempts}, {line.took * 1000:.1f} ms: {result}"
        yield from (f"    {text}" for text in _logged_details(line))


def _logged_details(line: LoggedDecision) -> Iterator[str]:
    if line.result is Result.SCHEDULED:
        yield from _runners_up(line)
        return
    if line.pre_filter is not None:
        yield f"{line.pre_filter.plugin} rejected the pod: {'; '.join(line.pre_filter.reasons)}"
    elif not line.rejected:
        yield line.message
    for group in line.rejected:
        nodes = ", ".join(group.nodes) + (", …" if group.count > len(group.nodes) else "")
        plugin = f"{group.plugin}: " if group.plugin else ""
        yield f"{group.count} × {plugin}{'; '.join(group.reasons)}{f' ({nodes})' if group.nodes else ''}"
    if line.post_filter is not None:
        yield explanation(line).split("\n")[-1]


def _runners_up(line: LoggedDecision) -> Iterator[str]:
    winner = line.nodes.get(line.node)
    if winner is None or winner.total is None:
        if winner is not None:
            yield "the only feasible node, so no scores were computed"
        return
    scores = ", ".join(f"{plugin} {score.weighted}" for plugin, score in (winner.scores or {}).items())
    yield f"{line.node}  {winner.total}  {scores}"
    for name, entry in line.nodes.items():
        if name != line.node and entry.total is not None:
            behind = winner.total - entry.total
            yield f"{name}  {entry.total}  {_compare(winner, entry) if behind else 'equal'}"


def _compare(winner: NodeEntry, runner_up: NodeEntry) -> str:
    """List the score differences by plugin, the largest first."""
    best, scores = winner.scores or {}, runner_up.scores or {}
    gaps = {name: scores[name].weighted - best[name].weighted for name in best if name in scores}
    plugins = sorted((name for name in gaps if gaps[name]), key=lambda name: -abs(gaps[name]))
    return ", ".join(f"{name} {gaps[name]:+d}" for name in plugins)
