"""TargetLoadPacking and LoadVariationRiskBalancing: queries, scores, and missing measurements."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec.structs import replace

from moorage.common.errors import ServiceError
from moorage.contrib.community.load_variation_risk_balancing import LoadVariationRiskBalancing
from moorage.contrib.community.measured_load import MeasuredLoad, Measurements, from_watcher
from moorage.contrib.community.target_load_packing import Prediction, TargetLoadPacking
from moorage.kube.api.container import Container, ResourceRequirements
from moorage.kube.api.meta import Condition, format_time
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.community_args import (
    LoadVariationRiskBalancingArgs,
    MetricProviderSpec,
    TargetLoadPackingArgs,
)
from moorage.scheduler.framework.handle import Handle
from moorage.testing import Cluster, check_plugin, in_virtual_time, make_node, make_pod
from moorage.testing.rig import SCORE_FORMS, Rig, ScoreForm, run_score

WATCHER = "http://127.0.0.1:9"
Balancing = LoadVariationRiskBalancingArgs


def node(name: str, cpu: str = "10", memory: str = "100") -> Node:
    base_node = make_node(name, allocatable={"cpu": cpu, "memory": memory, "pods": "110"})
    return replace(base_node, status=replace(base_node.status, capacity={"cpu": cpu, "memory": memory}))


def packing(rig: Rig, **loads: MeasuredLoad) -> TargetLoadPacking:
    plugin = TargetLoadPacking(args=TargetLoadPackingArgs(watcher_address=WATCHER), handle=rig)
    plugin._source.polled._take(Measurements(loads, rig.clock.wall()))
    return plugin


def balancing(rig: Rig, args: LoadVariationRiskBalancingArgs, **loads: MeasuredLoad) -> LoadVariationRiskBalancing:
    plugin = LoadVariationRiskBalancing(args=replace(args, watcher_address=WATCHER), handle=rig)
    plugin._source.polled._take(Measurements(loads, rig.clock.wall()))
    return plugin


# ── TargetLoadPacking ────────────────────────────────────────────────────────────────────────────────────────────────

PACKED: dict[str, tuple[float | None, int]] = {
    # The pod is expected to use a tenth of a node.
    "an idle node": (0, 55),
    "a node that the pod brings to the target": (30, 100),
    "one below it": (15, 78),
    "just above the target": (31, 39),
    "far above it": (80, 7),
    "a node that the pod fills": (90, 0),
    "one that it would overload": (95, 0),
    "one that nobody measures": (None, 0),
}


@pytest.mark.parametrize("form", SCORE_FORMS)
@pytest.mark.parametrize(("load", "score"), PACKED.values(), ids=PACKED)
def test_packing(load: float | None, score: int, form: ScoreForm) -> None:
    rig = Rig(node("n"))
    plugin = packing(rig, n=MeasuredLoad(cpu=load))
    assert run_score(plugin, rig, make_pod(), form) == [score]


def pod_with(*containers: tuple[str | None, str | None], overhead: str = "0") -> Pod:
    pod_containers = tuple(
        Container(
            name=f"c{number}",
            resources=ResourceRequirements(
                requests={"cpu": request} if request else {}, limits={"cpu": limit} if limit else {}
            ),
        )
        for number, (request, limit) in enumerate(containers)
    )
    pod = make_pod()
    return replace(pod, spec=replace(pod.spec, containers=pod_containers, overhead={"cpu": overhead}))


PREDICTED: dict[str, tuple[Pod, int]] = {
    "a container that says nothing": (pod_with((None, None)), 1000),
    "requests are exceeded by half": (pod_with(("1", None)), 1500),
    "limits are reached": (pod_with(("1", "3")), 3000),
    "containers add up, and so does the overhead": (pod_with(("1", None), (None, "2"), overhead="100m"), 3600),
    "halves are rounded up": (pod_with(("1m", None)), 2),
}


@pytest.mark.parametrize(("pod", "milli"), PREDICTED.values(), ids=PREDICTED)
def test_expected_usage_of_a_pod(pod: Pod, milli: int) -> None:
    assert Prediction(TargetLoadPackingArgs()).of(pod) == milli


@pytest.mark.parametrize("form", SCORE_FORMS)
def test_pods_that_are_too_new_to_be_measured_count(form: ScoreForm) -> None:
    rig = Rig(node("n"))
    plugin = packing(rig, n=MeasuredLoad(cpu=0))
    for name, ago in (("old", 61.0), ("new", 59.0)):
        there = make_pod(name, node="n", uid=name)
        scheduled = Condition("PodScheduled", "True", last_transition_time=format_time(rig.clock.wall() - ago))
        rig.add(replace(there, status=replace(there.status, conditions=(scheduled,))))
    assert run_score(plugin, rig, make_pod(), form) == [70], "as if a tenth were in use"
    rig.add(make_pod("assumed", node="n", uid="assumed"))
    assert run_score(plugin, rig, make_pod(), form) == [85]


# ── LoadVariationRiskBalancing ───────────────────────────────────────────────────────────────────────────────────────

RISKS: dict[str, tuple[LoadVariationRiskBalancingArgs, MeasuredLoad, int]] = {
    # The pod requests a tenth of the CPU and no memory.
    "idle and steady": (Balancing(), MeasuredLoad(0, 0, 0, 0), 95),
    "busy and steady": (Balancing(), MeasuredLoad(50, 0, 0, 0), 70),
    "idle and restless": (Balancing(), MeasuredLoad(0, 40, 0, 0), 75),
    "the riskier resource counts": (Balancing(), MeasuredLoad(0, 0, 90, 50), 30),
    "nothing is worse than full": (Balancing(), MeasuredLoad(99, 100, 0, 0), 0),
    "without a deviation a node is steady": (Balancing(), MeasuredLoad(cpu=50), 70),
    "what is not measured does not count": (Balancing(), MeasuredLoad(memory=20, memory_deviation=20), 80),
    "nothing is known": (Balancing(), MeasuredLoad(), 0),
    "a margin": (Balancing(safe_variance_margin=2), MeasuredLoad(0, 20, 0, 0), 75),
    "a root": (Balancing(safe_variance_sensitivity=2), MeasuredLoad(0, 25, 0, 0), 70),
    "a root of nothing": (Balancing(safe_variance_sensitivity=0), MeasuredLoad(0, 50, 0, 0), 95),
    "no margin": (Balancing(safe_variance_margin=0), MeasuredLoad(0, 90, 0, 0), 95),
}


@pytest.mark.parametrize("form", SCORE_FORMS)
@pytest.mark.parametrize(("args", "load", "score"), RISKS.values(), ids=RISKS)
def test_balancing(args: LoadVariationRiskBalancingArgs, load: MeasuredLoad, score: int, form: ScoreForm) -> None:
    rig = Rig(node("n"))
    assert run_score(balancing(rig, args, n=load), rig, make_pod(requests={"cpu": "1"}), form) == [score]


@pytest.mark.parametrize("make", [packing, lambda rig, **loads: balancing(rig, Balancing(), **loads)])
def test_plugins_do_not_score_without_measurements(make: Callable[..., Any]) -> None:
    rig = Rig(node("n"))
    plugin = make(rig, n=MeasuredLoad(cpu=50))
    assert run_score(plugin, rig, make_pod(), SCORE_FORMS[0]) is not None
    rig.clock.advance(301)
    assert run_score(plugin, rig, make_pod(), SCORE_FORMS[0]) is None


def test_both_forms_agree() -> None:
    loads = {f"node-{number}": MeasuredLoad(7.5 * number, 3.0 * number, 5.0 * number, number) for number in range(12)}

    def pack(handle: Handle) -> TargetLoadPacking:
        plugin = TargetLoadPacking(args=TargetLoadPackingArgs(watcher_address=WATCHER), handle=handle)
        plugin._source.polled._take(Measurements(loads, 0.0))
        return plugin

    def balance(handle: Handle) -> LoadVariationRiskBalancing:
        plugin = LoadVariationRiskBalancing(args=Balancing(watcher_address=WATCHER), handle=handle)
        plugin._source.polled._take(Measurements(loads, 0.0))
        return plugin

    check_plugin(pack, balance, examples=20)


# ── queries ──────────────────────────────────────────────────────────────────────────────────────────────────────────


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
    "other kinds are left out": ([metric("Bandwidth", "AVG", 9), metric("CPU", "P99", 9)], MeasuredLoad()),
    "and so is what is no number": ([metric("CPU", "AVG", "9"), metric("Memory", "AVG", -1)], MeasuredLoad()),
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
