"""Charts: their coordinates are recomputed from the numbers that they show."""

import re
from xml.etree import ElementTree

import pytest

from moorage.lab.report.measures import Interval
from moorage.lab.report.svg import (
    BOTTOM,
    COLORS,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    ChartFrame,
    Dot,
    Line,
    bar_groups,
    interval_chart,
    line_chart,
    nice_steps,
    scatter,
    shorten,
)

SVG = "{http://www.w3.org/2000/svg}"


def parse(chart: str) -> ElementTree.Element:
    return ElementTree.fromstring(chart)


def of_class(chart: str, tag: str, name: str) -> list[ElementTree.Element]:
    return [element for element in parse(chart).iter(SVG + tag) if name in element.get("class", "").split()]


def numbers(element: ElementTree.Element, *names: str) -> list[float]:
    return [float(element.get(name, "nan")) for name in names]


def interval(median: float, low: float, high: float) -> Interval:
    return Interval(median, low, high, count=5)


def show(value: float) -> str:
    return f"{value:g}"


STEPS = {
    "tens": ((0, 50, 5), [0, 10, 20, 30, 40, 50]),
    "halves": ((0.2, 2.2, 5), [0.5, 1.0, 1.5, 2.0]),
    "quarters": ((0, 1.0, 4), [0, 0.25, 0.5, 0.75, 1.0]),
    "an empty range has a width of one": ((3, 3, 5), [3.0, 3.2, 3.4, 3.6, 3.8, 4.0]),
    "negative numbers": ((-10, 10, 4), [-10, -5, 0, 5, 10]),
}


@pytest.mark.parametrize(("arguments", "steps"), STEPS.values(), ids=STEPS)
def test_ticks_are_round_numbers_within_the_axis(arguments: tuple[float, float, int], steps: list[float]) -> None:
    assert nice_steps(*arguments) == pytest.approx(steps)


def test_axes_map_the_ends_to_the_edges_and_the_middle_to_the_middle() -> None:
    frame = ChartFrame((10.0, 30.0), (0.0, 8.0), height=200.0)
    assert [frame.at_x(x) for x in (10.0, 20.0, 30.0)] == [LEFT, (LEFT + WIDTH - RIGHT) / 2, WIDTH - RIGHT]
    assert [frame.at_y(y) for y in (0.0, 4.0, 8.0)] == [200 - BOTTOM, (200 - BOTTOM + TOP) / 2, TOP]
    single = ChartFrame((5.0, 5.0), (1.0, 1.0))
    assert single.at_x(5.0) == (LEFT + WIDTH - RIGHT) / 2, "one value is in the middle"


def test_line_follows_the_medians_and_its_band_the_ends() -> None:
    lines = [
        Line("first & best", [0, 10, 20], [1, 2, 4], [0, 1, 2], [2, 4, 8]),
        Line("second", [5, 10], [3, 3], [3, 3], [3, 3]),
    ]
    chart = line_chart("a title", lines, "time", show, show)
    frame = ChartFrame((0, 20), (0, 8 * 1.05))
    paths = of_class(chart, "path", "line")
    for path, line in zip(paths, lines, strict=True):
        points = [tuple(map(float, point.split())) for point in path.get("d", "")[1:].split("L")]
        expected = [(frame.at_x(x), frame.at_y(y)) for x, y in zip(line.x, line.y, strict=True)]
        assert [number for point in points for number in point] == pytest.approx(
            [number for point in expected for number in point], abs=0.06
        )
        assert [title.text for title in path] == [line.name]
    assert [path.get("stroke-dasharray") for path in paths] == [None, "10 3"]
    band = of_class(chart, "path", "band")[0].get("d", "")
    assert len(band.split("L")) == 6
    assert band.startswith(f"M{frame.at_x(0):.1f} {frame.at_y(2):.1f}L")
    assert band.endswith(f"L{frame.at_x(0):.1f} {frame.at_y(0):.1f}Z")


INTERVALS = {"mine": interval(10.0, 8.0, 12.0), "theirs": interval(20.0, 20.0, 20.0)}


def test_intervals_are_drawn_to_one_scale_with_names_and_values() -> None:
    chart = interval_chart("cost", INTERVALS, show)
    ticks = {float(tick.text or ""): numbers(tick, "x")[0] for tick in of_class(chart, "text", "tick")}
    (first, at_first), (last, at_last) = min(ticks.items()), max(ticks.items())
    scale = (at_last - at_first) / (last - first)
    dots = of_class(chart, "circle", "dot")
    whiskers = [
        tuple(map(float, re.findall(r"[\d.]+", path.get("d", "")))) for path in of_class(chart, "path", "whisker")
    ]
    for dot, (begin, _, end), interval in zip(dots, whiskers, INTERVALS.values(), strict=True):
        assert numbers(dot, "cx")[0] == pytest.approx(at_first + (interval.median - first) * scale, abs=0.2)
        assert begin == pytest.approx(at_first + (interval.low - first) * scale, abs=0.2)
        assert end == pytest.approx(max(at_first + (interval.high - first) * scale, begin + 1), abs=0.2)
    assert [name.text for name in of_class(chart, "text", "name")] == ["mine", "theirs"]
    assert [value.text for value in of_class(chart, "text", "value")] == ["10", "20"]


