"""Statistics of trials: medians, confidence intervals, differences and the Pareto front."""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from moorage.lab.rows import TrialRow

RESAMPLES: Final = 2000
CONFIDENCE: Final = 0.95
SEED: Final = 20231
"""The bootstrap draws the same lots in every report."""


class Interval(Struct, frozen=True):
    """A median and its 95% confidence interval."""

    median: float
    low: float
    high: float
    count: int

    @property
    def is_above(self) -> bool:
        """Whether it is surely above 0."""
        return self.low > 0

    @property
    def is_below(self) -> bool:
        """Whether it is surely below 0."""
        return self.high < 0


def interval_of(values: Sequence[float]) -> Interval:
    """Return the median of some values with a bootstrap interval: percentiles of medians of resampled values."""
    sample = np.array(values, dtype=np.float64)
    if len(sample) == 1:
        return Interval(float(sample[0]), float(sample[0]), float(sample[0]), 1)
    chance = np.random.default_rng(SEED)
    drawn = np.median(sample[chance.integers(0, len(sample), (RESAMPLES, len(sample)))], axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn, (tail, 1 - tail))
    return Interval(float(np.median(sample)), float(low), float(high), len(sample))


def values_of(rows: Iterable[TrialRow], measure: str) -> dict[int, float]:
    """Return a measure by seed, of the trials that have it."""
    return {row.seed: row.measures[measure] for row in rows if measure in row.measures}


def difference_of(values: dict[int, float], baseline: dict[int, float]) -> Interval | None:
    """Return how much larger a measure is, seed by seed: what a seed makes easy or hard, it does for both."""
    shared = [values[seed] - baseline[seed] for seed in sorted(values.keys() & baseline.keys())]
    return interval_of(shared) if shared else None


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the places of points that no other beats: smaller in the first and larger in the second is better."""
    front = []
    for index, (cost, gain) in enumerate(points):
        beaten = any(
            other_cost <= cost and other_gain >= gain and (other_cost, other_gain) != (cost, gain)
            for other_cost, other_gain in points
        )
        if not beaten:
            front.append(index)
    return sorted(front, key=lambda index: points[index])
