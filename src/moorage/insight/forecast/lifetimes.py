"""Draws of run times from recorded runs of the same class and size.

Running pods are included: a history of finished pods alone would have too few long runs. Each simulated future
weighs the recorded pods differently (a Bayesian bootstrap), so that a short history gives wide intervals. Consecutive
pods of a class may be a batch: a draw can repeat the duration of a recent pod, which is recorded or was drawn itself.
"""

from collections.abc import Iterable, Sequence
from math import exp, inf, log
from typing import Final

import numpy as np
from msgspec import Struct

from moorage.common.arrays import NDArray
from moorage.insight.forecast.repetition import REPETITIONS, Repetition, count_repetitions
from moorage.insight.forecast.survival import SurvivalCurve, fit_survival

MAX_RUNS: Final = 3000
"""Maximum number of recent runs that are used."""
BORROWED: Final = (inf, 6.0, 4.0, 2.0)
"""The maximum total weight, in pods, of runs with the same class and size, class or size, or with neither."""
LEAST_SECONDS: Final = 1.0
MAX_LOG: Final = 23.0
"""Logarithm of the longest drawn duration, about 300 years."""


class PodTraits(Struct, frozen=True):
    """The traits of a pod that predict its duration: its class, and its size class, a string."""

    group: str = ""
    size: str = ""


class RecordedRun(Struct, frozen=True):
    """A run of a pod: its traits and its seconds. ``ended`` is False if it still runs."""

    traits: PodTraits
    seconds: float
    ended: bool = True


class Lifetimes:
    """Draws durations of pods from recorded runs, in the order of arrival."""

    def __init__(self, runs: Iterable[RecordedRun]) -> None:
        recent = list(runs)[-MAX_RUNS:]
        log_seconds = np.log(np.maximum([run.seconds for run in recent], LEAST_SECONDS)) if recent else np.empty(0)
        is_complete = np.array([run.ended for run in recent], dtype=bool)
        self.ended = int(is_complete.sum())
        """The number of complete runs."""
        positions: dict[PodTraits, list[int]] = {}
        for position, run in enumerate(recent):
            positions.setdefault(run.traits, []).append(position)
        self._repetitions = count_repetitions(log_seconds, is_complete, map(np.array, positions.values()))
        order = np.argsort(log_seconds, kind="stable")
        self._log_seconds, self._ended = log_seconds[order], is_complete[order]
        self._traits = [recent[position].traits for position in order]
        self._weights: dict[PodTraits, NDArray[np.float64]] = {}
        self._relative = np.ones(len(recent))
        self._shares = self._repetitions / self._repetitions.sum()
        self._exponents = np.random.default_rng(0)
        """Its own generator: draws of durations must be independent of the order of the classes."""
        self._curves: dict[PodTraits, SurvivalCurve] = {}
        self._recent: dict[PodTraits, list[float]] = {}

    def reweigh(self, random: np.random.Generator) -> None:
        """Draw random weights of the recorded runs for the next simulated future, and forget its recent pods."""
        self._relative = random.standard_exponential(len(self._traits))
        weights = random.standard_gamma(self._repetitions)
        self._shares = weights / weights.sum()
        self._exponents = np.random.default_rng(int(random.integers(1 << 62)))
        self._curves.clear()
        self._recent.clear()

    def observe(self, traits: PodTraits, seconds: float) -> None:
        """Add a complete run to the recent pods of its class, which later draws may repeat."""
        self._remember(traits, log(max(seconds, LEAST_SECONDS)))

    def draw(self, traits: PodTraits, random: np.random.Generator, elapsed: float = 0.0) -> float:
        """Draw a duration. It is longer than the seconds that have elapsed. Later draws may repeat it.

        Without complete runs, half of the pods run for more than twice the elapsed time.
        """
        since = log(max(elapsed, LEAST_SECONDS))
        # Each draw takes the same random numbers from the generator, so that variants of a future are comparable.
        uniforms, factor = random.random(3), float(random.standard_normal())
        if not self.ended:
            return exp(min(since - log(1.0 - uniforms[0]), MAX_LOG))
        curve = self._curve(traits)
        recent = self._recent.get(traits)
        repeated = None
        if recent is not None:
            is_new = float(self._shares[-1]) * curve.at(since)
            repeated = self._repeat(recent, since if elapsed else -inf, is_new, uniforms, factor)
        log_seconds = curve.draw(float(uniforms[0]), since) if repeated is None else max(repeated, since)
        log_seconds = min(log_seconds, MAX_LOG)
        self._remember(traits, log_seconds)
        return max(exp(log_seconds), elapsed)

    def _repeat(
        self, recent: list[float], since: float, is_new: float, uniforms: NDArray[np.float64], factor: float
    ) -> float | None:
        """Return the repeated duration of a recent pod, or ``None`` for a new one, whose weight is ``is_new``.

        A kind of repetition is less likely if few of its durations are longer than the elapsed time.
        """
        options: list[tuple[float, list[float], Repetition]] = []
        for share, repetition in zip(self._shares[:-1], REPETITIONS, strict=True):
            last = recent[-repetition.pods :]
            longer = last if since == -inf else [seconds for seconds in last if seconds > since]
            options.append((float(share) * len(longer) / len(last), longer, repetition))
        remainder = float(uniforms[1]) * (sum(weight for weight, _, _ in options) + is_new)
        for weight, longer, repetition in options:
            remainder -= weight
            if remainder < 0:
                return longer[int(uniforms[2] * len(longer))] + repetition.spread * factor
        return None

    def _remember(self, traits: PodTraits, log_seconds: float) -> None:
        self._recent.setdefault(traits, []).append(log_seconds)

    def _curve(self, traits: PodTraits) -> SurvivalCurve:
        """Return the survival of a class, fitted once for each future."""
        curve = self._curves.get(traits)
        if curve is None:
            weights = self._weigh(traits) * self._relative
            curve = self._curves[traits] = fit_survival(self._log_seconds, self._ended, weights, self._exponents)
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
    """Return quantiles of draws. With few draws the interval is wider, because its probability must not change.

    >>> quantiles(range(1, 10), [0.1, 0.5, 0.9])
    [1.0, 5.0, 9.0]
    """
    return [float(number) for number in np.quantile(list(numbers), list(shares), method="weibull")]
