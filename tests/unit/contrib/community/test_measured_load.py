"""Measured load: responses of load watchers and Prometheus, and plugins without measurements."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.unit.contrib.community.load_builders import WATCHER, balancing, measure, node, packing

from moorage.common.errors import ServiceError
from moorage.contrib.community.load_variation_risk_balancing import LoadVariationRiskBalancing
from moorage.contrib.community.measured_load import MeasuredLoad, Measurements, from_watcher
from moorage.contrib.community.target_load_packing import TargetLoadPacking
from moorage.scheduler.config.contrib_args import (
    LoadVariationRiskBalancingArgs,
    MetricProviderSpec,
    TargetLoadPackingArgs,
)
from moorage.scheduler.framework.handle import Handle
from moorage.testing import Cluster, check_plugin, in_virtual_time, make_pod
from moorage.testing.rig import SCORE_FORMS, Rig, run_score

Balancing = LoadVariationRiskBalancingArgs


@pytest.mark.parametrize("make", [packing, lambda rig, **loads: balancing(rig, Balancing(), **loads)])
def test_plugins_do_not_score_without_measurements(make: Callable[..., Any]) -> None:
    rig = Rig(node("n"))
    plugin = make(rig, n=MeasuredLoad(cpu=50))
    assert run_score(plugin, rig, make_pod(), SCORE_FORMS[0]) is not None
    rig.clock.advance(301)
    assert run_score(plugin, rig, make_pod(), SCORE_FORMS[0]) is None


def test_both_forms_agree() -> None:
    loads = {f"n{number}": MeasuredLoad(7.5 * number, 3.0 * number, 5.0 * number, number) for number in range(12)}

    def pack(handle: Handle) -> TargetLoadPacking:
        plugin = TargetLoadPacking(args=TargetLoadPackingArgs(watcher_address=WATCHER), handle=handle)
        measure(plugin, loads, 0.0)
        return plugin

    def balance(handle: Handle) -> LoadVariationRiskBalancing:
        plugin = LoadVariationRiskBalancing(args=Balancing(watcher_address=WATCHER), handle=handle)
        measure(plugin, loads, 0.0)
        return plugin

    # Random nodes have no capacity, so TargetLoadPacking scores them alike.
    check_plugin(pack, balance, examples=20, require_coverage=False)


def watcher_answer(**nodes: list[dict[str, Any]]) -> dict[str, Any]:
    node_metrics = {name: {"metrics": metrics} for name, metrics in nodes.items()}
    return {"window": {"end": 1000}, "data": {"NodeMetricsMap": node_metrics}}


def metric(kind: str, operator: str, value: object) -> dict[str, Any]:
    return {"name": "x", "type": kind, "operator": operator, "rollup": "", "value": value}


WATCHED: dict[str, tuple[list[dict[str, Any]], MeasuredLoad]] = {
    "averages and deviations": (
        [metric("CPU", "AVG", 20), metric("CPU", "STD", 5.5), metric("Memory", "AVG", 30), metric("Memory", "STD", 1)],
        MeasuredLoad(20, 5.5, 30, 1),
    ),
    "the average counts before the latest": ([metric("CPU", "Latest", 9), metric("CPU", "AVG", 20)], MeasuredLoad(20)),
    "in any order": ([metric("CPU", "AVG", 20), metric("CPU", "Latest", 9)], MeasuredLoad(20)),
    "the latest will do": ([metric("CPU", "Latest", 9)], MeasuredLoad(9)),
    "other kinds are omitted": ([metric("Bandwidth", "AVG", 9), metric("CPU", "P99", 9)], MeasuredLoad()),
    "values other than numbers are ignored": ([metric("CPU", "AVG", "9"), metric("Memory", "AVG", -1)], MeasuredLoad()),
    "nothing": ([], MeasuredLoad()),
}


@pytest.mark.parametrize(("metrics", "load"), WATCHED.values(), ids=WATCHED)
def test_load_watcher_response(metrics: list[dict[str, Any]], load: MeasuredLoad) -> None:
    assert from_watcher(watcher_answer(n=metrics)) == Measurements({"n": load}, 1000.0)


NO_ANSWERS: list[Any] = [None, [], {}, {"window": {}}, {"window": {"end": 1}, "data": 3}]


@pytest.mark.parametrize("answer", [*NO_ANSWERS, {"window": {"end": 1}, "data": {"NodeMetricsMap": {"n": [7]}}}])
def test_invalid_load_watcher_response(answer: Any) -> None:
    with pytest.raises(ServiceError, match="invalid response of the load watcher"):
        from_watcher(answer)


class Server(ThreadingHTTPServer):
    """The minimal endpoints of a load watcher and of a Prometheus server."""

    daemon_threads = True
    loads: dict[str, float] = {}
    tokens: set[str | None] = set()


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        self.server.tokens.add(self.headers.get("Authorization"))
        answer: Any
        if address.path == "/watcher":
            answer = watcher_answer(**{name: [metric("CPU", "AVG", load)] for name, load in self.server.loads.items()})
        else:
            query = parse_qs(address.query)["query"][0]
            is_asked = query == "avg_over_time(instance:node_cpu:ratio[15m])"
            answer = {"data": {"result": self.rows() if is_asked else []}}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"metric": {"instance": f"{name}:9100"}, "value": [0, str(load / 100)]}
            for name, load in self.server.loads.items()
        ]

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        running.loads, running.tokens = {"node-1": 90.0, "node-2": 25.0, "node-3": 0.0}, set()
        yield running
        running.shutdown()


@pytest.mark.parametrize("provider", ["watcher", "Prometheus"])
def test_pods_go_where_the_load_is_near_the_target(server: Server, provider: str) -> None:
    url = f"http://127.0.0.1:{server.server_port}"
    prometheus = {"type": "Prometheus", "address": url, "token": "abc"}
    args: dict[str, Any] = {"watcherAddress": url} if provider == "watcher" else {"metricProvider": prometheus}
    only = {"disabled": [{"name": "*"}], "enabled": [{"name": "TargetLoadPacking"}]}
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {"multiPoint": {"enabled": [{"name": "TargetLoadPacking"}]}, "score": only, "preScore": only},
        "pluginConfig": [{"name": "TargetLoadPacking", "args": args}],
    }
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}

    @in_virtual_time
    async def story() -> None:
        async with Cluster(nodes=3, shape="cpu=10", config=json.dumps({**head, "profiles": [profile]})) as cluster:
            spec = {"containers": [{"name": "main", "image": "app:1"}]}
            await cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "first"}, "spec": spec})
            await cluster.wait_for(lambda: len(cluster.running()) == 1)
            assert cluster.running()[0].node_name == "node-2"

    story()
    assert server.tokens == ({None} if provider == "watcher" else {"Bearer abc"})


def test_https_provider_is_accepted() -> None:
    provider = MetricProviderSpec("Prometheus", "https://prometheus:9090")
    plugin = LoadVariationRiskBalancing(args=Balancing(metric_provider=provider), handle=Rig())
    assert plugin._source._service.url == "https://prometheus:9090"
