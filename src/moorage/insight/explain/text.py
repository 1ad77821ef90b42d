"""Explanations as text, for the terminal."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from moorage.insight.explain.explanation import PodExplanation, PossibleChange, ReasonGroup, WorkloadExplanation
from moorage.scheduler.decisions.decision import NodeEntry, Nomination, Result

if TYPE_CHECKING:
    from rich.console import Console

MAX_CHANGES: Final = 8
MAX_WAKES: Final = 6
NO_CHANGE: Final = "No change was found that would make the pod fit, and no combination of up to four changes."
BAR_WIDTH: Final = 24


def print_explanation(explanation: PodExplanation, console: "Console", *, node: str = "") -> None:
    """Print the explanation of one pod."""
    from rich.markup import escape

    def print_section(title: str, lines: Iterable[str]) -> None:
        console.print(f"\n[bold]{escape(title)}[/]", highlight=False)
        for line in lines:
            console.print(f"  {escape(line)}", highlight=False)

    decision = explanation.decision
    console.print(f"[bold]{escape(decision.pod)}[/]  {escape(headline(explanation))}", highlight=False)
    if explanation.group is not None:
        print_section("Pod group", group_lines(explanation.group))
    if node:
        print_section(f"Node {node}", [_describe_node(explanation, node)])
    elif explanation.reasons:
        print_section("Rejected nodes", map(group_line, explanation.reasons))
    if decision.post_filter is not None:
        print_section("Preemption", [preemption_line(decision.post_filter)])
    if explanation.because:
        winner = decision.node or "the best node"
        print_section(f"Scores: {winner} and the runner-up {explanation.runner_up}", waterfall(explanation))
    if explanation.changes:
        numbered = enumerate(explanation.changes[:MAX_CHANGES], start=1)
        more = len(explanation.changes) - MAX_CHANGES
        note = [f"{more} more changes: -o json lists all of them, with patches"] if more > 0 else []
        lines = [f"{number}. {change_line(change)}" for number, change in numbered]
        print_section("Changes that would make it fit", [*lines, *note])
    elif decision.result is not Result.SCHEDULED and not explanation.is_bound:
        console.print(f"\n{NO_CHANGE}")
    if explanation.stopped:
        console.print(f"  {escape(explanation.stopped_sentence)}", style="dim", highlight=False)
    if explanation.wakes:
        print_section("Events that trigger a retry", retry_lines(explanation))


def group_lines(facts: Mapping[str, Any]) -> list[str]:
    """Describe the state of a pod group.

    >>> group_lines({"name": "ring", "members": 8, "fits": 6, "minCount": 8, "topologyKey": "rack", "domains": 3,
    ...     "bestDomain": "r1"})
    ['ring: 6 of 8 pods fit together; it needs 8 to start', 'no rack fits 8 pods; the best of 3 (r1) fits 6']
    """
    min_count, members, fits = facts.get("minCount"), facts["members"], facts["fits"]
    start = f"; it needs {min_count} to start" if min_count is not None else ""
    lines = [f"{facts['name']}: {fits} of {members} pods fit together{start}"]
    if min_count is not None and members < min_count:
        lines.append(f"only {members} of the {min_count} required pods exist")
    if "topologyKey" in facts and fits < (required := min_count or members):
        best = f"; the best of {facts['domains']} ({facts['bestDomain']}) fits {fits}" if facts["bestDomain"] else ""
        lines.append(f"no {facts['topologyKey']} fits {required} pods{best}")
    if facts.get("victims"):
        lines.append(f"it would preempt {', '.join(facts['victims'])}")
    return [*lines, *([f"message: {facts['message']}"] if facts.get("message") else [])]


def headline(explanation: PodExplanation) -> str:
    """Describe the state of a pod in one line."""
    decision = explanation.decision
    if explanation.is_bound:
        return f"is on node {decision.node}"
    match decision.result:
        case Result.SCHEDULED:
            return f"fits on node {decision.node}"
        case Result.GATED:
            return f"is gated by {', '.join(decision.unschedulable_plugins)}: {decision.message}"
        case Result.ERROR:
            return f"cannot be scheduled because of an error: {decision.message}"
        case _:
            return f"is pending: {decision.message}"


def group_line(group: ReasonGroup) -> str:
    """Describe why nodes were rejected.

    >>> group_line(ReasonGroup("NodeResourcesFit", "Insufficient cpu", 37, ("n1",), {"cpu": "500m"}, 3))
    '37 nodes: Insufficient cpu, short by at least 500m; the only problem of 3 nodes (n1, …)'
    """
    nodes = f"{group.nodes} node{'s' if group.nodes != 1 else ''}"
    details = "".join(f", short by at least {amount}" for amount in group.short.values())
    details += "".join(f", {taint} on {count}" for taint, count in group.details.items())
    if group.alone == group.nodes:
        details += f"; this is {'their' if group.nodes > 1 else 'its'} only problem"
    elif group.alone:
        details += f"; the only problem of {group.alone} node{'s' if group.alone != 1 else ''}"
    more = ", …" if group.examples and group.nodes > len(group.examples) else ""
    examples = f" ({', '.join(group.examples)}{more})" if group.examples else f" ({group.plugin})"
    return f"{nodes}: {group.reason}{details}{examples}"


def preemption_line(nomination: Nomination) -> str:
    """Describe which pods preemption would evict."""
    victims = ", ".join(nomination.victims)
    if not victims:
        return f"waits for terminating pods on node {nomination.nominated_node}"
    return f"would evict {victims} from node {nomination.nominated_node}"


def _describe_node(explanation: PodExplanation, node: str) -> str:
    entry, pre_filter = explanation.decision.nodes.get(node), explanation.decision.pre_filter
    if entry is not None:
        return node_line(entry)
    return "not examined" if pre_filter is None else ", ".join(pre_filter.reasons)


def node_line(entry: NodeEntry) -> str:
    """Describe the result for one node."""
    if entry.is_rejected:
        return f"{', '.join(entry.reasons)} ({entry.plugin})" if entry.plugin else ", ".join(entry.reasons)
    return "fits" + (f", with a score of {entry.total}" if entry.total is not None else "")


def waterfall(explanation: PodExplanation) -> list[str]:
    """Return one line per plugin with different scores, and the totals."""
    width = max(len(item.plugin) for item in explanation.because)
    largest = max(1, *(abs(item.winner - item.runner_up) for item in explanation.because))
    lines = []
    for item in sorted(explanation.because, key=lambda item: item.runner_up - item.winner):
        difference = item.winner - item.runner_up
        if difference:
            bar = ("+" if difference > 0 else "-") * max(1, round(abs(difference) / largest * BAR_WIDTH))
            lines.append(f"{item.plugin:<{width}}  {item.winner:>5} : {item.runner_up:<5} {difference:>+5}  {bar}")
    equal = sum(1 for item in explanation.because if item.winner == item.runner_up)
    total = sum(item.winner for item in explanation.because)
    runner_up_total = sum(item.runner_up for item in explanation.because)
    sums = f"{total:>5} : {runner_up_total:<5} {total - runner_up_total:>+5}"
    lines.append(f"{'total':<{width}}  {sums}  ({equal} plugins score both equally)")
    return lines


def change_line(change: PossibleChange) -> str:
    """Describe a change and its effect."""
    if not change.node:
        return change.text
    if change.victims:
        return f"{change.text}  → {change.node}, preempting {', '.join(change.victims)}"
    return f"{change.text}  → {change.node}"


def retry_lines(explanation: PodExplanation) -> list[str]:
    """List the events that trigger a retry, by plugin."""
    by_plugin: dict[str, list[str]] = {}
    for item in explanation.wakes:
        by_plugin.setdefault(item.plugin, []).append(item.event)
    lines = []
    for plugin, events in by_plugin.items():
        more = f" and {len(events) - MAX_WAKES} more" if len(events) > MAX_WAKES else ""
        lines.append(f"{plugin}: {', '.join(events[:MAX_WAKES])}{more}")
    return lines


def print_workload(explanation: WorkloadExplanation, console: "Console") -> None:
    """Print how many pods of a workload fit, and why the next one does not."""
    from rich.markup import escape

    console.print(
        f"[bold]{escape(explanation.workload)}[/]  {explanation.fits} of {explanation.of} pods fit", highlight=False
    )
    if explanation.next is not None:
        console.print("\nThe next pod does not fit:")
        print_explanation(explanation.next, console)
