"""A forecast of the queue as metrics for alerts: one series per class of pods, not one per pod."""

from collections import Counter
from collections.abc import Iterator
from math import inf
from typing import Final

from msgspec.structs import asdict
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from moorage.insight.forecast.forecast_model import QueueForecast

QUANTILES: Final = {"p10": "0.1", "p50": "0.5", "p90": "0.9"}


class ForecastCollector(Collector):
    """Collects the metrics of a forecast."""

    def __init__(self, forecast: QueueForecast) -> None:
        self._forecast = forecast

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metrics. A start after the horizon is infinite, so that it exceeds every threshold."""
        forecast = self._forecast
        latest: dict[tuple[str, str], float] = {}
        for item in forecast.pods:
            for name, seconds in asdict(item.start).items() if item.start is not None else ():
                key = (item.group, QUANTILES[name])
                latest[key] = max(latest.get(key, 0.0), inf if seconds >= forecast.horizon else seconds)
        start = GaugeMetricFamily(
            "moorage_forecast_start_seconds",
            "[ALPHA] Forecast seconds until the start of a pending pod, of the pod of the class that starts last.",
            labels=("class", "quantile"),
        )
        for key, seconds in sorted(latest.items()):
            start.add_metric(key, seconds)
        yield start
        pods = GaugeMetricFamily(
            "moorage_forecast_pods",
            "[ALPHA] Pending pods by class and state: pending, gated, or never (no known event lets them start).",
            labels=("class", "state"),
        )
        for states, count in sorted(Counter((item.group, item.state) for item in forecast.pods).items()):
            pods.add_metric(states, count)
        yield pods
        yield GaugeMetricFamily(
            "moorage_forecast_timestamp_seconds", "[ALPHA] Time of the forecast in seconds since 1970.", forecast.now
        )
