"""The charts of a report as separate SVG and PDF files with fixed colors, for papers."""

import re
from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from typing import Final

from moorage.lab.report.pdf import svg_as_pdf
from moorage.lab.report.svg import WIDTH

COLORS: Final = ("#00796b", "#d97706", "#3b6fd4", "#b0347f", "#6b8e23", "#7c4dbd", "#0891b2", "#8d5a3b")
STYLE: Final = (
    "text{font:12px Helvetica,Arial,sans-serif;fill:#16212b}.tick{font-size:11px;fill:#5c6b78}.value{font-weight:600}"
    ".name{font-weight:600}.grid{stroke:#e6ebef;fill:none}"
    ".line{fill:none;stroke:currentColor;stroke-width:2.2;stroke-linejoin:round}.band{fill:currentColor;opacity:.13}"
    ".whisker{stroke:currentColor;stroke-width:5;stroke-linecap:round;opacity:.4;fill:none}.thin{stroke-width:2}"
    ".dot,.bar{fill:currentColor}.dominated{fill:#fff;stroke:currentColor;stroke-width:2}"
    ".front{fill:none;stroke:#5c6b78;stroke-dasharray:5 4}"
    + "".join(f".c{number}{{color:{color}}}" for number, color in enumerate(COLORS))
)
"""The light colors of report.css without variables, which programs for vector graphics do not support."""
ROW: Final = 18
LETTER: Final = 7.0
_FIGURE: Final = re.compile(r"<figure><figcaption>(.*?)</figcaption>.*?(<svg .*?</svg>)", re.DOTALL)
_SCENE: Final = re.compile(r"<h2 class=scene>(.*?)</h2>")
_LEGEND: Final = re.compile(r'<ul class="legend">(.*?)</ul>')
_PARTS: Final = re.compile("|".join(part.pattern for part in (_FIGURE, _SCENE, _LEGEND)), re.DOTALL)


def figures_as_files(page: str) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each figure, as SVG and as PDF."""
    for name, figure in figures_as_svg(page).items():
        yield name, figure.encode()
        yield f"{name.removesuffix('.svg')}.pdf", svg_as_pdf(figure)


def figures_as_svg(page: str) -> Mapping[str, str]:
    """Return the figures of a report by file name."""
    figures: dict[str, str] = {}
    names: Sequence[str] = ()
    scene = ""
    for caption, chart, heading, legend in _PARTS.findall(page):
        if heading:
            scene = f"{_slug(heading)}--"
        if legend:
            names = re.findall(r"</i>(.*?)</li>", legend)
        if not chart:
            continue
        name, number = f"{scene}{_slug(caption)}", 2
        while f"{name}.svg" in figures:
            name, number = f"{scene}{_slug(caption)}-{number}", number + 1
        figures[f"{name}.svg"] = _stand_alone(chart, names, caption)
    return figures


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", unescape(text).lower()).strip("-")


def _stand_alone(chart: str, names: Sequence[str], caption: str) -> str:
    """Add the style and the caption and, for charts without labels for their colors, a legend above the chart."""
    box = re.search(r'viewBox="0 0 \d+ (\d+)"', chart)
    height = int(box[1]) if box else 0
    legend, top = _legend(names) if 'class="line ' in chart or 'class="bar ' in chart else ("", 0)
    title = f'<text class="name" x="4" y="{-top - 6}">{caption}</text>'
    top += ROW
    opened = chart.index(">") + 1
    head = re.sub(r'viewBox="[^"]*"', f'viewBox="0 {-top} {WIDTH} {height + top}"', chart[:opened])
    head = head.replace("<svg ", f'<svg width="{WIDTH}" height="{height + top}" ', 1)
    return f"{head}<style>{STYLE}</style>{title}{legend}{chart[opened:]}\n"


def _legend(names: Sequence[str]) -> tuple[str, int]:
    """Return the legend and its height. Names continue on the next row if they are long."""
    parts, x, row = [], 4.0, 0
    entries = []
    for name in names:
        width = 24 + LETTER * len(unescape(name))
        if x > 4.0 and x + width > WIDTH:
            x, row = 4.0, row + 1
        entries.append((name, x, row))
        x += width
    height = ROW * (row + 1) + 6
    for number, (name, x_start, line) in enumerate(entries):
        y = -height + ROW * line + 12
        parts.append(
            f'<rect class="bar c{number % len(COLORS)}" x="{x_start:.1f}" y="{y - 9}" width="10" height="10"/>'
        )
        parts.append(f'<text x="{x_start + 15:.1f}" y="{y}">{name}</text>')
    return "".join(parts), height
