"""A meter that records counts of plugins."""

from collections import Counter

from moorage.scheduler.framework.metering import PluginMeter


class Tally(PluginMeter):
    """Counts by metric and labels; observations are listed."""

    def __init__(self) -> None:
        self.counted: Counter[tuple[str, ...]] = Counter()
        self.observed: dict[tuple[str, ...], list[float]] = {}

    def count(self, metric: str, *labels: str) -> None:
        self.counted[metric, *labels] += 1

    def observe(self, metric: str, value: float, *labels: str) -> None:
        self.observed.setdefault((metric, *labels), []).append(value)
