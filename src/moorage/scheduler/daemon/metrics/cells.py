"""Cells that count metrics: plain numbers, bound once, read at each scrape.

The metrics of prometheus_client take a lock for each observation and look up children by label, which takes longer than
scheduling a pod. One loop needs no lock. So cells count, and prometheus_client only exposes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from moorage.scheduler.daemon.metrics.table import METRICS
from moorage.scheduler.daemon.options import MetricsOptions
from moorage.scheduler.framework.metering import HistogramCell, MetricKind, MetricSpec, NumberCell, PluginMeter

if TYPE_CHECKING:
    from prometheus_client.core import Metric

UNEXPECTED = "unexpected"
"""The replacement for a disallowed label value."""

LabelValues = tuple[str, ...]
Reading = Callable[[], Iterable[tuple[LabelValues, float]]]
"""Reads the values of a gauge at each scrape."""


def _format_bound(bound: float) -> str:
    from prometheus_client.utils import floatToGoString

    text: str = floatToGoString(bound)  # type: ignore[no-untyped-call]
    return text


class CellMetric:
    """One metric: its children by label values, in the order of the table."""

    def __init__(self, spec: MetricSpec, allowed: Mapping[int, frozenset[str]]) -> None:
        self.spec = spec
        self._allowed = allowed
        self._numbers: dict[LabelValues, NumberCell] = {}
        self._histograms: dict[LabelValues, HistogramCell] = {}
        self._readings: list[Reading] = []

    def number(self, *labels: str) -> NumberCell:
        """Return the counter or gauge of some label values. Frequent callers keep it."""
        cell = self._numbers.get(labels)
        if cell is None:
            assert len(labels) == len(self.spec.labels), self.spec.name
            cell = self._numbers.setdefault(self._permit(labels), NumberCell())
        return cell

    def histogram(self, *labels: str) -> HistogramCell:
        """Return the histogram of some label values. Frequent callers keep it."""
        cell = self._histograms.get(labels)
        if cell is None:
            assert len(labels) == len(self.spec.labels), self.spec.name
            cell = self._histograms.setdefault(self._permit(labels), HistogramCell(self.spec.buckets))
        return cell

    def set_reader(self, reading: Reading) -> None:
        """Read values at each scrape: values that exist anyway cost nothing to count."""
        self._readings.append(reading)

    def reset(self) -> None:
        """Reset to zero. Values read from elsewhere remain unchanged."""
        for number in self._numbers.values():
            number.reset()
        for histogram in self._histograms.values():
            histogram.reset()

    def fold(self) -> None:
        """Count the observations since the last call."""
        for histogram in self._histograms.values():
            histogram.fold()

    def family(self) -> "Metric | None":
        """Return the samples, or none for a labeled metric without children, as upstream."""
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
            UnknownMetricFamily,
        )

        spec, is_histogram = self.spec, self.spec.kind is MetricKind.HISTOGRAM
        if not spec.labels and not self._readings:
            self.histogram() if is_histogram else self.number()
        if is_histogram:
            histograms = HistogramMetricFamily(spec.name, spec.described, labels=spec.labels)
            for labels, cell in self._histograms.items():
                bounds = [*map(_format_bound, cell.bounds), "+Inf"]
                histograms.add_metric(labels, list(zip(bounds, cell.cumulated(), strict=True)), cell.sum())
            return histograms if histograms.samples else None
        # prometheus_client requires a suffix of counters. Upstream has two that are older than the rule.
        counter = CounterMetricFamily if spec.name.endswith("_total") else UnknownMetricFamily
        make_family = GaugeMetricFamily if spec.kind is MetricKind.GAUGE else counter
        family = make_family(spec.name, spec.described, labels=spec.labels)
        for labels, value in self._values():
            family.add_metric(labels, value)
        return family if family.samples else None

    def _values(self) -> Iterator[tuple[LabelValues, float]]:
        for labels, cell in self._numbers.items():
            yield labels, cell.value
        for reading in self._readings:
            yield from reading()

    def _permit(self, labels: LabelValues) -> LabelValues:
        if not self._allowed:
            return labels
        return tuple(
            value if index not in self._allowed or value in self._allowed[index] else UNEXPECTED
            for index, value in enumerate(labels)
        )


class CellRegistry(PluginMeter):
    """All metrics of the table, by name. Disabled metrics are counted but not exposed."""

    def __init__(self, options: MetricsOptions | None = None, specs: Iterable[MetricSpec] = METRICS.values()) -> None:
        self.options = options or MetricsOptions()
        self._metrics = {spec.name: CellMetric(spec, self._allowed(spec)) for spec in specs}
        self._sources: list[Callable[[], None]] = []

    def __getitem__(self, name: str) -> CellMetric:
        return self._metrics[name]

    @property
    def has_group_types(self) -> bool:
        """Whether metrics distinguish types of groups, as from 1.38."""
        return "type" in self._metrics["scheduler_podgroup_schedule_attempts_total"].spec.labels

    def count(self, metric: str, *labels: str) -> None:
        """Add one to a counter."""
        self._metrics[metric].number(*labels).inc()

    def observe(self, metric: str, value: float, *labels: str) -> None:
        """Put a value into a histogram."""
        self._metrics[metric].histogram(*labels).observe(value)

    def register(self, spec: MetricSpec) -> None:
        """Register a plugin's metric. Raise ValueError if another metric has its name."""
        registered = self._metrics.setdefault(spec.name, CellMetric(spec, self._allowed(spec))).spec
        if registered != spec:
            was = f"a {registered.kind.value} with the labels {', '.join(registered.labels)}"
            raise ValueError(f"the metric {spec.name} is already registered as {was} ({registered.help!r})")

    def number(self, spec: MetricSpec, *labels: str) -> NumberCell:
        """Return the counter or gauge of some label values."""
        return self._metrics[spec.name].number(*labels)

    def histogram(self, spec: MetricSpec, *labels: str) -> HistogramCell:
        """Return the histogram of some label values."""
        return self._metrics[spec.name].histogram(*labels)

    def call_before_scrape(self, source: Callable[[], None]) -> None:
        """Register a callback that aggregates deferred counts before a read."""
        self._sources.append(source)

    def names(self) -> tuple[str, ...]:
        """Return the names of all metrics."""
        return tuple(self._metrics)

    def collect(self) -> "Iterator[Metric]":
        """Yield the samples, sorted by name."""
        self._feed()
        for name in sorted(self._metrics):
            metric = self._metrics[name]
            is_shown = name not in self.options.disabled and (not metric.spec.is_hidden or self.options.show_hidden)
            if is_shown and (family := metric.family()) is not None:
                yield family

    def fold(self) -> None:
        """Count all observations since the last call; long-running processes call this every few seconds."""
        self._feed()
        for metric in self._metrics.values():
            metric.fold()

    def reset(self) -> None:
        """Reset to zero, for DELETE /metrics."""
        self._feed()
        for metric in self._metrics.values():
            metric.reset()

    def _feed(self) -> None:
        for source in self._sources:
            source()

    def _allowed(self, spec: MetricSpec) -> dict[int, frozenset[str]]:
        allowed_labels = self.options.allowed_labels or {}
        values_by_index = {index: allowed_labels.get(f"{spec.name},{label}") for index, label in enumerate(spec.labels)}
        return {index: values for index, values in values_by_index.items() if values is not None}
