"""Measures of a report (names, number formats, direction) and their statistics over the seeds."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from moorage.cluster import format_seconds
from moorage.lab.trial import TrialRow

RESAMPLES: Final = 2000
CONFIDENCE: Final = 0.95
HOUR: Final = 3600.0
DAY: Final = 86_400.0
SEED: Final = 20231
"""The fixed seed of the bootstrap: the same rows give the same report."""


def format_wait(seconds: float) -> str:
    """Format a time: in hours from one hour, in days from two days."""
    if seconds >= 2 * DAY:
        return f"{seconds / DAY:,.1f} days"
    if seconds >= HOUR:
        return f"{seconds / HOUR:.1f} hours"
    return format_seconds(seconds) if seconds >= 0.05 else "0s"


def choose_time_unit(longest: float) -> tuple[str, float]:
    """Return the unit of a time axis and its seconds: minutes up to two hours, days from four days."""
    if longest >= 4 * DAY:
        return "days", DAY
    return ("hours", HOUR) if longest > 2 * HOUR else ("minutes", 60.0)


class Measure(Struct, frozen=True):
    """A measure of a report. ``better`` is 1 if more is better, -1 if less is better, otherwise 0."""

    key: str
    title: str
    better: int
    form: str
    about: str = ""

    def format(self, number: float) -> str:
        """Format a number."""
        match self.form:
            case "share":
                return f"{100 * number:.1f}%"
            case "seconds":
                return format_wait(number)
            case "kWh":
                return f"{number:,.1f} kWh"
            case "ratio":
                return f"{number:.3f}"
            case "money":
                return f"{number:,.2f}"
            case _:
                if abs(number) >= 100 or number == int(number):
                    return f"{number:,.0f}"
                return f"{number:.1f}" if abs(number) >= 10 else f"{number:.2f}"

    def format_difference(self, number: float) -> str:
        """Format a difference with its sign."""
        sign = "+" if number > 0 else "−" if number < 0 else "±"
        return f"{sign}{self.format_size(number)}"

    def format_size(self, number: float) -> str:
        """Format the absolute value of a difference. Shares are in percentage points."""
        return f"{100 * abs(number):.1f} points" if self.form == "share" else self.format(abs(number))


MEASURES: Final = (
    Measure("allocation.gpu", "GPUs allocated", +1, "share", "of all GPUs, including shared ones"),
    Measure("allocation.cpu", "CPU allocated", +1, "share"),
    Measure("allocation.memory", "Memory allocated", +1, "share"),
    Measure("fragmentation", "GPU fragmentation", -1, "share", "idle GPUs that typical pods cannot use"),
    Measure("unplaced", "Pods without a node", -1, "count", "at the end"),
    Measure("wait.p50", "Waiting, median", -1, "seconds"),
    Measure("wait.p95", "Waiting, 95th percentile", -1, "seconds"),
    Measure("queueing.p50", "Queueing of jobs, median", -1, "seconds", "until all pods were scheduled"),
    Measure("queueing.p95", "Queueing of jobs, 95th percentile", -1, "seconds"),
    Measure("jct.mean", "Job completion time, mean", -1, "seconds"),
    Measure("jct.p50", "Job completion time, median", -1, "seconds"),
    Measure("jct.p95", "Job completion time, 95th percentile", -1, "seconds"),
    Measure("slowdown.mean", "Slowdown of jobs, mean", -1, "ratio", "1: as fast as on an empty cluster"),
    Measure("slowdown.p95", "Slowdown of jobs, 95th percentile", -1, "ratio"),
    Measure("makespan", "Makespan", -1, "seconds", "until the last job has ended"),
    Measure("queue.mean", "Pending pods, mean", -1, "count"),
    Measure("fairness.jain", "Fairness among tenants", +1, "ratio", "Jain's index of their served shares"),
    Measure("lost.gpuHours", "GPU hours lost by evictions", -1, "count"),
    Measure("lost.cpuHours", "CPU hours lost by evictions", -1, "count"),
    Measure("evictions", "Evictions", -1, "count", "by preemption and failed nodes"),
    Measure("spread.cpu", "Imbalance of nodes", 0, "share", "standard deviation of the allocated CPU"),
    Measure("nodes.mean", "Nodes, mean", -1, "count"),
    Measure("nodes.used", "Nodes in use", -1, "count", "mean over time; at the end, if pods arrive one by one"),
    Measure("nodes.started", "Nodes started", -1, "count", "by the autoscaler"),
    Measure("cost", "Cost of all nodes", -1, "money", "in the currency of the nodes' prices"),
    Measure("cost.used", "Cost of nodes in use", -1, "money", "if empty nodes were returned immediately"),
    Measure("energy", "Energy of all nodes", -1, "kWh"),
    Measure("energy.used", "Energy of nodes in use", -1, "kWh", "if empty nodes were switched off"),
)


def find_measure(name: str) -> Measure:
    """Return a measure by its name. One of a user is a plain number."""
    return next((measure for measure in MEASURES if measure.key == name), Measure(name, name, 0, "number"))


_KNOWN: Final = (
    *("allocation", "attempts", "cost", "energy", "evictions", "fairness", "fragmentation", "jct", "lost", "makespan"),
    *("nodes", "overcommitted", "queue", "queueing", "seconds", "slowdown", "spread", "unplaced", "wait"),
)
"""The first parts of the names of all measures of the lab."""


def is_known_measure(name: str) -> bool:
    """Return whether a measure is one of the lab, not of a user."""
    return name.partition(".")[0] in _KNOWN


class Interval(Struct, frozen=True):
    """A median and its 95% confidence interval."""

    median: float
    low: float
    high: float
    count: int

    @property
    def is_above(self) -> bool:
        """Whether the interval is above 0."""
        return self.low > 0

    @property
    def is_below(self) -> bool:
        """Whether the interval is below 0."""
        return self.high < 0


def compute_interval(values: Sequence[float]) -> Interval:
    """Return the median of some values with a bootstrap interval: percentiles of medians of resampled values."""
    sample = np.array(values, dtype=np.float64)
    if len(sample) == 1:
        return Interval(float(sample[0]), float(sample[0]), float(sample[0]), 1)
    random = np.random.default_rng(SEED)
    medians = np.median(sample[random.integers(0, len(sample), (RESAMPLES, len(sample)))], axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(medians, (tail, 1 - tail))
    return Interval(float(np.median(sample)), float(low), float(high), len(sample))


def collect_values(rows: Iterable[TrialRow], measure: str) -> dict[int, float]:
    """Return the values of a measure by seed. Trials without it are skipped."""
    return {row.seed: row.measures[measure] for row in rows if measure in row.measures}


def compute_difference(values: Mapping[int, float], baseline: Mapping[int, float]) -> Interval | None:
    """Return the interval of the differences from the baseline, seed by seed: both have the same trace."""
    shared = [values[seed] - baseline[seed] for seed in sorted(values.keys() & baseline.keys())]
    return compute_interval(shared) if shared else None


def find_pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the indexes of points that are not dominated. The first number is a cost, the second a gain."""
    front = (
        index
        for index, (cost, gain) in enumerate(points)
        if not any(x <= cost and y >= gain and (x, y) != (cost, gain) for x, y in points)
    )
    return sorted(front, key=lambda index: points[index])
