"""Draw the pictures of the documentation that are text: diagrams and a terminal (``python -m manual.diagrams``).

A diagram has rows of boxes and arrows between them. A row is a list of boxes; ``title|second line`` has two lines, a
leading ``*`` marks boxes that call plugins.
"""

import io
import re
import subprocess
import sys
from html import escape
from pathlib import Path
from typing import Final

from msgspec import Struct
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT: Final = Path(__file__).parents[1]
PICTURES: Final = ROOT / "docs" / "pictures"
TERMINAL_WIDTH: Final = 110
WIDTH, HEIGHT, GAP, MARGIN = 172, 54, 20, 24
STYLE: Final = (
    "text{font:13px system-ui,sans-serif;text-anchor:middle;fill:#123}.small{font-size:11px;fill:#456}"
    ".row{font-size:12px;fill:#567;text-anchor:start;font-style:italic}"
    ".box{fill:#fff;stroke:#00796b;stroke-width:1.5;rx:8}.plugin{fill:#e0f2f1}"
    ".line{stroke:#78909c;stroke-width:1.5;fill:none;marker-end:url(#tip)}.page{fill:#fafafa}"
)

TIP: Final = (
    '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="6" refY="3" orient="auto">'
    '<path d="M0 0L7 3L0 6z" fill="#78909c"/></marker></defs>'
)


class Row(Struct, frozen=True):
    """Boxes side by side, with a word about all of them; ``chained`` draws arrows between them,
    ``aside`` none from the row above."""

    about: str
    boxes: tuple[str, ...]
    chained: bool = True
    aside: bool = False


OVERVIEW: Final = (
    Row(
        "inputs",
        (
            "kubectl|and other clients",
            "configuration|KubeSchedulerConfiguration",
            "*your plugin|a function or a class",
        ),
        chained=False,
    ),
    Row("one scheduler", ("queue|order of pods", "filter, score|all nodes, in columns", "bind|in parallel")),
    Row(
        "environments",
        (
            "moorage scheduler|a real cluster",
            "moorage up|a cluster on a laptop",
            "moorage simulate|files, virtual time",
            "testing.Cluster|your tests",
        ),
        chained=False,
    ),
)
LIFE: Final = (
    Row("queueing", ("*PreEnqueue|admit or gate", "*QueueSort|order", "active queue|or backoff, unschedulable")),
    Row(
        "scheduling cycle: one pod at a time",
        (
            "*PreFilter|once",
            "*Filter|each node",
            "*PreScore|once",
            "*Score|and normalize",
        ),
    ),
    Row("placement", ("assume|in the cache", "*Reserve|plugin state", "*Permit|allow, reject, wait")),
    Row(
        "binding cycle: in parallel with the next pods",
        ("*PreBind|volumes, claims", "*Bind|write to the API", "*PostBind|clean up"),
    ),
    Row("if no node is feasible", ("*PostFilter|preemption", "unschedulable|until an event helps"), aside=True),
)
ANSWERS: Final = (
    Row("lookup", ("signature|from sign(pod)", "cached result|of pods with this signature")),
    Row(
        "update",
        ("change log|rows since position 870", "dirty rows|one or two", "*filter and score|dirty rows only"),
    ),
    Row("selection", ("feasible|a mask of all rows", "totals|one column", "argmax|ties as upstream's heap")),
)
DRAWINGS: Final = {"overview": OVERVIEW, "life-of-a-pod": LIFE, "cached-results": ANSWERS}
TERMINALS: Final = {
    "explain": "moorage explain too-big -f examples/clusters/tour.yaml",
    "plan": "moorage plan drain -l pool=old -f examples/clusters/pool.yaml",
}
"""Commands whose output is a picture."""


def drawing(rows: tuple[Row, ...]) -> str:
    """Draw rows of boxes as SVG."""
    widest = max(len(row.boxes) for row in rows)
    width = 2 * MARGIN + widest * (WIDTH + GAP) - GAP
    step = HEIGHT + 3 * GAP
    height = 2 * MARGIN + len(rows) * step - GAP
    parts = [part for number, row in enumerate(rows) for part in _row(row, MARGIN + 14 + number * step, width)]
    for number in (number for number, below in enumerate(rows[1:]) if not below.aside):
        top = MARGIN + 14 + number * step + HEIGHT
        parts.append(f'<path class="line" d="M{width // 2} {top + 6}V{top + 3 * GAP - 20}"/>')
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">\n'
        f'<style>{STYLE}</style>{TIP}<rect class="page" width="{width}" height="{height}"/>\n{body}\n</svg>\n'
    )


def _row(row: Row, top: int, width: int) -> list[str]:
    left = (width - len(row.boxes) * (WIDTH + GAP) + GAP) // 2
    parts = [f'<text class="row" x="{left}" y="{top - 6}">{escape(row.about)}</text>']
    for index, text in enumerate(row.boxes):
        x = left + index * (WIDTH + GAP)
        title, _, second = text.removeprefix("*").partition("|")
        kind = "box plugin" if text.startswith("*") else "box"
        parts.append(f'<rect class="{kind}" x="{x}" y="{top}" width="{WIDTH}" height="{HEIGHT}"/>')
        parts.append(f'<text x="{x + WIDTH // 2}" y="{top + 23}">{escape(title)}</text>')
        parts.append(f'<text class="small" x="{x + WIDTH // 2}" y="{top + 41}">{escape(second)}</text>')
        if row.chained and index:
            parts.append(f'<path class="line" d="M{x - GAP + 2} {top + HEIGHT // 2}H{x - 3}"/>')
    return parts


def terminal(command: str) -> str:
    """Run a moorage command and draw its output as a terminal, without fonts from the web."""
    moorage = [sys.executable, "-c", "from moorage.cli.main import main; main()", *command.split()[1:]]
    output = subprocess.run(moorage, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    console = Console(record=True, width=TERMINAL_WIDTH, file=io.StringIO())
    console.print(Text(f"$ {command}\n\n{output.rstrip()}"))
    picture = console.export_svg(title=" ".join(command.split()[:2]), theme=MONOKAI, unique_id="terminal")
    return re.sub(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", "", picture, flags=re.DOTALL).replace(
        "Fira Code", "ui-monospace"
    )


def main() -> None:
    """Write all pictures."""
    for name, rows in DRAWINGS.items():
        (PICTURES / f"{name}.svg").write_text(drawing(rows))
    for name, command in TERMINALS.items():
        (PICTURES / f"{name}.svg").write_text(terminal(command))


if __name__ == "__main__":
    main()
