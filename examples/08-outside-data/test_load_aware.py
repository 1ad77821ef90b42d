import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from load_aware import LoadAware, LoadAwareArgs

from moorage import Handle, InputError
from moorage.testing import Cluster, Rig, check_plugin, in_virtual_time


class Prometheus(ThreadingHTTPServer):
    """The part of a Prometheus server that returns a value per node for a query."""

    load: dict[str, str] = {}
    is_down = False
    daemon_threads = True
    queries: list[str] = []


class Handler(BaseHTTPRequestHandler):
    server: Prometheus

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        assert address.path == "/api/v1/query"
        self.server.queries.append(parse_qs(address.query)["query"][0])
        rows = [{"metric": {"instance": node}, "value": [1767225600.0, x]} for node, x in self.server.load.items()]
        answer = {"status": "success", "data": {"resultType": "vector", "result": rows}}
        body = json.dumps({"status": "error", "error": "shutting down"} if self.server.is_down else answer).encode()
        self.send_response(503 if self.server.is_down else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def prometheus() -> Iterator[Prometheus]:
    with Prometheus(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        server.load, server.queries = {"node-1": "0.9", "node-2": "0.1", "node-3": "0.5"}, []
        yield server
        server.shutdown()


def config(server: Prometheus) -> str:
    """Have the plugin decide alone."""
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {
            "multiPoint": {"enabled": [{"name": "LoadAware"}]},
            "score": {"disabled": [{"name": "*"}], "enabled": [{"name": "LoadAware"}]},
            "preScore": {"disabled": [{"name": "*"}], "enabled": [{"name": "LoadAware"}]},
        },
        "pluginConfig": [{"name": "LoadAware", "args": {"url": f"http://127.0.0.1:{server.server_port}"}}],
    }
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return json.dumps({**head, "profiles": [profile]}) + "\n"


def pod(name: str) -> dict[str, object]:
    spec = {"containers": [{"name": "main", "image": "app:1"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_pods_go_to_the_least_loaded_nodes(prometheus: Prometheus) -> None:
    @in_virtual_time
    async def story() -> None:
        async with Cluster(nodes=3, plugins=[LoadAware], config=config(prometheus)) as cluster:
            await cluster.apply(pod("first"))
            await cluster.wait_for(lambda: len(cluster.running()) == 1)
            prometheus.load = {"node-1": "0.2", "node-2": "0.8", "node-3": "NaN"}
            await cluster.sleep(20)
            await cluster.apply(pod("second"))
            await cluster.wait_for(lambda: len(cluster.running()) == 2)
            assert [running.node_name for running in cluster.running()] == ["node-2", "node-1"]

    story()
    assert set(prometheus.queries) == {"instance:node_cpu_utilisation:rate5m"}


def test_old_measurements_are_not_used(prometheus: Prometheus) -> None:
    @in_virtual_time
    async def story() -> None:
        async with Cluster(nodes=3, plugins=[LoadAware], config=config(prometheus)) as cluster:
            await cluster.sleep(5)
            plugin = cluster.plugin(LoadAware)
            prometheus.is_down = True
            await cluster.sleep(30)
            assert plugin._load.value == {"node-1": 0.9, "node-2": 0.1, "node-3": 0.5}
            await cluster.sleep(60)
            assert plugin._load.value is None
            await cluster.apply(pod("first"))
            await cluster.wait_for(lambda: len(cluster.running()) == 1)

    story()


def test_invalid_url_is_rejected() -> None:
    with pytest.raises(InputError, match="pluginConfig of LoadAware, url: not a URL of a server"):
        LoadAware(args=LoadAwareArgs(url="prometheus:9090"), handle=Rig())


def test_both_forms_agree() -> None:
    def make(handle: Handle) -> LoadAware:
        return LoadAware(args=LoadAwareArgs(), handle=handle)

    check_plugin(make, require_coverage=False)  # nothing is measured here
