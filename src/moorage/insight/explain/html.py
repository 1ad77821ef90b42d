"""Explanations as a self-contained HTML page, without scripts and external resources."""

from html import escape
from typing import Final

import msgspec

from moorage.insight.explain.explanation import PodExplanation, WorkloadExplanation
from moorage.insight.explain.text import (
    NO_CHANGE,
    change_line,
    group_line,
    group_lines,
    headline,
    node_line,
    preemption_line,
    retry_lines,
)
from moorage.insight.html_style import STYLE
from moorage.scheduler.decisions.decision import Result

_WIDTH: Final = 160


def html_page(explanation: PodExplanation | WorkloadExplanation, *, node: str = "") -> str:
    """Return the page."""
    if isinstance(explanation, WorkloadExplanation):
        title = f"{explanation.workload}: {explanation.fits} of {explanation.of} pods fit"
        body = f"<h1>{escape(title)}</h1>" + (_pod(explanation.next, node) if explanation.next is not None else "")
    else:
        title, body = explanation.decision.pod, _pod(explanation, node)
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _pod(explanation: PodExplanation, node: str) -> str:
    decision = explanation.decision
    parts = [f"<h1>{escape(decision.pod)}</h1><p>{escape(headline(explanation))}</p>"]
    if explanation.group is not None:
        parts.append(_section("Pod group", [escape(line) for line in group_lines(explanation.group)]))
    if node and (entry := decision.nodes.get(node)) is not None:
        parts.append(f"<h2>Node {escape(node)}</h2><p>{escape(node_line(entry))}</p>")
    elif explanation.reasons:
        parts.append(_section("Rejected nodes", [escape(group_line(item)) for item in explanation.reasons]))
    if decision.post_filter is not None:
        parts.append(_section("Preemption", [escape(preemption_line(decision.post_filter))]))
    if explanation.because:
        parts.append(_scores(explanation))
    parts.append(_changes(explanation))
    if explanation.wakes:
        parts.append(_section("Events that trigger a retry", [escape(line) for line in retry_lines(explanation)]))
    return "".join(parts)


def _section(title: str, items: list[str]) -> str:
    return f"<h2>{escape(title)}</h2><ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"


def _changes(explanation: PodExplanation) -> str:
    stopped = f"<p class=quiet>{escape(explanation.stopped_sentence)}</p>" if explanation.stopped else ""
    if not explanation.changes:
        is_pending = explanation.decision.result is not Result.SCHEDULED and not explanation.is_bound
        return f"<p>{NO_CHANGE}</p>{stopped}" if is_pending else stopped
    items = []
    for change in explanation.changes:
        edits = msgspec.json.format(msgspec.json.encode(change.edits), indent=2).decode()
        patches = f"<details><summary class=quiet>as patches</summary><pre>{escape(edits)}</pre></details>"
        items.append(f"<li>{escape(change_line(change))}{patches}</li>")
    return f"<h2>Changes that would make it fit</h2><ol>{''.join(items)}</ol>{stopped}"


def _scores(explanation: PodExplanation) -> str:
    largest = max(1, *(abs(item.winner - item.runner_up) for item in explanation.because))
    names = ("plugin", explanation.decision.node, explanation.runner_up)
    rows = [f"<tr>{''.join(f'<th>{escape(name)}</th>' for name in names)}</tr>"]
    for item in explanation.because:
        difference = item.winner - item.runner_up
        width = round(abs(difference) / largest * _WIDTH)
        bar = f'<span class="bar{" minus" if difference < 0 else ""}" style="width:{width}px"></span>' if width else ""
        cells = f"<td>{escape(item.plugin)}</td><td>{item.winner}</td><td>{item.runner_up}</td><td>{difference:+}</td>"
        rows.append(f'<tr>{cells}<td style="text-align:left">{bar}</td></tr>')
    return f"<h2>Scores</h2><table>{''.join(rows)}</table>"
