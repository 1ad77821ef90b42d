"""The probability that the duration of a pod repeats that of a recent pod of its class, learned from recorded runs.

Users submit batches: hundreds of consecutive pods run for nearly the same time, and the next batch for ten times as
long. With independent durations the errors of hundreds of pods would cancel out, and intervals would be far too narrow.
"""

from collections.abc import Iterable
from math import pi, sqrt
from typing import Final, NamedTuple

import numpy as np

from moorage.common.arrays import NDArray

Floats = NDArray[np.float64]


class Repetition(NamedTuple):
    """A duration is that of one of the last pods of the class, times a random factor."""

    pods: int
    """From how many of the last pods it is chosen."""
    spread: float
    """Standard deviation of the logarithm of the factor."""


SPREADS: Final = (0.05, 0.3)
REPETITIONS: Final = tuple(Repetition(pods, spread) for pods in (3, 20, 100) for spread in SPREADS)
"""The larger numbers keep the duration of a batch in spite of some pods that fail early."""
PRIOR_REPEATED: Final = 2.0
PRIOR_NEW: Final = 0.5
"""Weights in numbers of pods, before any record: each kind of repetition, and a new duration of each spread.

If the records do not distinguish both, for example since all pods were one batch, repetition is assumed: independent
durations would give intervals that are too narrow.
"""
MAX_DISTANCES: Final = 60
"""A new duration is compared with runs at this number of distances in the order of arrival."""
ROUNDS: Final = 50
LEAST_DENSITY: Final = 1e-3
LOGISTIC: Final = 1.702
"""The logistic function of this multiple approximates the normal distribution function, to within 0.01."""


def count_repetitions(log_seconds: Floats, ended: NDArray[np.bool_], classes: Iterable[NDArray[np.intp]]) -> Floats:
    """Return how many of the recorded runs are repetitions of each kind, and new (the last number).

    ``classes`` are the positions of the runs of each class, in the order of arrival. The numbers maximize the
    likelihood of the records, with the prior weights added (expectation maximization).
    """
    prior = np.array([*[PRIOR_REPEATED] * len(REPETITIONS), *[PRIOR_NEW] * len(SPREADS)])
    rows = [_find_densities(log_seconds[positions], ended[positions]) for positions in classes if len(positions) > 1]
    densities = np.concatenate([np.empty((0, len(prior))), *rows])
    counts = prior
    for _ in range(ROUNDS):
        shares = densities * (counts / counts.sum())
        counts = (shares / shares.sum(axis=1, keepdims=True)).sum(axis=0) + prior
    kinds = len(REPETITIONS)
    return np.array([*counts[:kinds], counts[kinds:].sum()])


def _find_densities(log_seconds: Floats, ended: NDArray[np.bool_]) -> Floats:
    """Return the likelihood of each run of a class under each kind of repetition, and as a new duration.

    Repetitions are compared with the runs just before, new durations with runs of the class in general, with the same
    spreads: common durations do not indicate repetition. Runs before the first complete one have no row.
    """
    count = len(log_seconds)
    columns = []
    for repetition in REPETITIONS:
        last = range(1, min(repetition.pods, count - 1) + 1)
        columns.append(_compare(log_seconds, ended, last, repetition.spread, is_circular=False))
    has_donor = np.cumsum(ended) - ended > 0
    distances = sorted({int(item) for item in np.linspace(1, count - 1, MAX_DISTANCES)})
    for spread in SPREADS:
        columns.append(_compare(log_seconds, ended, distances, spread, is_circular=True) + LEAST_DENSITY)
    densities: Floats = np.stack(columns, axis=1)[has_donor]
    return densities


def _compare(
    log_seconds: Floats, ended: NDArray[np.bool_], distances: Iterable[int], spread: float, *, is_circular: bool
) -> Floats:
    """Return the mean likelihood of each run, given the complete runs at some distances before it."""
    total, donors = np.zeros(len(ended)), np.zeros(len(ended))
    for distance in distances:
        donor, is_donor = np.roll(log_seconds, distance), np.roll(ended, distance)
        if not is_circular:
            is_donor[:distance] = False
        total += np.where(is_donor, _likelihood(log_seconds - donor, spread, ended), 0.0)
        donors += is_donor
    return total / np.maximum(donors, 1.0)


def _likelihood(distances: Floats, spread: float, ended: NDArray[np.bool_]) -> Floats:
    """Return the density of a distance for complete runs, and the probability of a larger one for incomplete runs."""
    scaled = distances / spread
    density = np.exp(-0.5 * scaled**2) / (spread * sqrt(2 * pi))
    if ended.all():
        return density
    return np.where(ended, density, 1.0 / (1.0 + np.exp(np.clip(LOGISTIC * scaled, -50.0, 50.0))))
