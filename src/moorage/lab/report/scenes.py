"""The rows of an experiment by scene: one trace on one cluster, with all configurations."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from moorage.lab.report.measures import (
    MEASURES,
    Interval,
    Measure,
    collect_values,
    compute_difference,
    compute_interval,
)
from moorage.lab.report.svg import Line
from moorage.lab.trial import TrialResult, TrialRow

GRID = 120


class Finding(Struct, frozen=True):
    """A measure of one configuration, and its difference from the baseline."""

    measure: Measure
    configuration: str
    value: Interval
    difference: Interval | None

    @property
    def verdict(self) -> int:
        """+1 if significantly better than the baseline, -1 if significantly worse, otherwise 0."""
        if self.difference is None or self.difference.count < 2:
            return 0
        if self.measure.format(abs(self.difference.median)) == self.measure.format(0.0):
            return 0  # too small to be visible
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
        trials = (result.trial for result in self.by_name[name])
        return [replace(row, measures={**row.measures, "unplaced": float(row.unplaced)}) for row in trials]

    def measures(self) -> list[Measure]:
        """Return the measures with a value other than 0."""
        rows = [row for name in self.names for row in self.rows(name)]
        return [measure for measure in MEASURES if any(row.measures.get(measure.key) for row in rows)]

    def find(self, measure: Measure, name: str, baseline: str) -> Finding | None:
        """Return a measure of a configuration; ``None`` if its trials do not have it."""
        values = collect_values(self.rows(name), measure.key)
        if not values:
            return None
        compared = (
            collect_values(self.rows(baseline), measure.key) if name != baseline and baseline in self.names else {}
        )
        return Finding(measure, name, compute_interval(list(values.values())), compute_difference(values, compared))

    def intervals(self, measure: Measure) -> dict[str, Interval]:
        """Return the interval of a measure by configuration; configurations without it are omitted."""
        findings = ((name, self.find(measure, name, name)) for name in self.names)
        return {name: finding.value for name, finding in findings if finding is not None}

    @property
    def counts_arrivals(self) -> bool:
        """Whether pods arrived one by one, so that the requested share is the time axis."""
        return not any("wait.mean" in row.measures for name in self.names for row in self.rows(name))

    def lines(self, field: str) -> list[Line]:
        """Return a series of a field of the points for each configuration: the median of its seeds, and their range."""
        curves = []
        by_arrivals = self.counts_arrivals
        for name in self.names:
            series = [
                (
                    np.array([100 * point.asked if by_arrivals else point.at / 3600 for point in result.points]),
                    np.array([getattr(point, field) for point in result.points], dtype=np.float64),
                )
                for result in self.by_name[name]
                if len(result.points) > 1 and getattr(result.points[0], field) is not None
            ]
            if series:
                # All curves of a configuration on one grid, up to the end of the shortest.
                grid = np.linspace(min(x[0] for x, _ in series), min(x[-1] for x, _ in series), GRID)
                heights = np.array([np.interp(grid, x, y) for x, y in series])
                columns = (grid, np.median(heights, axis=0), heights.min(axis=0), heights.max(axis=0))
                curves.append(Line(name, *(column.tolist() for column in columns)))
        return curves

    def classes(self) -> list[str]:
        """Return the classes of pods for waiting times."""
        prefix = "wait.p95."
        keys = dict.fromkeys(key for name in self.names for row in self.rows(name) for key in row.measures)
        return [key.removeprefix(prefix) for key in keys if key.startswith(prefix)]


def group_by_scene(names: Sequence[str], results: Sequence[TrialResult]) -> list[Scene]:
    """Group successful trials by trace and cluster, in the order of the results."""
    good = [result for result in results if not result.trial.error]
    pairs = dict.fromkeys((result.trial.trace, result.trial.cluster) for result in good)
    return [
        Scene(trace, cluster, names, [r for r in good if (r.trial.trace, r.trial.cluster) == (trace, cluster)])
        for trace, cluster in pairs
    ]
