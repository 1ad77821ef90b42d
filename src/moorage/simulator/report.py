"""Decisions for people: a table of who goes where, or why not, and one line that sums it up."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from moorage.simulator.decisions import Decision, Nomination, Result

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

EVICTED: Final = "evicted"
STYLES: Final[dict[str, str]] = {
    Result.SCHEDULED: "green",
    Result.UNSCHEDULABLE: "yellow",
    Result.ERROR: "red",
    Result.GATED: "dim",
    EVICTED: "magenta",
}


def print_report(decisions: Sequence[Decision], console: "Console") -> None:
    """Print the table and the summary; nothing to decide is said in words."""
    if decisions:
        console.print(decision_table(decisions))
    console.print(summary(decisions), highlight=False)


def decision_table(decisions: Sequence[Decision]) -> "Table":
    """Lay decisions out in the order in which pods were tried."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    tries_matter = any(decision.attempts for decision in decisions)
    table.add_column("Pod", no_wrap=True)
    table.add_column("Result", no_wrap=True)
    table.add_column("Node", no_wrap=True)
    if tries_matter:
        table.add_column("Tries", justify="right")
    table.add_column("Why", overflow="fold")
    for decision in decisions:
        attempts = [str(decision.attempts)] if tries_matter else []
        table.add_row(decision.pod, _result(decision), decision.node or "-", *attempts, explanation(decision))
    return table


def explanation(decision: Decision) -> str:
    """Say in words how the pod came to its node, or what keeps it from one."""
    match decision.result:
        case Result.SCHEDULED:
            text = _how_chosen(decision)
        case Result.GATED:
            text = f"held back by {', '.join(decision.unschedulable_plugins)}" if decision.unschedulable_plugins else ""
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


def _result(decision: Decision) -> "Text":
    from rich.text import Text

    return Text(_ending(decision), style=STYLES[_ending(decision)])


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
