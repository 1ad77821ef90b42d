"""Requests for pages of the scheduler: the supervisor authorizes the client and forwards the request."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from itertools import count
from typing import Final

from moorage.kube.http.messages import HttpRequest, Reply
from moorage.scheduler.daemon.serving.routing import text_reply
from moorage.scheduler.daemon.supervisor.link import Answered, Asked, Link, Measured
from moorage.scheduler.daemon.supervisor.watchdog import BEAT_SECONDS, METRIC, Incidents, Watchdog
from moorage.scheduler.framework.metering import Meter

MAX_ASKED: Final = 64
PAGE_SECONDS: Final = 3.0
"""A scheduler that has been blocked for this long does not serve its pages."""
FLUSH_SECONDS: Final = 1.0
MAX_VALUES: Final = 10_000
"""Values of a histogram in one batch. More are dropped."""
PASSED_ON: Final = (b"accept", b"content-type")
"""Headers that are forwarded. Credentials are not."""


class Forwarding:
    """Forwards requests to the scheduler and matches its responses."""

    def __init__(self, link: Link, watchdog: Watchdog, incidents: Incidents, meter: "LinkMeter") -> None:
        self._link = link
        self._meter = meter
        self._watchdog = watchdog
        self._incidents = incidents
        self._numbers = count()
        self._asked: dict[int, asyncio.Future[Reply]] = {}

    async def page(self, request: HttpRequest) -> Reply:
        """Forward a request to the scheduler. If it cannot respond, return an error."""
        if len(self._asked) >= MAX_ASKED:
            return text_reply("too many requests are waiting for the scheduler\n", 503)
        number = next(self._numbers)
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        target = f"{request.path}?{request.query_string}" if request.query_string else request.path
        headers = [(name, text) for name, text in request.all_headers if name in PASSED_ON]
        if request.path.startswith("/metrics"):  # other pages do not show counts
            self._meter.flush()
        self._link.send(Asked(number, request.method, target.encode(), headers, request.body))
        try:
            while not answer.done():
                await asyncio.wait((answer,), timeout=BEAT_SECONDS)
                if self._watchdog.blocked >= PAGE_SECONDS:
                    return self._reply_while_blocked(request)
            return answer.result()
        finally:
            del self._asked[number]

    def _reply_while_blocked(self, request: HttpRequest) -> Reply:
        if request.path == "/metrics" and request.method == "GET":
            return text_reply(write_stuck_metric(self._incidents.counts))
        location = f" in plugin {self._incidents.plugin}" if self._incidents.plugin else ""
        return text_reply(f"the scheduler has been blocked{location} for {self._watchdog.blocked:.0f} s\n", 503)

    def answered(self, message: Answered) -> None:
        """Accept a response of the scheduler. Its client may have disconnected."""
        future = self._asked.get(message.number)
        if future is not None and not future.done():
            future.set_result(Reply(message.status, message.body, message.content_type, message.headers))

    def end(self) -> None:
        """Fail all requests that wait for a scheduler that has exited."""
        for future in self._asked.values():
            if not future.done():
                future.set_result(text_reply("the scheduler has ended\n", 503))


def write_stuck_metric(counts: Mapping[str, int]) -> str:
    """Return the only metric that is served while the scheduler is blocked."""
    from moorage.scheduler.daemon.metrics.table import METRICS  # on demand: the supervisor remains small

    spec = METRICS[METRIC]
    lines = [f'{METRIC}{{plugin="{plugin}"}} {float(number)}' for plugin, number in sorted(counts.items())]
    return "\n".join([f"# HELP {METRIC} [{spec.stability}] {spec.help}", f"# TYPE {METRIC} counter", *lines, ""])


class LinkMeter(Meter):
    """Counts in the scheduler's metrics, in batches: unauthenticated requests must not keep the scheduler busy.

    Counts that the scheduler cannot receive in time are lost.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self._values: dict[tuple[str, tuple[str, ...]], list[float]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def count(self, metric: str, *labels: str) -> None:
        """Add one to a counter."""
        self._counts[metric, labels] += 1
        self._flush_soon()

    def observe(self, metric: str, value: float, *labels: str) -> None:
        """Put a value into a histogram."""
        values = self._values.setdefault((metric, labels), [])
        if len(values) < MAX_VALUES:
            values.append(value)
        self._flush_soon()

    def _flush_soon(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.flush)

    def flush(self) -> None:
        """Send all counts and values."""
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        counts, self._counts = self._counts, Counter()
        histograms, self._values = self._values, {}
        if self._link.is_backed_up:
            return
        for (metric, labels), number in counts.items():
            self._link.send(Measured(metric, labels, number))
        for (metric, labels), values in histograms.items():
            self._link.send(Measured(metric, labels, values=values))
