"""Measuring requests to the API server."""

from typing import Final

from moorage.kube.client.rest import Exchange
from moorage.scheduler.daemon.metrics.cells import CellRegistry

NO_ANSWER: Final = "<error>"


class RequestMeter:
    """Counts and times the requests of a client; watches, which last, are not timed.

    Every pod costs two requests, so they are only noted, and counted when somebody asks or a few seconds have passed.
    """

    def __init__(self, host: str, registry: CellRegistry) -> None:
        self._host = host
        self._total = registry["rest_client_requests_total"]
        self._seconds = registry["rest_client_request_duration_seconds"]
        self._sent = registry["rest_client_request_size_bytes"]
        self._received = registry["rest_client_response_size_bytes"]
        self._noted: list[Exchange] = []
        self.note = self._noted.append
        """Takes one request that came to an end."""
        registry.fed_by(self._count)

    def _count(self) -> None:
        """Count what was noted since the last time."""
        noted = self._noted.copy()
        self._noted.clear()
        for method, status in {exchange[:2] for exchange in noted}:
            _, _, seconds, sent, received = zip(*[e for e in noted if e[0] == method and e[1] == status], strict=True)
            labels = (method, self._host)
            self._total.number(str(status or NO_ANSWER), *labels).inc(len(seconds))
            self._seconds.histogram(*labels).observe_all(seconds)
            if status:
                self._sent.histogram(*labels).observe_all(sent)
                self._received.histogram(*labels).observe_all(received)
