"""Layers that measure what passes through them."""

import asyncio
from contextlib import AbstractAsyncContextManager

import pytest
from tests.support.exposing import exposing

from moorage.app.metrics.cells import CellRegistry
from moorage.app.metrics.measuring import MeasuredBackground, MeasuredTransport
from moorage.client.wire import Answer, Incoming
from moorage.errors import Unreachable


class Scripted:
    """A transport that answers with what it was given."""

    host_header = "api:6443"

    def __init__(self, *answers: Answer | Unreachable) -> None:
        self._answers = list(answers)

    async def send(self, request: bytes, seconds: float) -> Answer:
        answer = self._answers.pop(0)
        if isinstance(answer, Unreachable):
            raise answer
        return answer

    def stream(self, request: bytes, patience: float) -> AbstractAsyncContextManager[Incoming]:
        raise AssertionError("nothing is streamed here")

    def close(self) -> None:
        pass


def answer(status: int) -> Answer:
    return Answer(status, b"", None)


def test_requests_are_counted_by_code_method_and_host() -> None:
    cells = CellRegistry()
    transport = MeasuredTransport(Scripted(answer(201), answer(409), Unreachable("gone")), cells)
    asyncio.run(transport.send(b"POST /a HTTP/1.1\r\n\r\n{}", 1.0))
    asyncio.run(transport.send(b"POST /a HTTP/1.1\r\n\r\n{}", 1.0))
    with pytest.raises(Unreachable):
        asyncio.run(transport.send(b"GET /a HTTP/1.1\r\n", 1.0))
    found = exposing(cells)
    counted = {
        code: found.get_sample_value("rest_client_requests_total", {"code": code, "method": method, "host": "api:6443"})
        for code, method in (("201", "POST"), ("409", "POST"), ("<error>", "GET"))
    }
    assert counted == {"201": 1, "409": 1, "<error>": 1}
    timed = found.get_sample_value("rest_client_request_duration_seconds_count", {"verb": "POST", "host": "api:6443"})
    assert timed == 2
    labels = {"verb": "POST", "host": "api:6443"}
    assert found.get_sample_value("rest_client_request_size_bytes_sum", labels) == 4
    assert found.get_sample_value("rest_client_response_size_bytes_count", labels) == 2


@pytest.mark.parametrize(("name", "want"), [("preemption for a/b", 1.0), ("binding of a/b", None)])
def test_only_evictions_are_counted(name: str, want: float | None) -> None:
    cells = CellRegistry()

    async def work() -> None:
        background = MeasuredBackground(cells)
        background.start(asyncio.sleep(0), name=name)
        await background.drain()

    asyncio.run(work())
    found = exposing(cells)
    assert found.get_sample_value("scheduler_preemption_goroutines_execution_total", {"result": "success"}) == want
