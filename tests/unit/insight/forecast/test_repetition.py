"""Batches of pods with almost equal durations."""

import numpy as np

from moorage.insight.forecast.lifetimes import Lifetimes, PodTraits, RecordedRun
from moorage.insight.forecast.repetition import count_repetitions

TRAITS = PodTraits("batch")


def in_batches(*seconds: float, pods: int = 30) -> list[float]:
    random = np.random.default_rng(5)
    return [float(value) for item in seconds for value in item * np.exp(random.normal(0.0, 0.05, pods))]


def count_new(seconds: list[float]) -> float:
    """Return the share of new durations."""
    counts = count_repetitions(
        np.log(seconds), np.ones(len(seconds), dtype=bool), [np.arange(len(seconds), dtype=np.intp)]
    )
    return float(counts[-1] / counts.sum())


def test_batches_are_distinguished_from_independent_durations() -> None:
    batches = in_batches(600.0, 10_000.0, 900.0, 40_000.0)
    mixed = [float(item) for item in np.random.default_rng(6).permutation(batches)]
    assert count_new(batches) < 0.25
    assert count_new(mixed) > 0.4


def test_pods_of_a_batch_err_together() -> None:
    """The total of 100 pending pods is uncertain if they are a batch: independent errors would cancel out."""

    def spread(seconds: list[float]) -> float:
        lifetimes = Lifetimes([RecordedRun(TRAITS, item) for item in seconds])
        totals = []
        for seed in range(60):
            random = np.random.default_rng(seed)
            lifetimes.reweigh(random)
            totals.append(np.log(sum(lifetimes.draw(TRAITS, random) for _ in range(100))))
        return float(np.std(totals))

    batches = in_batches(600.0, 10_000.0, 900.0, 40_000.0, 2000.0)
    mixed = [float(item) for item in np.random.default_rng(6).permutation(batches)]
    assert spread(batches) > 2 * spread(mixed)


def test_pending_pods_repeat_the_last_batch() -> None:
    seconds = in_batches(600.0, 10_000.0, 600.0, 40_000.0)
    lifetimes = Lifetimes([RecordedRun(TRAITS, item) for item in seconds])
    drawn = []
    for seed in range(60):
        random = np.random.default_rng(seed)
        lifetimes.reweigh(random)
        for item in seconds:
            lifetimes.observe(TRAITS, item)
        drawn.append(lifetimes.draw(TRAITS, random))
    assert 30_000.0 < np.median(drawn) < 50_000.0


def test_an_age_beyond_the_recent_durations_means_a_new_one() -> None:
    seconds = in_batches(600.0, 40_000.0, 600.0)
    lifetimes = Lifetimes([RecordedRun(TRAITS, item) for item in seconds])
    random = np.random.default_rng(1)
    lifetimes.reweigh(random)
    for item in seconds:
        lifetimes.observe(TRAITS, item)
    assert lifetimes.draw(TRAITS, random, elapsed=5000.0) >= 5000.0
