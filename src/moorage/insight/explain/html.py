"""An explanation as one HTML page that needs nothing else: no scripts, no fonts, no pictures from elsewhere."""

from html import escape
from typing import Final

from moorage.insight.explain.explanation import PodExplanation, ScoreDifference, WorkloadExplanation
from moorage.insight.explain.page import NOTHING_FOUND, change_line, group_line, group_lines, headline, wake_lines
from moorage.scheduler.decisions.decision import Result

_STYLE: Final = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1f24;background:#fff}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:1.6rem}
li{margin:.3rem 0}code,pre{font:13px/1.4 ui-monospace,monospace;background:#f3f4f6;border-radius:4px}
pre{padding:.6rem;overflow:auto}table{border-collapse:collapse}td,th{padding:.15rem .6rem;text-align:right}
td:first-child,th:first-child{text-align:left}.bar{display:inline-block;height:.8em;background:#2f7d4f}
.minus{background:#b3413a}.quiet{color:#6b7280}
@media(prefers-color-scheme:dark){body{color:#e6e8eb;background:#14171a}code,pre{background:#22272e}}
"""
_WIDTH: Final = 160


def html_page(explained: PodExplanation | WorkloadExplanation, *, node: str = "") -> str:
    """Write the page."""
    if isinstance(explained, WorkloadExplanation):
        title = f"{explained.workload}: {explained.fits} of {explained.of} pods fit"
        body = f"<h1>{escape(title)}</h1>" + (_pod(explained.next, node) if explained.next is not None else "")
    else:
        title, body = explained.decision.pod, _pod(explained, node)
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _pod(explained: PodExplanation, node: str) -> str:
    decision = explained.decision
    parts = [f"<h1>{escape(decision.pod)}</h1><p>{escape(headline(explained))}</p>"]
    if explained.group is not None:
        parts.append(_section("Its group", [escape(line) for line in group_lines(explained.group)]))
    if node and (entry := decision.nodes.get(node)) is not None:
        said = ", ".join(entry.reasons) if entry.is_rejected else "it would do"
        parts.append(f"<h2>Node {escape(node)}</h2><p>{escape(said)}</p>")
    elif explained.reasons:
        parts.append(_section("What keeps it off the nodes", [escape(group_line(item)) for item in explained.reasons]))
    if decision.post_filter is not None:
        nomination = decision.post_filter
        line = f"node {nomination.nominated_node} would be cleared of {', '.join(nomination.victims) or 'nobody'}"
        parts.append(_section("Preemption", [escape(line)]))
    if explained.because:
        parts.append(_scores(explained))
    parts.append(_changes(explained))
    if explained.wakes:
        parts.append(_section("What wakes it", [escape(line) for line in wake_lines(explained)]))
    return "".join(parts)


def _section(title: str, items: list[str]) -> str:
    return f"<h2>{escape(title)}</h2><ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"


def _changes(explained: PodExplanation) -> str:
    import msgspec

    stopped = f"<p class=quiet>{escape(explained.stopped_sentence)}</p>" if explained.stopped else ""
    if not explained.changes:
        is_stuck = explained.decision.result is not Result.SCHEDULED and not explained.is_bound
        return f"<p>{NOTHING_FOUND}</p>{stopped}" if is_stuck else stopped
    items = []
    for change in explained.changes:
        edits = msgspec.json.format(msgspec.json.encode(change.edits), indent=2).decode()
        items.append(f"<li>{escape(change_line(change))}<details><summary class=quiet>as edits</summary>"
                     f"<pre>{escape(edits)}</pre></details></li>")  # fmt: skip
    return f"<h2>What would make it fit</h2><ol>{''.join(items)}</ol>{stopped}"


def _scores(explained: PodExplanation) -> str:
    largest = max(1, *(abs(item.winner - item.runner_up) for item in explained.because))
    rows = "".join(_score(item, largest) for item in explained.because)
    head = f"<tr><th>plugin</th><th>{escape(explained.decision.node)}</th><th>{escape(explained.runner_up)}</th></tr>"
    return f"<h2>Why there</h2><table>{head}{rows}</table>"


def _score(item: ScoreDifference, largest: int) -> str:
    difference = item.winner - item.runner_up
    width = round(abs(difference) / largest * _WIDTH)
    bar = f'<span class="bar{" minus" if difference < 0 else ""}" style="width:{width}px"></span>' if width else ""
    name = escape(item.plugin)
    cells = f"<td>{name}</td><td>{item.winner}</td><td>{item.runner_up}</td><td>{difference:+}</td>"
    return f'<tr>{cells}<td style="text-align:left">{bar}</td></tr>'
