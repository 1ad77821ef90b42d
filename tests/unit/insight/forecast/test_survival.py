"""Survival curves with a tail."""

import numpy as np
import pytest

from moorage.insight.forecast.survival import SurvivalCurve, fit_survival


def fit(seconds: list[float], ended: list[bool] | None = None, seed: int = 1) -> SurvivalCurve:
    order = np.argsort(seconds)
    is_complete = np.array(ended or [True] * len(seconds))[order]
    return fit_survival(
        np.log(np.array(seconds)[order]), is_complete, np.ones(len(seconds)), np.random.default_rng(seed)
    )


def test_curve_is_the_share_of_longer_runs() -> None:
    curve = fit([float(n) for n in range(1, 101)])
    assert curve.at(np.log(50.0)) == pytest.approx(0.5, abs=0.02)
    assert curve.at(np.log(0.5)) == 1.0


def test_draws_follow_the_curve() -> None:
    curve = fit([float(n) for n in range(1, 101)])
    shares = np.linspace(0.01, 0.99, 99)
    drawn = [curve.draw(share, 0.0) for share in shares]
    assert drawn == sorted(drawn)
    assert [1.0 - curve.at(seconds) for seconds in drawn] == pytest.approx(list(shares), abs=0.03)
    assert min(curve.draw(share, np.log(80.0)) for share in shares) >= np.log(80.0)


def test_exponent_of_the_tail_is_learned() -> None:
    """A Pareto distribution with exponent 3 has a thinner tail than one with 0.8."""
    uniform = np.random.default_rng(3).random(400)
    thin, fat = fit(list((1 - uniform) ** (-1 / 3.0) * 60)), fit(list((1 - uniform) ** (-1 / 0.8) * 60))
    assert thin.exponent > 1.5 * fat.exponent


def test_pods_that_outlived_all_complete_runs_can_end_soon() -> None:
    """Kaplan and Meier's estimate is flat between the last complete run and the age of the oldest running pod."""
    seconds = [*(60.0 * n for n in range(1, 21)), 5000.0, 8000.0]
    curve = fit(seconds, [True] * 20 + [False] * 2)
    assert curve.at(np.log(5000.0)) > 1.1 * curve.at(np.log(8000.0))


def test_the_exponent_of_the_tail_grows() -> None:
    """A pod that has survived for a long time ends within the same multiple of its age more probably."""
    curve = fit([60.0 * n for n in range(1, 41)])
    start = curve.tail_start
    doubled = [curve.at(start + x + np.log(2.0)) / curve.at(start + x) for x in (0.0, 1.0, 2.0, 3.0)]
    assert doubled == sorted(doubled, reverse=True)
    assert doubled[3] < doubled[0] / 2
    drawn = [curve.draw(share, start + 1.0) for share in (0.1, 0.5, 0.9)]
    shares = [1.0 - curve.at(seconds) / curve.at(start + 1.0) for seconds in drawn]
    assert shares == pytest.approx([0.1, 0.5, 0.9])


def test_few_records_do_not_allow_runs_of_many_years() -> None:
    """Without completed runs of their age, running pods of one hour nearly always end within a year."""
    curves = [fit([60.0, 120.0, 180.0, 3600.0], [True] * 3 + [False], seed) for seed in range(100)]
    ended = [1.0 - curve.at(np.log(365 * 86_400.0)) / curve.at(np.log(3600.0)) for curve in curves]
    assert min(ended) > 0.99
