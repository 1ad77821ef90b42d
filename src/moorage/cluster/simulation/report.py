"""Decisions for people: a table of who goes where, or why not, and one line that sums it up."""

from collections import Counter
from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from moorage.scheduler.decisions.decision import Decision, Nomination, Result

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

EVICTED: Final = "evicted"
GAP: Final = 2
MIN_WHY: Final = 30
"""However narrow the terminal, reasons have so many columns."""
STYLES: Final[dict[str, str]] = {
    Result.SCHEDULED: "green",
    Result.UNSCHEDULABLE: "yellow",
    Result.ERROR: "red",
    Result.GATED: "dim",
    Result.INCOMPLETE: "dim",
    EVICTED: "magenta",
}


def print_decisions(decisions: Sequence[Decision], console: "Console") -> None:
    """Print the table, if there is anything to put into it."""
    if decisions:
        console.print(decision_table(decisions, console.width), soft_wrap=True)


def decision_table(decisions: Sequence[Decision], width: int) -> "Text":
    """Lay decisions out in the order in which pods were tried.

    By hand: a table of rich's takes longer for ten thousand pods than placing them does.
    """
    from rich.text import Text

    rows = [("Pod", "Result", "Node", "Tries"), *(_cells(decision) for decision in decisions)]
    columns = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if not any(decision.attempts for decision in decisions):
        columns[3] = 0
    start = sum(length + GAP for length in columns if length)
    rest = max(width - start, MIN_WHY)
    table = Text(f"{_line(rows[0], columns)}Why\n{'─' * max(width, start + 3)}\n", style="bold")
    for decision, row in zip(decisions, rows[1:], strict=True):
        why = [part for line in explanation(decision).split("\n") for part in wrap(line, rest) or [""]]
        begin = len(table) + columns[0] + GAP
        text = _line(row, columns) + f"\n{' ' * start}".join(why)
        table.append(f"{text.rstrip()}\n", style="not bold")
        table.stylize(STYLES[row[1]], begin, begin + len(row[1]))
    return table


def _cells(decision: Decision) -> tuple[str, str, str, str]:
    return decision.pod, _ending(decision), decision.node or "-", str(decision.attempts)


def _line(cells: Sequence[str], columns: Sequence[int]) -> str:
    return "".join(cell.ljust(length + GAP) for cell, length in zip(cells, columns, strict=True) if length)


def explanation(decision: Decision) -> str:
    """Say in words how the pod came to its node, or what keeps it from one."""
    match decision.result:
        case Result.SCHEDULED:
            text = _how_chosen(decision)
        case Result.GATED:
            text = f"held back by {', '.join(decision.unschedulable_plugins)}" if decision.unschedulable_plugins else ""
        case Result.INCOMPLETE:
            text = "its group is not there, or one above it"
        case _:
            text = decision.message
    parts = [text]
    if decision.post_filter is not None:
        parts.append(_preemption(decision.post_filter))
    elif decision.nominated_node and decision.nominated_node != decision.node:
        parts.append(f"nominated to {decision.nominated_node}")
    if decision.evicted:
        parts.append("had to make room")
    return "\n".join(part for part in parts if part)


def summary(decisions: Sequence[Decision]) -> str:
    """Count the results in one line."""
    if not decisions:
        return "no pending pods"
    counts = Counter(_ending(decision) for decision in decisions)
    counted = ", ".join(f"{counts[ending]} {ending}" for ending in STYLES if counts[ending])
    return f"{len(decisions)} {_plural('pod', len(decisions))}: {counted}"


def _ending(decision: Decision) -> str:
    return EVICTED if decision.evicted else decision.result


def _how_chosen(decision: Decision) -> str:
    feasible = [entry for entry in decision.nodes.values() if not entry.is_rejected]
    chosen = decision.nodes.get(decision.node)
    if chosen is None:
        return ""
    if chosen.total is None:
        return (
            f"the only one that fits, of {len(decision.nodes)}"
            if len(decision.nodes) > 1
            else "fits, and no other was looked at"
        )
    rivals = sum(entry.total == chosen.total for entry in feasible) - 1
    tie = f", tied with {rivals} {_plural('other', rivals)}" if rivals else ""
    return f"score {chosen.total}, best of {len(feasible)} that fit{tie}"


def _preemption(found: Nomination) -> str:
    if not found.victims:
        return f"waits for {found.nominated_node}, where room is being made"
    return f"could run on {found.nominated_node} if {', '.join(found.victims)} left"


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"
