"""Measures of a report: number formats, bootstrap intervals, differences and the Pareto front."""

from random import Random
from statistics import median

import pytest

from moorage.lab.report.measures import (
    MEASURES,
    Measure,
    choose_time_unit,
    collect_values,
    compute_difference,
    compute_interval,
    find_pareto_front,
    format_wait,
)
from moorage.lab.trial import TrialRow

FORMATS: dict[str, tuple[str, float, str]] = {
    "share": ("share", 0.1234, "12.3%"),
    "short wait": ("seconds", 0.04, "0s"),
    "smallest visible wait": ("seconds", 0.05, "50ms"),
    "energy": ("kWh", 1234.56, "1,234.6 kWh"),
    "money": ("money", 1234.567, "1,234.57"),
    "large number": ("count", 1234.5, "1,234"),
    "smallest number without decimals": ("count", 100.5, "100"),
    "large negative number": ("count", -100.4, "-100"),
    "small fraction": ("count", 99.25, "99.2"),
    "fraction below ten": ("count", 0.37, "0.37"),
    "small whole number": ("count", 7.0, "7"),
}


@pytest.mark.parametrize(("form", "number", "text"), FORMATS.values(), ids=FORMATS)
def test_number_is_formatted(form: str, number: float, text: str) -> None:
    assert Measure("key", "title", 1, form).format(number) == text


def test_waiting_time_is_formatted() -> None:
    assert format_wait(90.0) == "1m30s"
    assert format_wait(3600.0) == "1.0 hours"
    assert format_wait(47.5 * 3600) == "47.5 hours"
    assert format_wait(323 * 3600 + 252) == "13.5 days"


def test_difference_has_a_sign_and_shares_are_points() -> None:
    share, count = Measure("key", "title", 1, "share"), Measure("key", "title", 1, "count")
    assert share.format_difference(0.025) == "+2.5 points"
    assert share.format_difference(-0.025) == "−2.5 points"
    assert count.format_difference(0.0) == "±0"
    assert count.format_difference(-3.0) == "−3"


def test_more_allocation_is_better_and_more_waiting_is_worse() -> None:
    better = {measure.key: measure.better for measure in MEASURES}
    assert {key for key, sign in better.items() if sign > 0} == {
        "allocation.gpu",
        "allocation.cpu",
        "allocation.memory",
        "fairness.jain",
    }
    assert {key for key, sign in better.items() if sign == 0} == {"spread.cpu"}
    assert set(better.values()) == {1, 0, -1}
    assert len(better) == len(MEASURES) == 28


def test_interval_of_one_value_is_that_value() -> None:
    interval = compute_interval([4.0])
    assert (interval.median, interval.low, interval.high, interval.count) == (4.0, 4.0, 4.0, 1)


def test_interval_agrees_with_an_independent_bootstrap() -> None:
    values = [3.0, 1.0, 4.0, 1.5, 5.0, 9.0, 2.6, 5.3, 5.8, 9.7, 9.3]
    random = Random(1)
    medians = sorted(median(random.choices(values, k=len(values))) for _ in range(4000))
    interval = compute_interval(values)
    assert interval.median == median(values) == 5.0
    assert interval.count == 11
    # Medians of samples are values themselves: the percentiles of both bootstraps are the same or adjacent values.
    assert interval.low == pytest.approx(medians[100], abs=0.5)
    assert interval.high == pytest.approx(medians[3899], abs=0.5)


def test_interval_is_significant_only_without_0() -> None:
    assert compute_interval([1.0, 2.0, 3.0]).is_above
    assert not compute_interval([0.0, 2.0, 3.0]).is_above
    assert not compute_interval([1.0, 2.0, 3.0]).is_below
    assert compute_interval([-1.0, -2.0, -3.0]).is_below
    assert not compute_interval([0.0, -2.0, -3.0]).is_below


def test_differences_are_computed_seed_by_seed() -> None:
    interval = compute_difference({1: 10.0, 2: 25.0, 3: 31.0, 4: 99.0}, {1: 9.0, 2: 20.0, 3: 30.0, 5: 0.0})
    assert interval is not None
    assert (interval.median, interval.low, interval.high, interval.count) == (1.0, 1.0, 5.0, 3)
    assert compute_difference({1: 1.0}, {2: 1.0}) is None


def test_values_are_collected_from_trials_that_have_the_measure() -> None:
    rows = [TrialRow("t", "c", "p", 1, measures={"cost": 2.0}), TrialRow("t", "c", "p", 2, measures={"energy": 1.0})]
    assert collect_values(rows, "cost") == {1: 2.0}


FRONTS: dict[str, tuple[list[tuple[float, float]], list[int]]] = {
    "dominated point": ([(1.0, 2.0), (2.0, 1.0)], [0]),
    "cheap and expensive point": ([(2.0, 3.0), (1.0, 2.0)], [1, 0]),
    "same cost and less gain": ([(1.0, 2.0), (1.0, 1.0)], [0]),
    "same gain and higher cost": ([(2.0, 2.0), (1.0, 2.0)], [1]),
    "equal points": ([(1.0, 2.0), (1.0, 2.0)], [0, 1]),
}


@pytest.mark.parametrize(("points", "front"), FRONTS.values(), ids=FRONTS)
def test_pareto_front_contains_points_that_are_not_dominated(
    points: list[tuple[float, float]], front: list[int]
) -> None:
    assert find_pareto_front(points) == front


@pytest.mark.parametrize(
    ("seconds", "unit"), [(7200, "minutes"), (7201, "hours"), (4 * 86_400 - 1, "hours"), (4 * 86_400, "days")]
)
def test_unit_of_a_time_axis_depends_on_its_length(seconds: float, unit: str) -> None:
    assert choose_time_unit(seconds)[0] == unit
