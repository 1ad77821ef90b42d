"""Metrics of plugins: counters, gauges and histograms."""

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable
from enum import Enum
from itertools import accumulate
from typing import Final, Generic, TypeAlias, TypeVar

from msgspec import Struct

from moorage.common.observers import Observer

PREFIX: Final = "moorage_plugin"
DEFAULT_BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
MAX_UNCOUNTED: Final = 4096
"""Number of observations after which a plugin's histogram is aggregated, even if it is never read."""

_PLAIN: Final = re.compile(r"[a-z][a-z0-9_]*").fullmatch
_HUMPS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class MetricKind(Enum):
    """The type of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class MetricSpec(Struct, frozen=True):
    """One metric. A hidden one is shown only with --show-hidden-metrics-for-version."""

    name: str
    kind: MetricKind
    labels: tuple[str, ...]
    help: str
    stability: str = "ALPHA"
    buckets: tuple[float, ...] = ()
    is_hidden: bool = False
    deprecated: str = ""

    @property
    def described(self) -> str:
        """The HELP text: stability, deprecation and description."""
        deprecated = f"(Deprecated since {self.deprecated}) " if self.deprecated else ""
        return f"[{self.stability}] {deprecated}{self.help}"


class NumberCell:
    """A counter's or gauge's number."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, by: float = 1.0) -> None:
        """Add to it."""
        self.value += by

    def set(self, value: float) -> None:
        """Replace it."""
        self.value = value

    def reset(self) -> None:
        """Reset to zero."""
        self.value = 0.0


class HistogramCell:
    """A histogram's buckets and sum. Observing only appends to a list, which is aggregated in batches."""

    __slots__ = ("_counts", "_total", "_values", "bounds", "observe", "observe_all")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0
        self._values: list[float] = []
        self.observe: Callable[[float], None] = self._values.append
        """Takes one observation."""
        self.observe_all: Callable[[Iterable[float]], None] = self._values.extend
        """Takes several."""

    @property
    def uncounted(self) -> int:
        """Number of observations that are not aggregated yet."""
        return len(self._values)

    def fold(self) -> None:
        """Aggregate the observations since the last call."""
        if self._values:
            import numpy as np  # only here: the supervisor imports this module, and must remain small

            values = np.array(self._values)
            self._values.clear()
            bucket_indexes = np.searchsorted(self.bounds, values, side="left")
            bucket_counts = np.bincount(bucket_indexes, minlength=len(self._counts)).tolist()
            self._counts = [before + more for before, more in zip(self._counts, bucket_counts, strict=True)]
            self._total += float(values.sum())

    def reset(self) -> None:
        """Reset to zero."""
        self._values.clear()
        self._counts = [0] * len(self._counts)
        self._total = 0.0

    def sum(self) -> float:
        """Return the sum of all observations."""
        self.fold()
        return self._total

    def cumulated(self) -> list[float]:
        """Return how many observations were at most each bound. The last number counts all."""
        self.fold()
        return list(map(float, accumulate(self._counts)))


class Meter(Observer):
    """Counts for the metrics of the process. A metric has the name and labels of /metrics. This one counts nothing."""

    def count(self, metric: str, *labels: str) -> None:
        """Add one to a counter."""

    def observe(self, metric: str, value: float, *labels: str) -> None:
        """Put a value into a histogram."""


class PluginMeter(Meter):
    """A meter with metrics of plugins' own. This one shows none: only the plugin itself can read them."""

    def register(self, spec: MetricSpec) -> None:
        """Register a metric of a plugin. Raise ValueError if the name is already used for another."""

    def number(self, spec: MetricSpec, *labels: str) -> NumberCell:
        """Return the counter or gauge of some label values of a metric that was registered."""
        return NumberCell()

    def histogram(self, spec: MetricSpec, *labels: str) -> HistogramCell:
        """Return the histogram of some label values of a metric that was registered."""
        return HistogramCell(spec.buckets)


SILENT_METER: Final = PluginMeter()


GaugeReading: TypeAlias = tuple[str, tuple[str, ...], float]
"""A gauge on /metrics: its name, label values and value."""


class GaugeSource:
    """A plugin that provides gauges of the process. They are read at each scrape."""

    @abstractmethod
    def gauges(self) -> Iterable[GaugeReading]:
        """Read them all."""


