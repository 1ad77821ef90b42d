"""A slope is found where there is one, and restarts and noise are taken for none."""

from random import Random

import pytest
from tests.soak.growth import Point, slope, student


def noisy(
    chance: Random, count: int, *, per_second: float = 0.0, level: float = 90.0, start: float = 0.0
) -> list[Point]:
    return [
        (start + second, level + per_second * second + chance.gauss(0.0, 2.0)) for second in map(float, range(count))
    ]


@pytest.mark.parametrize("seed", range(5))
def test_growth_shows_through_noise(seed: int) -> None:
    trend = slope([noisy(Random(seed), 900, per_second=0.02)])
    assert trend is not None
    assert trend.per_second == pytest.approx(0.02, abs=0.005)
    assert trend.least > 0.01


def test_noise_is_within_its_95_percent_interval() -> None:
    chance = Random(1)
    trends = [slope([noisy(chance, 300)]) for _ in range(200)]
    outside = sum(1 for each in trends if each is None or abs(each.per_second) > each.margin)
    assert 1 <= outside <= 22


def test_a_restart_that_changes_the_level_is_not_growth() -> None:
    chance = Random(1)
    lives = [noisy(chance, 300, level=80.0), noisy(chance, 300, level=120.0, start=300.0)]
    parted, joined = slope(lives), slope([lives[0] + lives[1]])
    assert parted is not None
    assert joined is not None
    assert abs(parted.per_second) < 0.01
    assert joined.least > 0.05


@pytest.mark.parametrize("lives", [[], [[]], [[(0.0, 1.0)]], [[(0.0, 1.0), (1.0, 2.0)]]])
def test_slope_needs_enough_points(lives: list[list[Point]]) -> None:
    assert slope(lives) is None


@pytest.mark.parametrize(("freedom", "want"), [(5, 2.571), (10, 2.228), (28, 2.048), (1000, 1.962)])
def test_quantiles_match_published_tables(freedom: int, want: float) -> None:
    assert student(freedom) == pytest.approx(want, abs=0.01)
