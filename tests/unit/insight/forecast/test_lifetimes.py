"""Durations drawn from recorded runs."""

import numpy as np
import pytest

from moorage.insight.forecast.lifetimes import Lifetimes, PodTraits, RecordedRun, quantiles

SHORT, LONG = PodTraits("short"), PodTraits("long")


def draw(lifetimes: Lifetimes, traits: PodTraits, elapsed: float = 0.0, *, count: int = 2000) -> list[float]:
    random = np.random.default_rng(7)
    return [lifetimes.draw(traits, random, elapsed) for _ in range(count)]


def runs(traits: PodTraits, *seconds: float, ended: bool = True) -> list[RecordedRun]:
    return [RecordedRun(traits, item, ended) for item in seconds]


def test_median_is_that_of_the_records() -> None:
    lifetimes = Lifetimes(runs(SHORT, *np.random.default_rng(1).lognormal(6.0, 1.0, 500)))
    assert np.median(draw(lifetimes, SHORT)) == pytest.approx(np.exp(6.0), rel=0.15)


def test_elapsed_time_conditions_the_draw() -> None:
    lifetimes = Lifetimes(runs(SHORT, *[60.0] * 90, *[7200.0] * 10))
    drawn = draw(lifetimes, SHORT, elapsed=600.0)
    assert min(drawn) >= 600.0
    assert np.median(drawn) > 2000.0  # of the runs longer than ten minutes, all took two hours


def test_class_takes_precedence_over_other_pods() -> None:
    lifetimes = Lifetimes([*runs(SHORT, *[60.0] * 100), *runs(LONG, *[36000.0] * 100)])
    assert np.median(draw(lifetimes, SHORT)) == pytest.approx(60.0, rel=0.2)
    assert np.median(draw(lifetimes, LONG)) == pytest.approx(36000.0, rel=0.2)


def test_unknown_class_borrows_from_all() -> None:
    lifetimes = Lifetimes(runs(LONG, *[36000.0] * 100))
    assert np.median(draw(lifetimes, PodTraits("new"))) == pytest.approx(36000.0, rel=0.3)


def test_pods_that_still_run_make_durations_longer() -> None:
    ended = runs(SHORT, *[100.0] * 50)
    alone = np.quantile(draw(Lifetimes(ended), SHORT), 0.75)
    with_running = np.quantile(draw(Lifetimes([*ended, *runs(SHORT, *[5000.0] * 50, ended=False)]), SHORT), 0.75)
    assert alone < 200.0
    assert with_running > 4000.0


def test_without_history_half_of_the_pods_run_as_long_again() -> None:
    drawn = draw(Lifetimes([]), SHORT, elapsed=1000.0)
    assert np.median(drawn) == pytest.approx(2000.0, rel=0.1)


def test_weights_differ_between_futures() -> None:
    lifetimes = Lifetimes(runs(SHORT, 10.0, 1000.0))
    medians = set()
    for seed in range(5):
        lifetimes.reweigh(np.random.default_rng(seed))
        medians.add(round(float(np.median(draw(lifetimes, SHORT, count=200))), 3))
    assert len(medians) >= 3


def test_quantiles_of_few_draws_keep_their_probability() -> None:
    random = np.random.default_rng(3)
    inside = 0
    for _ in range(2000):
        p10, p90 = quantiles(random.random(19).tolist(), (0.1, 0.9))
        inside += p10 <= random.random() <= p90
    assert inside / 2000 == pytest.approx(0.8, abs=0.03)
