"""Corrects forecasts by earlier ones: intervals that contained too few starts become wider, and vice versa.

Only facts that were known at the moment of the forecast are used. A pod that still waits is also evidence: its start
is later than its age. This is conformal prediction with censored scores (Kaplan and Meier). The target levels follow
the intervals' own misses (adaptive conformal inference).

Pods of a burst wait for the same events, so a part of their error is the same. A forecast is therefore weighted by the
square root of its uniqueness: a hundred forecasts of one burst have the weight of ten independent forecasts.
"""

from collections.abc import Sequence
from math import exp, log
from typing import Final

import numpy as np
from msgspec import Struct

from moorage.common.arrays import NDArray
from moorage.insight.forecast.forecast_model import StartInterval

Floats = NDArray[np.float64]

GRACE: Final = 10.0
"""Seconds added before logarithms: differences of less than that do not matter."""
LEAST_WIDTH: Final = 0.05
"""Added to the logarithmic widths, so that forecasts without a spread have scores."""
HALF_LIFE: Final = 60.0
"""The weight of a forecast is halved after later ones with this total weight."""
PRIOR_WEIGHT: Final = 10.0
"""The weight of perfectly calibrated forecasts that are assumed before any other, in independent forecasts."""
PRIOR_SCORES: Final = 200
"""The number of their scores. With few scores, the quantiles would be too far from the median."""
MISSES: Final = 0.1
"""The share of starts before p10, and after p90."""
STEP: Final = 0.03
"""By how much an independent miss changes the target levels."""
LEAST_LEVEL: Final = 0.01
MOST_LEVEL: Final = 0.3
LEAST_STARTS: Final = 5
"""Starts that have to be known before the point forecast is corrected."""
HANDICAPS: Final = (1.0, 1.1, 1.2)
"""The errors of the median, the corrected median and the naive forecast are multiplied by these before comparison."""
TOLERANCE: Final = 1.0
"""Seconds by which a start may miss the interval: the time of an attempt."""


class CheckedForecast(Struct, frozen=True):
    """A forecast of the past, and the start that followed. Times are seconds since the arrival of the pod."""

    made: float
    """The moment of the forecast, on any clock."""
    simulated: StartInterval
    corrected: StartInterval
    points: tuple[float, ...]
    """The median, the corrected median, and the naive forecast if there is one."""
    waited: float | None
    """``None`` if the pod did not start."""


class Correction(Struct, frozen=True):
    """A corrected interval, and the points that its median was chosen from."""

    interval: StartInterval
    points: tuple[float, ...]


class Recalibration:
    """Collects forecasts and corrects later ones."""

    def __init__(self, forecasts: Sequence[CheckedForecast] = (), until: float = 0.0) -> None:
        self.forecasts = list(forecasts)
        self.until = until
        """The moment up to which the starts are known."""

    def correct(self, simulated: StartInterval, now: float, naive: float | None = None) -> Correction:
        """Correct a forecast that is made now. Later starts are ignored."""
        past = [forecast for forecast in self.forecasts if forecast.made < now]
        started = np.array([item.waited is not None and item.made + item.waited <= now for item in past], dtype=bool)
        waited = np.array(
            [item.waited if is_started else now - item.made for item, is_started in zip(past, started, strict=True)],
            dtype=float,
        )
        weights = np.sqrt(find_uniqueness(np.array([item.made for item in past]), waited))
        low, high = _find_levels(past, started, waited, weights)
        scores = _quantiles_of_scores(past, started, waited, weights, (low, 0.5, 1.0 - high))
        first, middle, last = (_apply_score(simulated, score) for score in scores)
        points = (simulated.p50, middle) if naive is None else (simulated.p50, middle, naive)
        point = _choose_point(past, started, waited, points)
        return Correction(StartInterval(first, min(max(point, first), last), last), points)

    def add(self, forecast: CheckedForecast) -> None:
        """Add a forecast. Those of the same recalibration are added in the order of their moments."""
        self.forecasts.append(forecast)


def find_uniqueness(made: Floats, waited: Floats) -> Floats:
    """Return the mean of 1 / (forecasts that waited at the same time) during the wait of each forecast."""
    if not len(made):
        return np.empty(0)
    ends = made + np.maximum(waited, GRACE)
    moments = np.unique(np.concatenate([made, ends]))
    begun = np.searchsorted(np.sort(made), moments[:-1], side="right")
    waiting = np.maximum(begun - np.searchsorted(np.sort(ends), moments[:-1], side="right"), 1)
    total = np.concatenate([[0.0], np.cumsum(np.diff(moments) / waiting)])
    shares: Floats = (np.interp(ends, moments, total) - np.interp(made, moments, total)) / (ends - made)
    return shares