@pytest.mark.parametrize("value", [0.0, 7.0, -3.0])
def test_equal_intervals_have_an_axis(value: float) -> None:
    chart = interval_chart("cost", {"a": interval(value, value, value)}, show)
    (dot,) = of_class(chart, "circle", "dot")
    assert 150 <= numbers(dot, "cx")[0] <= WIDTH - 80
    assert len(of_class(chart, "text", "tick")) > 1


def test_axis_of_intervals_does_not_extend_below_zero() -> None:
    ticks = [
        float(tick.text or "")
        for tick in of_class(interval_chart("x", {"a": interval(5, 0.5, 9)}, show), "text", "tick")
    ]
    assert min(ticks) == 0.0
    below = [
        float(tick.text or "")
        for tick in of_class(interval_chart("x", {"a": interval(5, -8, 9)}, show), "text", "tick")
    ]
    assert min(below) < 0.0


def test_lengths_of_bars_are_proportional() -> None:
    groups = [("small", [1.0, 2.0]), ("large", [4.0, 0.0])]
    chart = bar_groups("pods", groups, show)
    bars = of_class(chart, "rect", "bar")
    widths = [numbers(bar, "width")[0] for bar in bars]
    assert widths == pytest.approx([widths[2] / 4, widths[2] / 2, WIDTH - 150 - 80, 1.0], abs=0.1)
    tops = [numbers(bar, "y")[0] for bar in bars]
    assert tops == sorted(tops)
    assert tops[2] - tops[1] > tops[1] - tops[0], "groups have a gap"
    assert [name.text for name in of_class(chart, "text", "name")] == ["small", "large"]
    assert [value.text for value in of_class(chart, "text", "value")] == ["1", "2", "4", "0"]
    assert of_class(bar_groups("none", [], show), "rect", "bar") == []
    assert numbers(of_class(bar_groups("zero", [("a", [0.0])], show), "rect", "bar")[0], "width") == [1.0]


def test_points_are_at_their_medians_and_the_front_is_connected() -> None:
    dots = [
        Dot("cheap", interval(1, 0, 2), interval(5, 5, 5)),
        Dot("good", interval(10, 9, 11), interval(9, 8, 10)),
        Dot("neither", interval(10, 10, 10), interval(5, 5, 5)),
    ]
    chart = scatter("costs", dots, [0, 1], ("cost", show), ("gain", show))
    circles = of_class(chart, "circle", "dot")
    assert [len(circle.get("class", "").split()) for circle in circles] == [2, 2, 3]
    assert "dominated" in circles[2].get("class", "")
    cheap, good, neither = (numbers(circle, "cx", "cy") for circle in circles)
    frame = ChartFrame((0 - 11 * 0.15, 11 + 11 * 0.15), (5 - 5 * 0.15, 10 + 5 * 0.15), 300.0)
    assert cheap == pytest.approx([frame.at_x(1), frame.at_y(5)], abs=0.1)
    assert good == pytest.approx([frame.at_x(10), frame.at_y(9)], abs=0.1)
    assert (neither[0], neither[1]) == (good[0], cheap[1])
    (front,) = of_class(chart, "path", "front")
    assert front.get("d") == f"M{cheap[0]} {cheap[1]}L{good[0]} {good[1]}"
    assert of_class(scatter("costs", dots, [0], ("cost", show), ("gain", show)), "path", "front") == []


def test_labels_of_close_points_do_not_overlap_and_remain_inside() -> None:
    dots = [Dot(f"a long name {number}", interval(3, 3, 3), interval(2, 2, 2)) for number in range(3)]
    dots.append(Dot("far away on the left", interval(0, 0, 0), interval(2, 2, 2)))
    chart = scatter("costs", dots, [], ("cost", show), ("gain", show))
    labels = of_class(chart, "text", "name")
    assert [label.get("text-anchor") for label in labels] == ["end", "end", "end", "start"]
    heights = [numbers(label, "y")[0] for label in labels]
    assert [height - heights[0] for height in heights] == pytest.approx([0.0, 14.0, 28.0, 0.0]), (
        "only labels in the way"
    )


def test_long_names_are_truncated() -> None:
    assert shorten("x" * 22) == "x" * 22
    assert shorten("x" * 23) == "x" * 21 + "…"


def test_lines_of_one_color_have_different_patterns() -> None:
    lines = [Line(str(number), [0, 1], [0, 1], [0, 1], [0, 1]) for number in range(3 * COLORS)]
    drawn = of_class(line_chart("t", lines, "x", show, show), "path", "line")
    assert len({(line.get("class"), line.get("stroke-dasharray")) for line in drawn}) == len(lines)


def test_labels_of_equal_points_stay_in_the_frame_and_do_not_overlap() -> None:
    same = interval(1, 1, 1)
    dots = [Dot(f"policy {number} with a name that is far too long", same, same) for number in range(20)]
    chart = scatter("t", dots, [0], ("x", show), ("y", show))
    labels = of_class(chart, "text", "name")
    heights = [float(label.get("y", "nan")) for label in labels]
    assert len(set(heights)) == len(dots)
    assert max(heights) <= 300 - BOTTOM
    assert all(len(label.text or "") <= 22 for label in labels)
