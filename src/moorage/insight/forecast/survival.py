"""The share of pods that run longer than a duration: recorded runs, and a tail beyond them.

The tail is a Pareto distribution whose exponent grows with the duration. A constant exponent would allow runs of many
years, and running pods would end too late.
"""

from math import sqrt
from typing import Final, NamedTuple, TypeVar

import numpy as np

from moorage.common.arrays import NDArray

Floats = NDArray[np.float64]
T = TypeVar("T", float, Floats)

TAIL_SHARE: Final = 0.2
MAX_TAIL: Final = 10.0
"""The longest complete runs determine the tail: this share of them, and at most this number."""
UNSEEN: Final = 0.5
"""The weight, in numbers of pods, of a run that is longer than all recorded ones."""
PRIOR_ENDS: Final = 8.0
PRIOR_EXPOSURE: Final = 8.0
"""Before any record of the tail, its exponent is expected to be 8 / 8 = 1."""
GROWTH: Final = 0.7
"""By which share the exponent grows with each unit of log seconds: longer pods are increasingly rare."""


class SurvivalCurve(NamedTuple):
    """Survival as a function of log seconds: linear between recorded runs, and the tail."""

    log_seconds: Floats
    survival: Floats
    tail_start: float
    tail_survival: float
    exponent: float
    """The exponent at the start of the tail."""

    def at(self, log_seconds: float) -> float:
        """Return the share of pods that run longer."""
        if log_seconds > self.tail_start:
            return self.tail_survival * float(np.exp(-self.exponent * _expose(log_seconds - self.tail_start)))
        return float(np.interp(log_seconds, self.log_seconds, self.survival, left=1.0))

    def draw(self, uniform: float, since: float) -> float:
        """Draw log seconds, given that the pod has survived ``since``. ``uniform`` is between 0 and 1."""
        target = self.at(since) * (1.0 - uniform)
        if target >= self.tail_survival:
            return max(since, float(np.interp(-target, -self.survival, self.log_seconds)))
        exposure = float(np.log(self.tail_survival / target)) / self.exponent
        return max(since, self.tail_start + (sqrt(1.0 + 2.0 * GROWTH * exposure) - 1.0) / GROWTH)


def _expose(distance: T) -> T:
    """Return the integral of the relative exponent over a distance from the start of the tail."""
    return distance * (1.0 + GROWTH / 2.0 * distance)


def fit_survival(
    log_seconds: Floats, ended: NDArray[np.bool_], weights: Floats, random: np.random.Generator
) -> SurvivalCurve:
    """Fit a curve to sorted runs (Kaplan and Meier). The exponent of the tail is drawn from its posterior.

    Runs that have not ended are evidence of long durations. Beyond the last complete run the estimate of Kaplan and
    Meier is flat, as if no pod of that age ended. So the tail begins below the longest complete runs.
    """
    at_risk = np.cumsum(weights[::-1])[::-1] + UNSEEN
    survival: Floats = np.cumprod(1.0 - np.where(ended, weights / at_risk, 0.0)).astype(np.float64)
    complete = np.where(ended, weights, 0.0)
    longer = np.cumsum(complete[::-1])[::-1]
    start = int(np.flatnonzero(longer >= min(MAX_TAIL, TAIL_SHARE * longer[0]))[-1])
    ends = float(complete[start + 1 :].sum())
    exposure = float((weights[start + 1 :] * _expose(log_seconds[start + 1 :] - log_seconds[start])).sum())
    exponent = random.standard_gamma(PRIOR_ENDS + ends) / (PRIOR_EXPOSURE + exposure)
    return SurvivalCurve(
        log_seconds[: start + 1],
        survival[: start + 1],
        float(log_seconds[start]),
        float(survival[start]),
        float(exponent),
    )
