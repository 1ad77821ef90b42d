"""Bar and line charts as SVG: shapes and texts without a library, readable in a diff."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 760
LABELS: Final = 200
"""The space for names on the left."""
VALUES: Final = 70
"""The space for numbers on the right."""
BAR: Final = 13
GAP: Final = 12
TOP: Final = 62
COLOURS: Final = ("#2f6fde", "#e0852f")
INK: Final = "#555"
LINES: Final = ("#2f6fde", "#e0852f", "#3a9d5d", "#c2403f", "#8a5cc7", "#7a6a4f", "#d45ca3", "#5f6b7a")
PLOT_HEIGHT: Final = 240
MARGIN: Final = 60

Points = Sequence[tuple[float, float]]
"""The points of a line, by increasing x."""


@dataclass(frozen=True, slots=True)
class Bars:
    """One group of bars, one for each series; a goal is drawn as a line across the first."""

    name: str
    values: Sequence[float]
    goal: float | None = None


def bar_chart(title: str, series: Sequence[str], groups: Sequence[Bars], digits: int = 0) -> str:
    """Draw groups of horizontal bars, one below the other."""
    longest = max((value for group in groups for value in (*group.values, group.goal or 0.0)), default=0.0) or 1.0
    scale = (WIDTH - LABELS - VALUES) / longest
    parts = [_text(10, 22, title, size=16, weight="bold"), *_legend(series, any(group.goal for group in groups))]
    height = TOP
    for group in groups:
        parts += _group(group, height, scale, digits)
        height += BAR * len(series) + GAP
    return _document(parts, height)


def line_chart(title: str, across: str, lines: Mapping[str, Points]) -> str:
    """Draw lines on two logarithmic axes: a line of slope 1 is linear growth, and a flat one is none."""
    xs = [math.log10(x) for points in lines.values() for x, _ in points]
    ys = [math.log10(y) for points in lines.values() for _, y in points]
    x_low, x_high = math.floor(min(xs)), max(math.ceil(max(xs)), math.floor(min(xs)) + 1)
    y_low, y_high = math.floor(min(ys)), max(math.ceil(max(ys)), math.floor(min(ys)) + 1)
    width, bottom = WIDTH - LABELS - MARGIN, TOP + PLOT_HEIGHT

    def left_of(x: float) -> float:
        return MARGIN + (x - x_low) / (x_high - x_low) * width

    def top_of(y: float) -> float:
        return bottom - (y - y_low) / (y_high - y_low) * PLOT_HEIGHT

    parts = [
        _text(10, 22, title, size=16, weight="bold"),
        _text(MARGIN + width / 2, bottom + 38, across, anchor="middle"),
    ]
    for x in range(x_low, x_high + 1):
        parts.append(_path([(left_of(x), TOP), (left_of(x), bottom)], "#ddd", 1))
        parts.append(_text(left_of(x), bottom + 18, f"{10**x:,}", anchor="middle"))
    for y in range(y_low, y_high + 1):
        parts.append(_path([(MARGIN, top_of(y)), (MARGIN + width, top_of(y))], "#ddd", 1))
        parts.append(_text(MARGIN - 8, top_of(y) + 4, f"{10**y:,}", anchor="end"))
    for index, (name, points) in enumerate(lines.items()):
        colour, top = LINES[index % len(LINES)], TOP + index * 20
        parts.append(_path([(left_of(math.log10(x)), top_of(math.log10(y))) for x, y in points], colour, 2))
        parts += [_bar(MARGIN + width + 16, top, 12, colour), _text(MARGIN + width + 34, top + 10, name)]
    return _document(parts, bottom + 50)


def _document(parts: Sequence[str], height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="sans-serif">\n<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _path(points: Points, colour: str, width: int) -> str:
    track = "L".join(f"{left:.1f} {top:.1f}" for left, top in points)
    return f'<path d="M{track}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def _legend(series: Sequence[str], with_goal: bool) -> list[str]:
    parts = []
    for index, name in enumerate(series):
        left = LABELS + index * 150
        parts += [_bar(left, 36, 12, COLOURS[index]), _text(left + 18, 46, name)]
    if with_goal:
        left = LABELS + len(series) * 150
        parts += [_line(left + 6, 34, 50), _text(left + 18, 46, "our goal, as a ratio")]
    return parts


def _group(group: Bars, top: float, scale: float, digits: int) -> list[str]:
    middle = top + BAR * len(group.values) / 2 + 4
    parts = [_text(LABELS - 8, middle, group.name, anchor="end")]
    for index, value in enumerate(group.values):
        above = top + index * BAR
        parts += [
            _bar(LABELS, above, value * scale, COLOURS[index]),
            _text(LABELS + value * scale + 5, above + BAR - 3, f"{value:,.{digits}f}"),
        ]
    if group.goal:
        parts.append(_line(LABELS + group.goal * scale, top - 2, top + BAR + 1))
    return parts


def _bar(left: float, top: float, width: float, colour: str) -> str:
    return f'<rect x="{left:.1f}" y="{top:.1f}" width="{max(width, 1):.1f}" height="{BAR - 2}" fill="{colour}"/>'


def _line(left: float, top: float, bottom: float) -> str:
    return f'<path d="M{left:.1f} {top:.1f}V{bottom:.1f}" stroke="#111" stroke-width="2"/>'


def _text(left: float, top: float, text: str, size: int = 11, anchor: str = "start", weight: str = "normal") -> str:
    style = f'font-size="{size}" text-anchor="{anchor}" font-weight="{weight}" fill="{INK}"'
    return f'<text x="{left:.1f}" y="{top:.1f}" {style}>{escape(text)}</text>'
