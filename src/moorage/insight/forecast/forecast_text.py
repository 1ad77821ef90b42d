"""A forecast as text."""

from collections.abc import Iterator
from typing import Final

from moorage.cluster import format_seconds
from moorage.insight.forecast.forecast_model import Forecast, QueueForecast, StartInterval

SHOWN: Final = 5
SHOWN_PODS: Final = 30
DAY: Final = 86_400


def forecast_lines(forecast: Forecast, *, is_verbose: bool = False) -> Iterator[str]:
    """Return the lines of a forecast."""
    limit = None if is_verbose else SHOWN
    if forecast.state == "running":
        running_text = f"has been running since {forecast.started_at}" if forecast.started_at else "is running"
        yield f"{forecast.subject} {running_text}"
        return
    if forecast.start is None:
        yield f"{forecast.subject} will not start: {forecast.reason}"
    else:
        yield from _start_lines(forecast)
    if forecast.depends_on:
        yield "Events before the start, with their share of the simulations:"
        for item in forecast.depends_on[:limit]:
            at = f" (median: in {format_rounded(item.at, is_exact=True)})" if item.pod else ""
            yield f"  {item.share:4.0%}  {item.text}{at}"
    if forecast.sooner:
        yield "To start it sooner:"
        for change in forecast.sooner:
            yield f"  {change.text}: starts {_moment(change.p50)}"
    if forecast.assumptions:
        yield "Assumptions:"
        for sentence in forecast.assumptions:
            yield f"  - {sentence}"


def queue_lines(forecast: QueueForecast, *, is_verbose: bool = False) -> Iterator[str]:
    """Return the lines of a forecast of the queue."""
    if not forecast.pods:
        yield "No pods are pending."
        return
    entries = forecast.pods if is_verbose else forecast.pods[:SHOWN_PODS]
    width = max(len(item.pod) for item in entries)
    for item in entries:
        if item.state == "gated":
            start_text = "starts when its scheduling gates are removed, and a node fits"
        elif item.start is None:
            start_text = "does not start unless the cluster changes"
        else:
            start_text = _describe(item.start, forecast.horizon)
        yield f"{item.pod.ljust(width)}  {start_text}"
    if len(entries) < len(forecast.pods):
        yield f"and {len(forecast.pods) - len(entries)} more; -v lists all"
    yield "Assumptions:"
    for sentence in forecast.assumptions:
        yield f"  - {sentence}"


def _describe(start: StartInterval, horizon: float) -> str:
    def describe(seconds: float) -> str:
        return _moment(seconds) if seconds < horizon else f"in more than {format_rounded(horizon)}"

    if start.p90 < 1.0:
        return "starts now"
    if start.p10 >= horizon:
        return f"is not expected to start within {format_rounded(horizon)}"
    first, last = (describe(seconds).removeprefix("in ") for seconds in (start.p10, start.p90))
    return f"is expected to start {describe(start.p50)} (80% interval: {first} to {last})"


def _start_lines(forecast: Forecast) -> Iterator[str]:
    start, horizon = forecast.start, forecast.horizon
    assert start is not None
    start_text = _describe(start, horizon)
    gated = " once its scheduling gates are removed" if forecast.state == "gated" else ""
    yield f"{forecast.subject} {start_text}{gated}"
    if forecast.censored and start.p10 < horizon:
        yield f"  in {forecast.censored:.0%} of {forecast.draws} simulated futures it did not start before the horizon"


def _moment(seconds: float) -> str:
    return f"in {format_rounded(seconds)}" if seconds >= 1.0 else "now"


def format_rounded(seconds: float, *, is_exact: bool = False) -> str:
    """Format a duration for people: minutes from 10 minutes on, hours from a day on. ``is_exact`` keeps the seconds.

    >>> format_rounded(75.2), format_rounded(3599), format_rounded(17640), format_rounded(7 * 86400)
    ('1m15s', '1h', '4h54m', '7d')
    >>> format_rounded(3599, is_exact=True), format_rounded(1800, is_exact=True), format_rounded(0.2)
    ('59m59s', '30m', '200ms')
    """
    if seconds < 1:
        return format_seconds(seconds)
    unit = 1 if is_exact or seconds < 600 else 60 if seconds < DAY else 3600
    remainder, parts = round(seconds / unit) * unit, ""
    for size, name in ((DAY, "d"), (3600, "h"), (60, "m"), (1, "s")):
        count, remainder = divmod(remainder, size)
        parts += f"{count}{name}" if count else ""
    return parts
