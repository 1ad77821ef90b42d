"""Layers that measure what passes through them: requests to the API server, and evictions in the background."""

from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from time import perf_counter
from typing import Any, Final, NamedTuple

from moorage.app.metrics.cells import CellRegistry, HistogramCell, NumberCell
from moorage.client.pool import Transport
from moorage.client.wire import Answer, Incoming
from moorage.engine.background import TaskBackground
from moorage.errors import Unreachable

EVICTION: Final = "preemption for "
NO_ANSWER: Final = "<error>"
END_OF_HEAD: Final = b"\r\n\r\n"


class Cells(NamedTuple):
    """What is counted of requests of one method that end one way."""

    total: NumberCell
    seconds: HistogramCell
    sent: HistogramCell
    received: HistogramCell


class MeasuredTransport:
    """Counts and times the requests of a client; watches, which last, are not timed."""

    def __init__(self, inner: Transport, registry: CellRegistry) -> None:
        self._inner = inner
        self._total = registry["rest_client_requests_total"]
        self._seconds = registry["rest_client_request_duration_seconds"]
        self._sent = registry["rest_client_request_size_bytes"]
        self._received = registry["rest_client_response_size_bytes"]
        self._cells: dict[tuple[bytes, int], Cells] = {}

    @property
    def host_header(self) -> str:
        """What stands in ``Host``."""
        return self._inner.host_header

    async def send(self, request: bytes, seconds: float) -> Answer:
        """Send a request and count its answer."""
        began, method = perf_counter(), request[: request.index(b" ")]
        try:
            answer = await self._inner.send(request, seconds)
        except Unreachable:
            self._count(method, 0, began)
            raise
        cells = self._count(method, answer.status, began)
        cells.sent.observe(len(request) - request.index(END_OF_HEAD) - 4)
        cells.received.observe(len(answer.body))
        return answer

    def stream(self, request: bytes, patience: float) -> AbstractAsyncContextManager[Incoming]:
        """Open a stream."""
        return self._inner.stream(request, patience)

    def close(self) -> None:
        """Close all connections."""
        self._inner.close()

    def _count(self, method: bytes, status: int, began: float) -> "Cells":
        cells = self._cells.get((method, status))
        if cells is None:
            host, verb = self._inner.host_header, method.decode()
            cells = self._cells[method, status] = Cells(
                self._total.number(str(status or NO_ANSWER), verb, host),
                self._seconds.histogram(verb, host),
                self._sent.histogram(verb, host),
                self._received.histogram(verb, host),
            )
        cells.total.value += 1
        cells.seconds.observe(perf_counter() - began)
        return cells


class MeasuredBackground(TaskBackground):
    """Counts evictions and how they end, as upstream counts its preemption goroutines."""

    def __init__(self, registry: CellRegistry) -> None:
        super().__init__()
        self._count = registry["scheduler_preemption_goroutines_execution_total"]
        self._seconds = registry["scheduler_preemption_goroutines_duration_seconds"]

    def start(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Run something; what it raises is logged."""
        super().start(self._measured(work) if name.startswith(EVICTION) else work, name=name)

    async def _measured(self, work: Coroutine[Any, Any, None]) -> None:
        began, result = perf_counter(), "error"
        try:
            await work
            result = "success"
        finally:
            self._count.number(result).inc()
            self._seconds.histogram(result).observe(perf_counter() - began)
