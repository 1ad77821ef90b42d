"""`moorage shadow report`: how often a shadow decides differently, for which nodes, and which plugin is the cause."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from moorage.common.errors import InputError
from moorage.insight.shadow.messages import AGREES, DIFFERS, ERROR, UNSURE, Comparison
from moorage.scheduler.decisions.decision import NodeEntry
from moorage.scheduler.decisions.decision_log import read_lines

MAX_SHOWN: Final = 10


class ShadowReport(msgspec.Struct, rename="camel"):
    """A summary of a shadow's log, with the last different decisions."""

    compared: int = 0
    results: dict[str, int] = {}
    plugins: dict[str, int] = {}
    """Number of different decisions by the plugin that caused them."""
    moves: dict[str, int] = {}
    """Number of different decisions by both nodes."""
    examples: list[Comparison] = []


def read_report(path: Path) -> ShadowReport:
    """Summarize a log. Raise InputError with the file and the line of an invalid entry."""
    return summarize(read_lines(path, Comparison, written_by="--shadow-log"))


def summarize(comparisons: Iterable[Comparison]) -> ShadowReport:
    """Summarize comparisons."""
    results, plugins, moves, examples = Counter[str](), Counter[str](), Counter[str](), list[Comparison]()
    for item in comparisons:
        results[item.result] += 1
        if item.result == DIFFERS:
            plugins[item.because or "unknown"] += 1
            moves[f"{item.node or 'nowhere'} → {item.shadow_node or 'nowhere'}"] += 1
            examples = [*examples[1 - MAX_SHOWN :], item]
        elif item.result not in (AGREES, UNSURE, ERROR):
            raise InputError(item.pod, f"{item.result!r} is not a result of a comparison")
    return ShadowReport(
        sum(results.values()), dict(results), dict(plugins.most_common()), dict(moves.most_common()), examples
    )


def report_lines(report: ShadowReport) -> Iterator[str]:
    """Format a report."""
    differs, sure = report.results.get(DIFFERS, 0), report.compared - report.results.get(UNSURE, 0)
    share = f" ({100 * differs / sure:.1f}%)" if sure else ""
    yield f"{report.compared} decisions compared: the shadow differs in {differs}{share}"
    if unsure := report.results.get(UNSURE, 0):
        yield f"{unsure} could not be compared: the shadow had other data than the active configuration"
    if errors := report.results.get(ERROR, 0):
        yield f"{errors} failed in the shadow"
    if report.plugins:
        yield "by plugin"
        yield from (f"  {count:6} {plugin}" for plugin, count in report.plugins.items())
        yield "by node: active → shadow"
        moves = list(report.moves.items())[:MAX_SHOWN]
        yield from (f"  {count:6} {move}" for move, count in moves)
        if len(report.moves) > len(moves):
            yield f"         and {len(report.moves) - len(moves)} more"
        yield "last differences"
        for item in report.examples:
            yield f"  {item.time}  {item.pod}: {_difference(item)}"


def _difference(item: Comparison) -> str:
    """Describe how one decision differs, with the scores of both where both nodes were scored."""
    if not item.shadow_node:
        return f"on {item.node}; infeasible in the shadow: {item.because} rejects the node"
    if not item.node:
        return f"infeasible; on {item.shadow_node} in the shadow: {item.because} rejects the node"
    text = f"on {item.node}; on {item.shadow_node} in the shadow: {item.because}"
    scores = []
    for label, entries in (("active", item.in_charge), ("shadow", item.shadow)):
        active_total, shadow_total = (entries.get(name, NodeEntry()).total for name in (item.node, item.shadow_node))
        if active_total is not None and shadow_total is not None:
            scores.append(f"{label} {active_total} against {shadow_total}")
    return f"{text} ({', '.join(scores)})" if scores else text
