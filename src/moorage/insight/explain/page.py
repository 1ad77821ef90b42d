"""An explanation for people: a short page in the terminal."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from moorage.insight.explain.explanation import PodExplanation, PossibleChange, ReasonGroup, WorkloadExplanation
from moorage.scheduler.decisions.decision import Result

if TYPE_CHECKING:
    from rich.console import Console

MAX_CHANGES: Final = 8
MAX_WAKES: Final = 6
NOTHING_FOUND: Final = "No change was found that would make it fit, and no few changes together."
BAR: Final = 24


def print_explanation(explained: PodExplanation, console: "Console", *, node: str = "") -> None:
    """Print a page about one pod."""
    from rich.markup import escape

    console.print(f"[bold]{escape(explained.decision.pod)}[/]  {escape(headline(explained))}", highlight=False)
    if explained.group is not None:
        console.print("\n[bold]Its group[/]")
        for line in group_lines(explained.group):
            console.print(f"  {escape(line)}", highlight=False)
    if node:
        _print_node(explained, console, node)
    elif explained.reasons:
        console.print("\n[bold]What keeps it off the nodes[/]")
        for group in explained.reasons:
            console.print(f"  {escape(group_line(group))}", highlight=False)
    if (nomination := explained.decision.post_filter) is not None:
        console.print("\n[bold]Preemption[/]")
        whom = ", ".join(nomination.victims) or "nobody who is not leaving already"
        console.print(f"  {escape(f'node {nomination.nominated_node} would be cleared of {whom}')}", highlight=False)
    _print_because(explained, console)
    _print_changes(explained, console)
    if explained.wakes:
        console.print("\n[bold]What wakes it[/]")
        for line in wake_lines(explained):
            console.print(f"  {escape(line)}", highlight=False)


def group_lines(facts: Mapping[str, Any]) -> list[str]:
    """Say how a group stands.

    >>> group_lines({"name": "ring", "members": 8, "fits": 6, "minCount": 8, "topologyKey": "rack", "domains": 3,
    ...     "bestDomain": "r1"})
    ['ring: 6 of 8 pods fit together; it takes 8 to start', 'no rack holds 8; the best of 3, r1, holds 6']
    """
    needed, members, fits = facts.get("minCount"), facts["members"], facts["fits"]
    start = f"; it takes {needed} to start" if needed is not None else ""
    lines = [f"{facts['name']}: {fits} of {members} pods fit together{start}"]
    if needed is not None and members < needed:
        lines.append(f"only {members} of the {needed} pods that it needs have been made")
    if "topologyKey" in facts and fits < (wanted := needed or members):
        best = f"; the best of {facts['domains']}, {facts['bestDomain']}, holds {fits}" if facts["bestDomain"] else ""
        lines.append(f"no {facts['topologyKey']} holds {wanted}{best}")
    if facts.get("victims"):
        lines.append(f"it would preempt {', '.join(facts['victims'])}")
    return [*lines, *([f"it is told: {facts['message']}"] if facts.get("message") else [])]


def headline(explained: PodExplanation) -> str:
    """Say in one line where a pod stands."""
    decision = explained.decision
    if explained.is_bound:
        return f"has the node {decision.node}"
    match decision.result:
        case Result.SCHEDULED:
            return f"fits, and would go to {decision.node}"
        case Result.GATED:
            return f"is held back by {', '.join(decision.unschedulable_plugins)}: {decision.message}"
        case Result.ERROR:
            return f"cannot be decided on: {decision.message}"
        case _:
            return f"is pending: {decision.message}"


def group_line(group: ReasonGroup) -> str:
    """Say what is wrong with some nodes.

    >>> group_line(ReasonGroup("NodeResourcesFit", "Insufficient cpu", 37, ("n1",), {"cpu": "500m"}, 3))
    '37 nodes: Insufficient cpu, at least 500m short; 3 of them would do but for that (n1, …)'
    """
    nodes = f"{group.nodes} node{'s' if group.nodes != 1 else ''}"
    short = "".join(f", at least {amount} short" for amount in group.short.values())
    short += "".join(f", {what} on {count}" for what, count in group.details.items())
    if group.alone > 0:
        short += (
            "; they" if group.alone == group.nodes > 1 else f"; {group.alone} of them" if group.nodes > 1 else "; it"
        )
        short += " would do but for that"
    more = ", …" if group.examples and group.nodes > len(group.examples) else ""
    examples = f" ({', '.join(group.examples)}{more})" if group.examples else f" (says {group.plugin})"
    return f"{nodes}: {group.reason}{short}{examples}"


def _print_node(explained: PodExplanation, console: "Console", node: str) -> None:
    from rich.markup import escape

    entry = explained.decision.nodes.get(node)
    if entry is None:
        said = "it was not looked at"
        if explained.decision.pre_filter is not None:
            said = ", ".join(explained.decision.pre_filter.reasons)
    elif entry.is_rejected:
        said = f"{', '.join(entry.reasons)} (says {entry.plugin})" if entry.plugin else ", ".join(entry.reasons)
    else:
        said = "it would do" + (f", with a score of {entry.total}" if entry.total is not None else "")
    console.print(f"\n[bold]Node {escape(node)}[/]\n  {escape(said)}", highlight=False)


def _print_because(explained: PodExplanation, console: "Console") -> None:
    if not explained.because:
        return
    from rich.markup import escape

    winner, runner_up = explained.decision.node or "the best node", explained.runner_up
    console.print(f"\n[bold]{escape(winner)} against {escape(runner_up)}, plugin by plugin[/]")
    for line in waterfall(explained):
        console.print(f"  {escape(line)}", highlight=False)


def waterfall(explained: PodExplanation) -> list[str]:
    """Draw how the scores add up: a line a plugin with a difference, and the sums."""
    widest = max(len(item.plugin) for item in explained.because)
    largest = max(1, *(abs(item.winner - item.runner_up) for item in explained.because))
    lines = []
    for item in sorted(explained.because, key=lambda item: item.runner_up - item.winner):
        difference = item.winner - item.runner_up
        if difference:
            bar = ("+" if difference > 0 else "-") * max(1, round(abs(difference) / largest * BAR))
            lines.append(f"{item.plugin:<{widest}}  {item.winner:>5} : {item.runner_up:<5} {difference:>+5}  {bar}")
    same = sum(1 for item in explained.because if item.winner == item.runner_up)
    won, lost = (sum(pair) for pair in zip(*((i.winner, i.runner_up) for i in explained.because), strict=True))
    lines.append(f"{'in all':<{widest}}  {won:>5} : {lost:<5} {won - lost:>+5}  ({same} plugins say the same of both)")
    return lines


def _print_changes(explained: PodExplanation, console: "Console") -> None:
    from rich.markup import escape

    if explained.changes:
        console.print("\n[bold]What would make it fit[/]")
        for number, change in enumerate(explained.changes[:MAX_CHANGES], start=1):
            console.print(f"  {number}. {escape(change_line(change))}", highlight=False)
        if (more := len(explained.changes) - MAX_CHANGES) > 0:
            console.print(f"  and {more} more: -o json has all of them, as patches")
    elif explained.decision.result is not Result.SCHEDULED and not explained.is_bound:
        console.print(f"\n{NOTHING_FOUND}")
    if explained.stopped:
        console.print(f"  {escape(explained.stopped_sentence)}", style="dim", highlight=False)


def change_line(change: PossibleChange) -> str:
    """Say what to change and what comes of it."""
    if not change.node:
        return change.text
    if change.victims:
        return f"{change.text}  → {change.node}, preempting {', '.join(change.victims)}"
    return f"{change.text}  → {change.node}"


def wake_lines(explained: PodExplanation) -> list[str]:
    """List events by plugin."""
    by_plugin: dict[str, list[str]] = {}
    for item in explained.wakes:
        by_plugin.setdefault(item.plugin, []).append(item.event)
    return [f"{plugin}: {_some(events)}" for plugin, events in by_plugin.items()]


def _some(events: Sequence[str]) -> str:
    more = len(events) - MAX_WAKES
    return ", ".join(events[:MAX_WAKES]) + (f" and {more} more" if more > 0 else "")


def print_workload(explained: WorkloadExplanation, console: "Console") -> None:
    """Print how much of a workload fits, and what stops the next pod."""
    from rich.markup import escape

    console.print(
        f"[bold]{escape(explained.workload)}[/]  {explained.fits} of {explained.of} pods fit", highlight=False
    )
    if explained.next is not None:
        console.print("\nWhat stops the next one:")
        print_explanation(explained.next, console)
