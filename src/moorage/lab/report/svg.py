"""Charts as SVG; the page's style sheet defines the colors, also for dark mode."""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Final

import numpy as np
from msgspec import Struct

from moorage.lab.report.measures import Interval

WIDTH: Final = 520
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 14, 40
ROW: Final = 34
LETTER: Final = 7.5
"""Approximate width of a letter."""
COLORS: Final = 8
"""Number of colors of the page; further series repeat them."""
FormatNumber = Callable[[float], str]
Axis = tuple[str, FormatNumber]
"""The title of an axis and its number format."""


class Line(Struct, frozen=True):
    """A series over time: its median, and a band around it."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


class Dot(Struct, frozen=True):
    """One point of a scatter chart, with intervals in both directions."""

    name: str
    x: Interval
    y: Interval


DASHES: Final = ("", "10 3", "3 3", "10 3 2 3")
"""Dash patterns, so that overlapping lines remain visible in the gaps."""


def text(x: float, y: float, words: str, *, kind: str = "", anchor: str = "start") -> str:
    """Return a text element."""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def picture(title: str, height: float, parts: Sequence[str]) -> str:
    """Return an image. The title is for screen readers."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}" '
        f'xmlns="http://www.w3.org/2000/svg"><title>{escape(title)}</title>{"".join(parts)}</svg>'
    )


def nice_steps(low: float, high: float, most: int = 5) -> list[float]:
    """Return round numbers for the ticks of an axis."""
    if high <= low:
        high = low + 1.0
    rough = (high - low) / most
    size = 10.0 ** np.floor(np.log10(rough))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= rough)
    first = np.ceil(low / step - 1e-9) * step
    return [float(round(first + step * index, 10)) for index in range(most + 2) if first + step * index <= high + 1e-9]


