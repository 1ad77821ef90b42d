"""Measuring requests."""

from tests.support.exposing import exposing

from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.daemon.metrics.instruments import RequestMeter


def test_requests_are_counted_by_code_method_and_host() -> None:
    cells = CellRegistry()
    meter = RequestMeter("api:6443", cells)
    for exchange in (("POST", 201, 0.1, 2, 9), ("POST", 409, 0.1, 2, 9), ("GET", 0, 0.1, 0, 0)):
        meter.note(exchange)
    registry = exposing(cells)
    counted = {
        code: registry.get_sample_value(
            "rest_client_requests_total", {"code": code, "method": method, "host": "api:6443"}
        )
        for code, method in (("201", "POST"), ("409", "POST"), ("<error>", "GET"))
    }
    assert counted == {"201": 1, "409": 1, "<error>": 1}
    timed = registry.get_sample_value(
        "rest_client_request_duration_seconds_count", {"verb": "POST", "host": "api:6443"}
    )
    assert timed == 2
    labels = {"verb": "POST", "host": "api:6443"}
    assert registry.get_sample_value("rest_client_request_size_bytes_sum", labels) == 4
    assert registry.get_sample_value("rest_client_response_size_bytes_count", labels) == 2