def _find_levels(
    past: Sequence[CheckedForecast], started: NDArray[np.bool_], waited: Floats, weights: Floats
) -> tuple[float, float]:
    """Return the target shares of starts before and after the interval, which follow the misses so far."""
    low = high = MISSES
    for item, is_started, seconds, weight in zip(past, started, waited, weights, strict=True):
        is_late = seconds > item.corrected.p90 + TOLERANCE
        if is_started or is_late:
            low += STEP * weight * (MISSES - (seconds < item.corrected.p10 - TOLERANCE))
            high += STEP * weight * (MISSES - is_late)
            low, high = (min(max(level, LEAST_LEVEL), MOST_LEVEL) for level in (low, high))
    return low, high


def _quantiles_of_scores(
    past: Sequence[CheckedForecast],
    started: NDArray[np.bool_],
    waited: Floats,
    uniqueness: Floats,
    levels: Sequence[float],
) -> list[float]:
    """Return quantiles of the scores of earlier forecasts and of the assumed ones.

    The score of a start is 0 at the median of its forecast, -1 at p10 and 1 at p90.
    """
    scores = np.array([*(_find_score(item.simulated, float(x)) for item, x in zip(past, waited, strict=True)), *PRIOR])
    is_exact = np.concatenate([started, np.ones(len(PRIOR), dtype=bool)])
    weights = np.concatenate(
        [
            uniqueness * 0.5 ** (np.cumsum(uniqueness[::-1])[::-1] / HALF_LIFE),
            np.full(len(PRIOR), PRIOR_WEIGHT / len(PRIOR)),
        ]
    )
    order = np.argsort(scores, kind="stable")
    scores, is_exact, weights = scores[order], is_exact[order], weights[order]
    at_risk = np.cumsum(weights[::-1])[::-1]
    reached = 1.0 - np.cumprod(1.0 - np.where(is_exact, weights / at_risk, 0.0))
    return [float(scores[min(int(np.searchsorted(reached, level)), len(scores) - 1)]) for level in levels]


def _find_prior() -> Floats:
    """Return the scores of calibrated forecasts: linear between the quantiles, exponential beyond them."""
    shares = (np.arange(PRIOR_SCORES) + 0.5) / PRIOR_SCORES
    beyond = 1.0 - 0.5 * np.log(np.minimum(shares, 1.0 - shares) / MISSES)
    inside = (shares - 0.5) / (0.5 - MISSES)
    return np.where(np.abs(inside) > 1.0, np.sign(inside) * beyond, inside)


PRIOR: Final = _find_prior()


def _widths(interval: StartInterval) -> tuple[float, float, float]:
    """Return the logarithm of the median, and the logarithmic distances to p10 and p90."""
    middle = log(interval.p50 + GRACE)
    return (
        middle,
        middle - log(interval.p10 + GRACE) + LEAST_WIDTH,
        log(interval.p90 + GRACE) - middle + LEAST_WIDTH,
    )


def _find_score(interval: StartInterval, seconds: float) -> float:
    middle, below, above = _widths(interval)
    distance = log(max(seconds, 0.0) + GRACE) - middle
    return distance / (above if distance >= 0 else below)


def _apply_score(interval: StartInterval, score: float) -> float:
    """Return the start with a score."""
    middle, below, above = _widths(interval)
    return max(0.0, exp(middle + score * (above if score >= 0 else below)) - GRACE)


def _choose_point(
    past: Sequence[CheckedForecast], started: NDArray[np.bool_], waited: Floats, points: Sequence[float]
) -> float:
    """Return the mean of the simulated median and of the point with the smallest median error so far."""
    comparable = [
        (item.points, float(seconds))
        for item, is_started, seconds in zip(past, started, waited, strict=True)
        if is_started and len(item.points) >= len(points)
    ]
    if len(comparable) < LEAST_STARTS:
        return points[0]
    errors = [
        HANDICAPS[kind] * float(np.median([abs(candidates[kind] - seconds) for candidates, seconds in comparable]))
        for kind in range(len(points))
    ]
    return (points[0] + points[int(np.argmin(errors))]) / 2
