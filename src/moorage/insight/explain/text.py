"""Explanations as text, for the terminal."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from moorage.insight.explain.explanation import PodExplanation, PossibleChange, ReasonGroup, WorkloadExplanation
from moorage.scheduler.decisions.decision import NodeEntry, Nomination, Result

if TYPE_CHECKING:
    from rich.console import Console

MAX_CHANGES: Final = 5
MAX_REASONS: Final = 6
MAX_LINES: Final = 20
"""Numbers of lines that are printed by default: the text fits on a screen."""
MAX_WAKES: Final = 6
EPHEMERAL: Final = "ephemeral-storage"
MEBIBYTE: Final = 1 << 20
CHANGES: Final = "Changes that would make it fit"
NO_CHANGE: Final = "No change was found that would make the pod fit, and no combination of up to four changes."
BAR_WIDTH: Final = 24
ABOUT_NODES: Final = "node(s) "
UNTOLERATED_TAINT: Final = "node(s) had untolerated taint(s)"
NOT_FOUND: Final = " not found"
"""The end of reasons about another object, such as a claim, and not about the nodes."""
_AMOUNT: Final = re.compile(r"\b(\d+)(m|Mi)\b")


def print_explanation(
    explanation: PodExplanation, console: "Console", *, node: str = "", is_verbose: bool = False
) -> None:
    """Print the explanation of a pod: on one screen, or everything if ``is_verbose``."""
    from rich.markup import escape

    decision = explanation.decision
    omitted: list[str] = []
    console.print(f"[bold]{escape(decision.pod)}[/] {escape(headline(explanation))}", highlight=False)
    for title, lines, limit in _sections(explanation, node):
        console.print(f"\n[bold]{escape(title)}[/]", highlight=False)
        for line in lines if is_verbose else lines[:limit]:
            console.print(f"  {escape(line)}", highlight=False)
        if len(lines) > limit and not is_verbose:
            count, noun = len(lines) - limit, "change" if title.startswith(CHANGES) else "reason"
            omitted.append(f"{count} more {noun}{'' if count == 1 else 's'}")
    if not explanation.changes and decision.result is not Result.SCHEDULED and not explanation.is_bound:
        console.print(f"\n{NO_CHANGE}")
    if explanation.stopped:
        console.print(f"  {escape(explanation.stopped_sentence)}", style="dim", highlight=False)
    if explanation.wakes and is_verbose:
        console.print("\n[bold]Events that trigger a retry[/]")
        for line in retry_lines(explanation):
            console.print(f"  {escape(line)}", highlight=False)
    elif explanation.wakes:
        omitted.append("the events that trigger a retry")
    if omitted:
        topics = omitted[0] if len(omitted) == 1 else f"{', '.join(omitted[:-1])} and {omitted[-1]}"
        console.print(f"\nUse -v 1 to show {topics}, and -o json to get patches.", style="dim", highlight=False)


def _sections(explanation: PodExplanation, node: str) -> Iterator[tuple[str, Sequence[str], int]]:
    """Yield titles and lines, with the number of lines to print by default."""
    decision = explanation.decision
    if explanation.group is not None:
        yield "Pod group", group_lines(explanation.group), MAX_LINES
    if node:
        yield f"Node {node}", [_describe_node(explanation, node)], MAX_LINES
    elif explanation.reasons:
        yield "Rejected nodes", [*map(group_line, explanation.reasons)], MAX_REASONS
    if explanation.notes:
        yield "Notes", explanation.notes, MAX_LINES
    if decision.post_filter is not None:
        yield "Preemption", [preemption_line(decision.post_filter)], MAX_LINES
    if explanation.because:
        is_tied = sum(item.winner - item.runner_up for item in explanation.because) == 0
        pair = f"{decision.node} and {explanation.runner_up}"
        title = f"Scores: {pair} are tied" if is_tied else f"Scores: {pair}, the second best"
        yield title, waterfall(explanation), MAX_LINES
    if explanation.changes:
        lines = [f"{number}. {change_line(change, node)}" for number, change in enumerate(explanation.changes, start=1)]
        yield f"{CHANGES} on {node}" if node else CHANGES, lines, MAX_CHANGES


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
            contradiction = f", but its scheduler reported: {explanation.reported}" if explanation.reported else ""
            return f"fits on node {decision.node}{contradiction}"
        case Result.GATED:
            return f"is gated by {', '.join(decision.unschedulable_plugins)}: {decision.message}"
        case Result.ERROR:
            return f"cannot be scheduled because of an error: {decision.message}"
        case _:
            return f"is {'not created' if explanation.is_refused else 'pending'}: {decision.message}"


def group_line(group: ReasonGroup) -> str:
    """Describe why nodes were rejected.

    >>> group_line(ReasonGroup("NodeResourcesFit", "Insufficient cpu", 37, ("n1",), {"cpu": "12500m"}, 3))
    'insufficient cpu on 37 nodes (n1, …), short by at least 12.5 cores; this is the only problem of 3 of them'
    >>> group_line(ReasonGroup("NodeUnschedulable", "node(s) were unschedulable", 1, ("n1",), {}, 1))
    '1 node was unschedulable (n1); this is its only problem'
    >>> group_line(ReasonGroup("TaintToleration", UNTOLERATED_TAINT, 1, ("n1",), {}, 1, {"team=a:NoSchedule": 1}))
    'untolerated taint team=a:NoSchedule on 1 node (n1); this is its only problem'
    >>> taints = {"a:NoExecute": 2, "b=c:NoExecute": 1}
    >>> group_line(ReasonGroup("TaintToleration", UNTOLERATED_TAINT, 3, ("n1",), details=taints))
    'untolerated taints on 3 nodes (n1, …): a:NoExecute on 2, b=c:NoExecute on 1'
    """
    nodes = f"{group.nodes} node{'s' if group.nodes != 1 else ''}"
    taints = group.details
    if group.reason == UNTOLERATED_TAINT:
        noun = f"taint {next(iter(taints))}" if len(taints) == 1 else "taints"
        reason = f"untolerated {noun} on {nodes}"
    elif group.reason.startswith(ABOUT_NODES):
        reason = f"{nodes} {group.reason.removeprefix(ABOUT_NODES)}"
        reason = reason.replace(" were ", " was ", 1) if group.nodes == 1 else reason
    elif group.reason.endswith(NOT_FOUND):
        reason = f"{nodes}: {group.reason}"
    else:
        reason = f"{group.reason[:1].lower()}{group.reason[1:]} on {nodes}"
    more = ", …" if group.examples and group.nodes > len(group.examples) else ""
    examples = f" ({', '.join(group.examples)}{more})" if group.examples else ""
    details = "".join(f", short by at least {_missing(name, amount)}" for name, amount in group.short.items())
    if len(taints) > 1:
        details += f": {', '.join(f'{taint} on {count}' for taint, count in taints.items())}"
    if group.alone == group.nodes:
        details += f"; this is {'their' if group.nodes > 1 else 'its'} only problem"
    elif group.alone:
        details += f"; this is the only problem of {group.alone} of them"
    return f"{reason}{examples}{details}"


def _missing(resource: str, amount: str) -> str:
    if resource == "cpu" and amount.isdecimal():
        return f"{amount} core{'s' if amount != '1' else ''}"
    if resource == EPHEMERAL and amount.isdecimal():
        amount = f"{-(-int(amount) // MEBIBYTE)}Mi"
    return humanize(amount, up=True)


def humanize(text: str, *, up: bool = False) -> str:
    """Write large amounts as cores and GiB; rounded down, so that a lowered request still fits, or ``up``.

    >>> humanize("Lower the cpu request of container c from 100 to 62610m"), humanize("249920Mi"), humanize("500m")
    ('Lower the cpu request of container c from 100 to 62.6 cores', '244 GiB', '500m')
    >>> humanize("1001m", up=True)
    '1.1 cores'
    """

    def convert(match: re.Match[str]) -> str:
        size, unit = (1000, "cores") if match[2] == "m" else (1024, "GiB")
        tenths = int(match[1]) * 10 // size if not up else -(-int(match[1]) * 10 // size)
        return f"{tenths / 10:.1f}".removesuffix(".0") + f" {unit}" if int(match[1]) >= size else match[0]

    return _AMOUNT.sub(convert, text)


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


def change_line(change: PossibleChange, node: str = "") -> str:
    """Describe a change and its effect. ``node`` is the node that the question was about."""
    text = humanize(change.text, up=change.text.startswith("Add"))
    if not change.node:
        return text
    if change.victims:
        return f"{text}  → {change.node}, preempting {', '.join(change.victims)}"
    if node and node != change.node:
        return f"{text}  → fits on {node}; the scheduler would choose {change.node}"
    return f"{text}  → {change.node}"


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


def print_workload(explanation: WorkloadExplanation, console: "Console", *, is_verbose: bool = False) -> None:
    """Print how many pods of a workload fit, and why the next one does not."""
    from rich.markup import escape

    state = "are allowed and fit" if explanation.is_refused else "fit"
    console.print(
        f"[bold]{escape(explanation.workload)}[/]: {explanation.fits} of {explanation.of} pods {state}", highlight=False
    )
    if explanation.note:
        console.print(f"\n[bold]Notes[/]\n  {escape(explanation.note)}", highlight=False)
    if explanation.next is not None:
        problem = "is rejected by the API server" if explanation.is_refused else "does not fit"
        console.print(f"\nThe next pod {problem}:")
        print_explanation(explanation.next, console, is_verbose=is_verbose)
