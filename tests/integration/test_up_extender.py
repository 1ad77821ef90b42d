"""An extender of an embedded cluster receives all fields of a pod, including fields that Moorage does not read."""

import asyncio
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import yaml

from moorage.testing.cluster import Cluster

ASKED: list[dict[str, Any]] = []
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "c", "image": "web:1", "stdin": True}], "hostname": "first"},
}


class Agrees(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        ASKED.append(request)
        body = json.dumps({"NodeNames": request["NodeNames"]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


async def bind_one(url: str) -> None:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = {**head, "extenders": [{"urlPrefix": url, "filterVerb": "filter", "nodeCacheCapable": True}]}
    async with Cluster(nodes=2, config=f"{yaml.safe_dump(config)}\n") as cluster:
        await cluster.apply(POD)
        await cluster.wait_for(lambda: any(pod.node_name for pod in cluster.pods()))


def test_extender_receives_the_complete_pod() -> None:
    with HTTPServer(("127.0.0.1", 0), Agrees) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            asyncio.run(bind_one(f"http://127.0.0.1:{server.server_port}"))
        finally:
            server.shutdown()
            thread.join()
    sent = ASKED[0]["Pod"]["spec"]
    assert sent["hostname"] == "first"
    assert sent["containers"][0]["stdin"] is True
