"""Whether a measured quantity grows: a slope by least squares, with its confidence interval."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist, fmean
from typing import Final

CONFIDENCE: Final = 0.95
BINS: Final = 30
"""Number of intervals: consecutive samples are correlated, but the means of intervals are treated as independent."""

Point = tuple[float, float]
"""A time in seconds, and a value."""


@dataclass(frozen=True, slots=True)
class Slope:
    """Growth per second, with its 95% confidence interval."""

    per_second: float
    margin: float

    @property
    def least(self) -> float:
        """The lower end of the confidence interval."""
        return self.per_second - self.margin


def slope(lives: Sequence[Sequence[Point]]) -> Slope | None:
    """Fit one slope to measurements of several runs of a process, each with its own level.

    Changes by a restart are therefore not growth. Return ``None`` with too few measurements.
    """
    binned = [_binned(life, max(BINS // len(lives), 1)) for life in lives]
    centered = [point for life in binned for point in _centered(life)]
    freedom = len(centered) - len(binned) - 1
    spread = sum(x * x for x, _ in centered)
    if freedom < 1 or spread == 0:
        return None
    steepness = sum(x * y for x, y in centered) / spread
    left_over = sum((y - steepness * x) ** 2 for x, y in centered)
    return Slope(steepness, student(freedom) * math.sqrt(left_over / freedom / spread))


def student(freedom: int) -> float:
    """Return the two-sided quantile of Student's t: the normal one, widened by the first terms of its expansion."""
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def _binned(life: Sequence[Point], count: int) -> list[Point]:
    count = min(count, len(life))
    ends = [len(life) * number // count for number in range(count + 1)] if count else []
    return [(fmean(x for x, _ in life[a:b]), fmean(y for _, y in life[a:b])) for a, b in pairwise(ends)]


def _centered(life: Sequence[Point]) -> Iterator[Point]:
    if not life:
        return
    middle, level = fmean(x for x, _ in life), fmean(y for _, y in life)
    yield from ((x - middle, y - level) for x, y in life)
