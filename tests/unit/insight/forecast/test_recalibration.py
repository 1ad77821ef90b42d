"""Forecasts that are corrected by earlier ones."""

import numpy as np
import pytest

from moorage.insight.forecast.forecast_model import StartInterval
from moorage.insight.forecast.recalibration import CheckedForecast, Recalibration, find_uniqueness

EVERY = 10_000.0
"""Seconds between forecasts: longer than all waits of these tests by default."""


def replay(waits: list[float], simulated: StartInterval, naive: float | None = None) -> list[CheckedForecast]:
    """Correct a sequence of forecasts with the same simulated interval."""
    recalibration = Recalibration()
    for number, waited in enumerate(waits):
        made = EVERY * number
        correction = recalibration.correct(simulated, made, naive)
        recalibration.add(CheckedForecast(made, simulated, correction.interval, correction.points, waited))
    return recalibration.forecasts


def coverage(forecasts: list[CheckedForecast]) -> float:
    return float(np.mean([item.corrected.p10 <= (item.waited or 0.0) <= item.corrected.p90 for item in forecasts]))


def draw_waits(sigma: float, count: int = 400) -> list[float]:
    return [float(seconds) for seconds in 1000.0 * np.exp(np.random.default_rng(2).normal(0.0, sigma, count))]


@pytest.mark.parametrize(
    ("sigma", "simulated"),
    {
        "too narrow": (0.5, StartInterval(900.0, 1000.0, 1100.0)),
        "too wide": (0.1, StartInterval(200.0, 1000.0, 5000.0)),
        "too early": (0.3, StartInterval(200.0, 300.0, 400.0)),
        "too late": (0.3, StartInterval(2500.0, 3000.0, 4000.0)),
    }.values(),
)
def test_coverage_becomes_80_percent(sigma: float, simulated: StartInterval) -> None:
    forecasts = replay(draw_waits(sigma), simulated)
    assert 0.75 <= coverage(forecasts[100:]) <= 0.85


def test_first_forecast_is_hardly_changed() -> None:
    simulated = StartInterval(100.0, 200.0, 400.0)
    interval = Recalibration().correct(simulated, 0.0).interval
    assert (interval.p10, interval.p50, interval.p90) == pytest.approx((100.0, 200.0, 400.0), rel=0.2)


def test_later_starts_are_not_known() -> None:
    simulated = StartInterval(100.0, 200.0, 400.0)
    known = [
        CheckedForecast(float(number), simulated, simulated, (200.0, 200.0), waited=50_000.0) for number in range(50)
    ]
    other = [
        CheckedForecast(float(number), simulated, simulated, (200.0, 200.0), waited=90_000.0) for number in range(50)
    ]
    later = [CheckedForecast(1e6, simulated, simulated, (200.0, 200.0), waited=1.0)]
    assert Recalibration(known).correct(simulated, 1000.0) == Recalibration([*other, *later]).correct(simulated, 1000.0)


def test_pods_that_still_wait_make_the_forecast_later() -> None:
    simulated = StartInterval(100.0, 200.0, 400.0)
    waiting = [CheckedForecast(EVERY * n, simulated, simulated, (200.0, 200.0), waited=None) for n in range(30)]
    assert Recalibration(waiting).correct(simulated, 30 * EVERY).interval.p90 > 600.0


def test_a_burst_counts_less_than_independent_forecasts() -> None:
    """Pods that wait for the same event have a common error: 25 of them have the weight of 5."""
    simulated = StartInterval(100.0, 200.0, 400.0)

    def correct(count: int, gap: float) -> StartInterval:
        burst = [CheckedForecast(gap * n, simulated, simulated, (200.0, 200.0), 5000.0) for n in range(count)]
        return Recalibration(burst).correct(simulated, 1e6).interval

    assert correct(25, 0.01).p10 < 0.5 * correct(25, EVERY).p10
    assert correct(25, 0.01).p10 == pytest.approx(correct(5, EVERY).p10, rel=0.1)


@pytest.mark.parametrize(
    ("made", "waited", "weights"),
    {
        "one after another": ([0.0, 100.0], [50.0, 50.0], [1.0, 1.0]),
        "at the same time": ([0.0, 0.0], [50.0, 50.0], [0.5, 0.5]),
        "half of the time": ([0.0, 50.0], [100.0, 100.0], [0.75, 0.75]),
        "inside another": ([0.0, 40.0], [100.0, 20.0], [0.9, 0.5]),
        "without a wait": ([0.0], [0.0], [1.0]),
        "none": ([], [], []),
    }.values(),
)
def test_uniqueness_is_the_mean_share_of_a_wait(made: list[float], waited: list[float], weights: list[float]) -> None:
    assert find_uniqueness(np.array(made), np.array(waited)) == pytest.approx(weights)


def test_the_first_interval_has_the_simulated_bounds() -> None:
    simulated = StartInterval(100.0, 1000.0, 10_000.0)
    interval = Recalibration().correct(simulated, 0.0).interval
    assert (interval.p10, interval.p90) == pytest.approx((100.0, 10_000.0), rel=0.1)


def test_point_follows_the_better_forecast() -> None:
    waits = draw_waits(0.1, 100)
    last = replay(waits, StartInterval(100.0, 20_000.0, 40_000.0), naive=1000.0)[-1]
    assert last.points[2] == 1000.0
    assert last.corrected.p10 <= last.corrected.p50 <= last.corrected.p90
    assert abs(last.corrected.p50 - 1000.0) < 15_000.0
