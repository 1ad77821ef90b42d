"""Metrics that only a plugin can count: what it tried, what failed, how long it waited."""

from typing import Protocol


class Meter(Protocol):
    """Counts for the metrics of the process; a metric has the name and the labels that it has on /metrics."""

    def count(self, metric: str, *labels: str) -> None:
        """Add one to a counter."""
        ...

    def observe(self, metric: str, value: float, *labels: str) -> None:
        """Put a value into a histogram."""
        ...


class SilentMeter:
    """Counts nothing: where there are no metrics, as in a simulation."""

    def count(self, metric: str, *labels: str) -> None:
        """Take no notice."""

    def observe(self, metric: str, value: float, *labels: str) -> None:
        """Take no notice."""


SILENT_METER = SilentMeter()
