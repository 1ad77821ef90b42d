"""How long pods run: a survival curve of recorded pods of the same class and size, and draws from it.

Running pods are included: a history of finished pods alone would have too few long runs. Each simulated
future weighs the recorded pods differently (a Bayesian bootstrap), so that a short history gives wide intervals.
"""

from collections.abc import Iterable, Sequence
from math import inf
from typing import Final

import numpy as np
from msgspec import Struct

from moorage.common.arrays import NDArray

MAX_RUNS: Final = 3000
"""Maximum number of recent runs that are used."""
BORROWED: Final = (inf, 6.0, 4.0, 2.0)
"""The maximum total weight, in pods, of runs with the same class and size, class or size, or with neither."""
TAIL: Final = 0.5
"""The weight, in numbers of pods, of a run that is longer than all recorded ones."""
LEAST_SECONDS: Final = 1.0
MAX_LOG: Final = 23.0
"""Logarithm of the longest drawn duration, about 300 years."""


class PodTraits(Struct, frozen=True):
    """The traits of a pod that predict its duration: its class, and its size class, a string."""

    group: str = ""
    size: str = ""


class RecordedRun(Struct, frozen=True):
    """A run of a pod: its traits and its seconds; ``ended`` is False if it still runs."""

    traits: PodTraits
    seconds: float
    ended: bool = True


class Lifetimes:
    """Draws durations of pods from recorded runs, oldest first."""

    def __init__(self, runs: Iterable[RecordedRun]) -> None:
        recent = sorted(list(runs)[-MAX_RUNS:], key=lambda run: run.seconds)
        self._traits = [run.traits for run in recent]
        self._log_seconds = (
            np.log(np.maximum([run.seconds for run in recent], LEAST_SECONDS)) if recent else np.empty(0)
        )
        self._ended = np.array([run.ended for run in recent], dtype=bool)
        self._has_ends = bool(self._ended.any())
        self._weights: dict[PodTraits, NDArray[np.float64]] = {}
        self._relative = np.ones(len(recent))
        self._curves: dict[PodTraits, NDArray[np.float64]] = {}

    @property
    def ended(self) -> int:
        """The number of complete runs."""
        return int(self._ended.sum())

    def count_ended(self, group: str) -> int:
        """Return the number of complete runs of a class."""
        return sum(
            1 for traits, ended in zip(self._traits, self._ended, strict=True) if ended and traits.group == group
        )

    def reweigh(self, random: np.random.Generator) -> None:
        """Draw random weights of the recorded runs for the next simulated future."""
        self._relative = random.standard_exponential(len(self._traits))
        self._curves.clear()

    def draw(self, traits: PodTraits, random: np.random.Generator, elapsed: float = 0.0) -> float:
        """Draw a duration; it is longer than the seconds that have elapsed.

        Without complete runs, half of the pods run for more than twice the elapsed time.
        """
        known, since = self._log_seconds, np.log(max(elapsed, LEAST_SECONDS))
        if not self._has_ends:
            return float(np.exp(min(since - np.log(1.0 - random.random()), MAX_LOG)))
        survival = self._curve(traits)
        # Survival is a function of log seconds: 1 before the shortest run, then linear between recorded runs.
        target = float(np.interp(since, known, survival, left=1.0)) * (1.0 - random.random())
        if target >= survival[-1]:
            moment = float(np.interp(-target, -survival, known))
        else:
            # Beyond the longest recorded run, half of the pods end before they have run twice as long.
            moment = max(since, known[-1]) + np.log(survival[-1] / target)
        return max(float(np.exp(min(moment, MAX_LOG))), elapsed)

    def _curve(self, traits: PodTraits) -> NDArray[np.float64]:
        """Return the share of pods that survive each recorded duration (Kaplan and Meier)."""
        curve = self._curves.get(traits)
        if curve is None:
            weights: NDArray[np.float64] = self._weigh(traits) * self._relative
            at_risk = np.cumsum(weights[::-1])[::-1] + TAIL
            lost = np.where(self._ended, weights / at_risk, 0.0)
            curve = self._curves[traits] = np.cumprod(1.0 - lost).astype(np.float64)
        return curve

    def _weigh(self, traits: PodTraits) -> NDArray[np.float64]:
        """Weigh runs by similarity: a class with few runs borrows from pods of the same size, and from all."""
        weights = self._weights.get(traits)
        if weights is None:
            levels = np.array([_distance(traits, other) for other in self._traits], dtype=int)
            counts = np.bincount(levels, minlength=len(BORROWED))
            shares = [min(1.0, most / count) if count else 0.0 for most, count in zip(BORROWED, counts, strict=True)]
            weights = self._weights[traits] = np.array(shares)[levels] if len(levels) else np.empty(0)
        return weights


def _distance(traits: PodTraits, other: PodTraits) -> int:
    return 2 * (traits.group != other.group) + (traits.size != other.size)


def quantiles(numbers: Sequence[float], shares: Sequence[float]) -> list[float]:
    """Return quantiles of draws; with few draws the interval is wider, because its probability must not change.

    >>> quantiles(range(1, 10), [0.1, 0.5, 0.9])
    [1.0, 5.0, 9.0]
    """
    return [float(number) for number in np.quantile(list(numbers), list(shares), method="weibull")]