class PluginMetrics:
    """Creates the metrics of a plugin. Their names are ``moorage_plugin_<plugin>_<name>``, with a label ``profile``.

    >>> metrics = PluginMetrics(SILENT_METER, "LoadAware", "default-scheduler")
    >>> requests = metrics.counter("requests_total", "Requests to the load service.", labels=("result",))
    >>> requests.inc(result="success")
    >>> requests.name, requests.value(result="success")
    ('moorage_plugin_load_aware_requests_total', 1.0)
    """

    def __init__(self, meter: PluginMeter, plugin: str, profile: str) -> None:
        self._meter = meter
        self._profile = profile
        self._prefix = f"{PREFIX}_{snake_case(plugin)}"

    def counter(self, name: str, help: str, labels: Iterable[str] = ()) -> "PluginCounter":
        """Make a counter, which only grows. Its name ends in ``_total``."""
        spec = self._spec(name if name.endswith("_total") else f"{name}_total", MetricKind.COUNTER, help, labels)
        return PluginCounter(spec, self._profile, self._meter.number)

    def gauge(self, name: str, help: str, labels: Iterable[str] = ()) -> "PluginGauge":
        """Create a gauge."""
        spec = self._spec(name, MetricKind.GAUGE, help, labels)
        return PluginGauge(spec, self._profile, self._meter.number)

    def histogram(
        self, name: str, help: str, labels: Iterable[str] = (), buckets: Iterable[float] = DEFAULT_BUCKETS
    ) -> "PluginHistogram":
        """Make a histogram, such as of the seconds that something takes. The buckets are upper bounds."""
        spec = self._spec(name, MetricKind.HISTOGRAM, help, labels, tuple(sorted(buckets)))
        return PluginHistogram(spec, self._profile, self._meter.histogram)

    def _spec(
        self, name: str, kind: MetricKind, text: str, labels: Iterable[str], buckets: tuple[float, ...] = ()
    ) -> MetricSpec:
        label_names = (labels,) if isinstance(labels, str) else tuple(labels)
        for word in (name, *label_names):
            if not _PLAIN(word):
                raise ValueError(f"{word!r} cannot be the name of a metric or a label: write it like pods_seen")
        if "profile" in label_names:
            raise ValueError(f"{name} always has the label `profile`: omit it")
        spec = MetricSpec(f"{self._prefix}_{name}", kind, ("profile", *label_names), text, buckets=buckets)
        self._meter.register(spec)
        return spec


Cell = TypeVar("Cell", NumberCell, HistogramCell)


class _PluginMetric(Generic[Cell]):
    """One metric of a plugin: a cell for each combination of label values."""

    def __init__(self, spec: MetricSpec, profile: str, make: Callable[..., Cell]) -> None:
        self.name = spec.name
        self._spec = spec
        self._profile = profile
        self._make: Callable[..., Cell] = make
        self._cells: dict[tuple[str, ...], Cell] = {}

    def _cell(self, labels: dict[str, str]) -> Cell:
        label_names = self._spec.labels[1:]
        if labels.keys() != set(label_names):
            actual = ", ".join(labels) or "none"
            raise ValueError(f"{self.name} has the labels {', '.join(label_names) or 'none'}, and was given {actual}")
        values = tuple(str(labels[name]) for name in label_names)
        cell = self._cells.get(values)
        if cell is None:
            cell = self._cells[values] = self._make(self._spec, self._profile, *values)
        return cell


class PluginCounter(_PluginMetric[NumberCell]):
    """Counts something that only grows."""

    def inc(self, by: float = 1.0, /, **labels: str) -> None:
        """Add to it."""
        if by < 0:
            raise ValueError(f"{self.name} is a counter and cannot decrease: use a gauge")
        self._cell(labels).inc(by)

    def value(self, **labels: str) -> float:
        """Return the count so far."""
        return self._cell(labels).value


class PluginGauge(_PluginMetric[NumberCell]):
    """A number that can increase and decrease."""

    def set(self, value: float, /, **labels: str) -> None:
        """Replace it."""
        self._cell(labels).set(value)

    def inc(self, by: float = 1.0, /, **labels: str) -> None:
        """Add to it. A negative number makes it less."""
        self._cell(labels).inc(by)

    def value(self, **labels: str) -> float:
        """Return the value."""
        return self._cell(labels).value


class PluginHistogram(_PluginMetric[HistogramCell]):
    """Counts observations by their size."""

    def observe(self, value: float, /, **labels: str) -> None:
        """Take one observation."""
        cell = self._cell(labels)
        cell.observe(value)
        if cell.uncounted >= MAX_UNCOUNTED:
            cell.fold()

    def count(self, **labels: str) -> int:
        """Return how many observations there were."""
        return int(self._cell(labels).cumulated()[-1])

    def sum(self, **labels: str) -> float:
        """Return the sum of the observations."""
        return self._cell(labels).sum()


def snake_case(name: str) -> str:
    """Write a name as metrics do.

    >>> snake_case("NodeCPULoad"), snake_case("spot-only")
    ('node_cpu_load', 'spot_only')
    """
    return re.sub(r"[^a-z0-9]+", "_", _HUMPS.sub("_", name).lower()).strip("_")
