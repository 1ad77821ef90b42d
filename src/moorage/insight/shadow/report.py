"""`moorage shadow report`: how often a shadow would have decided otherwise, where, and which plugin made it so."""

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
    """A shadow's log in numbers, with the last few decisions that differ."""

    compared: int = 0
    results: dict[str, int] = {}
    plugins: dict[str, int] = {}
    """Decisions that differ, by the plugin that made them so."""
    moves: dict[str, int] = {}
    """The same by where pods went and would have gone."""
    examples: list[Comparison] = []


def read_report(path: Path) -> ShadowReport:
    """Sum a log up; InputError names the file and the line that is bad."""
    return summed_up(read_lines(path, Comparison, written_by="--shadow-log"))


def summed_up(comparisons: Iterable[Comparison]) -> ShadowReport:
    """Sum comparisons up."""
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
    """Write a report for people."""
    differs, sure = report.results.get(DIFFERS, 0), report.compared - report.results.get(UNSURE, 0)
    share = f" ({100 * differs / sure:.1f}%)" if sure else ""
    yield f"{report.compared} decisions compared: the shadow would have decided otherwise on {differs}{share}"
    if unsure := report.results.get(UNSURE, 0):
        yield f"{unsure} could not be compared: the shadow saw another cluster than the one in charge"
    if errors := report.results.get(ERROR, 0):
        yield f"{errors} ended in an error of the shadow"
    if report.plugins:
        yield "because of"
        yield from (f"  {count:6} {plugin}" for plugin, count in report.plugins.items())
        yield "from where to where"
        moves = list(report.moves.items())[:MAX_SHOWN]
        yield from (f"  {count:6} {move}" for move, count in moves)
        if len(report.moves) > len(moves):
            yield f"         and {len(report.moves) - len(moves)} other ways"
        yield "the last of them"
        for item in report.examples:
            yield f"  {item.time}  {item.pod}: {_difference(item)}"


def _difference(item: Comparison) -> str:
    """Describe how one decision differs, with the scores of both where both nodes were scored."""
    if not item.shadow_node:
        return f"on {item.node}, and would fit nowhere: {item.because} rejects it there"
    if not item.node:
        return f"fits nowhere, and would have gone to {item.shadow_node}, which {item.because} rejects"
    text = f"on {item.node}, would have gone to {item.shadow_node}: {item.because}"
    score_texts = [_scores(name, entries, item) for name, entries in (("now", item.in_charge), ("shadow", item.shadow))]
    return f"{text} ({', '.join(filter(None, score_texts))})" if any(score_texts) else text


def _scores(label: str, entries: dict[str, NodeEntry], item: Comparison) -> str:
    here, there = (entries.get(name, NodeEntry()).total for name in (item.node, item.shadow_node))
    return "" if here is None or there is None else f"{label} {here} against {there}"
