"""`moorage scheduler --tracing-endpoint`: attempts contain extension points, which contain plugins and API calls."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from moorage.contrib.community.coscheduling.gangs import GANG, GANG_SIZE
from tests.integration.test_scheduler_page import MOORAGE, PAUSE, POLLS, scheduler
from tests.support.gangs import COSCHEDULING
from tests.unit.insight.page.clusters import node, pod

EVERY = "--tracing-sampling-rate-per-million=1000000"
LARGE = "shop/moorage.io/large"


class Collector:
    """An OTLP/HTTP collector that stores the received spans."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.service = ""
        self.paths: set[str] = set()

    def take(self, path: str, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        self.paths.add(path)
        for resource in request.resource_spans:
            names = {item.key: item.value.string_value for item in resource.resource.attributes}
            self.service = names["service.name"]
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]

    def attempts(self) -> dict[str, Span]:
        """Return the spans of attempts by pod."""
        return {about(span)["k8s.pod.name"]: span for span in self.spans if not span.parent_span_id}

    def below(self, parent: Span) -> dict[str, Span]:
        return {span.name: span for span in self.spans if span.parent_span_id == parent.span_id}


def about(span: Span) -> dict[str, Any]:
    return {item.key: item.value.string_value or item.value.int_value for item in span.attributes}


@contextmanager
def collector() -> Iterator[tuple[Collector, str]]:
    collected = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collected.take(self.path, self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collected, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_attempts_contain_points_which_contain_plugins_and_calls(tmp_path: Path) -> None:
    with collector() as (collected, endpoint):

        async def go() -> None:
            contents = (node("n1"), node("n2"), pod("web"), pod("big", "9"))
            async with scheduler(tmp_path, f"--tracing-endpoint={endpoint}", EVERY, contents=contents):
                for _ in range(POLLS):
                    if {"web", "big"} <= collected.attempts().keys():
                        return
                    await asyncio.sleep(PAUSE)
            raise AssertionError("no traces came")

        asyncio.run(go())
    assert (collected.paths, collected.service) == ({"/v1/traces"}, "moorage-scheduler")
    web, big = collected.attempts()["web"], collected.attempts()["big"]
    assert about(web)["scheduler.result"] == "scheduled"
    assert about(web)["k8s.node.name"] in ("n1", "n2")
    assert about(big)["scheduler.result"] == "unschedulable"
    assert "Insufficient cpu" in about(big)["scheduler.message"]
    points = collected.below(web)
    assert {"PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit", "Bind"} <= points.keys()
    assert "PostFilter" in collected.below(big)
    assert "NodeResourcesFit" in collected.below(collected.below(big)["Filter"]) | collected.below(points["Filter"])
    binder = collected.below(points["Bind"])["DefaultBinder"]
    assert about(binder) == {"scheduler.extension_point": "Bind", "scheduler.status": "Success"}
    (call,) = collected.below(binder).values()
    assert about(call) == {
        "http.request.method": "POST",
        "url.path": "/api/v1/namespaces/shop/pods/web/binding",
        "http.response.status_code": 201,
    }
    assert all(span.trace_id == web.trace_id for span in (binder, call, *points.values()))
    assert web.start_time_unix_nano <= call.start_time_unix_nano <= call.end_time_unix_nano <= web.end_time_unix_nano


def test_groups_contain_the_search_and_members_with_their_bindings(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    access = f"clientConnection: {{kubeconfig: {tmp_path / 'kubeconfig'}}}\nleaderElection: {{leaderElect: false}}\n"
    config.write_text(COSCHEDULING.replace("{ARGS}", "{}") + access)
    contents = (node("n1"), member("a", "g"), member("b", "g"), member("c", "large", "3"), member("d", "large", "3"))

    def whole() -> bool:
        placed = [span for span in collected.spans if about(span).get("scheduler.result") == "scheduled"]
        return {about(span).get("k8s.pod.name") for span in placed} >= {"a", "b"} and LARGE in groups()

    def groups() -> dict[str, Span]:
        return {about(span)["scheduler.group"]: span for span in collected.spans if span.name == "schedule pod group"}

    with collector() as (collected, endpoint):

        async def go() -> None:
            flags = (f"--config={config}", f"--tracing-endpoint={endpoint}", EVERY)
            async with scheduler(tmp_path, *flags, contents=contents):
                for _ in range(POLLS):
                    if whole():
                        return
                    await asyncio.sleep(PAUSE)
            raise AssertionError([about(span) for span in collected.spans if not span.parent_span_id])

        asyncio.run(go())
    good, large = groups()["shop/moorage.io/g"], groups()[LARGE]
    assert (about(good)["scheduler.result"], about(good)["scheduler.members"]) == ("scheduled", 2)
    assert {"PreFilter", "Filter", "schedule pod"} <= collected.below(good).keys(), "the search belongs to the group"
    members = [span for span in collected.spans if span.parent_span_id == good.span_id and span.name == "schedule pod"]
    assert {about(span)["k8s.pod.name"] for span in members} == {"a", "b"}
    for span in members:
        assert {"Reserve", "Permit", "Bind"} <= collected.below(span).keys(), "the spans of a member"
        assert about(span)["scheduler.result"] == "scheduled"
    assert about(large)["scheduler.result"] == "unschedulable"
    assert about(collected.below(large)["schedule pod"])["scheduler.result"] == "unschedulable"


def member(name: str, gang: str, cpu: str = "100m") -> dict[str, Any]:
    content = pod(name, cpu)
    content["metadata"]["annotations"] = {GANG: gang, GANG_SIZE: "2"}
    return content


def test_scheduling_works_without_a_collector(tmp_path: Path) -> None:
    log = tmp_path / "log"

    async def go() -> None:
        flags = ("--tracing-endpoint=http://127.0.0.1:9", EVERY, f"--decision-log={log}")
        async with scheduler(tmp_path, *flags, contents=(node("n1"), pod("web"))):
            for _ in range(POLLS):
                if log.exists() and b'"scheduled"' in log.read_bytes():
                    return
                await asyncio.sleep(PAUSE)
        raise AssertionError("it was not scheduled")

    asyncio.run(go())


@pytest.mark.parametrize(
    ("flag", "problem"),
    [
        ("--tracing-endpoint=collector:4317", "'collector:4317' is not a URL of http or https"),
        ("--tracing-sampling-rate-per-million=1000001", "1000001 is not a number from 0 to 1000000"),
    ],
)
def test_invalid_endpoint_is_rejected(flag: str, problem: str) -> None:
    flags = ("--tracing-endpoint=http://127.0.0.1:9", flag, "--master=http://127.0.0.1:1", "--leader-elect=false")
    command = [MOORAGE, "scheduler", *flags, "--secure-port=0"]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert (result.returncode, problem in result.stderr) == (1, True), result.stderr


def test_tracing_is_imported_only_with_the_flag() -> None:
    code = (
        "import sys; import moorage.scheduler.daemon.daemon, moorage.scheduler.daemon.services\n"
        "parts = ('opentelemetry', 'decision_log', '.tracing', '.shadow')\n"
        "print([name for name in sys.modules if any(part in name for part in parts)])"
    )
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert result.strip() == "[]"
