"""The rows of an experiment, sorted for a report: a scene is one trace on one cluster, under all configurations."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from msgspec import Struct

from moorage.lab.report.measures import MEASURES, Measure
from moorage.lab.report.statistics import Interval, difference_of, interval_of, values_of
from moorage.lab.report.svg import Line
from moorage.lab.rows import PointRow, TrialResult, TrialRow

GRID = 120


class Finding(Struct, frozen=True):
    """A measure of one configuration, and how it differs from the baseline's."""

    measure: Measure
    configuration: str
    value: Interval
    difference: Interval | None

    @property
    def verdict(self) -> int:
        """+1 if significantly better than the baseline, -1 if significantly worse, otherwise 0."""
        if self.difference is None or self.difference.count < 2:
            return 0
        if self.measure.shown(abs(self.difference.median)) == self.measure.shown(0.0):
            return 0  # sure, perhaps, but too small to be seen
        sign = 1 if self.difference.is_above else -1 if self.difference.is_below else 0
        return sign * self.measure.better


class Scene:
    """All trials of one trace on one cluster that did not fail."""

    def __init__(self, trace: str, cluster: str, names: Sequence[str], results: Sequence[TrialResult]) -> None:
        self.trace, self.cluster = trace, cluster
        self.by_name = {name: [r for r in results if r.trial.configuration == name] for name in names}
        self.names = [name for name, policy_results in self.by_name.items() if policy_results]

    def rows(self, name: str) -> list[TrialRow]:
        """Return the measures of a configuration, a row for each seed."""
        return [with_counts(result.trial) for result in self.by_name[name]]

    def measures(self) -> list[Measure]:
        """Return the measures that are not 0 everywhere."""
        return [measure for measure in MEASURES if any(self._amounts(measure.key))]

    def _amounts(self, key: str) -> Iterator[float]:
        for name in self.names:
            yield from values_of(self.rows(name), key).values()

    def find(self, measure: Measure, name: str, baseline: str) -> Finding | None:
        """Return the measurements of a configuration; ``None`` without any."""
        values = values_of(self.rows(name), measure.key)
        if not values:
            return None
        compared = values_of(self.rows(baseline), measure.key) if name != baseline and baseline in self.names else {}
        return Finding(measure, name, interval_of(list(values.values())), difference_of(values, compared))

    @property
    def counts_arrivals(self) -> bool:
        """Whether pods arrived one by one, so that the requested share is the time axis."""
        return not any("wait.mean" in row.measures for name in self.names for row in self.rows(name))

    def lines(self, amount: Callable[[PointRow], float | None]) -> list[Line]:
        """Return a series for each configuration: the median of its seeds, and their range."""
        curves = []
        along: Callable[[PointRow], float] = (
            (lambda p: 100 * p.asked) if self.counts_arrivals else lambda p: p.at / 3600
        )
        for name in self.names:
            series = [
                (np.array([along(p) for p in points]), np.array([amount(p) for p in points], dtype=np.float64))
                for points in (result.points for result in self.by_name[name])
                if len(points) > 1 and amount(points[0]) is not None
            ]
            if series:
                end = min(x[-1] for x, _ in series)
                grid = np.linspace(min(x[0] for x, _ in series), end, GRID)
                heights = np.array([np.interp(grid, x, y) for x, y in series])
                columns = (grid, np.median(heights, axis=0), heights.min(axis=0), heights.max(axis=0))
                curves.append(Line(name, *(column.tolist() for column in columns)))
        return curves

    def classes(self) -> list[str]:
        """Return the classes of pods for waiting times."""
        prefix = "wait.p95."
        keys = {key: None for name in self.names for row in self.rows(name) for key in row.measures}
        return [key.removeprefix(prefix) for key in keys if key.startswith(prefix)]


def with_counts(row: TrialRow) -> TrialRow:
    """Return a row whose counts are measures as well."""
    measures = {**row.measures, "unplaced": float(row.unplaced)}
    return TrialRow(
        row.trace, row.cluster, row.configuration, row.seed, row.pods, row.placed, row.unplaced, measures, row.error
    )


def scenes_of(names: Sequence[str], results: Sequence[TrialResult]) -> list[Scene]:
    """Sort trials by trace and cluster, in the order in which they come."""
    good = [result for result in results if not result.trial.error]
    pairs = dict.fromkeys((result.trial.trace, result.trial.cluster) for result in good)
    return [
        Scene(trace, cluster, names, [r for r in good if (r.trial.trace, r.trial.cluster) == (trace, cluster)])
        for trace, cluster in pairs
    ]
