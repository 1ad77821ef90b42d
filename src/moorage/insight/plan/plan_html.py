"""A plan as a self-contained HTML page with maps of the nodes before and after, without scripts."""

from html import escape
from typing import Final

from moorage.insight.html_style import STYLE
from moorage.insight.plan.plan_model import NodeChange, Plan
from moorage.insight.plan.plan_text import WAIT, headline, kubectl_commands, plan_lines, uncordon_commands

_MAP_STYLE: Final = """
.map{display:flex;flex-wrap:wrap;gap:4px}.cell{width:7rem;border:1px solid #9aa3ad;border-radius:4px;padding:2px 4px;
font-size:.75rem;overflow:hidden;white-space:nowrap;text-overflow:ellipsis}
.meter{height:.4rem;background:#2f7d4f}.changed{border-color:#b3413a;border-width:2px}
"""
MAX_NODES: Final = 2000
LEGEND: Final = "The percentage is the largest requested share of a resource. Nodes with a red border change."


def plan_html(plan: Plan) -> str:
    """Return the page."""
    title = escape(f"Plan: {plan.goal}")
    style = f"<style>{STYLE}{_MAP_STYLE}</style>"
    lines = "\n".join(escape(line) for line in list(plan_lines(plan, is_verbose=True))[1:])
    commands = "\n".join(
        escape(command)
        for step in plan.steps
        for command in (*kubectl_commands(step), *([f"# {WAIT}"] if step.evict else []), *uncordon_commands(step))
    )
    cluster = f"Cluster <code>{escape(plan.cluster.fingerprint)}</code>, state of {escape(plan.cluster.taken_at)}"
    body = (
        f"<h1>{title}</h1><p>{escape(headline(plan))}</p><p class=quiet>{cluster}</p>"
        f"<p class=quiet>{LEGEND}</p>"
        f"<h2>Before</h2>{_map(plan.nodes, is_after=False)}<h2>After</h2>{_map(plan.nodes, is_after=True)}"
        f"<h2>Steps</h2><pre>{lines}</pre>"
        f"<details><summary>kubectl commands</summary><pre>{commands}</pre></details>"
    )
    head = f'<meta charset="utf-8"><title>{title}</title>{style}'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _map(nodes: tuple[NodeChange, ...], *, is_after: bool) -> str:
    cells = []
    for node in nodes[:MAX_NODES]:
        pods, share = (node.pods_after, node.used_after) if is_after else (node.pods_before, node.used_before)
        css_class = " changed" if (node.pods_before, node.used_before) != (node.pods_after, node.used_after) else ""
        text = f"{escape(node.name)}<br>{pods} {'pod' if pods == 1 else 'pods'}, {share:.0%}"
        meter = f'<div class=meter style="width:{min(100, round(100 * share))}%"></div>'
        cells.append(f'<div class="cell{css_class}" title="{escape(node.name)}">{text}{meter}</div>')
    more = f"<p>and {len(nodes) - MAX_NODES} more nodes</p>" if len(nodes) > MAX_NODES else ""
    return f"<div class=map>{''.join(cells)}</div>{more}"