class ChartFrame:
    """The axes of a chart; converts numbers to coordinates."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float], height: float = 250.0) -> None:
        self.height = height
        self._x, self._y = _widen(*x), _widen(*y)

    def at_x(self, number: float) -> float:
        """Return the x coordinate of a number."""
        low, high = self._x
        return LEFT + (number - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def at_y(self, number: float) -> float:
        """Return the y coordinate of a number."""
        low, high = self._y
        return self.height - BOTTOM - (number - low) / (high - low) * (self.height - TOP - BOTTOM)

    def axes(self, x_title: str, format_x: FormatNumber, format_y: FormatNumber) -> list[str]:
        """Draw the grid and its numbers."""
        parts = []
        for number in nice_steps(*self._y):
            y = self.at_y(number)
            parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
            parts.append(text(LEFT - 6, y + 4, format_y(number), kind="tick", anchor="end"))
        for number in nice_steps(*self._x):
            x = self.at_x(number)
            parts.append(text(x, self.height - BOTTOM + 16, format_x(number), kind="tick", anchor="middle"))
        parts.append(text((LEFT + WIDTH - RIGHT) / 2, self.height - 6, x_title, kind="tick", anchor="middle"))
        return parts


def _widen(low: float, high: float) -> tuple[float, float]:
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def line_chart(title: str, lines: Sequence[Line], x_title: str, format_x: FormatNumber, format_y: FormatNumber) -> str:
    """Draw series over time with their bands. The axis begins at 0."""
    last = max(max(line.x) for line in lines)
    first = min(min(line.x) for line in lines)
    frame = ChartFrame((first, last), (0.0, max(max(line.high) for line in lines) * 1.05))
    parts = frame.axes(x_title, format_x, format_y)
    for index, line in enumerate(lines):
        upper = [f"{frame.at_x(x):.1f} {frame.at_y(y):.1f}" for x, y in zip(line.x, line.high, strict=True)]
        lower = [f"{frame.at_x(x):.1f} {frame.at_y(y):.1f}" for x, y in zip(line.x, line.low, strict=True)][::-1]
        parts.append(f'<path class="band c{index % COLORS}" d="M{"L".join((*upper, *lower))}Z"/>')
    for index, line in enumerate(lines):
        path = "L".join(f"{frame.at_x(x):.1f} {frame.at_y(y):.1f}" for x, y in zip(line.x, line.y, strict=True))
        pattern = DASHES[(index + index // COLORS) % len(DASHES)]  # lines of a color have different patterns
        dashes = f' stroke-dasharray="{pattern}"' if pattern else ""
        tooltip = f"<title>{escape(line.name)}</title>"
        parts.append(f'<path class="line c{index % COLORS}"{dashes} d="M{path}">{tooltip}</path>')
    return picture(title, frame.height, parts)


def interval_chart(title: str, intervals: Mapping[str, Interval], format_value: FormatNumber) -> str:
    """Draw a median and its interval for each name, in rows."""
    low, high = min(item.low for item in intervals.values()), max(item.high for item in intervals.values())
    padding = (high - low) * 0.12 or abs(high) * 0.05 or 1.0
    margin, height = 150, ROW * len(intervals) + 30
    low, high = max(low - padding, 0.0) if low >= 0 else low - padding, high + padding

    def at(number: float) -> float:
        return margin + (number - low) / (high - low) * (WIDTH - margin - 80)

    parts = []
    for number in nice_steps(low, high, 4):
        parts.append(f'<path class="grid" d="M{at(number):.1f} 6V{height - 24}"/>')
        parts.append(text(at(number), height - 8, format_value(number), kind="tick", anchor="middle"))
    for index, (name, item) in enumerate(intervals.items()):
        y, color = 6 + ROW * (index + 0.5), f"c{index % COLORS}"
        parts.append(text(margin - 10, y + 4, shorten(name), kind="name", anchor="end"))
        end = max(at(item.high), at(item.low) + 1)
        parts.append(f'<path class="whisker {color}" d="M{at(item.low):.1f} {y:.1f}H{end:.1f}"/>')
        parts.append(f'<circle class="dot {color}" cx="{at(item.median):.1f}" cy="{y:.1f}" r="5"/>')
        parts.append(text(at(item.high) + 10, y + 4, format_value(item.median), kind="value"))
    return picture(title, height, parts)


def bar_groups(title: str, groups: Sequence[tuple[str, Sequence[float]]], format_value: FormatNumber) -> str:
    """Draw a group of bars for each name, one for each series."""
    longest = max((value for _, values in groups for value in values), default=0.0) or 1.0
    margin, bar, gap, top, parts = 150, 15, 14, 4.0, []
    for name, values in groups:
        parts.append(text(margin - 10, top + bar * len(values) / 2 + 4, shorten(name), kind="name", anchor="end"))
        for index, value in enumerate(values):
            width = max(1.0, value / longest * (WIDTH - margin - 80))
            size = f'x="{margin}" y="{top:.1f}" width="{width:.1f}" height="{bar - 3}" rx="2"'
            parts.append(f'<rect class="bar c{index % COLORS}" {size}/>')
            parts.append(text(margin + width + 6, top + bar - 4, format_value(value), kind="value"))
            top += bar
        top += gap
    return picture(title, top, parts)


def scatter(title: str, dots: Sequence[Dot], front: Sequence[int], x_axis: Axis, y_axis: Axis) -> str:
    """Draw costs against gains. The Pareto front is connected."""
    xs = [end for dot in dots for end in (dot.x.low, dot.x.high)]
    ys = [end for dot in dots for end in (dot.y.low, dot.y.high)]
    padding_x, padding_y = (max(xs) - min(xs)) * 0.15 or 1.0, (max(ys) - min(ys)) * 0.15 or 0.01
    frame = ChartFrame((min(xs) - padding_x, max(xs) + padding_x), (min(ys) - padding_y, max(ys) + padding_y), 300.0)
    parts = [*frame.axes(*x_axis, y_axis[1]), text(4, TOP - 2, f"↑ {y_axis[0]}", kind="tick")]
    if len(front) > 1:
        path = "L".join(f"{frame.at_x(dots[n].x.median):.1f} {frame.at_y(dots[n].y.median):.1f}" for n in front)
        parts.append(f'<path class="front" d="M{path}"/>')
    labels: list[tuple[float, float, float]] = []
    circles = []
    for index, dot in enumerate(dots):
        color, x, y = f"c{index % COLORS}", frame.at_x(dot.x.median), frame.at_y(dot.y.median)
        across = f"M{frame.at_x(dot.x.low):.1f} {y:.1f}H{frame.at_x(dot.x.high):.1f}"
        upright = f"M{x:.1f} {frame.at_y(dot.y.low):.1f}V{frame.at_y(dot.y.high):.1f}"
        parts.append(f'<path class="whisker thin {color}" d="{across}{upright}"/>')
        kind = "dot" if index in front else "dot dominated"
        circles.append(f'<circle class="{kind} {color}" cx="{x:.1f}" cy="{y:.1f}" r="6"/>')
        name = shorten(dot.name)
        at, length = y - 9, LETTER * len(name)
        edge, anchor = (x - 10, "end") if x + 10 + length > WIDTH else (x + 10, "start")
        text_start = edge - length if anchor == "end" else edge
        while any(abs(at - y) < 14 and text_start < end and begin < text_start + length for begin, end, y in labels):
            at += 14  # labels of close points are stacked
        if at > frame.height - BOTTOM:
            at = min((top for _, _, top in labels), default=at) - 14
        labels.append((text_start, text_start + length, at))
        parts.append(text(edge, at, name, kind=f"name {color}", anchor=anchor))
    return picture(title, frame.height, [*parts, *circles])


def shorten(name: str, most: int = 22) -> str:
    """Truncate a long name."""
    return name if len(name) <= most else f"{name[: most - 1]}…"
